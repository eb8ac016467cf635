"""The result type: averages, alignment of names, refusals, files."""

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr

from ascribo.attribution import attribution_maps

BLOCKS = {"a": slice(0, 2), "b": slice(2, 3)}
CHANNELS = ["left", "middle", "right"]


def local_maps(seeds=2, steps=40, window=1):
    values = torch.randn(seeds, steps, 3, window, 3, generator=torch.Generator().manual_seed(0))
    valid = torch.ones(seeds, steps, dtype=torch.bool)
    valid[0, :5] = False
    values[0, :5] = torch.nan
    return values, valid


def make(values, valid, weight=None, chunk=7, refused=None):
    steps = values.shape[1]
    return attribution_maps(
        lambda index: (values[:, index], valid[:, index]),
        np.arange(steps),
        np.arange(steps) / 10,
        CHANNELS,
        BLOCKS,
        np.ones((len(values), 2)) if weight is None else weight,
        method="test",
        refused=refused or {},
        chunk=chunk,
    )


@pytest.mark.parametrize("window", [1, 4])
def test_averages_are_means_over_valid_samples_then_seeds(window):
    values, valid = local_maps(window=window)
    maps = make(values, valid)
    square = values.square().mean(-2)  # the window comes first
    entries = [square[s, valid[s]].sqrt().mean(0) for s in range(2)]
    lengths = [
        torch.stack([square[s, valid[s]][..., w].sum(-1).sqrt().mean(0) for w in BLOCKS.values()], -1)
        for s in range(2)
    ]
    np.testing.assert_allclose(maps.by_dimension, sum(entries) / 2, rtol=1e-5)
    np.testing.assert_allclose(maps.by_space, sum(lengths) / 2, rtol=1e-5)
    assert maps.rank_deficient == pytest.approx(5 / 80)
    assert list(maps.by_dimension.dimension.values) == ["a0", "a1", "b0"]
    assert list(maps.by_dimension.space.values) == ["a", "a", "b"]


def test_chunks_do_not_matter():
    values, valid = local_maps()
    one, other = make(values, valid, chunk=1), make(values, valid, chunk=1000)
    xr.testing.assert_allclose(one.by_space, other.by_space)
    xr.testing.assert_allclose(one.over_time(), other.over_time())


def test_collapsed_seeds_do_not_count():
    values, valid = local_maps()
    weight = np.array([[1.0, 0.0], [1.0, 1.0]])
    maps, second = make(values, valid, weight), make(values[1:], valid[1:])
    xr.testing.assert_allclose(maps.by_space.sel(space="b"), second.by_space.sel(space="b"))
    assert not np.allclose(maps.by_space.sel(space="a"), second.by_space.sel(space="a"))


def test_over_time_is_asked_for_in_parts_and_averages_to_the_map():
    values, valid = local_maps()
    valid[:] = True
    values = torch.nan_to_num(values)
    maps = make(values, valid)
    whole = maps.over_time()
    assert whole.dims == ("time", "channel", "space") and whole.shape == (40, 3, 2)
    xr.testing.assert_allclose(whole.mean("time"), maps.by_space.rename("score"), rtol=1e-5)
    part = maps.over_time(10, 30, 5)
    np.testing.assert_allclose(part.time, [1.0, 1.5, 2.0, 2.5])
    xr.testing.assert_allclose(part, whole.isel(time=[10, 15, 20, 25]))


def test_over_time_computes_only_what_is_asked_for():
    asked = []
    values, valid = local_maps()

    def local(index):
        asked.extend(index.tolist())
        return values[:, index], valid[:, index]

    maps = attribution_maps(
        local, np.arange(0), np.arange(40), CHANNELS, BLOCKS, np.ones((2, 2)), method="t", refused={}, chunk=4
    )
    assert asked == []
    maps.over_time(3, 6)
    assert asked == [3, 4, 5]


def test_a_space_refused_is_nan_and_cannot_be_scored():
    values, valid = local_maps()
    weight = np.array([[1.0, 0.0], [1.0, 0.0]])
    maps = make(values, valid, weight, refused={"b": "collapsed"})
    assert np.isnan(maps.by_space.sel(space="b")).all() and np.isfinite(maps.by_space.sel(space="a")).all()
    assert np.isnan(maps.by_dimension.sel(dimension="b0")).all()
    assert list(maps.threshold().space.values) == ["a"]
    with pytest.raises(ValueError, match="collapsed"):
        maps.auroc([True, False, True], "b")


def test_auroc_takes_truth_by_name_in_any_order():
    values, valid = local_maps()
    values[:, :, 0, :, :2] *= 100
    maps = make(values, valid)
    truth = xr.DataArray(
        [[False, True], [False, True], [True, False]],
        dims=("channel", "space"),
        coords={"channel": ["right", "middle", "left"], "space": ["a", "b"]},
    )
    assert maps.auroc(truth, "a") == 1.0
    assert maps.auroc([True, False, False], "a") == 1.0
    assert maps.auroc([False, True, True], "a") == 0.0
    with pytest.raises(ValueError, match="no space 'c'"):
        maps.auroc(truth, "c")
    with pytest.raises(ValueError, match="the truth has no space 'a'"):
        maps.auroc(truth.sel(space=["b"]), "a")
    with pytest.raises(ValueError, match="3 scores for 2"):
        maps.auroc([True, False], "a")
    with pytest.raises(ValueError, match="both kinds"):
        maps.auroc([True, True, True], "a")


def test_threshold_is_a_z_score():
    values, valid = local_maps()
    values[:, :, 0] *= 100
    maps = make(values, valid)
    assert maps.threshold()["channel"].values[maps.threshold().sel(space="a")].tolist() == ["left"]
    assert not maps.threshold(z=5).any()


def test_files(tmp_path):
    maps = make(*local_maps())
    back = xr.load_dataset(maps.to_netcdf(tmp_path / "deep" / "map.nc"))
    xr.testing.assert_allclose(back["by_space"], maps.by_space)
    assert back.attrs["method"] == "test"
    table = pd.read_csv(maps.to_csv(tmp_path / "map.csv"))
    assert list(table) == ["channel", "space", "score", "z"] and len(table) == 6
    assert sorted(p.name for p in tmp_path.iterdir()) == ["deep", "map.csv"]

"""The result type: averages, alignment of names, refusals, files."""

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr

from ascribo.attribution.maps import AttributionMaps, attribution_maps

BLOCKS = {"a": slice(0, 2), "b": slice(2, 3)}
CHANNELS = ["left", "middle", "right"]


def local_maps(seeds=2, steps=40, window=1):
    values = torch.randn(seeds, steps, 3, window, 3, generator=torch.Generator().manual_seed(0))
    valid = torch.ones(seeds, steps, dtype=torch.bool)
    valid[0, :5] = False
    values[0, :5] = torch.nan
    return values, valid


def make(values, valid, weight=None, chunk=7, refused=None, **options):
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
        **options,
    )


OVER_TIME = {
    "mean": lambda v: v.mean(0),
    "median": lambda v: v.sort(0).values[(len(v) - 1) // 2],  # the lower one of an even number
    "maximum": lambda v: v.amax(0),
}


@pytest.mark.parametrize("aggregate", OVER_TIME)
@pytest.mark.parametrize("window", [1, 4])
def test_aggregates_are_taken_over_valid_samples_then_seeds(aggregate, window):
    values, valid = local_maps(window=window)  # 35 valid samples and 40
    maps = make(values, valid, aggregate=aggregate)
    square = values.square().mean(-2)
    over = OVER_TIME[aggregate]
    entries = [over(square[s, valid[s]].sqrt()) for s in range(2)]
    lengths = [
        torch.stack([over(square[s, valid[s]][..., w].sum(-1).sqrt()) for w in BLOCKS.values()], -1)
        for s in range(2)
    ]
    np.testing.assert_allclose(maps.by_dimension, sum(entries) / 2, rtol=1e-5)
    np.testing.assert_allclose(maps.by_space, sum(lengths) / 2, rtol=1e-5)
    assert maps.by_space.attrs["aggregate"] == aggregate and maps.rank_deficient == pytest.approx(5 / 80)
    assert list(maps.by_dimension.dimension.values) == ["a0", "a1", "b0"]
    assert list(maps.by_dimension.space.values) == ["a", "a", "b"]


@pytest.mark.parametrize("aggregate", OVER_TIME)
def test_chunks_do_not_matter(aggregate):
    values, valid = local_maps()
    one, other = (make(values, valid, chunk=c, aggregate=aggregate) for c in (1, 1000))
    xr.testing.assert_allclose(one.by_space, other.by_space)
    xr.testing.assert_allclose(one.by_dimension, other.by_dimension)
    xr.testing.assert_allclose(one.over_time(), other.over_time())


@pytest.mark.parametrize("aggregate", OVER_TIME)
def test_where_no_step_has_a_map_there_is_none(aggregate):
    values, valid = local_maps()
    valid[0] = False
    one, second = make(values, valid, aggregate=aggregate), make(values[1:], valid[1:], aggregate=aggregate)
    xr.testing.assert_allclose(one.by_space, second.by_space)  # of the seed that has them
    nothing = make(values, valid & False, aggregate=aggregate)
    assert np.isnan(nothing.by_space).all() and nothing.rank_deficient == 1
    left_out = attribution_maps(
        *(lambda index: (values[:, index], valid[:, index]), np.arange(0), np.arange(40.0), CHANNELS, BLOCKS),
        *(np.ones((2, 2)),),
        **dict(method="test", refused={}, chunk=4, aggregate=aggregate, asked=40),
    )
    assert np.isnan(left_out.by_space).all() and np.isnan(left_out.by_dimension).all()
    assert left_out.rank_deficient == 1


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


def test_parts_of_a_map_are_asked_for_by_a_condition_for_every_step():
    asked = []
    maps = make(*local_maps(), at=lambda steps: asked.append(steps.tolist()) or maps, epochs=np.arange(40) // 15)
    assert maps.where(np.arange(40) % 20 == 3) is maps and asked == [[3, 23]]
    assert maps.by_epoch().epoch.values.tolist() == [0, 1, 2]
    assert asked[1:] == [list(range(15)), list(range(15, 30)), list(range(30, 40))]
    with pytest.raises(ValueError, match="at no time step"):
        maps.where(np.zeros(40, dtype=bool))
    for wrong in (np.ones(39, dtype=bool), np.ones(40), [3, 4]):
        with pytest.raises(ValueError, match="a boolean for each of the 40 time steps"):
            maps.where(wrong)


def test_maps_without_their_model_say_so():
    scores = xr.DataArray([[0.5]], dims=("channel", "space"), coords={"channel": ["a"], "space": ["s"]})
    maps = AttributionMaps(None, scores, "test", _time=np.arange(3.0))
    with pytest.raises(ValueError, match="read from a file"):
        maps.over_time()
    with pytest.raises(ValueError, match="read from a file"):
        maps.where([True, False, True])


def test_only_a_unique_variance_has_calls():
    with pytest.raises(ValueError, match=r"a test map has no test .* method='unique_variance'"):
        make(*local_maps()).calls()

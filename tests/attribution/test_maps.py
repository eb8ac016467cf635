"""The result type: averages, alignment of names, refusals, files."""

import copy
import pickle
from dataclasses import replace
from pathlib import Path

import cloudpickle
import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr

from ascribo.attribution.aggregate import LocalScores
from ascribo.attribution.local_methods import aggregated_maps
from ascribo.attribution.maps import AttributionMaps

SPACES = {"a": slice(0, 2), "b": slice(2, 3)}
CHANNELS = ["left", "middle", "right"]


def local_maps(seeds=2, steps=40, window=1):
    values = torch.randn(seeds, steps, 3, window, 3, generator=torch.Generator().manual_seed(0))
    valid = torch.ones(seeds, steps, dtype=torch.bool)
    valid[0, :5] = False
    values[0, :5] = torch.nan
    return values, valid


def make(values, valid, weight=None, chunk=7, refused=None, local=None, index=None, aggregate="mean", **options):
    """Maps of 40 time steps; options : of `Parts`."""
    steps = values.shape[1]
    scores = LocalScores(
        local or (lambda index: (values[:, index], valid[:, index])),
        SPACES,
        np.ones((len(values), 2)) if weight is None else weight,
        len(CHANNELS),
        chunk,
    )
    return aggregated_maps(
        scores,
        np.arange(steps) if index is None else index,
        asked=steps,
        aggregate=aggregate,
        method="test",
        channels=CHANNELS,
        dimensions=["a0", "a1", "b0"],
        refused=refused or {},
        **{"time": np.arange(steps) / 10, "epochs": np.zeros(steps, int), "only_at": None, **options},
    )


OVER_TIME = {
    "mean": lambda v: v.mean(0),
    "median": lambda v: v.sort(0).values[(len(v) - 1) // 2],  # the lower one of an even number
    "maximum": lambda v: v.amax(0),
}


def test_shown_in_a_terminal_they_are_one_line():
    """Arrays would fill pages."""
    maps = make(*local_maps())
    assert repr(maps) == "AttributionMaps(test, 3 channels: left, middle and 1 more; spaces: a, b; calls: none)"
    p = xr.DataArray(np.ones((3, 3, 1)), dims=("number", "channel", "space"), coords={"space": ["b"]})
    assert repr(replace(maps, tests=p)).endswith("spaces: a, b; calls: b)")
    assert repr(copy.deepcopy(maps)) == repr(pickle.loads(pickle.dumps(maps))) == repr(maps) == str(maps)


@pytest.mark.parametrize("aggregate", OVER_TIME)
@pytest.mark.parametrize("window", [1, 4])
def test_aggregates_are_taken_over_valid_samples_then_seeds(aggregate, window):
    values, valid = local_maps(window=window)  # 35 valid samples and 40
    maps = make(values, valid, aggregate=aggregate)
    square = values.square().mean(-2)
    over = OVER_TIME[aggregate]
    entries = [over(square[s, valid[s]].sqrt()) for s in range(2)]
    lengths = [
        torch.stack([over(square[s, valid[s]][..., w].sum(-1).sqrt()) for w in SPACES.values()], -1)
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
    left_out = make(values, valid, index=np.arange(0), aggregate=aggregate)
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

    maps = make(values, valid, local=local, index=np.arange(0), chunk=4)
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


def maps_with_blocks(spaces=("a", "b"), **options):
    """Maps in blocks of time, as the unique variance has them: the first channel carries the first space."""
    values = np.random.default_rng(0).normal(size=(2, len(spaces), 3, 12))
    values[:, 0, 0] += 5
    labels = {"channel": CHANNELS, "space": list(spaces)}
    blocks = xr.DataArray(values, labels, ("seed", "space", "channel", "block"), name="blocks")
    scores = xr.DataArray(values.mean((0, 3)).T, labels, ("channel", "space"), name="by_space")
    return AttributionMaps(None, scores, "unique_variance", blocks=blocks, **options)


UNITS = pd.DataFrame(
    {
        "region": ["CA1", None, "CA3"],
        "depth": [1.5, np.nan, 2.0],
        "shank": [1, 2, 2],
        "good": [True, False, True],
        "count": pd.array([1, None, 3], dtype="Int64"),
        "mm/s": [0.1, 0.2, 0.3],
        "score": [3, 2, 1],
        "blocks": [3, 2, 1],
    },
    index=CHANNELS,
)


def identical(one, other):
    """Whether two maps are the same in all that a file keeps."""
    for part in ("by_space", "by_dimension", "blocks"):
        a, b = getattr(one, part), getattr(other, part)
        if a is None or b is None:
            assert a is b is None
        else:
            xr.testing.assert_identical(a, b)
    for name in ("method", "refused", "rank_deficient", "untested"):
        assert getattr(one, name) == getattr(other, name), name


ODD = ["position [cm/s]", "ü → 位置\n", "", "refused_x", 'quote" and \\', "a.b"]


@pytest.mark.parametrize("space", ODD)
def test_what_a_file_keeps_comes_back(space, tmp_path):
    local = make(*local_maps())
    local = replace(
        local,
        by_space=local.by_space.assign_coords(space=["a", space]),
        by_dimension=local.by_dimension.assign_coords(space=("dimension", ["a", "a", space])),
        refused={space: "at chance"},
    )
    tested = maps_with_blocks(("a", space), untested={space: 'no "x"'}, refused={space: "at chance"})
    for maps in (local, tested, local.with_units(UNITS), tested.with_units(UNITS)):
        identical(AttributionMaps.load(maps.to_netcdf(tmp_path / "map.nc")), maps)
    back = AttributionMaps.load(tested.with_units(UNITS).to_netcdf(tmp_path / "map.nc"))
    pd.testing.assert_frame_equal(back.to_frame(), tested.with_units(UNITS).to_frame())
    pd.testing.assert_frame_equal(back.calls(), tested.with_units(UNITS).calls())


def test_maps_can_be_pickled_and_copied():
    """What needs the model stays behind in a pickle, and says so; a copy in the same process keeps it."""
    maps = make(*local_maps()).with_units(UNITS)
    for back in (pickle.loads(pickle.dumps(maps)), cloudpickle.loads(cloudpickle.dumps(maps))):  # as joblib does
        identical(back, maps)
        for part in (back.over_time, back.by_epoch, lambda back=back: back.where(np.ones(40, dtype=bool))):
            with pytest.raises(ValueError, match="without their model"):
                part()
    for same in (copy.copy(maps), copy.deepcopy(maps)):
        xr.testing.assert_identical(same.over_time(), maps.over_time())


def test_a_file_of_maps_that_was_changed_is_refused(tmp_path):
    """Any byte: some changes would make HDF5 read without end, or take all memory."""
    path = make(*local_maps()).to_netcdf(tmp_path / "map.nc")
    content = path.read_bytes()
    for place in (100, len(content) // 2, len(content) - 200, len(content) - 1):
        path.write_bytes(content[:place] + bytes([content[place] ^ 64]) + content[place + 1 :])
        with pytest.raises(ValueError, match=r"damaged.*checksum"):
            AttributionMaps.load(path)


def test_a_file_of_maps_that_another_program_wrote_again_is_read(tmp_path):
    maps = make(*local_maps())
    path = maps.to_netcdf(tmp_path / "map.nc")
    xr.load_dataset(path).to_netcdf(tmp_path / "again.nc", engine="h5netcdf")
    identical(AttributionMaps.load(tmp_path / "again.nc"), maps)


def test_another_file_is_refused(tmp_path):
    xr.Dataset({"by_space": ("x", [1.0])}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match=r"other.nc is not a file of attribution maps.*to_netcdf"):
        AttributionMaps.load(tmp_path / "other.nc")


def test_files_for_others(tmp_path):
    maps = make(*local_maps())
    back = xr.load_dataset(maps.to_netcdf(tmp_path / "deep" / "map.nc"))
    xr.testing.assert_allclose(back["by_space"], maps.by_space)
    assert back.attrs["method"] == "test"
    table = pd.read_csv(maps.to_csv(tmp_path / "map.csv"))
    assert list(table) == ["channel", "space", "score", "z"] and len(table) == 6
    assert sorted(p.name for p in tmp_path.iterdir()) == ["deep", "map.csv"]


def test_a_space_that_cannot_be_tested_has_scores_and_no_calls():
    whole, maps = maps_with_blocks(), maps_with_blocks(untested={"b": "the recording has no x"})
    calls = maps.calls()
    pd.testing.assert_frame_equal(calls, whole.calls().query("space == 'a'"))
    assert calls["called"].tolist() == [True, False, False]
    xr.testing.assert_identical(maps.by_space, whole.by_space)
    table = maps.to_frame()
    assert table["score"].notna().all() and table["called"].isna().tolist() == (table["space"] == "b").tolist()
    assert list(maps.by_unit()) == ["a_score", "a_q", "a_called", "b_score"]
    labelled = maps.with_units(UNITS[["region"]]).to_frame()
    assert labelled["region"].tolist() == ["CA1", "CA1", "", "", "CA3", "CA3"]
    none = maps_with_blocks(untested={"a": "the recording has no x", "b": "the recording has no x"})
    with pytest.raises(ValueError, match=r"no space can be tested: the recording has no x\.$"):
        none.calls()
    assert list(none.to_frame()) == ["channel", "space", "score", "z"]
    assert list(none.by_unit()) == ["a_score", "b_score"]


def test_parts_of_a_map_are_asked_for_by_a_condition_for_every_step():
    asked = []
    maps = make(
        *local_maps(), only_at=lambda index: asked.append(index.tolist()) or maps, epochs=np.arange(40) // 15
    )
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
    maps = AttributionMaps(None, scores, "test")
    for part in (maps.over_time, maps.by_epoch, lambda: maps.where([True, False, True])):
        with pytest.raises(ValueError, match=r"without their model.*run model.attribute"):
            part()


def test_only_a_unique_variance_has_calls():
    with pytest.raises(ValueError, match=r"a test map has no test .* method='unique_variance'"):
        make(*local_maps()).calls()


GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("folder", sorted(GOLDEN.iterdir()), ids=lambda folder: folder.name)
def test_files_of_every_format_give_the_numbers_they_gave(folder):
    """format-0 is that of files from before formats were counted. The files are never written again."""
    assert (b'"format": ' in (folder / "maps.nc").read_bytes()) == (folder.name != "format-0")
    maps = AttributionMaps.load(folder / "maps.nc")
    pd.testing.assert_frame_equal(
        maps.to_frame(), pd.read_csv(folder / "expected.csv"), check_dtype=False, rtol=1e-6
    )
    assert maps.method == "unique_variance" and maps.tested


def test_the_present_format_has_a_file_and_a_later_one_is_refused(tmp_path, monkeypatch):
    from ascribo.attribution import map_files

    assert {folder.name for folder in GOLDEN.iterdir()} == {f"format-{k}" for k in range(map_files.FORMAT + 1)}
    monkeypatch.setattr(map_files, "FORMAT", map_files.FORMAT + 1)
    maps = AttributionMaps.load(GOLDEN / "format-0/maps.nc")
    path = maps.to_netcdf(tmp_path / "later.nc")
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"later.nc was written in format 2, and this version .* reads format 1"):
        AttributionMaps.load(path)


def test_facts_that_are_no_facts_of_maps_are_damage(tmp_path):
    from ascribo.attribution.map_files import read_arrays, write_arrays

    arrays, facts = read_arrays(
        GOLDEN / "format-1/maps.nc", ("by_space", "by_dimension", "blocks", "level", "tests")
    )
    path = write_arrays(tmp_path / "strange.nc", arrays, {**facts, "other": 1})
    with pytest.raises(ValueError, match=r"strange.nc is no whole file .*'other'"):
        AttributionMaps.load(path)

"""zarr folders: what is in them is read; links, pipes, strange codecs and what they claim are refused."""

import json
import os

import numpy as np
import pytest

import ascribo as asc

zarr = pytest.importorskip("zarr")
pytestmark = pytest.mark.filterwarnings("ignore:The data type")  # zarr, of texts

X = np.random.default_rng(0).normal(size=(90, 4)).astype(np.float32)


@pytest.fixture(params=[2, 3])
def store(tmp_path, request):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=request.param)
    group.create_array("X", data=X, chunks=(40, 3))
    group.create_array("xy", data=X[:, :2])
    behaviour = group.create_group("behaviour")
    behaviour.create_array("speed", data=X[:, 0].astype(np.float64))
    behaviour.create_array("side", data=np.array(["left", "right", "up"] * 30))
    return tmp_path / "a.zarr"


def test_arrays_of_a_group_are_channels_and_variables(store):
    found = asc.read(store)
    assert set(found.variables) == {"x", "y", "behaviour/speed", "behaviour/side"}
    np.testing.assert_array_equal(found.X, X)
    named = asc.read(str(store), variables=["behaviour/side"])
    assert named.variables["behaviour/side"].tolist()[:3] == ["left", "right", "up"]


def test_a_single_array_is_the_channels(tmp_path):
    zarr.save_array(tmp_path / "one.zarr", X)
    np.testing.assert_array_equal(asc.read(tmp_path / "one.zarr").X, X)


def test_nothing_is_written(store):
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*")}
    asc.read(store)
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*")} == before


def description(store, name="X"):
    return next(p for p in (store / name / "zarr.json", store / name / ".zarray") if p.exists())


def chunk(store):
    return next(p for p in sorted((store / "X").rglob("*")) if p.is_file() and "z" not in p.name)


@pytest.mark.parametrize("to", ["file", "folder", "pipe"])
def test_links_and_pipes_are_refused(store, tmp_path, to):
    place = chunk(store)
    place.unlink()
    if to == "pipe":
        os.mkfifo(place)
    elif to == "file":
        (tmp_path / "secret").write_bytes(b"secret")
        place.symlink_to(tmp_path / "secret")
    else:
        (store / "more").symlink_to(tmp_path)
    with pytest.raises(ValueError, match="is a link, a device or a pipe"):
        asc.read(store)


def test_pickles_are_refused_before_they_run(tmp_path):
    numcodecs = pytest.importorskip("numcodecs")
    store = tmp_path / "a.zarr"
    group = zarr.open_group(store, mode="w", zarr_format=2)
    group.create_array("X", data=X, chunks=(90, 4))

    class Payload:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    place = description(store)
    facts = json.loads(place.read_text())
    for where in ("filters", "compressor"):
        codec = numcodecs.Pickle().get_config()
        place.write_text(json.dumps({**facts, where: [codec] if where == "filters" else codec}))
        chunk(store).write_bytes(numcodecs.Pickle().encode(np.array([Payload()], dtype=object)))
        with pytest.raises(ValueError, match=r"Pickle|cannot be read"):
            asc.read(store)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("change", ["shape", "chunks"])
def test_sizes_that_are_declared_and_absurd_are_refused(store, change):
    place = description(store)
    facts = json.loads(place.read_text())
    huge = [10**9, 10**9]
    if change == "shape":
        facts["shape"] = huge
    elif "chunks" in facts:
        facts["chunks"] = huge
    else:
        facts["chunk_grid"]["configuration"]["chunk_shape"] = huge
    place.write_text(json.dumps(facts))
    with pytest.raises(ValueError, match="declared with shape"):
        asc.read(store)


@pytest.mark.parametrize("content", ["", "{", "[" * 100_000, "null", '{"zarr_format": 9}', "{}"])
def test_descriptions_that_are_none_are_refused(store, content):
    description(store).write_text(content)
    for place in (store / "zarr.json", store / ".zgroup"):
        if place.exists():
            place.write_text(content)
    with pytest.raises((ValueError, FileNotFoundError)):
        asc.read(store)


def test_a_damaged_chunk_is_the_files_fault(store):
    chunk(store).write_bytes(b"\xff" * 50)
    with pytest.raises(ValueError, match="damaged"):
        asc.read(store)


def test_a_folder_that_is_not_there_and_a_file_of_that_name(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        asc.read(tmp_path / "none.zarr")
    (tmp_path / "file.zarr").touch()
    with pytest.raises(ValueError, match="expected to be a folder"):
        asc.read(tmp_path / "file.zarr")


def test_a_sweep_takes_zarr_folders_and_knows_them_again(tmp_path):
    from ascribo.sweeps.sessions import find_sessions, fingerprints

    for k in range(2):
        group = zarr.open_group(tmp_path / "in" / f"rat{k}.zarr", mode="w")
        group.create_array("X", data=X + k)
    (tmp_path / "out").mkdir()
    found = find_sessions(tmp_path / "in")
    assert list(found) == list(find_sessions(str(tmp_path / "in" / "*.zarr"))) == ["rat0", "rat1"]
    first = fingerprints(found, tmp_path / "out")
    assert first == fingerprints(found, tmp_path / "out") and len(set(first.values())) == 2
    zarr.open_group(tmp_path / "in" / "rat0.zarr", mode="r+")["X"][:] = 7
    second = fingerprints(found, tmp_path / "out")
    assert second["rat0"] != first["rat0"] and second["rat1"] == first["rat1"]


def test_gigabytes_that_are_declared_and_not_there_are_refused(tmp_path):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    made = group.create_array("X", shape=(10_000_000, 75), chunks=(1000, 75), dtype="f4")
    made[:1000] = 1.0
    with pytest.raises(ValueError, match=r"X is declared .*3\.0 GB, and the file holds [\d,]+ bytes of it.*unpack"):
        asc.read(tmp_path / "a.zarr")

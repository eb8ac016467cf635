"""Channels in .h5, .mat, .zarr and .npy files: mapped in place, unpacked, or in memory; always the same numbers."""

import os
import threading

import h5py
import numpy as np
import pytest

import ascribo as asc
from ascribo.data.formats import stored_arrays
from ascribo.data.mapped_files import is_mapped
from ascribo.support import files


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch):
    """Matrices of over 4 kB are treated as those of over 128 MiB, in blocks of some rows."""
    monkeypatch.setattr(stored_arrays, "LARGE_BYTES", 2**12)
    monkeypatch.setattr(stored_arrays, "ENTRIES_AT_ONCE", 2**9)


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(3000, 7)).astype(np.float32)


x = np.linspace(0, 1, 3000)


def plain_h5(path, X):
    with h5py.File(path.with_suffix(".h5"), "w") as file:
        file["X"], file["x"] = X, x


def with_a_user_block(path, X):
    with h5py.File(path.with_suffix(".h5"), "w", userblock_size=512) as file:
        file["before"], file["X"], file["x"] = np.arange(999), X, x


def packed_h5(path, X):
    with h5py.File(path.with_suffix(".h5"), "w") as file:
        file.create_dataset("X", data=X, chunks=(130, 2), compression="gzip", shuffle=True)
        file["x"] = x


def columns_h5(path, X):
    with h5py.File(path.with_suffix(".h5"), "w") as file:
        file.create_dataset("X", data=X, chunks=(len(X), 1), compression="gzip")
        file["x"] = x


def matlab(path, X):
    with h5py.File(path.with_suffix(".mat"), "w", userblock_size=512) as file:
        file.create_dataset("X", data=X.T, chunks=(3, 100), compression="gzip")
        file["x"] = x[None]


def zarr_of_version(version):
    def write(path, X):
        zarr = pytest.importorskip("zarr")
        group = zarr.open_group(path.with_suffix(".zarr"), mode="w", zarr_format=version)
        group.create_array("X", data=X, chunks=(170, 3))
        group.create_array("x", data=x)

    return write


def sharded_zarr(path, X):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(path.with_suffix(".zarr"), mode="w", zarr_format=3)
    group.create_array("X", data=X, chunks=(100, 7), shards=(500, 7))
    group.create_array("x", data=x)


PACKED = [packed_h5, columns_h5, matlab, zarr_of_version(2), zarr_of_version(3), sharded_zarr]


def written(write, folder, X):
    write(folder / "session", X)
    (path,) = folder.glob("session.*")
    return path


@pytest.mark.parametrize("write", [plain_h5, with_a_user_block])
def test_plain_numbers_are_mapped_where_they_are(tmp_path, X, write):
    found = asc.read(written(write, tmp_path, X), variables="x")
    assert is_mapped(found.X)
    np.testing.assert_array_equal(found.X, X)
    np.testing.assert_array_equal(found.variables["x"], x)


@pytest.mark.parametrize("write", PACKED)
def test_packed_numbers_are_read_or_unpacked_to_the_same(tmp_path, X, write):
    path = written(write, tmp_path, X)
    in_memory, unpacked = asc.read(path), asc.read(path, unpack=tmp_path / "new" / "scratch")
    assert not is_mapped(in_memory.X) and is_mapped(unpacked.X)
    for found in (in_memory, unpacked):
        np.testing.assert_array_equal(found.X, X)
        np.testing.assert_array_equal(found.variables["x"], x)
    assert len(list((tmp_path / "new" / "scratch").iterdir())) == 1  # the variable is in memory


@pytest.mark.parametrize("dtype", ["f8", ">f4", "i2", "i8", "u1", "?"])
@pytest.mark.parametrize("ending", [".npy", ".h5"])
def test_other_types_are_unpacked_as_a_recording_keeps_them(tmp_path, X, dtype, ending):
    values = (100 * X).astype(dtype)
    path = tmp_path / f"a{ending}"
    if ending == ".npy":
        np.save(path, values)
    else:
        with h5py.File(path, "w") as file:
            file["X"] = values
    found = asc.read(path, unpack=tmp_path)
    assert is_mapped(found.X) and found.X.dtype == np.float32
    np.testing.assert_array_equal(found.X, asc.Recording(values).X)


def test_changes_far_from_zero_are_unpacked_in_float64(tmp_path, X):
    np.save(tmp_path / "a.npy", X.astype(np.float64) + 1e9)
    found = asc.read(tmp_path / "a.npy", unpack=tmp_path)
    assert found.X.dtype == np.float64
    np.testing.assert_array_equal(found.X, X.astype(np.float64) + 1e9)


def test_it_is_unpacked_once_and_again_when_the_file_has_changed(tmp_path, X):
    scratch = tmp_path / "scratch"
    path = written(packed_h5, tmp_path, X)
    first = asc.read(path, unpack=scratch)
    (file,) = scratch.iterdir()
    state = file.stat()
    asc.read(path, unpack=scratch)
    assert file.stat().st_mtime_ns == state.st_mtime_ns
    packed_h5(path, X + 1)
    os.utime(path, ns=(1, 1))
    np.testing.assert_array_equal(asc.read(path, unpack=scratch).X, X + 1)
    np.testing.assert_array_equal(first.X, X)
    assert len(list(scratch.iterdir())) == 2


def test_a_file_cut_short_in_the_folder_is_written_again(tmp_path, X):
    path = written(packed_h5, tmp_path, X)
    asc.read(path, unpack=tmp_path / "s")
    (file,) = (tmp_path / "s").iterdir()
    file.write_bytes(file.read_bytes()[:5000])
    np.testing.assert_array_equal(asc.read(path, unpack=tmp_path / "s").X, X)


def test_two_at_once_unpack_the_same(tmp_path, X):
    path, found = written(packed_h5, tmp_path, X), []
    work = lambda: found.append(asc.read(path, unpack=tmp_path / "s").X)  # noqa: E731
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and len(list((tmp_path / "s").iterdir())) == 1
    for one in found:
        np.testing.assert_array_equal(one, X)


def test_a_folder_without_room_is_refused_and_nothing_is_left(tmp_path, X, monkeypatch):
    path = written(packed_h5, tmp_path, X)
    monkeypatch.setattr(stored_arrays.shutil, "disk_usage", lambda _: type("", (), {"free": 1000})())
    with pytest.raises(ValueError, match=r"X takes 0\.0 GB unpacked, and .* left: choose another folder"):
        asc.read(path, unpack=tmp_path / "s")
    monkeypatch.undo()
    monkeypatch.setattr(stored_arrays, "LARGE_BYTES", 2**12)
    monkeypatch.setattr(files.os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="Nothing half-written is left"):
        asc.read(path, unpack=tmp_path / "s")
    assert not list((tmp_path / "s").iterdir())


def test_sizes_that_a_file_claims_are_checked_before_it_is_looked_through(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("X", (10**13, 100), "f8", chunks=(1000, 100), compression="gzip")
    with pytest.raises(ValueError, match="GB unpacked"):
        asc.read(tmp_path / "a.h5", unpack=tmp_path / "s")


def test_a_place_that_cannot_be_written_to_is_said_before(tmp_path, X):
    path = written(packed_h5, tmp_path, X)
    (tmp_path / "file").touch()
    with pytest.raises((ValueError, OSError), match="file"):
        asc.read(path, unpack=tmp_path / "file")


def test_what_is_too_large_for_memory_is_refused_with_what_to_do(tmp_path, X, monkeypatch):
    path = written(packed_h5, tmp_path, X)
    monkeypatch.setattr("ascribo.data.formats.hdf5_safety.physical_memory", lambda: 50_000)
    with pytest.raises(ValueError, match="unpack=FOLDER"):
        asc.read(path)
    np.testing.assert_array_equal(asc.read(path, unpack=tmp_path / "s").X, X)


def test_a_copy_too_large_for_memory_is_refused_with_what_to_do(tmp_path, X, monkeypatch):
    np.save(tmp_path / "a.npy", X.astype(np.float64))
    monkeypatch.setattr("ascribo.data.float_precision.physical_memory", lambda: 50_000)
    with pytest.raises(ValueError, match="unpack=FOLDER"):
        asc.read(tmp_path / "a.npy")
    assert asc.read(tmp_path / "a.npy", unpack=tmp_path / "s").X.dtype == np.float32


def test_damaged_chunks_are_the_files_fault(tmp_path, X):
    path = written(packed_h5, tmp_path, X)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 400] = b"\xff" * 400
    path.write_bytes(content)
    for given in ({}, {"unpack": tmp_path / "s"}):
        with pytest.raises(ValueError, match="damaged"):
            asc.read(path, **given)
    assert not list((tmp_path / "s").iterdir())


def test_other_formats_do_not_take_it(tmp_path, X):
    np.savez(tmp_path / "a.npz", X=X)
    with pytest.raises(TypeError, match="unpack is for files ending in"):
        asc.read(tmp_path / "a.npz", unpack=tmp_path)


@pytest.mark.parametrize(("write", "jobs"), [(plain_h5, 1), (plain_h5, 2), (packed_h5, 1), (zarr_of_version(3), 1)])
def test_training_from_a_file_gives_the_bits_of_training_from_memory(tmp_path, X, write, jobs, monkeypatch):
    monkeypatch.setattr("ascribo.data.standardised_channels.LARGE_BYTES", 2**12)
    path = written(write, tmp_path, X)
    spaces = {"x": asc.Follow("x", dim=1), "rest": asc.Time(dim=2)}
    model = asc.ContrastiveEmbedding(
        spaces, seeds=jobs, steps=20, batch_size=64, penalty=0.1, random_state=0, progress=False, n_jobs=jobs
    )
    from_memory = model.fit(asc.Recording(X, {"x": x})).transform(X)
    recording = asc.read(path, variables="x", unpack=tmp_path / "s")
    assert is_mapped(recording.X)
    np.testing.assert_array_equal(model.fit(recording).transform(recording), from_memory)


def test_the_command_line_unpacks_and_remembers_where(tmp_path, X):
    from ascribo.cli import main

    path, run = written(packed_h5, tmp_path, X), tmp_path / "run"
    quick = ["--steps", "5", "--seeds", "1", "--penalty", "0", "--batch-size", "64", "--quiet"]
    spaces = ["--follow", "x=x:1", "--variables", "x"]
    assert main(["fit", str(path), *spaces, *quick, "--unpack", str(tmp_path / "s"), "--out", str(run)]) in (
        0,
        None,
    )
    (file,) = (tmp_path / "s").iterdir()
    file.unlink()
    assert main(["attribute", str(run), "--out", str(tmp_path / "maps.nc"), "--quiet"]) in (0, None)
    assert file.exists()

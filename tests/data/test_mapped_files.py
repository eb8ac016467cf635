"""Memory-mapped files: the same values, and little of the file in the process's memory."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ascribo.data import mapped_files
from ascribo.data.mapped_files import is_mapped, release, take_rows
from ascribo.data.standardised_channels import channel_statistics, time_chunks
from ascribo.support.memory import memory_budget

linux = pytest.mark.skipif(sys.platform != "linux", reason="what a process has mapped is known on Linux")


@pytest.fixture
def values():
    return np.random.default_rng(0).normal(size=(3000, 9)).astype(np.float32)


@pytest.fixture
def mapped(values, tmp_path):
    np.save(tmp_path / "x.npy", values)
    return np.load(tmp_path / "x.npy", mmap_mode="r")


@pytest.mark.parametrize("size", ["1KB", "10MB", None])
@pytest.mark.parametrize("view", [slice(None), slice(700, 2500)])
def test_rows_in_any_order_are_those_of_the_array(mapped, values, view, size):
    rows = np.random.default_rng(1).integers(0, len(values[view]), 500)
    for X in (
        mapped[view],
        np.asarray(mapped)[view],
        mapped[view][:, 2:5],
        mapped[view][::-1],
        values[view],
        np.asfortranarray(values)[view],
    ):
        with memory_budget(size):
            found = take_rows(X, rows)
        np.testing.assert_array_equal(found, np.array(X)[rows])
        assert found.flags.owndata


def test_rows_that_are_not_there(mapped, values):
    assert take_rows(mapped, np.array([], dtype=int)).shape == (0, 9)
    np.testing.assert_array_equal(take_rows(mapped, np.array([-1, 3])), values[[-1, 3]])
    with pytest.raises(IndexError):
        take_rows(mapped, np.array([3000]))


def test_a_part_far_into_a_file_is_released_and_read_again(tmp_path, values):
    with open(tmp_path / "x.raw", "wb") as file:
        file.write(b"\0" * 12_345_600 + values.tobytes())
    X = np.memmap(tmp_path / "x.raw", np.float32, "r", offset=12_345_600, shape=values.shape)
    for part in (X, X[1000:2000], X[2999:], X[:0]):
        before = part.copy()
        release(part)
        np.testing.assert_array_equal(part, before)


@linux
def test_rows_are_read_from_the_file_that_was_mapped(tmp_path, values):
    """Not from another that has taken its name; a file that is gone is still mapped."""
    np.save(tmp_path / "x.npy", values)
    first, second, third = (np.load(tmp_path / "x.npy", mmap_mode="r") for _ in range(3))
    rows = np.array([5, 2999, 0])
    np.testing.assert_array_equal(take_rows(first, rows), values[rows])
    assert mapped_files._file(*mapped_files._mapping(first)) is not None
    np.save(tmp_path / "new.npy", values + 1)
    (tmp_path / "new.npy").replace(tmp_path / "x.npy")
    for X in (first, second):
        np.testing.assert_array_equal(take_rows(X, rows), values[rows])
    assert mapped_files._file(*mapped_files._mapping(second)) is None
    (tmp_path / "x.npy").unlink()
    np.testing.assert_array_equal(take_rows(third, rows), values[rows])


@linux
def test_a_file_that_is_cut_short_is_an_error_and_no_crash(tmp_path, values):
    np.save(tmp_path / "x.npy", values)
    X = np.load(tmp_path / "x.npy", mmap_mode="r")
    take_rows(X, np.array([0]))
    os.truncate(tmp_path / "x.npy", 20_000)
    with pytest.raises(ValueError, match="has become shorter"):
        take_rows(X, np.array([2000, 2]))


@linux
def test_files_are_closed_with_their_mapping(tmp_path, values):
    np.save(tmp_path / "x.npy", values)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        take_rows(np.load(tmp_path / "x.npy", mmap_mode="r"), np.array([3]))
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_changes_that_are_not_in_the_file_are_kept(mapped, values):
    own = np.memmap(mapped.filename, np.float32, "c", offset=mapped.offset, shape=values.shape)
    own[5] = 7.0
    assert not is_mapped(own) and is_mapped(mapped[3:]) and not is_mapped(values)
    release(own)
    assert (own[5] == 7.0).all()


@linux
def test_a_pass_over_a_file_keeps_nothing_of_it(tmp_path):
    """In a process of its own, where nothing else is mapped meanwhile."""
    X = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (500_000, 64))  # 128 MB
    X[:] = np.arange(64)
    X.flush()
    done = subprocess.run([sys.executable, __file__, str(tmp_path / "x.npy")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    grown = dict(line.split() for line in done.stdout.splitlines())
    assert set(grown) == {"chunks", "statistics", "rows", "plain"}
    assert all(float(grown[name]) < 40e6 for name in ("chunks", "statistics", "rows"))
    assert float(grown["plain"]) > 120e6  # what would be kept otherwise


def main(path: str) -> None:
    """Prints by how many bytes of mapped files the process grew."""

    def now() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("RssFile")).split()[1])

    X = np.load(path, mmap_mode="r")
    rows = np.random.default_rng(0).integers(0, len(X), 20_000)
    before = now()
    for part in time_chunks(X):
        X[part].sum()
    print("chunks", now() - before)
    channel_statistics(X)
    print("statistics", now() - before)
    take_rows(X, rows)
    print("rows", now() - before)
    X.sum()
    print("plain", now() - before)


if __name__ == "__main__":
    main(sys.argv[1])

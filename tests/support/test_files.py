"""Files are written whole or not at all."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from ascribo.support import files
from ascribo.support.files import (
    FolderInUse,
    check_writable,
    fill_file,
    only_writer,
    room_kept,
    this_process_writes,
    write_atomically,
)


def test_nothing_is_left_of_a_failure(tmp_path):
    def fails(path):
        path.write_text("half")
        raise RuntimeError("stop")

    (tmp_path / "old.txt").write_text("whole")
    for name in ("new.txt", "old.txt"):
        with pytest.raises(RuntimeError):
            write_atomically(tmp_path / name, fails)
    assert [path.name for path in tmp_path.iterdir()] == ["old.txt"]
    assert (tmp_path / "old.txt").read_text() == "whole"


def test_folders_are_made_and_others_may_read(tmp_path):
    mask = os.umask(0o022)
    try:
        path = write_atomically(tmp_path / "a" / "b.txt", lambda file: file.write_text("done"))
    finally:
        os.umask(mask)
    assert path.read_text() == "done" and path.stat().st_mode & 0o777 == 0o644


def test_a_place_that_cannot_be_written_to_is_refused_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for good in (tmp_path, tmp_path / "a", tmp_path / "a/b/c.nc", tmp_path / "file"):
        assert check_writable(good) == good
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]  # nothing is left behind
    with pytest.raises(ValueError, match=r"cannot write to .*file/x\.nc: .*file is a file. Choose another place"):
        check_writable(tmp_path / "file" / "x.nc")

    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(ValueError, match="No space left on device"):
        check_writable(tmp_path / "a")


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path):
    """Files of writers that still run, and files of others, stay."""
    killed = (
        "import os, sys; from ascribo.support.files import write_atomically;"
        "write_atomically(sys.argv[1], lambda path: os._exit(9))"
    )
    command = [sys.executable, "-c", killed, str(tmp_path / "map.csv")]
    assert subprocess.run(command, check=False).returncode == 9
    assert len(list(tmp_path.glob(".map.csv.*"))) == 1
    (tmp_path / ".map.csv.mine.csv").touch()
    within = []

    def write(path):
        write_atomically(tmp_path / "map.csv", lambda inner: inner.write_text("inner"))
        within.extend(p.name for p in tmp_path.iterdir())
        path.write_text("outer")

    write_atomically(tmp_path / "map.csv", write)
    assert len(within) == 3  # the outer one's temporary file was left alone
    assert sorted(p.name for p in tmp_path.iterdir()) == [".map.csv.mine.csv", "map.csv"]


def test_an_array_is_in_its_file_when_all_of_it_is_filled(tmp_path):
    def half(array):
        array[:1] = 7
        assert not (tmp_path / "a.npy").exists()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fill_file(tmp_path / "a.npy", (4, 2), half)
    assert not list(tmp_path.iterdir())
    array, said = fill_file(tmp_path / "a.npy", (4, 2), lambda new: new.fill(5) or "done")
    assert said == "done" and (np.load(tmp_path / "a.npy") == 5).all() and (array == 5).all()


def taken(folder):
    """Bytes that are taken on the disk by files of this process in a folder, with or without a name."""
    links = Path("/proc/self/fd").iterdir()
    return sum(os.stat(link).st_blocks * 512 for link in links if os.path.realpath(link).startswith(f"{folder}/"))


@pytest.mark.skipif(sys.platform != "linux", reason="looks at the open files")
def test_room_is_kept_until_it_is_given_back(tmp_path):
    with room_kept(tmp_path / "run", 500_000, 300_000) as give_back:
        assert 500_000 <= taken(tmp_path) < 600_000 and not list(tmp_path.iterdir())
        give_back()
        assert taken(tmp_path) == 0
    with pytest.raises(KeyboardInterrupt), room_kept(tmp_path, 500_000):
        raise KeyboardInterrupt
    assert taken(tmp_path) == 0


@pytest.mark.parametrize("reserves", ["yes", "no", "not here"])
def test_a_lack_of_room_is_said_with_what_is_needed_and_free(tmp_path, monkeypatch, reserves):
    def fails(*_):
        raise OSError(28 if reserves == "yes" else 95, "No space left on device")

    monkeypatch.setattr(
        shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9 - 3 * 10**6, 3 * 10**6)
    )
    monkeypatch.setattr(os, "posix_fallocate", fails, raising=False)
    if reserves == "no":
        monkeypatch.delattr(os, "posix_fallocate")
    said = (
        r"not enough room for the model in .*run \(No space left on device\): about 5.0 MB are needed, and 3.0 MB"
    )
    with pytest.raises(ValueError, match=said), room_kept(tmp_path / "run", 4_000_000, 1_000_000, "the model"):
        raise AssertionError
    if reserves != "yes":
        with room_kept(tmp_path, 2_900_000):
            pass
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="room is taken beforehand where the system can")
def test_room_for_an_array_is_taken_before_it_is_filled(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="Nothing half-written is left"):
        fill_file(tmp_path / "a.npy", (4, 2), lambda new: pytest.fail("it was filled"))
    assert not list(tmp_path.iterdir())


def link(path, victim):
    path.symlink_to(victim)


def hard_link(path, victim):
    path.hardlink_to(victim)


@pytest.mark.skipif(files.fcntl is None, reason="this system has no locks")
@pytest.mark.parametrize("make", [link, hard_link, lambda path, _: os.mkfifo(path), lambda path, _: path.mkdir()])
def test_a_lock_that_is_no_file_of_ours_is_refused_and_what_it_leads_to_stays(make, tmp_path):
    victim, lock = tmp_path / "victim.txt", tmp_path / "run/.lock"
    lock.parent.mkdir()
    victim.write_text("precious")
    make(lock, victim)
    with (
        pytest.raises(ValueError, match=r"run/\.lock is a link, a pipe or a folder.*remove it"),
        only_writer(lock.parent),
    ):
        raise AssertionError
    assert victim.read_text() == "precious" and os.path.lexists(lock)


@pytest.mark.skipif(files.fcntl is None, reason="this system has no locks")
def test_a_link_to_nothing_makes_no_file_there(tmp_path):
    (tmp_path / ".lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="is a link"), only_writer(tmp_path):
        raise AssertionError
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.skipif(files.fcntl is None, reason="this system has no locks")
def test_who_holds_a_folder_may_write_to_it_and_others_may_not(tmp_path):
    other = (
        "import sys; from ascribo.support.files import this_process_writes;"
        "this_process_writes(sys.argv[1]).__enter__()"
    )
    with only_writer(tmp_path):
        with this_process_writes(tmp_path / "a/.."):
            pass
        said = subprocess.run([sys.executable, "-c", other, tmp_path], capture_output=True, text=True, check=False)
        assert f"is being written to by process {os.getpid()} on" in said.stderr
        with pytest.raises(FolderInUse), only_writer(tmp_path):
            raise AssertionError
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(files.fcntl is None, reason="this system has no locks")
def test_a_disk_without_locks_is_written_to_without(tmp_path, monkeypatch):
    def fails(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(files.fcntl, "flock", fails)
    with only_writer(tmp_path), only_writer(tmp_path):
        pass


def test_a_lock_that_cannot_be_made_says_where(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "open", full)
    with (
        pytest.raises(OSError, match=r"run could not be written to \(No space left on device\)"),
        only_writer(tmp_path / "run"),
    ):
        raise AssertionError


def test_a_full_disk_does_not_keep_a_folder_from_being_locked(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with only_writer(tmp_path), pytest.raises(FolderInUse, match="another process"), only_writer(tmp_path):
        raise AssertionError

"""Files are written whole or not at all."""

import os

import pytest

from ascribo.support.files import write_atomically


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

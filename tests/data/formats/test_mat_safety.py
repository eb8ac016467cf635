"""Damaged MATLAB files are refused before scipy sees them: some would end the whole process there."""

import io
import os
import random
import struct

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import ascribo as asc
from ascribo.data.formats.array_files import load_mat
from ascribo.data.formats.mat_safety import readable_arrays


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(0)
    return {
        "X": rng.normal(size=(40, 3)),
        "wide": rng.normal(size=(700, 3)).astype(np.float32),
        "whole": np.arange(5, dtype=np.int16),
        "yes": np.array([[True, False]]),
        "thin": scipy.sparse.random(9, 7, 0.3, random_state=0).tocsc(),
        "word": "wörld",
        "none": np.zeros((0, 3)),
        "wave": np.ones((2, 2)) * 1j,
        "box": np.array([1, "a"], dtype=object),
        "record": {"a": 1},
    }


@pytest.mark.parametrize("compressed", [False, True])
def test_good_files_are_read_as_scipy_reads_them(arrays, tmp_path, compressed):
    path = tmp_path / "good.mat"
    scipy.io.savemat(path, arrays, do_compression=compressed)
    assert readable_arrays(path) == ["X", "wide", "whole", "yes", "thin", "word", "none"]
    found, expected = load_mat(path), scipy.io.loadmat(path)
    for name, value in found.items():
        known = expected[name].toarray() if name == "thin" else expected[name]
        assert np.array_equal(value.ravel(), known.ravel())


def test_lengths_that_do_not_fit(arrays, tmp_path):
    buffer = io.BytesIO()
    scipy.io.savemat(buffer, {"X": arrays["X"]})
    good = buffer.getvalue()
    place = good.index(struct.pack("<II", 9, 40 * 3 * 8))  # the tag of the values: doubles, their bytes
    for kind, size in ((9, 8), (9, 2**31), (5, 960), (99, 960), (9, 961)):
        bad = bytearray(good)
        struct.pack_into("<II", bad, place, kind, size)
        (tmp_path / "bad.mat").write_bytes(bad)
        with pytest.raises(ValueError, match="it is damaged"):
            asc.read(tmp_path / "bad.mat")
    (tmp_path / "bad.mat").write_bytes(good[:-100])
    with pytest.raises(ValueError, match="longer than the file"):
        asc.read(tmp_path / "bad.mat")


def test_random_damage_never_ends_the_process(arrays, tmp_path):
    """In a process of its own. Of the same files scipy's reader is ended by about one in a hundred."""
    buffers = [io.BytesIO(), io.BytesIO()]
    scipy.io.savemat(buffers[0], arrays)
    scipy.io.savemat(buffers[1], {"X": arrays["X"]})
    chance, path = random.Random(0), tmp_path / "bad.mat"
    child = os.fork()
    if child == 0:
        for _ in range(1500):
            bad = bytearray(chance.choice(buffers).getvalue())
            for _ in range(chance.choice([1, 2, 5])):
                place = 128 + chance.randrange(min(120, len(bad) - 140))
                if chance.random() < 0.5:
                    bad[place] = chance.randrange(256)
                else:
                    bad[place : place + 4] = chance.choice([b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f", b""])
            path.write_bytes(bad)
            try:
                load_mat(path)
            except Exception:
                pass
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, np.int16, np.uint8, np.complex128])
def test_files_of_version_4_are_read(tmp_path, dtype):
    values = np.arange(12).reshape(4, 3).astype(dtype)
    scipy.io.savemat(tmp_path / "a.mat", {"X": values, "words": "up", "x": values[:, 0]}, format="4")
    assert readable_arrays(tmp_path / "a.mat") is None
    np.testing.assert_array_equal(scipy.io.loadmat(tmp_path / "a.mat")["X"], values)


@pytest.mark.parametrize("place", [0, 4, 8, 16])
def test_files_of_version_4_cannot_promise_more_than_they_hold(tmp_path, place):
    scipy.io.savemat(tmp_path / "a.mat", {"X": np.zeros((40, 3))}, format="4")
    content = bytearray((tmp_path / "a.mat").read_bytes())
    content[place : place + 4] = (90 if place == 0 else 2_000_000_000).to_bytes(4, "little")
    (tmp_path / "a.mat").write_bytes(content)
    with pytest.raises(ValueError, match="longer than the file"):
        readable_arrays(tmp_path / "a.mat")

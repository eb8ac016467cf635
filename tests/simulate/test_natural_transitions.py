"""Tracks and masks from small made files."""

import pickle

import numpy as np
import pytest
import torch

import ascribo as asc


def write_tracks(path, **changed):
    rows = {
        "object": [3, 3, 3, 7, 7, 7],
        "time": [0, 1, 2, 5, 6, 8],
        "x": [0.0, 10.0, 20.0, 5.0, 5.0, 5.0],
        "y": [0.0, 0.0, 4.0, 2.0, 2.0, 2.0],
        "scale": [100.0, 150.0, 200.0, 100.0, 100.0, 100.0],
    }
    np.savez(path, **{**rows, **changed})
    return path


def test_tracks_of_a_file_become_pairs_of_one_object(tmp_path):
    arrays = asc.simulate.read_arrays(write_tracks(tmp_path / "tracks.npz"))
    pairs = asc.simulate.track_transitions(**arrays)
    assert pairs.tolist() == [
        [[0.0, 0.0, 0.0], [0.5, 0.5, 0.0]],
        [[0.5, 0.5, 0.0], [1.0, 1.0, 1.0]],
        [[0.0, 0.25, 0.5], [0.0, 0.25, 0.5]],
    ]
    assert len(asc.simulate.track_transitions(**arrays, lag=2)) == 2  # 0 to 2, and 6 to 8


def test_masks_of_a_file_become_images_and_pairs(tmp_path):
    masks = np.zeros((4, 32, 96), dtype=bool)
    for k in range(4):
        masks[k, :16, 12 * k : 12 * (k + 2)] = True
    np.savez(tmp_path / "masks.npz", masks=masks, sequence=[0, 0, 0, 1], time=[0, 2, 1, 3])
    found = asc.simulate.mask_pairs(**asc.simulate.read_arrays(tmp_path / "masks.npz"))
    assert found.images.shape == (4, 1, 64, 64)
    assert torch.equal(found.images[0, 0, :32, :16], torch.ones(32, 16)) and found.images[0].sum() == 32 * 16
    assert sorted(zip(found.first.tolist(), found.second.tolist(), strict=True)) == [(0, 2), (2, 1)]


def test_what_is_wrong_is_said(tmp_path):
    read, tracks = asc.simulate.read_arrays, asc.simulate.track_transitions
    (tmp_path / "kitti.pickle").write_bytes(pickle.dumps({"masks": 1}))
    with pytest.raises(ValueError, match=r"expected an \.npz file"):
        read(tmp_path / "kitti.pickle")
    np.savez(
        tmp_path / "objects.npz", **dict.fromkeys(("time", "x", "y", "scale"), np.ones(2)), object=np.array([{}])
    )
    with pytest.raises(ValueError, match="pickled objects"):
        read(tmp_path / "objects.npz")
    np.savez(tmp_path / "less.npz", x=[1])
    with pytest.raises(ValueError, match="no array 'object'"):
        read(tmp_path / "less.npz")
    arrays = read(write_tracks(tmp_path / "t.npz"))
    for changed, said in (
        ({"time": [0, 1, 1, 5, 6, 8]}, "same object"),
        ({"x": [1.0] * 6}, "x has one value"),
        ({"y": [np.nan] * 6}, "finite"),
        ({"y": [1.0]}, "one length"),
        ({"lag": 9}, "no two rows"),
        ({"lag": 0}, "lag=0"),
    ):
        with pytest.raises(ValueError, match=said):
            tracks(**{**arrays, **changed})
    with pytest.raises(ValueError, match="of 0 and 1"):
        asc.simulate.mask_pairs(np.full((2, 4, 4), 0.5), [0, 0], [0, 1])

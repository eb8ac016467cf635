"""A large offset costs nothing: the changes of a channel are the same around 0 and around 2**40."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
import torch

import ascribo as asc
from ascribo.data import standardised_channels as channels
from ascribo.data.float_precision import as_stored, needs_float64
from ascribo.data.preprocessing import Treatment
from ascribo.data.standardised_channels import StandardisedChannels, are_counts, channel_statistics, standardise

rng = np.random.default_rng(0)
FLOATS = rng.normal(0, [1.0, 3.0, 0.5], (4000, 3))
WHOLE = rng.integers(-300, 300, (4000, 3))


def standardised(X):
    recording = asc.Recording(X)
    return standardise(recording.X, *channel_statistics(recording.X))


@pytest.mark.parametrize("offset", [1e5, 1e6, 1e7])
@pytest.mark.parametrize("container", [np.asarray, np.asfortranarray, pd.DataFrame, torch.tensor])
def test_an_offset_changes_nothing(offset, container):
    expected = standardised(FLOATS)
    moved = standardised(container(FLOATS + offset))
    assert moved.dtype == torch.float32
    np.testing.assert_allclose(moved, expected, atol=4e-6, rtol=1e-5)


@pytest.mark.parametrize("offset", [10**6, 10**7, 2**24, 2**40, -(2**40)])
def test_integers_of_any_size_keep_their_changes(offset):
    recording = asc.Recording(WHOLE + offset)
    assert recording.constant_channels() == []
    np.testing.assert_array_equal(recording.X.astype(np.int64), WHOLE + offset)
    np.testing.assert_allclose(standardised(WHOLE + offset), standardised(WHOLE), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
@pytest.mark.parametrize("container", [np.asarray, pd.DataFrame])
def test_integers_whose_changes_float64_would_lose_are_refused(kind, container):
    X = (WHOLE + 2**60).astype(kind)
    X[:, 1] = 2**60
    with pytest.raises(ValueError, match=r"float64 loses their changes, in 2 of 3 channels: .*0, .*2\. .*subtract"):
        asc.Recording(container(X))
    np.testing.assert_array_equal(asc.Recording(container(X - X.min())).X, X - X.min())
    wide = (2**62 + 2**50 * WHOLE.astype(object)).astype(kind)  # of which enough is left
    assert asc.Recording(container(wide)).constant_channels() == []


def test_one_channel_with_an_offset_does_not_harm_the_others():
    X = FLOATS + np.array([0, 1e7, 0])
    np.testing.assert_allclose(standardised(X), standardised(FLOATS), atol=4e-6, rtol=1e-5)


@pytest.mark.parametrize(
    "X",
    [
        FLOATS,
        FLOATS + 100,
        FLOATS.astype(np.float32) + 1e6,
        rng.integers(0, 2**16, (50, 2)).astype(np.uint16) // 16 + 30000,
        rng.integers(0, 2**24, (50, 2)),
        np.full((50, 2), 0.1),
        np.c_[np.full(50, 0.1), np.arange(50)],
    ],
    ids=["floats", "small offset", "float32", "uint16", "integers", "constant", "one constant"],
)
def test_all_else_stays_float32(X):
    stored = asc.Recording(X).X
    assert stored.dtype == np.float32
    np.testing.assert_array_equal(stored, X.astype(np.float32))


def test_a_single_step_is_kept_as_exactly_as_the_whole():
    """One row does not tell how far its channels move elsewhere."""
    whole = asc.Recording(FLOATS + 2.0**30)
    mean, scale = channel_statistics(whole.X)
    one = asc.Recording((FLOATS + 2.0**30)[7:8])
    np.testing.assert_array_equal(standardise(one.X, mean, scale), standardise(whole.X, mean, scale)[7:8])


def test_float64_that_is_needed_is_shared_and_a_file_is_never_read_whole(tmp_path):
    path = tmp_path / "large.npy"
    whole = np.lib.format.open_memmap(path, "w+", np.float64, (2**17, 128))
    whole[:] = 1e8 + rng.normal(size=(2**17, 1))
    del whole
    large = np.load(path, mmap_mode="r")
    tracemalloc.start()
    recording = asc.Recording(large)
    mean, scale = channel_statistics(recording.X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert recording.X.dtype == np.float64 and np.shares_memory(recording.X, large)
    assert peak < 0.6 * large.nbytes  # chunks and their changes
    np.testing.assert_allclose(mean, 1e8, atol=0.1)
    np.testing.assert_allclose(scale, 1, rtol=0.05)


def test_large_recordings_are_centred_as_they_are_read(monkeypatch):
    X = asc.Recording(FLOATS + 1e7).X
    mean, scale = channel_statistics(X)
    whole = standardise(X, mean, scale)
    monkeypatch.setattr(channels, "LARGE_BYTES", 1)
    lazy = standardise(X, mean, scale)
    assert isinstance(lazy, StandardisedChannels) and lazy.raw is X
    some = torch.randint(4000, (3, 5), generator=torch.Generator().manual_seed(0))
    assert torch.equal(lazy[some], whole[some]) and torch.equal(lazy[100:200], whole[100:200])
    monkeypatch.setattr(channels, "ENTRIES_AT_ONCE", 100)
    assert lazy.to("meta").dtype == torch.float32
    assert lazy[:].dtype == torch.float32


def test_slices_and_choices_keep_the_precision():
    recording = asc.Recording(WHOLE + 2**40)
    part = recording[10:20].take_channels(["channel2", "channel0"])
    np.testing.assert_array_equal(part.X.astype(np.int64), (WHOLE + 2**40)[10:20][:, [2, 0]])
    assert are_counts(recording.X) and not are_counts(recording.X + 0.5)


@pytest.mark.parametrize("width", [2.0, 40.0], ids=["summed", "by Fourier transform"])
def test_treatments_keep_the_changes(width):
    plain = asc.Recording(FLOATS).treat(smooth=width)
    moved = asc.Recording(FLOATS + 1e7).treat(smooth=width)
    np.testing.assert_allclose(moved.X - 1e7, plain.X, atol=2e-6)
    scored = asc.Recording(FLOATS + 1e7).treat(transform="zscore")
    assert scored.X.dtype == np.float32
    np.testing.assert_allclose(scored.X, asc.Recording(FLOATS).treat(transform="zscore").X, atol=4e-6)
    again = asc.Recording(FLOATS[:9] + 1e7).treat(scored.treatment)
    np.testing.assert_allclose(again.X, scored.X[:9], atol=1e-6)
    assert isinstance(scored.treatment, Treatment)


def test_samples_in_bins_keep_the_changes():
    nap = pytest.importorskip("pynapple")
    stamps = np.arange(4000) / 100

    def binned(values, **options):
        return asc.from_pynapple(nap.TsdFrame(stamps, values), bin_size=0.1, **options).X

    np.testing.assert_allclose(binned(FLOATS + 1e7) - 1e7, binned(FLOATS), atol=1e-6)
    options = {"smooth": 0.2, "transform": "zscore"}
    np.testing.assert_allclose(binned(FLOATS + 1e7, **options), binned(FLOATS, **options), atol=1e-5)


def test_numbers_too_large_for_float32_are_refused_all_the_same():
    with pytest.raises(ValueError, match="too large for float32"):
        asc.Recording(FLOATS * 1e20 + 1e39)
    with pytest.raises(ValueError, match="contains NaN in 1 of 3"):
        as_stored(np.where(FLOATS == FLOATS[0, 0], np.nan, FLOATS) + 1e7, list("abc"))
    assert not needs_float64(lambda a, b: np.full((b - a, 1), np.nan), (3, 1), np.dtype(float))


@pytest.mark.parametrize("offset", [0, 1e6, 1e7])
def test_a_fit_works_and_is_saved(offset, tmp_path):
    place = np.cumsum(rng.normal(size=600))
    X = place[:, None] * [1, -1, 0.5] + rng.normal(size=(600, 3))
    small = {"seeds": 1, "steps": 60, "batch_size": 64, "penalty": 0.0, "random_state": 0, "progress": False}
    make = lambda: asc.ContrastiveEmbedding({"place": asc.Follow("place", 1)}, encoder=asc.MLP((4,)), **small)  # noqa: E731
    expected = make().fit(X, {"place": place}).transform(X)
    model = make().fit(X + offset, {"place": place})
    np.testing.assert_allclose(model.transform(X + offset), expected, atol=0.02)
    model.save(tmp_path / "run")
    np.testing.assert_array_equal(asc.load(tmp_path / "run").transform(X + offset), model.transform(X + offset))

"""Large recordings are read as they are needed, to the same bits as ordinary ones."""

import hashlib
import warnings

import numpy as np
import pytest
import torch

import ascribo as asc
from ascribo.data import standardised_channels as channels
from ascribo.data.standardised_channels import (
    StandardisedChannels,
    are_counts,
    channel_statistics,
    limit_time_steps,
    on_device,
    standardise,
)


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(3, 2, (5000, 7)).astype(np.float32)


def lazy(X):
    mean, scale = (torch.from_numpy(v).float() for v in channel_statistics(X))
    return StandardisedChannels(X, mean, scale)


@pytest.mark.parametrize("entries", [1, 7, 100, 2**21])
def test_statistics_in_chunks_are_those_of_the_whole(X, entries, monkeypatch):
    monkeypatch.setattr(channels, "ENTRIES_SUMMED", entries)
    mean, scale = channel_statistics(X)
    np.testing.assert_array_equal(mean, X.mean(0, dtype=np.float64))
    np.testing.assert_array_equal(scale, X.std(0, dtype=np.float64))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_statistics_of_a_tensor_are_those_of_the_array(X, dtype, monkeypatch):
    """On a GPU they are taken there. Far from zero, nothing is lost: the first row is taken off first."""
    monkeypatch.setattr(channels, "ENTRIES_AT_ONCE", 100)
    X = X.astype(dtype) + (1e9 if dtype is np.float64 else 0)
    mean, scale = channel_statistics(X)
    found = channel_statistics(torch.from_numpy(X.copy()))
    np.testing.assert_allclose(found[0], mean, rtol=1e-14)
    np.testing.assert_allclose(found[1], scale, rtol=1e-12)
    standard = standardise(torch.from_numpy(X.copy()), mean, scale)
    assert standard.dtype == torch.float32 and torch.equal(standard, standardise(X, mean, scale))


def test_rows_are_those_of_the_whole(X):
    mean, scale = channel_statistics(X)
    whole = standardise(X, mean, scale)
    assert isinstance(whole, torch.Tensor)
    some = torch.randint(5000, (3, 4), generator=torch.Generator().manual_seed(0))
    for raw in (X, np.asfortranarray(X)):
        assert torch.equal(lazy(raw)[some], whole[some])
        assert torch.equal(lazy(raw)[10:20], whole[10:20])
    np.testing.assert_array_equal(whole, (X - mean.astype(np.float32)) / scale.astype(np.float32))


def test_the_recording_itself_is_never_written_to(X):
    before = X.copy()
    X.flags.writeable = False
    own = lazy(X)
    own[torch.arange(10)].zero_()
    own[:].zero_()
    standardise(X, np.zeros(7), np.ones(7)).zero_()
    np.testing.assert_array_equal(X, before)


def test_only_large_recordings_are_read_as_needed(X, monkeypatch):
    mean, scale = np.zeros(7), np.ones(7)
    assert isinstance(standardise(X, mean, scale), torch.Tensor)
    monkeypatch.setattr(channels, "LARGE_BYTES", X.nbytes - 1)
    large = standardise(X, mean, scale)
    assert isinstance(large, StandardisedChannels)
    assert large.raw is X and large.to("cpu") is large
    assert large.shape == (5000, 7) and len(large) == 5000 and large.numel() == X.size


def test_on_another_device_it_is_a_tensor(X, monkeypatch):
    monkeypatch.setattr(channels, "ENTRIES_AT_ONCE", 100)
    X.flags.writeable = False  # as memory-mapped files are
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        moved = lazy(X).to("meta")
        assert isinstance(moved, torch.Tensor) and moved.shape == (5000, 7)
        assert on_device(X, "meta").dtype == torch.float32 and on_device(X, "cpu") is X


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_standardises_to_the_same_bits(X):
    mean, scale = channel_statistics(X)
    assert torch.equal(standardise(X, mean, scale, "cuda").cpu(), standardise(X, mean, scale))


def test_a_gpu_that_is_too_small_is_said_to_be(X, monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 2000))
    with pytest.raises(ValueError, match="device='cpu'"):
        lazy(X).to("cuda")


def test_counts_are_told_from_numbers(monkeypatch):
    monkeypatch.setattr(channels, "ENTRIES_AT_ONCE", 4)
    counts = np.random.default_rng(0).poisson(2, (50, 2)).astype(np.float32)
    assert are_counts(counts)
    for value in (-1, 0.5):
        wrong = counts.copy()
        wrong[-1, 1] = value
        assert not are_counts(wrong)


def test_decoders_of_many_channels_get_fewer_steps():
    assert limit_time_steps(100_000, 1000) == 100_000
    assert limit_time_steps(100_000, 10_000) * 10_000 <= channels.ENTRIES_HELD


@pytest.fixture(scope="module")
def data():
    return asc.simulate.box(0, observed=1, hidden=1, channels=(5, 5), steps=1200)


def fit(data, **options):
    spaces = {"x": asc.Follow("x", 1), "guess": asc.Regress("x"), "rest": asc.Time(1)}
    settings = {"seeds": 2, "steps": 20, "batch_size": 64, "penalty": 0.01, "random_state": 0, "progress": False}
    return asc.ContrastiveEmbedding(spaces, **{**settings, **options}).fit(data)


@pytest.mark.parametrize("encoder", [asc.MLP((16,)), asc.Convolution(3, (8, 8))])
def test_a_large_recording_is_fitted_to_the_same_bits(data, encoder, monkeypatch, quick_unique_variance):
    ordinary = fit(data, encoder=encoder)
    monkeypatch.setattr(channels, "LARGE_BYTES", 0)
    large = fit(data, encoder=encoder)
    for name, value in ordinary.model_.parameters.items():
        assert torch.equal(value, large.model_.parameters[name])
    for name, value in ordinary.model_.decoder.items():
        assert torch.equal(value, large.model_.decoder[name])
    embeddings = [model.transform(data) for model in (ordinary, large)]
    np.testing.assert_array_equal(*embeddings)
    scores = [model.score(data) for model in (ordinary, large)]
    assert scores[0] == scores[1]
    methods = [
        "unique_variance",
        "generative_gradient",
        "inverted_neuron_gradient",
        "shapley_shuffled",
        "smoothgrad",
    ]
    for method in [*methods, *(["tangent"] if isinstance(encoder, asc.MLP) else [])]:
        maps = []
        for size in (2**27, 0):
            monkeypatch.setattr(channels, "LARGE_BYTES", size)
            samples = 20 if "samples" in asc.attribution.METHODS[method].takes else None
            maps.append(large.attribute(data, method=method, samples=samples).by_space)
        np.testing.assert_array_equal(*maps)


def test_the_poisson_loss_takes_counts_as_they_are(monkeypatch, quick_unique_variance):
    rng = np.random.default_rng(0)
    x = np.cumsum(rng.normal(size=1500)) / 10
    rates = np.exp(0.5 * np.sin(np.add.outer(x, np.arange(6))))
    counts = asc.Recording(rng.poisson(rates), {"x": x})
    model = fit(counts, seeds=1)
    ordinary = model.attribute(counts, loss="poisson").by_space
    monkeypatch.setattr(channels, "LARGE_BYTES", 0)
    np.testing.assert_array_equal(model.attribute(counts, loss="poisson").by_space, ordinary)
    with pytest.raises(ValueError, match="whole numbers"):
        model.attribute(counts.X + 0.5, counts.variables, loss="poisson")


def test_an_interrupted_fit_of_a_large_recording_goes_on(data, tmp_path, monkeypatch):
    from ascribo.training import loop as training

    monkeypatch.setattr(channels, "LARGE_BYTES", 0)
    whole = fit(data, seeds=1, steps=150, encoder=asc.MLP((16,)))
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    kept = training.write_checkpoint
    calls = []

    def stop(*given):
        kept(*given)
        calls.append(given[1])
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "write_checkpoint", stop)
    with pytest.raises(KeyboardInterrupt):
        fit(data, seeds=1, steps=150, checkpoint=tmp_path, encoder=asc.MLP((16,)))
    monkeypatch.setattr(training, "write_checkpoint", kept)
    again = fit(data, seeds=1, steps=150, checkpoint=tmp_path, encoder=asc.MLP((16,)))
    assert calls == [50]
    for name, value in whole.model_.parameters.items():
        assert torch.equal(value, again.model_.parameters[name])


def test_a_checkpoint_belongs_to_its_data(data, monkeypatch):
    from ascribo.model.fitting import prepare

    def found(recording):
        return prepare(recording, {"rest": asc.Time(1)}).problem.digest()

    other = asc.Recording(data.X.copy(), data.variables)
    other.X[1000, 3] += 1
    assert found(data) == found(data) != found(other)
    monkeypatch.setattr(channels, "LARGE_BYTES", 0)
    assert found(data) == found(data) != found(other)
    # what is hashed is the buffer, not a copy of it: a view of the same bytes has the same digest
    assert hashlib.sha256(data.X.data).hexdigest() == hashlib.sha256(data.X.tobytes()).hexdigest()

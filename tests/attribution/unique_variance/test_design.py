"""What the variables decide of a test is the same for every model of the recording."""

import time
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
import torch

import ascribo as asc
from ascribo.attribution.unique_variance import design
from ascribo.attribution.unique_variance.decoding_problem import make_problem
from ascribo.attribution.unique_variance.design import make_design
from ascribo.attribution.unique_variance.input_columns import Role, which
from ascribo.attribution.unique_variance.score import score_problems
from ascribo.networks.model_stack import Embedder

SPACES = {
    "place": asc.Follow(["x", "y"], 2),
    "side": asc.Discrete("side", 1),
    "speed": asc.Follow("speed", 1, nuisance=True),
    "rest": asc.Time(2),
}


@pytest.fixture(scope="module")
def recording():
    rng = np.random.default_rng(0)
    steps = 3000
    x, y = np.cumsum(rng.normal(size=(2, steps)), axis=1) * 0.2
    speed = np.convolve(rng.normal(size=steps), 0.7 ** np.arange(20))[:steps]
    side = np.where(np.cumsum(rng.random(steps) < 0.02) % 2, "left", "right")
    X = torch.from_numpy(rng.normal(size=(steps, 6)) + np.stack([x, y, speed, x, y, speed], axis=1)).float()
    return X, np.repeat([0, 1], steps // 2), pd.DataFrame({"x": x, "y": y, "speed": speed, "side": side})


def embedder(seeds):
    module = asc.MLP((8,)).build(6, sum(space.dim for space in SPACES.values()))
    own = Embedder(module, SPACES)
    return own, own.initial(module, seeds)


def test_one_design_serves_all_models_of_a_recording(recording, monkeypatch):
    X, epochs, variables = recording
    shared = make_design(SPACES, 1, epochs, variables, X)
    models = [(*embedder(seeds), SPACES, X, epochs, variables) for seeds in ([0, 1], [2])]
    problems = [make_problem(*given) for given in models]
    for name in (
        "exchange_innovations",
        "redraw_white_innovations",
        "innovation_lag",
    ):  # nothing of it is done again
        monkeypatch.setattr(design, name, None)
    for given, alone in zip(models, problems, strict=True):
        within = make_problem(*given, design=shared)
        for field in fields(alone):
            a, b = (getattr(problem, field.name) for problem in (within, alone))
            if field.name == "redraws":
                assert list(a) == list(b) == ["place", "side"]
                assert all(a[name][0] == b[name][0] and torch.equal(a[name][1], b[name][1]) for name in a)
            elif isinstance(a, torch.Tensor):
                assert torch.equal(a, b), field.name
            elif isinstance(a, list | np.ndarray):
                np.testing.assert_equal(a, b)
            else:
                assert a == b


def test_the_design_says_what_its_columns_are(recording):
    X, epochs, variables = recording
    own = make_design(SPACES, 1, epochs, variables, X)
    assert own.without_variables == ("rest",) and set(own.lags) == {"place", "side", "speed"}
    assert own.lags["speed"] < own.lags["place"]
    longest = max(own.lags.values())
    assert own.embedding_lag == longest + 1 and own.neighbour_distance == 2  # `rest` has learned from its next step
    # nothing crosses the edge of an epoch
    assert (epochs[own.index - own.embedding_lag - 1] == epochs[own.index + own.neighbour_distance]).all()
    values = own.values[0].double()
    for role, space, columns in (
        (Role.PAST, "place", 2),
        (Role.INNOVATION, "place", 2),
        (Role.INNOVATION, "side", 2),
        (Role.PRESENT, None, 5),
        (Role.EARLIER_PAST, "place", 0),  # whose own lag is the longest
        (Role.EARLIER_PAST, "speed", 1),
        (Role.PAST_CHANGE, None, 5),
    ):
        assert which(own.columns, {role}, space).sum() == columns
    place = variables[["x", "y"]].to_numpy()
    change = place[own.index] - place[own.index - own.lags["place"]]
    white = values[:, which(own.columns, {Role.INNOVATION}, "place")]
    np.testing.assert_allclose(white.T @ white / len(white), np.eye(2), atol=1e-4)
    fitted = change - change.mean(0)
    rebuilt = white.numpy() @ np.linalg.lstsq(white.numpy(), fitted, rcond=None)[0]
    np.testing.assert_allclose(rebuilt, fitted, atol=1e-4)


def test_a_design_has_its_own_lags(recording):
    X, epochs, variables = recording
    given = (*embedder([0]), SPACES, X, epochs, variables)
    with pytest.raises(ValueError, match="lag=3"):
        make_problem(*given, lag=3, design=make_design(SPACES, 1, epochs, variables, X))
    assert set(make_design(SPACES, 1, epochs, variables, X, lag=3).lags.values()) == {3}


def test_too_short_a_recording_is_refused(recording):
    X, epochs, variables = recording
    with pytest.raises(ValueError, match="needs at least 80"):
        make_design(SPACES, 1, epochs[:60], variables[:60], X[:60])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_scores_as_a_cpu(recording):
    """The inputs are the same, and so are the scores, but that innovations are redrawn by another generator."""
    X, epochs, variables = recording
    own, parameters = embedder([0, 1])
    problems = {
        device: make_problem(
            *(own, {k: v.to(device) for k, v in parameters.items()}, SPACES, X.to(device), epochs, variables)
        )
        for device in ("cpu", "cuda")
    }
    cpu, gpu = problems["cpu"], problems["cuda"]
    np.testing.assert_array_equal(cpu.index, gpu.index)
    # axes may point the other way
    torch.testing.assert_close(gpu.inputs.cpu().abs(), cpu.inputs.abs(), atol=2e-3, rtol=1e-3)
    for name, (_, draws) in cpu.redraws.items():
        spread = [own[name][1].double().std((0, 1)).cpu() for own in (cpu.redraws, gpu.redraws)]
        torch.testing.assert_close(*spread, rtol=0.05, atol=0.02)
        assert draws.shape == gpu.redraws[name][1].shape
    a, b = (score_problems([q], [[0, 1]], steps=300, progress=False)[0].by_block.mean((0, 3)) for q in (cpu, gpu))
    np.testing.assert_allclose(a, b, atol=0.012)  # other seeds of the decoders move a score by 0.006
    assert a.max() > 0.02 and b.max() > 0.02


def test_rare_labels_share_columns():
    """Two thousand labels have a hundred columns, the most frequent ones alone in theirs if there are few
    others."""
    rng = np.random.default_rng(0)
    labels = pd.DataFrame({"label": rng.integers(0, 2000, 5000)})
    began = time.process_time()
    found = make_design({"label": asc.Discrete("label", 2)}, 1, np.zeros(5000, int), labels, torch.zeros(5000, 1))
    assert time.process_time() - began < 10
    assert which(found.columns, {Role.PRESENT}).sum() == design.MOST_LABELS
    for k in range(2):  # what is drawn anew in a fold is what was there
        torch.testing.assert_close(
            *(v[found.fold == k].sum(0) for v in (found.redraws["label"][0], _innovations(found))),
            atol=1e-3,
            rtol=0,
        )


def _innovations(found):
    return found.values[0][:, torch.from_numpy(which(found.columns, {Role.INNOVATION}))]


@pytest.mark.parametrize("turns", [0.0, 1.0])
def test_a_variable_that_is_nearly_a_function_of_another_is_not_decided(turns):
    """b = sin 2πa and a little: what a could have been, given b, is not known well enough for a test."""
    rng = np.random.default_rng(0)
    paths = np.abs((np.cumsum(0.1 * rng.normal(size=(8000, 2)), axis=0) + 1) % 4 - 2) - 1
    a, b = paths.T
    b = np.sin(np.pi * a) + 0.15 * b if turns else b
    spaces = {"a": asc.Follow("a", 1), "b": asc.Follow("b", 1)}
    given = (spaces, 1, np.zeros(8000, int), pd.DataFrame({"a": a, "b": b}), torch.zeros(8000, 1))
    assert ("a" in make_design(*given).undecided) == bool(turns)

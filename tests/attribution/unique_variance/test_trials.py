"""Labels of whole trials: tested by exchanging trials, whatever drifts meanwhile."""

import numpy as np
import pandas as pd
import pytest
import torch
from ascribo.attribution.unique_variance.trials import exchange_trials, why_not_exchangeable

import ascribo as asc
from ascribo.attribution.unique_variance.decoding_problem import make_problem
from ascribo.attribution.unique_variance.design import make_design
from ascribo.attribution.unique_variance.maps import maps_from_scores
from ascribo.attribution.unique_variance.score import score_problems
from ascribo.networks.model_stack import Embedder

TRIALS, LENGTH = 60, 50
SPACES = {"label": asc.Discrete("label", 2), "b": asc.Follow("b", 1)}


@pytest.fixture(scope="module")
def maps():
    """Four labels; channels that carry label, a walk b, both, and six that carry nothing; all drift."""
    rng = np.random.default_rng(0)
    steps = TRIALS * LENGTH
    label = np.repeat(rng.integers(0, 4, TRIALS), LENGTH)
    b = np.abs((np.cumsum(0.2 * rng.normal(size=steps)) + 1) % 4 - 2) - 1
    tuning = np.array([-1.5, -0.5, 0.5, 1.5])[label]
    clean = np.stack([tuning, 2 * b, tuning + 2 * b, *np.zeros((6, steps))], axis=1)
    drift = np.cumsum(rng.normal(size=clean.shape), axis=0)
    X = torch.from_numpy(clean + 0.5 * drift / drift.std(0) + 0.5 * rng.normal(size=clean.shape)).float()
    X = (X - X.mean(0)) / X.std(0)
    module = asc.MLP((8,)).build(9, 3)
    embedder = Embedder(module, SPACES)
    epochs = np.arange(steps) // LENGTH
    variables = pd.DataFrame({"label": label, "b": b})
    problem = make_problem(embedder, embedder.initial(module, [0]), SPACES, X, epochs, variables)
    (scores,) = score_problems([problem], [[0]], steps=150, progress=False)
    given = dict(weight=np.ones((1, 2)), refused={}, untested={}, channels=[f"c{k}" for k in range(9)])
    return problem, maps_from_scores(scores, **given, time=np.arange(steps), epochs=epochs)


def test_channels_that_carry_the_label_are_called_and_those_that_drift_are_not(maps):
    problem, found = maps
    assert list(problem.trial_redraws) == ["label"] and list(problem.redraws) == ["b"] and not problem.comparisons
    called = found.calls().set_index("space")["called"]
    assert called["label"].tolist() == [True, False, True, *[False] * 6]
    assert called["b"].tolist() == [False, True, True, *[False] * 6]


def test_a_trial_is_in_one_fold_and_one_block(maps):
    problem, _ = maps
    trial = problem.index // LENGTH
    for part in (problem.fold, problem.block):
        assert all(len(np.unique(part[trial == k])) == 1 for k in range(TRIALS))
    where, draws = problem.trial_redraws["label"]
    own = problem.inputs[0][:, where]
    assert not torch.equal(draws[0], own)
    assert not problem.masks[problem.variables_alone][: SPACES["label"].dim].any()  # no embedding
    for k in range(2):  # the same labels in each fold, each that of a whole trial
        rows = torch.from_numpy(problem.fold == k)
        assert sorted(map(tuple, own[rows].unique(dim=0).tolist())) == sorted(
            map(tuple, draws[0][rows].unique(dim=0).tolist())
        )


def test_trials_that_cannot_be_exchanged_are_not_tested():
    rng = np.random.default_rng(0)
    trial = np.repeat(np.arange(40), 5)
    label = rng.integers(0, 2, 40)
    one, other = np.eye(2)[label][trial], np.eye(2)[np.where(rng.random(40) < 0.9, label, 1 - label)][trial]
    noise = {"b": rng.normal(size=(200, 1))}
    assert why_not_exchangeable(one, noise, trial) == ""
    assert "tells" in why_not_exchangeable(one, {"other": other}, trial)
    assert "go on from one to the next" in why_not_exchangeable(np.eye(2)[np.arange(40) // 20][trial], noise, trial)
    few = trial < 8
    assert "there are 8" in why_not_exchangeable(one[few], {"b": noise["b"][few]}, trial[few])
    variables = pd.DataFrame({"label": np.arange(200) // 100})
    found = make_design({"label": asc.Discrete("label", 1)}, 1, trial, variables, torch.zeros(200, 1))
    assert list(found.undecided) == ["label"]


def test_numbers_of_trials_are_exchanged_whole():
    values = torch.randn(60, 2)[np.repeat(np.arange(12), 5)]
    fold = np.repeat(np.arange(12) // 3 % 2, 5)
    drawn = exchange_trials(values, np.repeat(np.arange(12), 5), fold, 3)
    assert drawn.shape == (3, 60, 2)
    for draw in drawn:
        assert (draw.reshape(12, 5, 2) == draw.reshape(12, 5, 2)[:, :1]).all()
        for k in range(2):
            assert set(map(tuple, draw[fold == k].tolist())) == set(map(tuple, values[fold == k].tolist()))

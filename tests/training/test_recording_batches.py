"""A stack of models on recordings: each is trained as if it were alone, whatever they share."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import ascribo as asc
from ascribo.networks.encoders import build_encoder
from ascribo.spaces.pairs import Pairs
from ascribo.training import steps as taken
from ascribo.training.loop import run_steps
from ascribo.training.objective import contrastive_objectives
from ascribo.training.penalty_weight import Constant, Each
from ascribo.training.recording_batches import RecordingSource
from ascribo.training.settings import Settings
from ascribo.training.steps_eager import EagerSteps
from ascribo.training.training_problem import Problem

SETTINGS = Settings(30, 32, 6e-3, Constant(0.01))


def problem(spaces, encoder=None, seed=0, steps=400):
    data = asc.simulate.box(seed, observed=1, hidden=1, channels=(3, 3), steps=steps)
    X = torch.from_numpy((data.X - data.X.mean(0)) / data.X.std(0))
    segments = np.repeat([0, 1], steps // 2)
    module = build_encoder(encoder or asc.MLP((8,)), 6, sum(s.dim for s in spaces.values()))
    first = Problem(module, spaces, contrastive_objectives(spaces, "whole"), X, segments, None, {})
    return [changed(first, data.variables.apply(np.roll, shift=shift)) for shift in (0, 70, 200)]


def changed(first, table):
    targets = {
        name: space.targets(table, space.target_statistics(table, np.arange(len(table))))
        for name, space in first.spaces.items()
        if isinstance(space, asc.Regress)
    }
    return replace(first, pairs=Pairs(first.spaces, table, first.segments), targets=targets)


def taker(problems, seeds, settings=SETTINGS):
    return EagerSteps(RecordingSource(problems, seeds, exact_penalty=settings.exact_penalty), settings)


def run(problems, seeds, settings=SETTINGS):
    return run_steps(taker(problems, seeds, settings), progress=False)


@pytest.mark.parametrize(
    "spaces, encoder",
    [
        ({"x": asc.Follow("x", 1), "rest": asc.Time(1)}, None),
        ({"guess": asc.Regress("x"), "rest": asc.Time(1)}, None),
        ({"guess": asc.Regress("x"), "rest": asc.Time(1)}, asc.Convolution(5, (4, 8))),
    ],
)
def test_stacked_is_one_by_one(spaces, encoder):
    problems, seeds = problem(spaces, encoder), [5, 6, 5]
    together = run(problems, seeds).history
    for k, seed in enumerate(seeds):
        alone = run([problems[k]], [seed]).history
        for name in ("infonce", "mse", "penalty"):
            np.testing.assert_allclose(together[name][:, k], alone[name][:, 0], rtol=1e-3, atol=1e-3)
    # the first and the last share their seed: only their variables differ
    first, _, last = np.moveaxis(np.concatenate([together["infonce"], together["mse"]], axis=2), 1, 0)
    assert np.abs(first - last).max() > 0.1


@pytest.mark.parametrize(
    "spaces, encoder, exact",
    [
        ({"x": asc.Follow("x", 1), "rest": asc.Time(1)}, None, False),
        ({"x": asc.Follow("x", 1), "rest": asc.Time(1)}, None, True),
        ({"x": asc.Follow("x", 1, temperature="learn"), "rest": asc.Time(1)}, None, False),
        ({"x": asc.Follow("x", 2, similarity="dot"), "guess": asc.Regress("x")}, None, False),
        ({"guess": asc.Regress("x"), "rest": asc.Time(1)}, asc.Convolution(5, (4, 8)), False),
    ],
)
def test_models_computed_apart_are_those_computed_together(monkeypatch, spaces, encoder, exact):
    problems, seeds, got = problem(spaces, encoder), [5, 6, 5], {}
    each = Each(tuple(Constant(weight) for weight in (0.0, 0.01, 3.0)))
    settings = replace(SETTINGS, schedule=each, exact_penalty=exact)
    for some in (3, 2, 1):  # 2: the last one has no company
        monkeypatch.setattr(taken, "REFERENCES_AT_ONCE", some * SETTINGS.batch_size)
        got[some] = run(problems, seeds, settings).history
    for some in (2, 1):
        for name, curve in got[3].items():
            np.testing.assert_allclose(got[some][name], curve, rtol=2e-4, atol=2e-4)
    assert got[3]["penalty"][-1, 0] > 1.1 * got[3]["penalty"][-1, 2]  # their λ are their own


def test_a_parameter_without_effect_stays_as_it_is():
    class Spare(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.spare = torch.nn.Linear(6, 2), torch.nn.Linear(3, 3)

        def forward(self, x):
            return self.used(x)

    task = problem({"x": asc.Follow("x", 1), "rest": asc.Time(1)}, Spare())[0]
    before = taker([task], [4]).parameters
    after = run([task], [4]).parameters
    torch.testing.assert_close(after["spare.weight"], before["spare.weight"].detach(), rtol=0, atol=0)
    assert not torch.equal(after["used.weight"], before["used.weight"])


def test_the_recording_is_held_once():
    problems = problem({"x": asc.Follow("x", 1)})
    assert RecordingSource(problems, [1, 2, 3]).X.data_ptr() == problems[0].X.data_ptr()


def test_what_cannot_share_a_stack_is_refused():
    problems = problem({"x": asc.Follow("x", 1)})
    with pytest.raises(ValueError, match="3 problems for 2 seeds"):
        RecordingSource(problems, [1, 2])
    other = problem({"x": asc.Follow("x", 1), "rest": asc.Time(1)})[0]
    with pytest.raises(ValueError, match="same spaces"):
        RecordingSource([problems[0], replace(problems[1], pairs=other.pairs)], [1, 2])


def test_recordings_end_to_end_are_trained_as_each_alone():
    """Of different lengths, and drawn from and looked up each in its own."""
    spaces = {"guess": asc.Regress("x"), "rest": asc.Time(1)}
    tasks = [problem(spaces, asc.Convolution(5, (4, 8)), seed, steps)[0] for seed, steps in ((0, 400), (3, 300))]
    together = run([tasks[k] for k in (1, 0, 1)], [5, 6, 7]).history
    for place, (k, seed) in enumerate(((1, 5), (0, 6), (1, 7))):
        alone = run([tasks[k]], [seed]).history
        for name in ("infonce", "mse", "penalty"):
            np.testing.assert_allclose(together[name][:, place], alone[name][:, 0], rtol=1e-3, atol=1e-3)


def test_a_digest_belongs_to_seeds_problems_and_who_has_which():
    one, two, _ = problem({"x": asc.Follow("x", 1)})
    given = [([one], [1]), ([one], [2]), ([two], [1]), ([one, two], [1, 1]), ([two, one], [1, 1])]
    found = [RecordingSource(*own).digest() for own in given]
    assert len(set(found)) == len(found) and found == [RecordingSource(*own).digest() for own in given]

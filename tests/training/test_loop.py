"""A stack whose models have pairs of their own trains each as if it were alone."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

import ascribo as asc
from ascribo.networks.encoders import build_encoder
from ascribo.spaces.pairs import Pairs
from ascribo.support.compute import resolve_device
from ascribo.training import steps as taken
from ascribo.training.checkpoints import read_checkpoint, write_checkpoint
from ascribo.training.eager import EagerSteps
from ascribo.training.loop import run_steps
from ascribo.training.objective import contrastive_objectives
from ascribo.training.penalty import Constant, Each
from ascribo.training.problem import Problem
from ascribo.training.recordings import RecordingSource
from ascribo.training.settings import Settings

STEPS = 400
SETTINGS = Settings(60, 32, 3e-3, Constant(0.01))


def problem(spaces, encoder=None):
    data = asc.simulate.box(0, observed=1, hidden=1, channels=(3, 3), steps=STEPS)
    X = torch.from_numpy((data.X - data.X.mean(0)) / data.X.std(0))
    segments = np.repeat([0, 1], STEPS // 2)
    module = build_encoder(encoder or asc.MLP((8,)), 6, sum(s.dim for s in spaces.values()))
    first = Problem(module, spaces, contrastive_objectives(spaces, "whole"), X, segments, None, {})
    return [changed(first, data.variables.apply(np.roll, shift=shift)) for shift in (0, 70, 200)]


def changed(first, table):
    targets = {
        name: space.targets(table, space.target_statistics(table, np.arange(STEPS)))
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


def test_a_checkpoint_that_lacks_something_is_refused_and_changes_nothing(tmp_path):
    task = problem({"x": asc.Follow("x", 1), "rest": asc.Time(1)})[0]
    steps, file = taker([task], [4]), tmp_path / "state.safetensors"
    before = {name: value.detach().clone() for name, value in steps.parameters.items()}
    del steps.optimizer.state[steps.parameters["0.bias"]]["exp_avg"]
    write_checkpoint(file, 0, "", steps.parameters, steps.optimizer, {})
    other = taker([task], [5])
    with pytest.raises(ValueError, match=r"lacks adam\.0\.bias\.exp_avg: delete it"):
        read_checkpoint(file, "", other.parameters, other.optimizer, 50)
    assert not torch.equal(other.parameters["0.weight"], before["0.weight"])  # still that of its own seed


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


def test_a_device_is_found_or_refused():
    assert resolve_device("cpu") == torch.device("cpu")
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(ValueError, match="device='abacus'"):
        resolve_device("abacus")


def test_decoders_train_no_longer_than_encoders():
    assert [replace(SETTINGS, steps=steps).decoder_steps for steps in (10, 200, 9000)] == [50, 200, 1500]


def test_the_learning_rate_falls_in_the_second_half():
    rates = [Settings(40, 32, 0.1, Constant(0.0)).rate(step) for step in range(41)]
    assert rates[:21] == [0.1] * 21 and rates[-1] == pytest.approx(0.005)
    assert all(later < earlier for earlier, later in pairwise(rates[20:]))
    assert {Settings(40, 32, 0.1, Constant(0.0), constant_rate=True).rate(step) for step in range(41)} == {0.1}

"""The one place that chooses device, stacks and processes: none of them changes what is learned."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import ascribo as asc
from ascribo.model.fitting import prepare
from ascribo.training import dispatch as training
from ascribo.training.dispatch import train, train_many
from ascribo.training.penalty_weight import Auto, Constant, Ramp
from ascribo.training.settings import Settings

SPACES = {"position": asc.Follow("x", dim=1), "rest": asc.Time(dim=1)}
SETTINGS = Settings(60, 32, 3e-3, Constant(0.01))


def problem(seed=0, channels=(3, 3), steps=600):
    data = asc.simulate.box(seed, observed=1, hidden=1, channels=channels, steps=steps)
    return prepare(data, SPACES, encoder=asc.MLP((8,))).problem


def same(one, other, **tolerance):
    for name, value in one.parameters.items():
        torch.testing.assert_close(other.parameters[name], value, **tolerance or {"rtol": 0, "atol": 0})


def test_many_are_what_each_is_alone():
    problems = [problem(0), problem(1), problem(2, (4, 5))]
    schedules = [Constant(0.0), Ramp(0.3), Auto()]
    many = train_many(problems, [5, 6, 7], SETTINGS, schedules=schedules, progress=False)
    for own, seed, schedule, got in zip(problems, [5, 6, 7], schedules, many, strict=True):
        alone = train(own, [seed], replace(SETTINGS, schedule=schedule), progress=False)
        same(alone, got)
        np.testing.assert_array_equal(alone.history["lambda"], got.history["lambda"])
        assert {len(value) for value in got.parameters.values()} == {1}


def test_models_come_back_in_the_order_they_were_given(monkeypatch):
    """Also where stacks take them out of order: in stacks, as on a GPU, other shapes train apart."""
    monkeypatch.setattr(training, "_as_graphs", lambda device: True)
    problems = [problem(0), problem(2, (4, 5)), problem(1)]
    schedules = [Constant(0.0), Constant(0.2), Ramp(0.3)]
    many = train_many(problems, [5, 6, 7], SETTINGS, schedules=schedules, progress=False)
    assert [one.parameters["0.weight"].shape[-1] for one in many] == [6, 9, 6]
    assert [one.history["lambda"][-1, 0] for one in many] == pytest.approx([0.0, 0.2, 0.3])
    assert all(torch.isfinite(value).all() for one in many for value in one.parameters.values())
    assert not torch.equal(many[0].parameters["0.weight"], many[2].parameters["0.weight"])


def test_a_model_of_a_stack_keeps_its_own_schedule(monkeypatch):
    monkeypatch.setattr(training, "_as_graphs", lambda device: True)
    one = problem()
    none, strong = train_many(
        [one, one], [1, 1], SETTINGS, schedules=[Constant(0.0), Constant(1.0)], progress=False
    )
    assert (none.history["lambda"][-1, 0], strong.history["lambda"][-1, 0]) == (0.0, 1.0)
    assert strong.history["penalty"][-10:].mean() < none.history["penalty"][-10:].mean()


@pytest.mark.slow
def test_processes_do_not_matter():
    one = problem()
    alone, spread = (train(one, [1, 2, 3], SETTINGS, n_jobs=jobs, progress=False) for jobs in (None, 2))
    same(alone, spread, rtol=1e-3, atol=1e-4)
    problems = [problem(0), problem(1)]
    alone, spread = (train_many(problems, [1, 2], SETTINGS, n_jobs=jobs, progress=False) for jobs in (None, 2))
    for a, b in zip(alone, spread, strict=True):
        same(a, b)


def test_an_encoder_is_built_once_for_a_fit():
    built = []

    class Counting:
        def build(self, channels, dim):
            built.append((channels, dim))
            return asc.MLP((8,)).build(channels, dim)

    data = asc.simulate.box(0, observed=1, hidden=1, channels=(3, 3), steps=600)
    options = {"seeds": 1, "steps": 5, "batch_size": 32, "penalty": 0.0, "progress": False, "device": "cpu"}
    asc.ContrastiveEmbedding(SPACES, encoder=Counting(), **options).fit(data)
    assert built == [(6, 2)]


def test_nothing_to_train_is_no_error():
    assert train_many([], [], SETTINGS, progress=False) == []

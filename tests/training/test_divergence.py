"""Training that diverges: it is noticed, the last good weights are kept, and the user is told what to change."""

import numpy as np
import pytest
import torch

import ascribo as asc
from ascribo.training import steps as stepping


def make(**changes):
    spaces = {"position": asc.Follow("x", dim=1), "rest": asc.Time(dim=1)}
    small = {"seeds": 1, "steps": 150, "batch_size": 16, "encoder": asc.MLP((4,)), "n_jobs": 1, "penalty": 0.0}
    return asc.ContrastiveEmbedding(spaces, random_state=0, progress=False, early_stop=None, **{**small, **changes})


@pytest.fixture(scope="module")
def data():
    return asc.simulate.box(0, observed=1, hidden=1, channels=(3, 3), steps=300)


@pytest.fixture
def diverges(monkeypatch):
    """Gradients are infinite from a step on."""

    def begin(step):
        taken, differentiate = [], stepping.differentiate

        def infinite(total, parameters):
            taken.append(None)
            gradients = differentiate(total, parameters)
            return [torch.full_like(g, float("nan")) for g in gradients] if len(taken) > step else gradients

        monkeypatch.setattr(stepping, "differentiate", infinite)

    return begin


def test_the_last_good_weights_are_kept(data, diverges, monkeypatch):
    good = {}
    run = stepping.Steps.run

    def remembers(self, start, weights):
        good[start] = {name: value.detach().clone() for name, value in self.parameters.items()}
        return run(self, start, weights)

    monkeypatch.setattr(stepping.Steps, "run", remembers)
    diverges(120)
    with pytest.warns(UserWarning, match=r"diverged: the loss became infinite after step 100.*lower learning_rate"):
        model = make().fit(data)
    assert model.history_.sizes["step"] == 100 and "diverged" in model.spent_["why_steps"][0]
    assert all(torch.equal(value, good[100][name]) for name, value in model.model_.parameters.items())
    assert np.isfinite(model.transform(data)).all() and np.isfinite(model.goodness_of_fit_["bits"]).all()


def test_weights_that_are_lost_in_the_very_last_step_of_a_chunk(data, diverges):
    diverges(99)  # the losses of the chunk are all finite
    with pytest.warns(UserWarning, match="a weight became infinite after step 50"):
        assert make().fit(data).history_.sizes["step"] == 50


def test_nothing_is_left_of_a_fit_that_never_was_good(data, diverges, tmp_path):
    diverges(3)
    with pytest.raises(FloatingPointError, match=r"first 50 steps. Please lower learning_rate .* or the penalty"):
        make(penalty=0.1, checkpoint=tmp_path / "state").fit(data)
    assert not list((tmp_path / "state").glob("*.safetensors"))

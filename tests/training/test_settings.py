"""Settings: those of an estimator, the learning rate, and how long decoders train."""

from dataclasses import replace
from itertools import pairwise

import pytest

import ascribo as asc
from ascribo.training.penalty_weight import Auto, Constant
from ascribo.training.settings import Settings

SETTINGS = Settings(60, 32, 3e-3, Constant(0.01))


def test_settings_of_an_estimator():
    model = asc.ContrastiveEmbedding(penalty="auto", steps=70, batch_size=16, exact_penalty=True, device="cpu")
    settings = Settings.from_parameters(model)
    assert settings == Settings(70, 16, 1e-3, Auto(), exact_penalty=True, early_stop=1e-3, device="cpu")
    assert Settings.from_parameters(model, early_stop=None, steps=3) == replace(settings, steps=3, early_stop=None)
    with pytest.raises(ValueError, match="device='abacus'"):
        Settings.from_parameters(asc.ContrastiveEmbedding(device="abacus"))


def test_decoders_train_no_longer_than_encoders():
    assert [replace(SETTINGS, steps=steps).decoder_steps for steps in (10, 200, 9000)] == [50, 200, 1500]


def test_the_learning_rate_falls_in_the_second_half():
    rates = [Settings(40, 32, 0.1, Constant(0.0)).rate(step) for step in range(41)]
    assert rates[:21] == [0.1] * 21 and rates[-1] == pytest.approx(0.005)
    assert all(later < earlier for earlier, later in pairwise(rates[20:]))
    assert {Settings(40, 32, 0.1, Constant(0.0), constant_rate=True).rate(step) for step in range(41)} == {0.1}

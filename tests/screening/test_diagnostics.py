"""Diagnostics of what may mislead."""

import numpy as np
import pandas as pd
import pytest

from ascribo.data.recording import Recording
from ascribo.screening import screen
from ascribo.spaces.kinds.follow import Follow

STEPS = 5_000


def _slow(rng: np.random.Generator) -> np.ndarray:
    out = rng.standard_normal(STEPS)
    for t in range(1, STEPS):
        out[t] = np.exp(-1 / 30) * out[t - 1] + np.sqrt(1 - np.exp(-2 / 30)) * out[t]
    return out


def _fields(speed: float, seed: int) -> tuple[Recording, np.ndarray]:
    """24 channels: the first half carry a, the others have fields of b that wander. a goes along with b."""
    rng = np.random.default_rng(seed)
    b = _slow(rng)
    a = 0.85 * b + 0.5 * _slow(rng)
    time = np.linspace(-1, 1, STEPS)
    channels = rng.standard_normal((STEPS, 24))
    channels[:, :12] += 0.5 * a[:, None]
    for i in range(12, 24):
        field = np.exp(-0.5 * np.square((b - rng.normal() - speed * rng.choice([-1, 1]) * time) / 0.4))
        channels[:, i] += 0.8 * (field - field.mean()) / field.std()
    return Recording(channels, pd.DataFrame({"a": a, "b": b})), np.arange(24) < 12


@pytest.mark.parametrize("speed", [0.0, 1.5])
def test_fields_that_wander_are_conditioned_on_as_they_do(speed):
    wrong = 0
    for seed in range(2):
        recording, for_a = _fields(speed, seed)
        found = screen(recording, {"a": Follow("a", 1), "b": Follow("b", 1)})
        called = found.calls.loc[found.calls["space"] == "a", "called"].to_numpy(bool)
        assert called[for_a].all()
        wrong += int(called[~for_a].sum())
        assert any(note.kind == "tuning changes" for note in found.notes) == (speed > 0)
    assert wrong <= 2  # of 24; 15 before the changes were conditioned on

"""Measurement noise is found where it is, not where variables jump or fold, and smoothing takes it out."""

import numpy as np
import pytest

from ascribo.screening.measurement_error import measurement_noise, smooth_jointly

STEPS = 10_000
FIRST = np.zeros(STEPS, int)


def process(rng, decay=0.99):
    out = np.zeros(STEPS)
    for t, step in enumerate(rng.normal(size=STEPS)):
        out[t] = decay * out[t - 1] + step
    return out / out.std()


@pytest.mark.parametrize("share", [0.15, 0.3])
def test_the_variance_of_white_noise_is_found(share):
    rng = np.random.default_rng(0)
    values = np.stack([process(rng) + share * rng.normal(size=STEPS), process(rng)], axis=1)
    noise = measurement_noise(values, FIRST)
    assert noise[0] == pytest.approx(share**2, rel=0.2) and noise[1] == 0


def test_a_stimulus_that_is_drawn_anew_at_each_step_is_not_noise():
    values = np.random.default_rng(0).normal(size=(4000, 1))
    assert not measurement_noise(values, np.zeros(4000, int)).any()


def test_jumps_to_and_fro_and_steady_motion_are_not_noise():
    rng = np.random.default_rng(1)
    a = process(rng)
    values = np.stack([(a > 0) + 0.1 * process(rng), np.sin(np.arange(STEPS) / 15), np.round(a)], axis=1)
    assert measurement_noise(values, FIRST).tolist() == [0, 0, 0]


def test_smoothing_brings_noisy_variables_closer_to_the_truth_and_stays_within_epochs():
    rng = np.random.default_rng(2)
    true = np.stack([process(rng), process(rng)], axis=1)
    noisy = true + 0.3 * rng.normal(size=true.shape)
    noise = measurement_noise(noisy, FIRST)
    smooth = smooth_jointly(noisy, noise, FIRST)
    assert np.square(smooth - true).mean() < 0.6 * np.square(noisy - true).mean()
    first = np.where(np.arange(STEPS) < 4_000, 0, 4_000)
    changed = noisy.copy()
    changed[4_000:] += 100.0
    pieces = [smooth_jointly(each, noise, first)[:4_000] for each in (noisy, changed)]
    kept = np.corrcoef(pieces[0][:, 0], pieces[1][:, 0])[0, 1]
    assert kept > 0.98 and np.abs(pieces[1]).max() < 10

"""Noise that stands for channels which carry nothing."""

import numpy as np
import pandas as pd

import ascribo as asc
from ascribo.screening.noise import LENGTHS, noise_columns
from experiments.validation.situations_data import walk


def test_columns_of_noise_have_the_autocovariance_of_moving_sums():
    noise = noise_columns(5_000).astype(float)
    copies = noise.shape[1] // len(LENGTHS)
    for k, length in enumerate(LENGTHS):
        own = noise[:, k * copies : (k + 1) * copies]
        for lag in (0, 1, 3, 10, 40):
            found = np.mean(own[lag:] * own[: len(own) - lag])
            assert abs(found - max(0, length - lag)) < 0.05 * length


def test_all_kinds_are_sums_of_the_same_signs():
    noise = noise_columns(500).astype(int)
    copies = noise.shape[1] // len(LENGTHS)
    one, four = noise[:, :copies], noise[:, copies : 2 * copies]
    assert (four[3:] == one[3:] + one[2:-1] + one[1:-2] + one[:-3]).all() and set(np.unique(one)) == {-1, 1}


def test_p_is_right_for_channels_that_wander_on_their_own():
    """Slow regressors take more of slow noise: corrected for white noise alone, 8 to 9% were below 0.05."""
    p = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        table = pd.DataFrame({name: walk(rng, 4_000)[:, 0] for name in "ab"})
        channels = np.concatenate([walk(rng, 4_000) for _ in range(20)], axis=1)
        recording = asc.Recording(channels + 0.2 * rng.normal(size=channels.shape), table)
        p.append(asc.screen(recording, {name: asc.Follow(name, 1) for name in "ab"}).calls["p"].to_numpy())
    assert 0.02 < np.mean(np.concatenate(p) < 0.05) < 0.065

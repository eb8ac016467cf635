"""The experiment on short recordings with a tiny protocol, and what its oracles know."""

import json

import numpy as np
import pytest

from ascribo.simulate.box import wander
from experiments.regcl import box_models
from experiments.validation import short_recordings

LENGTH = 400


@pytest.fixture(scope="module")
def truth():
    return short_recordings.Truth(
        box_models.recording({"data_seed": 10, "dim": 4, "length": LENGTH, "snr": 3.0}), snr=3.0
    )


def test_what_is_written(tmp_path):
    result = short_recordings.run(
        tmp_path, data_seeds=[10, 11], dim=4, length=LENGTH, draws=39, quick=True, progress=False
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["short-recordings.json", "short-recordings.png"]
    assert json.loads((tmp_path / "short-recordings.json").read_text()) == json.loads(json.dumps(result))
    powers = {name: own["power"] for name, own in result["summary"].items()}
    assert list(powers) == ["screen", *short_recordings.ORACLES]
    assert powers["hidden"] == max(powers.values()) > 0.9
    assert sum(result["channels_by_share"]) == 50
    for name, own in result["summary"].items():
        assert own["power"] == pytest.approx(np.mean([row["found"][name] for row in result["rows"]]))
    methods, shares = short_recordings.tables(result).values()
    assert list(methods["test"]) == list(powers) and shares["channels"].sum() == 50


def test_the_truth_is_that_of_the_recording(truth):
    signal = np.concatenate([truth.others(truth.hidden).T, truth.made(truth.observed)])
    noise = truth.X.T - signal
    np.testing.assert_allclose(noise.var(1), truth.noise, rtol=0.35)
    np.testing.assert_allclose(signal.var(1), 3 * truth.noise, rtol=1e-6)
    assert truth.carries.sum() == 25 and 0 < truth.carried().min() and truth.carried().max() < 0.75


def test_the_tuning_is_the_mean_over_the_hidden_latents(truth):
    rng = np.random.default_rng(0)
    at = np.array([[0.3, -0.5], [-0.8, 0.9]])
    h = rng.uniform(-1, 1, (4_000, 2))
    means = [truth.carrying(np.concatenate([h, np.broadcast_to(z, (4_000, 2))], axis=1)).mean(0) for z in at]
    tuned = truth.tuned(at)
    np.testing.assert_allclose(tuned[:, 1] - tuned[:, 0], means[1] - means[0], atol=0.05)


@pytest.mark.parametrize("name", short_recordings.ORACLES)
def test_oracles_keep_their_level_for_channels_that_carry_nothing(truth, name):
    statistic = short_recordings.ORACLES[name](truth)
    rng = np.random.default_rng(1)
    values = np.stack([statistic(wander(rng, LENGTH, 2, 0.1)) for _ in range(60)])
    p = (values[20:] >= values[:20, None]).mean(1)  # of latents that nothing carries
    assert 0.01 <= (p <= 0.05).mean() < 0.12
    found = (values >= statistic(truth.observed)).mean(0)
    assert np.median(found[truth.carries]) < 0.05 < np.median(found[~truth.carries])

"""Noise, length of the recording, and the penalty: tiny forms of the experiments, and their verdicts."""

import json

import numpy as np
import pytest

from ascribo.attribution import METHODS
from experiments.regcl import box_models, noise, penalties, samples

TINY = {"data_seeds": [0], "steps": 10, "batch": 32, "samples": 60, "costly": 20, "dims": [3]}


def test_noise(tmp_path):
    result = noise.run(tmp_path, device="cpu", progress=False, **TINY, length=600, snrs=[None, 1.0])
    assert json.loads((tmp_path / "noise.json").read_text()) == json.loads(json.dumps(result))
    assert [(row["penalty"], row["snr"]) for row in result["rows"]] == [
        *[("auto", None), ("auto", 1.0)],
        *[("none", None), ("none", 1.0)],
    ]
    assert all(set(row["channels"]) == set(METHODS) for row in result["rows"])
    title = "auROC by channels in percent, by SNR; 3 latents, penalty auto"
    assert list(noise.tables(result)[title]) == ["method", "None", "1.0"]
    ax = noise.draw(result)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "no noise"]
    assert len(ax.lines) == len(METHODS)


def test_noise_is_in_the_data():
    cell = {"dim": 3, "data_seed": 0, "length": 2000}
    clean, noisy = box_models.recording(cell), box_models.recording({**cell, "snr": 1.0})
    added = (noisy.X - clean.X).var(0) / clean.X.var(0)
    np.testing.assert_allclose(added, 1.0, atol=0.15)


def test_samples(tmp_path):
    result = samples.run(tmp_path, device="cpu", progress=False, **TINY, lengths=[500, 900])
    assert [row["length"] for row in result["rows"]] == [500, 900] and "length" not in result["protocol"]
    assert "feature_ablation" not in result["rows"][0]["channels"] and (tmp_path / "samples.png").exists()
    assert {"unique_variance", "generative_gradient", "tangent"} <= set(result["rows"][0]["channels"])
    models = samples.tables(result)["Models"]
    assert list(models["length"]) == [500, 900] and "bits position" in models


def test_lambda(tmp_path):
    plan = {**TINY, "length": 600, "snrs": [None], "scales": [1.0, "spread"], "penalties": ["auto", 0.01, 1.0]}
    result = penalties.run(tmp_path, device="cpu", progress=False, **plan)
    assert json.loads((tmp_path / "lambda.json").read_text()) == json.loads(json.dumps(result))
    assert (tmp_path / "lambda.png").exists()
    kinds = [(v["method"], v["kind"]) for v in result["verdicts"]]
    assert kinds[:2] == [("inverted_neuron_gradient", "channels"), ("inverted_neuron_gradient", "entries")]
    first, spread = (result["rows"][k] for k in (1, 4))
    assert (first["scale"], spread["scale"], spread["penalty"], spread["lambda"]) == (1.0, "spread", 0.01, 0.01)
    # channels are standardised, so their scales are no matter but for rounding
    for kind in ("entries", "channels"):
        for method in ("inverted_neuron_gradient", "generative_gradient"):
            if method in first[kind]:
                assert first[kind][method] == pytest.approx(spread[kind][method], abs=0.01)
    assert len(penalties.tables(result)) == 2 * len(kinds) + 1


def test_scales_of_the_channels():
    cell = {"dim": 3, "data_seed": 0, "length": 500, "scale": 1.0}
    plain, ten, spread = (penalties.recording({**cell, "scale": s}).X for s in (1.0, 10.0, "spread"))
    np.testing.assert_allclose(ten, 10 * plain, rtol=1e-6)
    factor = np.median(spread / plain, axis=0)
    assert factor.min() < 0.3 and factor.max() > 3 and 0.1 <= factor.min() and factor.max() <= 10
    np.testing.assert_allclose(spread, plain * factor, rtol=1e-3, atol=1e-6)


def test_the_verdict_on_the_penalty():
    means = {  # condition -> auROC by λ
        (4, None, 1.0): {"auto": 0.98, 0.1: 0.99, 1.0: 0.90},
        (9, 1.0, 1.0): {"auto": 0.80, 0.1: 0.60, 1.0: 0.79},
    }
    rows = [
        {"dim": dim, "snr": snr, "scale": scale, "penalty": penalty, "channels": {"m": value + shift}}
        for (dim, snr, scale), by in means.items()
        for penalty, value in by.items()
        for shift in (-0.01, 0.01)
    ]
    found = penalties.verdict(rows, "channels", "m")
    assert [c["best_fixed"] for c in found["conditions"]] == ["0.1", "1.0"]
    assert [c["auto_minus_best"] for c in found["conditions"]] == pytest.approx([-0.01, 0.01])
    fixed = found["penalties"]["0.1"]
    assert fixed["worst_shortfall"] == pytest.approx(0.19) and fixed["lowest"] == pytest.approx(0.6)
    assert fixed["worst_condition"] == {"dim": 9, "snr": 1.0, "scale": 1.0}
    assert found["penalties"]["auto"]["worst_shortfall"] == pytest.approx(0.01)

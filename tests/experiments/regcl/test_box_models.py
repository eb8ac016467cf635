"""The two ways of scoring a map, against computations by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.func import functional_call, jacrev

from ascribo.attribution import attribute
from ascribo.data.segments import evenly
from ascribo.metrics.scores import auroc
from ascribo.model.fitting import fit_many, prepare
from ascribo.training.penalty_weight import Ramp
from ascribo.training.settings import Settings
from experiments.regcl import box_models

CASE = {"mode": "hybrid contrastive", "dim": 3, "data_seed": 0, "length": 1500, "samples": 40, "costly": 20}
CASE |= {"steps": 60, "batch": 64}


@pytest.fixture(scope="module")
def fitted():
    data = box_models.recording(CASE)
    data.X = data.X * np.geomspace(0.2, 5, data.X.shape[1]).astype(np.float32)  # units that differ
    item = prepare(data, box_models.spaces(CASE), one_scale=True)
    ((model, _),) = fit_many(
        [item], [[0]], [Ramp(0.1)], Settings(CASE["steps"], 64, 1e-3, Ramp(0.1)), progress=False
    )
    return data, model


def jacobians(data, model, steps):
    """∂f/∂x by autograd, in the units the encoder sees: (steps, dim, channel)."""
    one = {name: value[0] for name, value in model.parameters.items()}
    x = model.standardise(data.X)[torch.from_numpy(steps)]
    return np.stack([jacrev(lambda v: functional_call(model.module, one, (v,)))(row).numpy() for row in x])


def by_pairs(scores, truth):
    """The auROC as the share of pairs that are in the right order."""
    true, false = scores[truth], scores[~truth]
    return np.mean((true[:, None] > false) + 0.5 * (true[:, None] == false))


def test_the_papers_protocol_is_over_entries_in_own_coordinates(fitted):
    data, model = fitted
    steps = evenly(len(data), CASE["samples"])
    J = jacobians(data, model, steps)
    inside = np.abs(J).any(2).all(1)  # an output at its limit has a row of zeros, and no inverse
    inverse = np.linalg.pinv(J[inside])  # (steps, channel, dim), of all latents together
    truth = data.truth.sel(space="position").values
    by_hand = {
        "neuron_gradient": np.abs(J).mean(0).T[:, :2],
        "inverted_neuron_gradient": np.abs(inverse).mean(0)[:, :2],
    }
    got = box_models.score_methods(CASE, data, model, {}, "position", entries=list(by_hand))["entries"]
    for method, scores in by_hand.items():
        found = box_models.entry_scores(model, data, method, steps, "position")
        np.testing.assert_allclose(found, scores, rtol=2e-3)
        right = by_pairs(scores.ravel(), np.repeat(truth, 2))
        assert got[method] == pytest.approx(right, abs=2e-3)
        assert abs(right - by_pairs(np.linalg.norm(scores, axis=1), truth)) > 1e-3  # channels would say otherwise


def test_channels_are_those_of_standardised_channels(fitted):
    """The same encoder behind standardised channels, its first layer taking up their spread: the same scores."""
    data, model = fitted
    steps = evenly(len(data), CASE["costly"])
    spread = data.X.std(0, dtype=np.float64) / model.scale
    unit = torch.from_numpy(spread).float()
    encoder = {**model.parameters, "0.weight": model.parameters["0.weight"] * unit}
    last = {
        name: value / unit.reshape(-1, *(1,) * (value.ndim - 2))
        for name, value in model.decoder.items()
        if "4." in name
    }
    other = replace(model, scale=model.scale * spread, parameters=encoder, decoder={**model.decoder, **last})
    torch.testing.assert_close(
        other.embedder.embed(encoder, other.standardise(data.X), data.epochs),
        model.embedder.embed(model.parameters, model.standardise(data.X), data.epochs),
    )
    for method in ("generative_gradient", "neuron_gradient", "integrated_gradients", "feature_ablation"):
        a, b = (
            box_models.channel_scores(
                attribute(m, data, method, steps), box_models.channel_spread(data, m), "position"
            )
            for m in (model, other)
        )
        np.testing.assert_allclose(a, b, rtol=1e-3, err_msg=method)
    raw = attribute(model, data, "inverted_neuron_gradient", steps)
    scores = box_models.channel_scores(raw, box_models.channel_spread(data, model), "position")
    np.testing.assert_allclose(scores * spread, raw.by_space.sel(space="position").values)


def test_a_method_without_a_map_is_at_chance_and_named(fitted):
    data, model = fitted
    last = model.parameters["6.weight"].clone()
    last[:, 1] = last[:, 0]  # two outputs that say the same: no sample has an inverse
    row = box_models.score_methods(
        *(CASE, data, replace(model, parameters={**model.parameters, "6.weight": last}), {}, "position"),
        entries=["inverted_neuron_gradient"],
        channels=["inverted_neuron_gradient", "neuron_gradient"],
    )
    assert row["entries"] == {"inverted_neuron_gradient": 0.5} and row["no_map"] == ["inverted_neuron_gradient"]
    assert row["channels"]["inverted_neuron_gradient"] == 0.5 != row["channels"]["neuron_gradient"]
    assert row["rank_deficient"] == {"inverted_neuron_gradient": 1.0}


def test_a_collapsed_space_is_judged(fitted):
    data, model = fitted
    usable = replace(model, usable=np.ones_like(model.usable))
    row = box_models.score_methods(CASE, data, usable, {}, "position", channels=["neuron_gradient"])
    maps = attribute(usable, data, "neuron_gradient", evenly(len(data), CASE["samples"]))
    scores = box_models.channel_scores(maps, box_models.channel_spread(data, usable), "position")
    assert row["channels"]["neuron_gradient"] == pytest.approx(auroc(scores, data.truth.sel(space="position")))


def test_costly_methods_take_fewer_steps(fitted, monkeypatch):
    data, model = fitted
    asked = {}

    def counted(model, recording, method, steps, **given):
        asked[method] = len(steps)
        return attribute(model, recording, method, steps, **given)

    monkeypatch.setattr(box_models, "attribute", counted)
    box_models.score_methods(CASE, data, model, {}, "position", channels=["tangent", "neuron_gradient"])
    assert asked == {"tangent": 20, "neuron_gradient": 40}


def test_latents_are_recovered_from_their_blocks(fitted):
    data, model = fitted
    got = box_models.recovered_latents(CASE, data, model)
    assert set(got) == {"position", "rest"} and got["position"] > 0.3
    swapped = box_models.recovered_latents(
        CASE, data, model, {"rest": data.latents[:, -2:], "no such": data.latents}
    )
    assert set(swapped) == {"rest"} and swapped["rest"] < got["position"]


def test_schedules():
    assert box_models.schedule({"penalty": 0.3}) == Ramp(0.3) and box_models.schedule(
        {"penalty": "regularized"}
    ) == Ramp(0.1)
    assert box_models.schedule({"penalty": "none"}).begin(1, 10, 0.0).weights(9, 1).item() == 0.0


def test_unique_variance_finds_the_carriers(fitted):
    data, model = fitted
    one, two = box_models.unique_scores([CASE] * 2, [data] * 2, [model] * 2)
    assert set(one) == {"position", "rest"} and one["position"].shape == (50,)
    np.testing.assert_allclose(one["position"], two["position"], atol=1e-3)
    assert auroc(one["position"], data.truth.sel(space="position")) > 0.9
    row = box_models.score_methods(CASE, data, model, one, "position", channels=["unique_variance"])
    expected = auroc(one["position"], data.truth.sel(space="position"))
    assert row["channels"]["unique_variance"] == pytest.approx(expected, abs=1e-6)  # rows are rounded

"""Influence for the contrastive loss: its parts beside definitions written out, and beside retraining."""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch.func import hessian, jacrev

import ascribo as asc
from ascribo.explain import contrastive_examples
from ascribo.explain.example_contrastive import ContrastiveLoss, draw_comparisons
from ascribo.training.objective import contrastive_objectives

SPACES = {"position": asc.Follow(["x", "y"], dim=2), "rest": asc.Time(dim=1)}


@pytest.fixture(scope="module")
def fitted():
    data = asc.simulate.box(observed=2, hidden=2, steps=600)
    options = {"encoder": asc.MLP((6,)), "seeds": 2, "steps": 150, "random_state": 0, "penalty": 0.0}
    return asc.ContrastiveEmbedding(SPACES, progress=False, device="cpu", **options).fit(data), data


def _loss(fitted, references=40, negatives=30):
    model, data = fitted
    own = model.model_
    blocks = np.arange(600) // 100
    comparisons = draw_comparisons(data, SPACES, blocks, references=references, positives=3, negatives=negatives)
    X = torch.as_tensor(own.standardise(data.X))
    parameters = {name: value[1] for name, value in own.parameters.items()}
    loss = ContrastiveLoss(
        own.module, SPACES, contrastive_objectives(SPACES, "whole"), parameters, lambda t: X[t], comparisons
    )
    return loss, comparisons, model.transform(data, seed=1).astype(np.float64), blocks


def test_losses_are_expected_infonce_over_drawn_positives(fitted):
    loss, drawn, z, _ = _loss(fitted)
    wanted = np.zeros(len(drawn.references))
    for name, where in (("position", slice(0, 2)), ("rest", slice(0, 3))):  # a time space sees all dimensions
        psi = -((z[drawn.references][:, None, where] - z[drawn.negatives][None, :, where]) ** 2).sum(-1)
        near = -((z[drawn.references][:, None, where] - z[drawn.positives[name]][:, :, where]) ** 2).sum(-1)
        wanted += np.log(np.exp(psi).mean(1)) - near.mean(1)
    np.testing.assert_allclose(loss.losses(loss.theta).numpy(), wanted, rtol=1e-4, atol=1e-4)


def test_leaving_time_steps_out_of_the_loss(fitted):
    loss, drawn, z, blocks = _loss(fitted)
    kept = blocks != 2
    values = loss.losses(loss.theta, loss.kept(kept)).numpy()
    k = int(np.flatnonzero(kept[drawn.positives["position"]].any(1) & kept[drawn.positives["rest"]].any(1))[0])
    wanted = 0.0
    for name, where in (("position", slice(0, 2)), ("rest", slice(0, 3))):
        others = drawn.negatives[kept[drawn.negatives]]
        near = drawn.positives[name][k][kept[drawn.positives[name][k]]]
        here = z[drawn.references[k], where]
        wanted += np.log(np.exp(-((here - z[others][:, where]) ** 2).sum(-1)).mean())
        wanted += ((here - z[near][:, where]) ** 2).sum(-1).mean()
    assert values[k] == pytest.approx(wanted, rel=1e-4, abs=1e-4)
    everything = loss.losses(loss.theta, loss.kept(np.ones(600, bool)))
    torch.testing.assert_close(everything, loss.losses(loss.theta))


def test_curvature_is_that_of_the_logits(fitted):
    loss, _, _, _ = _loss(fitted, references=12, negatives=10)
    rows = torch.arange(len(loss.reference))
    wanted = torch.zeros(len(loss.theta), len(loss.theta), dtype=torch.float64)
    for objective in loss.objectives:
        jacobian = jacrev(lambda t, o=objective: loss.logits(loss.embed(t), o, rows))(loss.theta)
        logits = loss.logits(loss.embed(loss.theta), objective, rows)
        for J, values in zip(jacobian, logits, strict=True):
            wanted += J.mT @ hessian(lambda v: v.logsumexp(0))(values) @ J / len(rows)
    vectors = torch.randn(5, len(loss.theta), dtype=torch.float64)
    torch.testing.assert_close(loss.curvature(vectors), vectors @ wanted, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(loss.curvature_matrix(), wanted, rtol=1e-4, atol=1e-6)
    assert torch.linalg.eigvalsh(wanted)[0] > -1e-8


def test_a_block_matters_most_to_itself(fitted):
    model, data = fitted
    scores = contrastive_examples(model, data, blocks=np.arange(600) // 60, references=300, negatives=100)
    assert scores.shape == (10, 10)
    own = np.diag(scores)
    assert (own > 0).mean() > 0.8
    assert own.mean() > 3 * abs(scores.values[~np.eye(10, dtype=bool)].mean())


def test_conjugate_gradients_and_the_matrix_written_out_agree(fitted, monkeypatch):
    model, data = fitted
    options = {
        "blocks": np.arange(600) // 200,
        "references": 90,
        "negatives": 40,
        "damping": 0.05,
        "tolerance": 1e-8,
    }
    whole = contrastive_examples(model, data, **options)
    monkeypatch.setattr("ascribo.explain.example_contrastive.WRITTEN_OUT", 0)
    np.testing.assert_allclose(contrastive_examples(model, data, **options), whole, rtol=1e-4, atol=1e-8)


def test_influence_is_the_first_order_of_retraining(fitted):
    """A few steps of Newton's method on the loss without a block go where the influence says."""
    loss, drawn, _, blocks = _loss(fitted, references=60, negatives=40)
    weight = torch.ones(len(loss.reference), dtype=torch.float64)
    matrix = loss.curvature(torch.eye(len(loss.theta), dtype=torch.float64))
    matrix = (matrix + matrix.mT) / 2 + 0.05 * torch.eye(len(loss.theta))
    whole = loss.gradient(weight)
    predicted, happened = [], []
    before = loss.losses(loss.theta)
    for name in range(6):
        kept = blocks != name
        own = torch.from_numpy(kept[drawn.references].astype(float))
        without = loss.gradient(own, loss.kept(kept))
        theta = loss.theta - 0.05 * torch.linalg.solve(matrix, without - whole)
        asked = torch.from_numpy((blocks[drawn.references] == name).astype(float))
        happened.append(float(((loss.losses(theta) - before) * asked).sum() / asked.sum()))
        predicted.append(float(loss.gradient(asked) @ torch.linalg.solve(matrix, whole - without)))
    assert spearmanr(predicted, happened).statistic > 0.8


def test_errors(fitted):
    model, data = fitted
    blocks = np.arange(600) // 100
    for options, words in (
        ({"blocks": blocks[:10]}, "blocks has shape"),
        ({"blocks": blocks, "seed": 2}, "seeds 0 to 1"),
        ({"blocks": blocks, "test": blocks / 2}, "test has shape"),
        ({"blocks": np.full(600, -1)}, "at least one"),
    ):
        with pytest.raises(ValueError, match=words):
            contrastive_examples(model, data, **options)
    with pytest.raises(ValueError, match="for a module use examples"):
        contrastive_examples(torch.nn.Linear(3, 2), data, blocks=blocks)

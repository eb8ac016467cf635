"""Label-free feature importance: its definition, completeness, invariance, batches, and what is refused."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import ascribo as asc
from ascribo.explain import completeness_residual, features

EXACT = ["integrated_gradients", "gradient_shap", "saliency", "deeplift", "feature_ablation"]


def _mlp(inputs=6, dim=3, activation=nn.GELU):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(inputs, 16), activation(), nn.Linear(16, 16), activation(), nn.Linear(16, dim))


def _convolution():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, 2, 1), nn.ReLU(), nn.Conv2d(4, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(),
        nn.Linear(32, 5),
    )  # fmt: skip


class _Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.lstm = nn.LSTM(1, 8, batch_first=True)

    def forward(self, x):
        return self.lstm(x[..., None])[0][:, -1]


CASES = {"mlp": (_mlp, (6,)), "convolution": (_convolution, (1, 8, 8)), "lstm": (_Recurrent, (12,))}


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("case", CASES)
def test_a_batch_gives_what_one_example_at_a_time_gives(case, method):
    build, shape = CASES[case]
    if (case, method) == ("lstm", "deeplift"):
        pytest.skip("an LSTM multiplies activations: see test_deeplift_refuses_what_it_cannot_see")
    encoder, x = build(), torch.randn(7, *shape)
    batch = features(encoder, x, method=method)
    single = torch.cat([features(encoder, one[None], method=method) for one in x])
    assert batch.shape == x.shape
    torch.testing.assert_close(batch, single, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(batch, features(encoder, x, method=method, batch_size=3), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("method", ["integrated_gradients", "gradient_shap"])
def test_completeness(case, method):
    build, shape = CASES[case]
    encoder, x, base = build(), torch.randn(16, *shape), torch.full(shape, 0.2)
    scores = features(encoder, x, method=method, baseline=base, **({"samples": 400} if "shap" in method else {}))
    residual = completeness_residual(encoder, x, scores, baseline=base)
    assert residual.max() < 0.01
    # a broken answer is far off: scores without the factor x - x̄, or against another example's anchors
    assert np.median(completeness_residual(encoder, x, scores.roll(1, 0), baseline=base)) > 0.1


def test_examples_that_need_more_points_get_them():
    """Along the way of these inputs the gradient jumps: four points are not enough for some of them."""
    torch.manual_seed(0)
    encoder, x = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)), 3 * torch.randn(200, 2)
    plain, refined = (features(encoder, x, tolerance=t, points=4) for t in (None, 0.01))
    assert completeness_residual(encoder, x, plain).max() > 0.05
    assert completeness_residual(encoder, x, refined).max() <= 0.0101
    enough = completeness_residual(encoder, x, plain) < 0.0099
    assert torch.equal(plain[enough], refined[enough]) and 20 < enough.sum() < 180
    torch.testing.assert_close(torch.cat([features(encoder, one[None], points=4) for one in x]), refined)
    with pytest.raises(ValueError, match="expected a share above 0"):
        features(encoder, x, tolerance=0)


def test_deeplift_is_complete_and_that_of_captum_for_relu():
    from captum.attr import DeepLift

    encoder, x, base = _convolution(), torch.randn(6, 1, 8, 8), torch.rand(1, 8, 8)
    scores = features(encoder, x, method="deeplift", baseline=base)
    assert completeness_residual(encoder, x, scores, baseline=base).max() < 1e-4
    torch.testing.assert_close(scores, features(encoder, x, method=DeepLift, baseline=base), rtol=1e-3, atol=1e-4)


def test_deeplift_takes_layers_in_place_and_leaves_them_so():
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True), nn.Linear(8, 3))
    x = torch.randn(5, 6)
    assert completeness_residual(encoder, x, features(encoder, x, method="deeplift")).max() < 1e-4
    assert encoder[1].inplace and not encoder[1]._forward_hooks


def test_deeplift_refuses_what_it_cannot_see():
    with pytest.raises(ValueError, match="product as in an LSTM"):
        features(_Recurrent(), 3 * torch.randn(4, 12), method="deeplift")
    with pytest.raises(ValueError, match="needs the layers"):
        features(lambda x: torch.relu(x), torch.randn(4, 3), method="deeplift")


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), method=st.sampled_from(EXACT), dim=st.integers(1, 5))
def test_rotating_the_representation_changes_nothing(seed, method, dim):
    encoder = _mlp(4, dim)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3, 4, generator=generator)
    turn = torch.linalg.qr(torch.randn(dim, dim, generator=generator))[0]
    turned = nn.Sequential(encoder, nn.Linear(dim, dim, bias=False))
    turned[1].weight.data = turn
    plain = features(encoder, x, method=method)
    torch.testing.assert_close(features(turned, x, method=method), plain, rtol=1e-3, atol=1e-4)
    if dim > 1:  # single units are not what they were
        assert not torch.allclose(features(turned, x, unit=0), features(encoder, x, unit=0), atol=1e-4)


@pytest.mark.parametrize("method", EXACT)
def test_definition_as_a_sum_over_units(method):
    encoder, x = _mlp(), torch.randn(5, 6)
    by_unit = features(encoder, x, method=method, unit="all")
    assert by_unit.shape == (5, 3, 6)
    weighted = (encoder(x).detach()[..., None] * by_unit).sum(1)
    torch.testing.assert_close(features(encoder, x, method=method), weighted, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(features(encoder, x, method=method, unit=1), by_unit[:, 1])


def test_saliency_and_ablation_by_hand():
    encoder, x = _mlp(), torch.randn(2, 6)
    z = encoder(x).detach()
    for b in range(2):
        jacobian = torch.autograd.functional.jacobian(encoder, x[b : b + 1])[0, :, 0]
        torch.testing.assert_close(features(encoder, x, method="saliency")[b], z[b] @ jacobian)
    without = x.clone()
    without[:, [1, 4]] = 0.5
    groups = np.array([0, 1, 0, 0, 1, 2])
    scores = features(encoder, x, method="feature_ablation", baseline=0.5, groups=groups)
    lost = (z * (z - encoder(without).detach())).sum(1)
    torch.testing.assert_close(scores[:, [1, 4]], lost[:, None].expand(2, 2))


def test_class_weighted_form():
    classifier, x = _mlp(), torch.randn(4, 6)
    probabilities = classifier(x).softmax(-1).detach()
    wanted = (probabilities[..., None] * features(classifier, x, unit="all")).sum(1)
    torch.testing.assert_close(features(classifier, x, weights=nn.Softmax(-1)), wanted, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(
        features(classifier, x, weights=probabilities, batch_size=3), wanted, rtol=1e-4, atol=1e-6
    )


def test_other_inner_products():
    encoder, x = _mlp(), torch.randn(4, 6)
    root = torch.randn(3, 3)
    matrix = root @ root.mT + torch.eye(3)
    factor = torch.linalg.cholesky(matrix)  # ⟨a, b⟩ = aᵀLLᵀb: the plain product of Lᵀf
    scores = features(encoder, x, inner_product=matrix)
    torch.testing.assert_close(scores, features(lambda v: encoder(v) @ factor, x), rtol=1e-4, atol=1e-4)
    assert completeness_residual(encoder, x, scores, inner_product=matrix).max() < 1e-4
    for wrong in (-torch.eye(3), torch.triu(torch.ones(3, 3))):
        with pytest.raises(ValueError, match="symmetric and positive definite"):
            features(encoder, x, inner_product=wrong)


def test_captum_classes_keep_anchors_with_their_examples():
    from captum.attr import FeatureAblation, GradientShap, IntegratedGradients, ShapleyValueSampling

    encoder, x = _mlp(), torch.randn(8, 6)
    for theirs, ours in ((IntegratedGradients, "integrated_gradients"), (FeatureAblation, "feature_ablation")):
        torch.testing.assert_close(
            features(encoder, x, method=theirs), features(encoder, x, method=ours), rtol=1e-3, atol=1e-4
        )
    for shap in (GradientShap, ShapleyValueSampling):  # both repeat the batch, each in its own way
        torch.manual_seed(0)
        scores = features(encoder, x, method=shap, n_samples=500)
        assert completeness_residual(encoder, x, scores).max() < 0.05
    with pytest.raises(TypeError, match="no option 'steps'"):
        features(encoder, x, method=IntegratedGradients, steps=3)


def test_evaluation_mode_is_used_and_taken_back():
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    encoder(torch.randn(32, 6))
    encoder[1].eval()
    before = [m.training for m in encoder.modules()]
    statistics = encoder[1].running_mean.clone()
    x = torch.randn(5, 6)
    assert torch.equal(features(encoder, x), features(encoder, x))
    assert [m.training for m in encoder.modules()] == before
    assert torch.equal(statistics, encoder[1].running_mean)
    assert all(p.grad is None for p in encoder.parameters())


class _TwoInputs(nn.Module):
    def forward(self, x, y):
        return x + y


@pytest.mark.parametrize(
    ("encoder", "x", "words"),
    [
        (
            nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, track_running_stats=False)),
            torch.randn(5, 3),
            "statistics",
        ),
        (lambda x: nn.functional.dropout(x, 0.5), torch.randn(5, 30), "random numbers"),
        (_TwoInputs(), torch.randn(5, 3), "needs 2 inputs"),
        (nn.Linear(3, 2), (torch.randn(5, 3), torch.randn(5, 3)), "of 2 arrays"),
        (lambda x: x.detach() * 2, torch.randn(5, 3), "no gradient"),
        (lambda x: x / 0, torch.randn(5, 3), "not finite"),
        (nn.LSTM(3, 2), torch.randn(5, 4, 3), "returned a tuple"),
        (lambda x: x.sum(0, keepdim=True), torch.randn(5, 3), "one representation for"),
        (nn.Linear(3, 2), torch.randint(0, 255, (5, 3)), "divided by 255"),
        (nn.Linear(3, 2), torch.full((5, 3), torch.nan), "first in example 0"),
    ],
)
def test_clear_errors(encoder, x, words):
    with pytest.raises(ValueError, match=words):
        features(encoder, x)


def test_errors_of_options():
    encoder, x = _mlp(), torch.randn(5, 6)
    for options, words in (
        ({"method": "integrated_gradient"}, "did you mean 'integrated_gradients'"),
        ({"baseline": torch.zeros(4)}, "baseline has shape"),
        ({"unit": 3}, "from 0 to 2"),
        ({"unit": 0, "weights": torch.ones(3)}, "one of weights, unit"),
        ({"weights": torch.ones(4)}, "weights have shape"),
        ({"space": "a"}, "for a fitted ContrastiveEmbedding"),
        ({"points": 0}, "at least 1"),
        ({"method": "feature_ablation", "groups": np.zeros(5, int)}, "groups has 5 entries"),
    ):
        with pytest.raises(ValueError, match=words):
            features(encoder, x, **options)
    with pytest.raises(TypeError, match="no option 'samples'"):
        features(encoder, x, samples=5)


def test_feature_ablation_needs_no_gradient():
    scores = features(lambda x: x.detach() ** 2, np.eye(3, dtype=np.float32), method="feature_ablation")
    assert isinstance(scores, np.ndarray)
    np.testing.assert_allclose(scores, np.eye(3))


def test_baselines_of_each_example():
    encoder, x = _mlp(), torch.randn(5, 6)
    half = features(encoder, x, baseline=lambda v: v / 2, batch_size=2)
    torch.testing.assert_close(half, features(encoder, x, baseline=x / 2))
    assert features(encoder, x, baseline=x).abs().max() == 0


@pytest.fixture(scope="module", params=["mlp", "window"])
def fitted(request):
    data = asc.simulate.box(observed=2, hidden=2, steps=1500)
    spaces = {"position": asc.Follow(["x", "y"], dim=2), "rest": asc.Time(dim=2)}
    encoder = asc.MLP((16, 16)) if request.param == "mlp" else asc.Convolution(window=4, widths=(8, 8))
    options = {"seeds": 2, "steps": 30, "random_state": 0, "penalty": 0.0, "progress": False, "device": "cpu"}
    return asc.ContrastiveEmbedding(spaces, encoder=encoder, **options).fit(data), data


@pytest.mark.parametrize("seed", [None, 1])
def test_time_steps_of_a_recording(fitted, seed):
    model, data = fitted
    index = np.array([5, 700, 1499])
    scores = features(model, data, index=index, seed=seed)
    window = model.model_.embedder.window
    assert scores.dims == (("time", "channel") if window == 1 else ("time", "channel", "lag"))
    assert list(scores.channel.values) == data.channel_names
    assert scores.time.values.tolist() == data.time[index].tolist()
    # complete: the squared distance of the embedding from its mean, less what the mean input keeps of it
    reference = model.model_.alignment.reference if seed is None else seed
    origin = model.model_.alignment.mean[reference].numpy()
    z = model.transform(data, seed=seed)[index] - origin
    means = np.tile(data.X.mean(0), (window + 1, 1))
    z_base = model.transform(means, seed=seed)[window // 2] - origin
    total = scores.sum([d for d in scores.dims if d != "time"])
    np.testing.assert_allclose(total, (z * (z - z_base)).sum(1), rtol=0.02, atol=1e-3 * (z**2).sum(1).max())


def test_spaces_add_up_and_lags_are_in_steps(fitted):
    model, data = fitted
    index = np.arange(0, 1500, 300)
    parts = [features(model, data, index=index, space=name, points=10) for name in ("position", "rest")]
    whole = features(model, data, index=index, points=10)
    np.testing.assert_allclose(whole, parts[0] + parts[1], rtol=1e-3, atol=1e-5)
    if "lag" in whole.dims:
        assert whole.lag.values.tolist() == [-2, -1, 0, 1]
    with pytest.raises(ValueError, match="did you mean 'position'"):
        features(model, data, space="positoin")


def test_deeplift_of_a_fitted_model_is_complete(fitted):
    model, data = fitted
    scores = features(model, data, index=np.arange(4), method="deeplift")
    near = features(model, data, index=np.arange(4), points=200)
    dims = [d for d in scores.dims if d != "time"]
    np.testing.assert_allclose(scores.sum(dims), near.sum(dims), rtol=1e-2, atol=1e-3)

"""Label-free example importance: each method beside its definition, and what is refused."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd.functional import hessian
from torch.func import functional_call

import ascribo as asc
from ascribo.explain import examples
from ascribo.explain.example_influence import lissa
from ascribo.explain.lstm import unrolled


def _problem(seed=0):
    torch.manual_seed(seed)
    encoder = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    decoder = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 5)).double()
    train, test = torch.randn(20, 5).double(), torch.randn(7, 5).double()
    adam = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 1e-2)
    for _ in range(300):
        adam.zero_grad()
        (decoder(encoder(train)) - train).square().mean().backward()
        adam.step()
    return encoder, decoder, (lambda z, x: (decoder(z) - x).square().mean(1)), train, test


def _flat_loss(encoder, loss, x):
    """The mean loss of a batch as a function of the flat parameters of the encoder, written out by hand."""
    shapes = {name: p.shape for name, p in encoder.named_parameters()}

    def value(theta):
        parts = theta.split([s.numel() for s in shapes.values()])
        named = {n: p.view(s) for (n, s), p in zip(shapes.items(), parts, strict=True)}
        return loss(functional_call(encoder, named, (x,)), x).mean()

    return value, torch.cat([p.detach().flatten() for p in encoder.parameters()])


def _gradients(encoder, loss, x):
    rows = []
    for one in x:
        encoder.zero_grad()
        loss(encoder(one[None]), one[None]).sum().backward()
        rows.append(torch.cat([p.grad.flatten() for p in encoder.parameters()]))
    encoder.zero_grad(set_to_none=True)
    return torch.stack(rows)


def test_tracin_is_the_sum_over_checkpoints_of_products_of_gradients():
    encoder, _, loss, train, test = _problem()
    other, _, other_loss, _, _ = _problem(1)
    checkpoints = [(0.1, other, other_loss), (0.02, encoder, loss)]
    scores = examples(encoder, train, test, method="tracin", loss=loss, checkpoints=checkpoints, batch_size=3)
    wanted = sum(r * _gradients(e, own, test) @ _gradients(e, own, train).mT for r, e, own in checkpoints)
    np.testing.assert_allclose(scores, wanted, rtol=1e-5, atol=1e-8)
    assert scores.dims == ("test", "train") and scores.attrs["method"] == "tracin"
    assert all(p.grad is None for p in encoder.parameters())


def test_only_parameters_of_the_encoder_count():
    encoder, decoder, _, train, test = _problem()

    class Rest(nn.Module):
        def __init__(self):
            super().__init__()
            self.decoder = decoder

        def forward(self, z, x):
            return (self.decoder(z) - x).square().mean(1)

    plain = examples(encoder, train, test, method="tracin", loss=lambda z, x: (decoder(z) - x).square().mean(1))
    np.testing.assert_allclose(examples(encoder, train, test, method="tracin", loss=Rest()), plain, rtol=1e-6)
    assert all(p.requires_grad for p in decoder.parameters())
    # what decoder and encoder share of the parameter space is nothing: a frozen layer of the encoder drops out, too
    encoder[0].requires_grad_(False)
    less = examples(encoder, train, test, method="tracin", loss=Rest())
    assert not np.allclose(less, plain)
    encoder[0].requires_grad_(True)


@pytest.mark.parametrize("solver", ["dense", "conjugate_gradients", "lissa"])
def test_influence_with_the_explicit_hessian(solver):
    encoder, _, loss, train, test = _problem()
    value, theta = _flat_loss(encoder, loss, train)
    matrix = hessian(value, theta)
    damping = (0.5 if solver == "lissa" else 0.02) + float(-torch.linalg.eigvalsh(matrix)[0].clamp_max(0))
    inverse = torch.linalg.inv(matrix + damping * torch.eye(len(theta)))
    wanted = _gradients(encoder, loss, test) @ inverse @ _gradients(encoder, loss, train).mT / len(train)
    options = {"loss": loss, "curvature": "hessian", "solver": solver, "damping": damping}
    options |= {"recursions": 200} if solver == "lissa" else {}
    scores = examples(encoder, train, test, method="influence", batch_size=20, **options)
    np.testing.assert_allclose(scores, wanted, rtol=1e-4, atol=1e-5 * float(wanted.abs().max()))


def test_lissa_of_a_few_examples_at_a_time_comes_near():
    encoder, _, loss, train, test = _problem()
    options = {"loss": loss, "curvature": "hessian", "damping": 0.5, "method": "influence"}
    whole = examples(encoder, train, test, solver="dense", **options)
    some = examples(encoder, train, test, solver="lissa", samples=10, recursions=100, **options)
    assert np.corrcoef(whole.values.ravel(), some.values.ravel())[0, 1] > 0.95


def test_gauss_newton_influence_is_that_of_the_matrix_written_out():
    encoder, _, loss, train, test = _problem()
    shapes = {name: p.shape for name, p in encoder.named_parameters()}
    theta = torch.cat([p.detach().flatten() for p in encoder.parameters()])

    def represent(flat, x):
        parts = flat.split([s.numel() for s in shapes.values()])
        named = {n: p.view(s) for (n, s), p in zip(shapes.items(), parts, strict=True)}
        return functional_call(encoder, named, (x[None],))[0]

    matrix = torch.zeros(len(theta), len(theta), dtype=torch.float64)
    for x in train:
        jacobian = torch.autograd.functional.jacobian(lambda t, x=x: represent(t, x), theta)
        block = hessian(lambda z, x=x: loss(z[None], x[None])[0], represent(theta, x).detach())
        values, axes = torch.linalg.eigh(block)
        matrix += jacobian.mT @ (axes * values.clamp_min(0)) @ axes.mT @ jacobian / len(train)
    scores = examples(encoder, train, test, method="influence", loss=loss, batch_size=6)
    damping = scores.attrs["damping"]
    assert damping == pytest.approx(0.1 * float(matrix.trace()) / len(theta))
    inverse = torch.linalg.inv(matrix + damping * torch.eye(len(theta)))
    wanted = _gradients(encoder, loss, test) @ inverse @ _gradients(encoder, loss, train).mT / len(train)
    np.testing.assert_allclose(scores, wanted, rtol=1e-5, atol=1e-6 * float(wanted.abs().max()))


def test_influence_tells_what_retraining_without_an_example_does():
    torch.manual_seed(0)
    train, test = torch.randn(12, 3).double(), torch.randn(6, 3).double()
    target = torch.randn(3, 2).double()
    encoder = nn.Linear(3, 2, bias=False).double()
    noisy = {id(train): train @ target + 0.5 * torch.randn(12, 2).double(), id(test): test @ target}
    goals = torch.cat([train, noisy[id(train)]], 1), torch.cat([test, noisy[id(test)]], 1)
    loss = lambda z, x: (z - x[:, 3:]).square().sum(1)  # noqa: E731
    module = nn.Sequential(_First(3), encoder)

    def fit(rows):
        return torch.linalg.lstsq(goals[0][rows, :3], goals[0][rows, 3:]).solution.mT

    encoder.weight.data = fit(torch.arange(12))
    options = {"loss": loss, "damping": 1e-9}
    scores = examples(module, goals[0], goals[1], method="influence", **options)
    before = loss(module(goals[1]), goals[1]).detach()
    changes = []
    for n in range(12):
        encoder.weight.data = fit(torch.tensor([k for k in range(12) if k != n]))
        changes.append(loss(module(goals[1]), goals[1]).detach() - before)
    assert np.corrcoef(scores.values.ravel(), torch.stack(changes, 1).numpy().ravel())[0, 1] > 0.9


class _First(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, x):
        return x[:, : self.count]


def test_views_are_averaged_as_the_loss_says():
    encoder, decoder, _, train, test = _problem()
    noise = 0.3 * torch.randn(3, 5).double()
    views = lambda x: x[:, None] + noise  # noqa: E731
    loss = lambda z, x: (decoder(z) - x[:, None]).square().mean((1, 2))  # noqa: E731
    scores = examples(encoder, train, test, method="tracin", loss=loss, views=views)

    def by_hand(x):
        rows = []
        for one in x:
            encoder.zero_grad()
            (decoder(encoder(one + noise)) - one).square().mean().backward()
            rows.append(torch.cat([p.grad.flatten() for p in encoder.parameters()]))
        encoder.zero_grad(set_to_none=True)
        return torch.stack(rows)

    np.testing.assert_allclose(scores, by_hand(test) @ by_hand(train).mT, rtol=1e-5, atol=1e-8)
    exact = examples(encoder, train, test, method="influence", loss=loss, views=views)
    assert np.isfinite(exact).all()


def test_lissa_without_enough_scale_says_so():
    double = lambda v: 5 * v  # noqa: E731
    vectors = torch.randn(2, 3)
    torch.testing.assert_close(lissa(lambda k: double, vectors, scale=6.0), vectors / 5)
    with pytest.raises(ValueError, match="Raise scale"):
        lissa(lambda k: double, vectors, scale=1.0)


def test_a_hessian_that_is_not_positive_is_found_out():
    encoder = nn.Linear(3, 1, bias=False).double()
    x = torch.randn(6, 3).double()
    options = {"loss": lambda z, x: -z[:, 0].square(), "curvature": "hessian", "damping": 1e-6}
    with pytest.raises(ValueError, match="not positive"):
        examples(encoder, x, x, method="influence", **options)


@pytest.mark.parametrize("kernel", ["inverse_distance", "rbf", "matern", "polynomial"])
def test_rotations_leave_kernels_and_simplex_and_change_losses(kernel):
    encoder, _, loss, train, test = _problem()
    turned = nn.Sequential(copy.deepcopy(encoder), nn.Linear(2, 2, bias=False).double())
    turned[1].weight.data = torch.linalg.qr(torch.randn(2, 2).double())[0]
    for options in ({"kernel": kernel}, {"method": "simplex"}):
        plain = examples(encoder, train, test, **options)
        np.testing.assert_allclose(examples(turned, train, test, **options), plain, rtol=1e-4, atol=1e-6)
    turned[1].requires_grad_(False)
    before = examples(encoder, train, test, method="tracin", loss=loss)
    assert not np.allclose(examples(turned, train, test, method="tracin", loss=loss), before, rtol=0.1)
    undone = lambda z, x: loss(z @ turned[1].weight, x)  # the decoder turns it back  # noqa: E731
    np.testing.assert_allclose(examples(turned, train, test, method="tracin", loss=undone), before, rtol=1e-5)


def test_kernels_by_hand():
    encoder, train, test = nn.Identity(), torch.randn(9, 2).double(), torch.randn(4, 2).double()
    distance = torch.cdist(test, train).numpy()
    np.testing.assert_allclose(examples(encoder, train, test), 1 / distance, rtol=1e-5)
    some = examples(encoder, train, test, kernel="rbf", length_scale=2.0, neighbours=3)
    assert ((some > 0).sum("train") == 3).all()
    np.testing.assert_allclose(some.max("train"), np.exp(-(distance.min(1) ** 2) / 8), rtol=1e-5)
    half = examples(encoder, train, test, kernel="matern", nu=0.5, length_scale=2.0)
    np.testing.assert_allclose(half, np.exp(-distance / 2), rtol=1e-5)
    polynomial = examples(encoder, train, test, kernel="polynomial", degree=3, offset=0.5)
    np.testing.assert_allclose(polynomial, (test @ train.mT + 0.5).numpy() ** 3, rtol=1e-4, atol=1e-6)
    assert np.isfinite(examples(encoder, train, train)).all()
    for wrong, words in (({"kernel": "rfb"}, "did you mean 'rbf'"), ({"neighbours": 10}, "from 1 to 9")):
        with pytest.raises(ValueError, match=words):
            examples(encoder, train, test, **wrong)


def test_scores_can_be_kept_in_a_file(tmp_path):
    torch.manual_seed(0)
    encoder, train, test = nn.Linear(4, 2), torch.randn(30, 4), torch.randn(11, 4)
    kept = examples(encoder, train, test, out=tmp_path / "scores.npy", batch_size=4)
    assert isinstance(kept.values, np.memmap) or isinstance(kept.values.base, np.memmap)
    on_disk = np.load(tmp_path / "scores.npy")
    np.testing.assert_array_equal(on_disk, examples(encoder, train, test, batch_size=4).values)
    # products of other sizes may be summed in another order
    np.testing.assert_allclose(on_disk, examples(encoder, train, test).values, rtol=1e-4)


class _Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, 3, num_layers=2, batch_first=True)

    def forward(self, x):
        return self.lstm(x[..., None])[0][:, -1]


def test_an_lstm_written_out_is_the_same():
    torch.manual_seed(0)
    lstm, x = nn.LSTM(2, 3, num_layers=2), torch.randn(6, 4, 2)
    for mine, theirs in zip(*((a, b, c) for a, (b, c) in (unrolled(lstm)(x), lstm(x))), strict=True):
        torch.testing.assert_close(mine, theirs)
    single = torch.randn(6, 2)
    torch.testing.assert_close(unrolled(lstm)(single)[0], lstm(single)[0])


def test_gradients_of_a_recurrent_encoder():
    torch.manual_seed(0)
    encoder, train, test = _Recurrent().double(), torch.randn(5, 8).double(), torch.randn(3, 8).double()
    loss = lambda z, x: (z.sum(1) - x[:, -1]).square()  # noqa: E731
    scores = examples(encoder, train, test, method="tracin", loss=loss)
    wanted = _gradients(encoder, loss, test) @ _gradients(encoder, loss, train).mT
    np.testing.assert_allclose(scores, wanted, rtol=1e-5, atol=1e-8)
    assert np.isfinite(examples(encoder, train, test, method="influence", loss=loss)).all()


def test_evaluation_mode_always():
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 2))
    decoder = nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.5))
    encoder(torch.randn(30, 4))
    train, test = torch.randn(8, 4), torch.randn(3, 4)

    class Rest(nn.Module):
        def __init__(self):
            super().__init__()
            self.decoder = decoder

        def forward(self, z, x):
            return (self.decoder(z) - x).square().mean(1)

    for options in ({}, {"method": "simplex"}, {"method": "tracin", "loss": Rest()}):
        first, again = (examples(encoder, train, test, **options) for _ in range(2))
        np.testing.assert_array_equal(first, again)
    assert encoder.training and encoder[1].training and decoder.training
    with pytest.raises(ValueError, match="draws random numbers"):
        examples(encoder, train, test, method="tracin", loss=lambda z, x: (decoder(z) - x).square().mean(1))


def test_errors():
    encoder, train = nn.Linear(3, 2), torch.randn(5, 3)
    for options, words in (
        ({"method": "simplx"}, "did you mean 'simplex'"),
        ({"method": "tracin"}, "pass loss="),
        ({"method": "tracin", "loss": lambda z, x: z.mean()}, "one number for each"),
        ({"method": "influence", "loss": lambda z, x: z.sum(1), "curvature": "fisher"}, "expected 'gauss_newton'"),
        ({"seed": 1}, "for a fitted ContrastiveEmbedding"),
    ):
        with pytest.raises(ValueError, match=words):
            examples(encoder, train, train, **options)
    with pytest.raises(TypeError, match="no option 'kernels'"):
        examples(encoder, train, train, kernels="rbf")
    with pytest.raises(ValueError, match="examples of shape"):
        examples(encoder, train, torch.randn(5, 4))
    with pytest.raises(ValueError, match="for an nn"):
        examples(lambda x: x, train, train, method="tracin", loss=lambda z, x: z.sum(1))


class _TwoInputs(nn.Linear):
    def forward(self, x, y):
        return super().forward(x) + y


class _Random(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x, 0.5)


class _Detached(nn.Linear):
    def forward(self, x):
        return super().forward(x).detach()


@pytest.mark.parametrize("method", ["nearest_neighbours", "simplex", "tracin", "influence"])
@pytest.mark.parametrize(
    ("encoder", "words"),
    [
        (nn.Sequential(nn.Linear(30, 4), nn.BatchNorm1d(4, track_running_stats=False)), "statistics"),
        (nn.Sequential(nn.Linear(30, 30), _Random()), "random numbers"),
        (_TwoInputs(30, 2), "needs 2 inputs"),
        (nn.Sequential(nn.Linear(30, 2), nn.Softplus(), nn.Hardtanh(0, torch.inf), nn.Threshold(1e9, torch.nan)),
         "not finite"),
        (_Detached(30, 2), "no gradient"),
    ],
)  # fmt: skip
def test_encoders_that_cannot_be_explained_are_refused_by_every_method(encoder, words, method):
    torch.manual_seed(0)
    train, test = torch.randn(6, 30), torch.randn(3, 30)
    by_loss = {"loss": lambda z, x: z.square().sum(1)} if method in ("tracin", "influence") else {}
    if words == "no gradient" and not by_loss:  # by representations: none is needed
        assert np.isfinite(examples(encoder, train, test, method=method)).all()
        return
    with pytest.raises(ValueError, match=words):
        examples(encoder, train, test, method=method, **by_loss)


def test_time_steps_of_recordings():
    data = asc.simulate.box(observed=2, hidden=2, steps=600)
    spaces = {"position": asc.Follow(["x", "y"], dim=2), "rest": asc.Time(dim=2)}
    options = {"encoder": asc.MLP((8, 8)), "seeds": 2, "steps": 20, "random_state": 0, "penalty": 0.0}
    model = asc.ContrastiveEmbedding(spaces, progress=False, device="cpu", **options).fit(data)
    scores = examples(model, data[:500], data[500:], space="position")
    assert scores.shape == (100, 500)
    assert scores.test_time.values.tolist() == data.time[500:].tolist()
    z = model.transform(data)[:, :2]
    nearest = np.linalg.norm(z[500:, None] - z[None, :500], axis=2).argmin(1)
    assert (scores.argmax("train").values == nearest).mean() > 0.98

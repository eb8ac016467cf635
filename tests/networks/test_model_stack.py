"""A stack of encoders as one function: against the modules themselves, and tangents against autograd."""

import numpy as np
import pytest
import torch

from ascribo import MLP, Convolution, Follow, Time
from ascribo.data.segments import segment_bounds
from ascribo.networks.dense import as_dense
from ascribo.networks.model_stack import LOG_TEMPERATURE, Embedder
from ascribo.training.jacobian_penalty import jacobian_penalty

SPACES = {"a": Time(2), "b": Time(1)}


def stack(encoder, spaces=SPACES, seeds=(3, 4)):
    module = encoder.build(5, 3)
    embedder = Embedder(module, spaces)
    parameters = {k: v.double() for k, v in embedder.initial(module, seeds).items()}
    return module.double(), embedder, parameters


@pytest.mark.parametrize(
    "encoder", [MLP((7, 6)), MLP((7,), limit="tanh", scale=1.0), MLP((7,), limit="none"), Convolution(4, (6, 7))]
)
def test_equals_the_modules_one_by_one(encoder):
    module, embedder, parameters = stack(encoder)
    x = torch.randn(2, 9, 5, *([4] if embedder.window > 1 else []), dtype=torch.float64)
    z = embedder(parameters, x)
    for seed in range(2):
        module.load_state_dict({k: v[seed] for k, v in parameters.items()})
        torch.testing.assert_close(z[seed], module(x[seed]))


@pytest.mark.parametrize("scale", [0.05, 5.0])  # 0.05: many outputs at their limit
@pytest.mark.parametrize("limit", ["hard", "tanh", "none"])
@pytest.mark.parametrize("similarity", ["squared_l2", "dot"])
def test_tangents_equal_the_jacobian_times_the_direction(limit, scale, similarity):
    spaces = {"a": Time(2, similarity=similarity), "b": Time(1)}
    _, embedder, parameters = stack(MLP((7, 6), limit=limit, scale=scale), spaces)
    x = torch.randn(2, 9, 5, dtype=torch.float64)
    u = torch.randn(2, 4, 5, dtype=torch.float64)
    z, t = embedder.with_tangents(parameters, x, u)
    torch.testing.assert_close(z, embedder(parameters, x))
    _, expected = torch.autograd.functional.jvp(lambda v: embedder(parameters, v), x[:, :4], u)
    torch.testing.assert_close(t, expected)


def test_gradients_of_values_and_tangents_equal_finite_differences():
    _, embedder, parameters = stack(MLP((4, 3), limit="tanh", scale=2.0))
    names = list(parameters)
    x, u = torch.randn(2, 5, 5, dtype=torch.float64), torch.randn(2, 3, 5, dtype=torch.float64)

    def value(*tensors):
        z, t = embedder.with_tangents(dict(zip(names, tensors, strict=True)), x, u)
        return z.sin().sum() + t.square().sum()

    assert torch.autograd.gradcheck(value, [parameters[n].requires_grad_() for n in names], atol=1e-6)


def exact_penalty(embedder, names, x):
    """The exact penalty as a function of the parameters: it differentiates the network twice."""

    def value(*tensors):
        inputs = x.detach().requires_grad_()
        return jacobian_penalty(embedder(dict(zip(names, tensors, strict=True)), inputs), inputs).sum()

    return value


def test_the_exact_penalty_has_the_gradient_of_finite_differences():
    _, embedder, parameters = stack(MLP((4, 3), limit="tanh", scale=2.0))
    value = exact_penalty(embedder, list(parameters), torch.randn(2, 5, 5, dtype=torch.float64))
    assert torch.autograd.gradcheck(value, [p.requires_grad_() for p in parameters.values()], atol=1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_exact_penalty_has_the_same_gradient_on_a_gpu():
    _, embedder, parameters = stack(MLP((40, 30)))
    x, got = torch.randn(2, 50, 5, dtype=torch.float64), {}
    for device, dtype in (("cpu", torch.float64), ("cuda", torch.float32)):
        tensors = [p.detach().to(device, dtype).requires_grad_() for p in parameters.values()]
        value = exact_penalty(embedder, list(parameters), x.to(device, dtype))(*tensors)
        got[device] = torch.autograd.grad(value, tensors, materialize_grads=True)
    for cpu, gpu in zip(got["cpu"], got["cuda"], strict=True):
        torch.testing.assert_close(gpu.double().cpu(), cpu, rtol=1e-2, atol=1e-2 * cpu.abs().max().item() + 1e-9)


def test_a_convolution_has_tangents_too():
    _, embedder, parameters = stack(Convolution(4, (6, 7)))
    x, u = torch.randn(2, 5, 5, 4, dtype=torch.float64), torch.randn(2, 3, 5, 4, dtype=torch.float64)
    z, t = embedder.with_tangents(parameters, x, u)
    _, expected = torch.autograd.functional.jvp(lambda v: embedder(parameters, v), x[:, :3], u)
    torch.testing.assert_close(t, expected)
    assert z.shape == (2, 5, 3)


def test_only_plain_mlps_take_the_short_way():
    short = as_dense(MLP((4,)).build(3, 2))
    assert short is not None and short.layers == ("0", "2")
    assert as_dense(Convolution(3, (4, 4)).build(3, 2)) is None
    assert as_dense(torch.nn.Sequential(torch.nn.Linear(3, 2))) is None


def test_seeds_start_differently_and_reproducibly():
    module = MLP((4,)).build(5, 3)
    embedder = Embedder(module, SPACES)
    a, b = embedder.initial(module, [1, 2]), embedder.initial(module, [2, 1])
    for name in a:
        torch.testing.assert_close(a[name][0], b[name][1])
        assert not torch.equal(a[name][0], a[name][1])


def test_temperature_divides_the_similarity():
    spaces = {"a": Time(2, temperature=4.0), "b": Follow("x", 1, temperature="learn")}
    _, embedder, parameters = stack(MLP((4,)), spaces)
    parameters[LOG_TEMPERATURE] = torch.log(torch.tensor([[9.0], [0.25]], dtype=torch.float64))
    z = torch.ones(2, 1, 3, dtype=torch.float64)
    got = embedder.tempered(parameters, z).square()
    torch.testing.assert_close(
        got[:, 0], torch.tensor([[0.25, 0.25, 1 / 9], [0.25, 0.25, 4.0]], dtype=torch.float64)
    )


@pytest.mark.parametrize("window", [1, 2, 5])
def test_windows_are_centred_and_stay_in_their_segment(window):
    embedder = Embedder(Convolution(window, (4, 4)).build(1, 3), SPACES)
    segments = np.repeat([0, 1], [6, 5])
    first, last = (torch.from_numpy(e) for e in segment_bounds(segments))
    X = torch.arange(11.0)[:, None]
    got = embedder.gather(X, torch.arange(11), first, last).reshape(11, window)
    for t in range(11):
        low, high = (0, 5) if t < 6 else (6, 10)
        expected = [min(max(t + o, low), high) for o in range(-(window // 2), window - window // 2)]
        assert got[t].tolist() == expected

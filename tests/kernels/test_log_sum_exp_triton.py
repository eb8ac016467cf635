"""The streaming kernel equals the definition in float64: values and gradients, every similarity, odd shapes."""

import pytest
import torch

from ascribo.kernels import log_sum_exp_reference as reference
from ascribo.kernels import log_sum_exps
from ascribo.kernels.shared_coordinates import make_plan
from ascribo.spaces.similarities import Dot, Lp, SquaredL2

L2 = SquaredL2()


def distance(got, exact):
    """‖got - exact‖ / ‖exact‖ in float64."""
    return ((got.double() - exact).norm() / exact.norm()).item()


def compare(r, n, objectives):
    """The largest relative error of values and of the two gradients, against float64."""
    from ascribo.kernels import log_sum_exp_triton as streaming

    assert streaming.supports(r, n, objectives)
    weight = torch.rand(*r.shape[:2], len(objectives), device=r.device)
    outcomes = []
    for function, dtype in ((streaming.log_sum_exps, torch.float32), (reference.log_sum_exps, torch.float64)):
        points = [x.detach().to(dtype, memory_format=torch.preserve_format).requires_grad_() for x in (r, n)]
        values = function(*points, objectives)
        outcomes.append([values, *torch.autograd.grad((values * weight).sum(), points)])
    return max(distance(got, exact) for got, exact in zip(*outcomes, strict=True))


def points(device, models, batch, negatives, dim, scale=1.0, shift=0.0):
    generator = torch.Generator().manual_seed(batch + negatives + dim)
    sizes = (batch, negatives)
    return [(shift + scale * torch.randn(models, k, dim, generator=generator)).to(device) for k in sizes]


@pytest.mark.parametrize("similarity", [L2, Dot(), *map(Lp, (1, 1.5, 2, 2.7, 3, 4))], ids=str)
@pytest.mark.parametrize("negatives", [24, 37])  # whole tiles; a rest
def test_every_similarity(device, similarity, negatives):
    r, n = points(device, 2, 5, negatives, 3)
    assert compare(r, n, [[(similarity, slice(0, 3))]]) < 2e-6


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (3, 65, 9, 2), (1, 7, 130, 17), (1, 3, 8, 64), (2, 1, 33, 6)])
def test_odd_shapes(device, shape):
    r, n = points(device, *shape)
    bar = 2e-6 if shape[-1] < 64 else 1e-5  # the error of a weight is that of ψ, here about -128
    assert compare(r, n, [[(L2, slice(0, shape[-1]))]]) < bar


OBJECTIVES = {
    "nested": [[(L2, slice(0, 3))], [(L2, slice(0, 6))]],
    "disjoint": [[(L2, slice(0, 2))], [(L2, slice(2, 5))], [(Lp(3), slice(5, 6))]],
    "mixed": [[(Dot(), slice(0, 3))], [(Dot(), slice(0, 3)), (L2, slice(3, 6))]],
    "overlapping": [[(L2, slice(0, 4)), (Dot(), slice(2, 6))], [(L2, slice(1, 5))]],
    "twice": [[(L2, slice(0, 3)), (L2, slice(1, 3))]],
    "inner": [[(L2, slice(2, 4))]],
}


@pytest.mark.parametrize("objectives", OBJECTIVES.values(), ids=OBJECTIVES.keys())
def test_several_spaces(device, objectives):
    r, n = points(device, 2, 9, 20, 6, scale=0.7)
    assert compare(r, n, objectives) < 2e-6


def test_slices_are_read_in_place(device):
    """Parts of a larger array, in any stride order, give the same bits as their copies."""
    from ascribo.kernels import log_sum_exp_triton as streaming

    z = torch.randn(2, 6, 30, device=device).mT  # strides: the last axis is not the fastest
    r, n = z[:, :10, 1:4], z[:, 10:, 1:4]
    terms = [[(L2, slice(0, 3))]]
    outcomes = []
    for pair in ((r, n), (r.contiguous(), n.contiguous())):
        leaves = [x.detach().requires_grad_() for x in pair]
        values = streaming.log_sum_exps(*leaves, terms)
        # a mean hands down a gradient that is one number, expanded: strides of zero
        outcomes.append([values, *torch.autograd.grad(values.mean(), leaves)])
    assert all(torch.equal(a, b) for a, b in zip(*outcomes, strict=True))


@pytest.mark.parametrize("similarity", [L2, Lp(3)], ids=str)
def test_far_off_embeddings(device, similarity):
    """A common shift of 1000 and a spread of 1 to 5: expanding ‖r - n‖² would lose every digit."""
    r, n = points(device, 1, 8, 40, 6, shift=1000.0)
    assert compare(r, n, [[(similarity, slice(0, 6))]]) < 1e-5
    r, n = points(device, 1, 8, 40, 6, scale=5.0)
    assert compare(r, n, [[(similarity, slice(0, 6))]]) < 1e-5


def test_long_vectors_in_dot(device):
    r, n = points(device, 1, 8, 40, 6, scale=6.0)
    assert compare(r, n, [[(Dot(), slice(0, 6))]]) < 1e-5


def test_weights_are_split_over_programs_and_combined(device, monkeypatch):
    from ascribo.kernels import log_sum_exp_triton as streaming

    r, n = points(device, 1, 6, 70, 3)
    assert streaming._walk(1, 6, 70, make_plan([[(L2, slice(0, 3))]], 3))[0] == (1, 2, 1)
    assert compare(r, n, [[(L2, slice(0, 3))]]) < 2e-6
    monkeypatch.setattr(streaming, "SHORTEST", 1)  # the last splits are empty
    assert compare(r, n, [[(L2, slice(0, 3))]]) < 2e-6


@pytest.mark.parametrize("similarity", [L2, Dot(), *map(Lp, (1, 1.5, 3))], ids=str)
@pytest.mark.parametrize("batch", [24, 37])
def test_references_that_are_their_own_negatives(device, similarity, batch):
    """One walk over the pairs gives the gradient that two give: on references, and on the same as negatives."""
    from ascribo.kernels import log_sum_exp_triton as streaming

    r, _ = points(device, 2, batch, 1, 3)
    weight = torch.rand(2, batch, 2, device=device)
    terms = [[(similarity, slice(0, 3))], [(similarity, slice(1, 3))]]
    exact = r.double().requires_grad_()
    values = reference.log_sum_exps(exact, exact, terms)
    (wanted,) = torch.autograd.grad((values * weight).sum(), exact)
    r.requires_grad_()
    got = streaming.log_sum_exps(r, r, terms)
    assert distance(got, values) < 2e-6
    (one,) = torch.autograd.grad((got * weight).sum(), r)
    assert distance(one, wanted) < 5e-6
    # a copy that carries no gradient is no such case: only the references have one
    fixed = r.detach()
    (half,) = torch.autograd.grad((streaming.log_sum_exps(r, fixed, terms) * weight).sum(), r)
    assert distance(half, wanted) > 0.1


def test_one_side_alone(device):
    from ascribo.kernels import log_sum_exp_triton as streaming

    r, n = points(device, 1, 4, 8, 2)
    r.requires_grad_()
    streaming.log_sum_exps(r, n, [[(L2, slice(0, 2))]]).sum().backward()
    assert r.grad is not None and n.grad is None


def test_what_the_kernel_leaves_to_the_blocked_path(device):
    from ascribo.kernels import log_sum_exp_triton as streaming

    r, n = points(device, 1, 4, 8, 2)
    terms = [(L2, slice(0, 2))]
    assert not streaming.supports(r.double(), n.double(), [terms])
    assert not streaming.supports(r[:, :0], n, [terms])
    heir = type("Halved", (SquaredL2,), {})()  # a subclass may compute something else
    assert not streaming.supports(r, n, [[(heir, slice(0, 2))]])
    assert not streaming.supports(torch.zeros(1, 4, 65), torch.zeros(1, 4, 65), [[(L2, slice(0, 65))]])


def test_a_slice_with_steps_is_refused():
    with pytest.raises(ValueError, match="run of coordinates"):
        make_plan([[(L2, slice(0, 4, 2))]], 4)


def test_gpu_accuracy_at_batch_5000(gpu):
    objectives = OBJECTIVES["nested"]
    for scale, shift in ((1.0, 0.0), (5.0, 0.0), (1.0, 100.0)):
        r, n = points(gpu, 1, 5000, 5000, 6, scale, shift)
        assert compare(r, n, objectives) < 1e-5, (scale, shift)
    for similarity in (Dot(), Lp(1), Lp(1.5), Lp(2.7), Lp(3), Lp(4)):
        r, n = points(gpu, 2, 1500, 1501, 4)
        assert compare(r, n, [[(similarity, slice(0, 4))]]) < 1e-5, similarity


def test_gpu_repeats_to_the_bit(gpu):
    for shape in ((1, 512, 512, 6), (4, 5000, 5000, 6), (64, 512, 512, 6)):
        r, n = (x.requires_grad_() for x in points(gpu, *shape))
        outcomes = []
        for _ in range(3):
            values = log_sum_exps(r, n, OBJECTIVES["nested"])
            outcomes.append([values, *torch.autograd.grad(values.sum(), (r, n))])
        assert all(torch.equal(a, b) for again in outcomes[1:] for a, b in zip(outcomes[0], again, strict=True))


def test_gpu_memory_at_batch_100_000(gpu):
    r, n = (x.requires_grad_() for x in points(gpu, 1, 100_000, 100_000, 6))
    torch.cuda.reset_peak_memory_stats()
    values = log_sum_exps(r, n, OBJECTIVES["nested"])
    values.sum().backward()
    assert torch.cuda.max_memory_allocated() < 4e9
    assert torch.isfinite(values).all() and torch.isfinite(r.grad).all() and torch.isfinite(n.grad).all()


def test_gpu_graph_capture(gpu):
    r, n = (x.requires_grad_() for x in points(gpu, 2, 300, 300, 6))

    def step():
        values = log_sum_exps(r, n, OBJECTIVES["nested"])
        return [values, *torch.autograd.grad(values.mean(), (r, n))]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        r.mul_(1.5)
    graph.replay()
    assert all(torch.equal(a, b) for a, b in zip(captured, step(), strict=True))

"""Training of stacks: convolutions as matrix products, and a recorded step on a GPU against the CPU."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

from experiments.labelfree import networks
from experiments.shared import stack_training as training
from experiments.shared.convolution import as_products

LAYERS = [
    (nn.Conv2d, (1, 8, 3, 2, 1), 28), (nn.Conv2d, (8, 16, 3, 2, 1), 14), (nn.Conv2d, (16, 32, 3, 2), 7),
    (nn.Conv2d, (1, 32, 4, 2, 1), 16), (nn.Conv2d, (6, 6, 4, 2, 1), 16), (nn.ConvTranspose2d, (32, 16, 3, 2), 3),
    (nn.ConvTranspose2d, (16, 8, 3, 2, 1, 1), 7), (nn.ConvTranspose2d, (8, 1, 3, 2, 1, 1), 14),
    (nn.ConvTranspose2d, (6, 6, 4, 2, 1), 8), (nn.ConvTranspose2d, (32, 1, 4, 2, 1), 8),
    (nn.Conv2d, (3, 40, 4, 4), 12), (nn.ConvTranspose2d, (40, 3, 4, 4), 3),
]  # fmt: skip
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: a recorded step is a CUDA graph")


@pytest.mark.parametrize(("kind", "options", "side"), LAYERS)
def test_products_are_the_convolution_and_so_are_their_gradients(kind, options, side):
    torch.manual_seed(0)
    layer = kind(*options).double()
    other, x = as_products(layer), torch.randn(3, options[0], side, side, dtype=torch.float64).requires_grad_()
    assert not isinstance(other, kind)
    one, two = layer(x), other(x)
    torch.testing.assert_close(two, one)
    push = torch.randn_like(one)
    wanted = torch.autograd.grad(one, [x, *layer.parameters()], push)
    torch.testing.assert_close(torch.autograd.grad(two, [x, *other.parameters()], push), wanted)


def test_a_stack_of_products_is_each_of_them():
    torch.manual_seed(0)
    models = [networks.image_encoder().eval() for _ in range(3)]
    x = torch.rand(3, 5, 1, 28, 28)
    parameters, buffers = stack_module_state(models)
    skeleton = as_products(models[0]).eval()
    z = vmap(lambda p, b, x: functional_call(skeleton, (p, b), (x,)))(parameters, buffers, x)
    torch.testing.assert_close(z, torch.stack([m(own) for m, own in zip(models, x, strict=True)]))


def test_other_convolutions_stay_as_they_are():
    for layer in (nn.Conv2d(3, 4, 3, 1, 1), nn.Conv2d(3, 4, 5, 2, 1), nn.Conv2d(64, 64, 3, 2, 1)):
        assert isinstance(as_products(layer), nn.Conv2d)


def _autoencoders(device: str) -> training.Run:
    """Two autoencoders, 25 steps on the same images: far more than it takes until a step is recorded."""
    at = torch.linspace(-1, 1, 28)
    width = torch.linspace(0.1, 0.9, 80).view(2, 40, 1, 1, 1)
    x = ((at[:, None] ** 2 + at**2) < width).float().to(device)  # discs
    models = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        models.append(networks.Autoencoder())
    return training.train(
        models, 40, lambda index, draws: (x, x), lambda draws: [(x, x)], epochs=25, batch_size=40, patience=25,
        rate=3e-3, device=torch.device(device),
    )  # fmt: skip


def test_discs_are_learned():
    losses = _autoencoders("cpu").test_losses
    assert all(last < 0.85 * early for early, last in zip(losses[5], losses[-1], strict=True))


@GPU
def test_recorded_steps_train_as_the_cpu_does():
    host, device, again = (torch.tensor(_autoencoders(d).test_losses) for d in ("cpu", "cuda", "cuda"))
    torch.testing.assert_close(device, host, rtol=5e-2, atol=0)  # products of a recorded step have ten bits
    torch.testing.assert_close(again, device, rtol=5e-2, atol=0)


@GPU
def test_a_short_step_trains_a_vae_as_a_long_one_does():
    x = torch.rand(2, 64, 1, 32, 32, generator=torch.Generator().manual_seed(0)).round().cuda()
    fixed = (torch.zeros(2, 64, 3).cuda(), torch.tensor([1.0, 5.0]).cuda(), torch.tensor([0.0, 1.0]).cuda())

    def fit(short: bool) -> torch.Tensor:
        torch.manual_seed(0)
        models = [networks.VAE(3, 32, 64) for _ in range(2)]
        return torch.tensor(
            training.train(
                models, 64, lambda index, draws: (x, *fixed), lambda draws: [(x, *fixed)], epochs=20, batch_size=64,
                device=torch.device("cuda"), short=short,
            ).test_losses
        )  # fmt: skip

    torch.testing.assert_close(fit(True), fit(False), rtol=2e-2, atol=0)


class _Last(nn.Module):
    """With rate 1/2 its parameter becomes the number it was last shown."""

    def __init__(self):
        super().__init__()
        self.value = nn.Parameter(torch.zeros(()))

    def forward(self, shown):
        return (self.value - shown).square().mean()


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=GPU)])
def test_every_step_draws_new_numbers(device):
    zero = torch.zeros(1, 1, device=device)
    done = training.train(
        [_Last()], 1, lambda index, draws: (torch.randn(1, 1, generator=draws, device=device),),
        lambda draws: [(zero,)],
        epochs=12, batch_size=1, patience=12, rate=0.5, device=torch.device(device), optimizer=torch.optim.SGD,
    )  # fmt: skip
    assert len({value[0] for value in done.test_losses}) == 12

"""A source of batches from outside the package: a generative process, trained through the same loop as recordings.

Latents on a line, positives by a Gaussian step, a fixed mixing into many channels: new samples at every step, and
no recording at all (the setting of Zimmermann et al., 2021, in a box).
"""

import hashlib
from functools import partial

import numpy as np
import pytest
import torch

import ascribo as asc
from ascribo.networks.infonce_loss import chance
from ascribo.networks.model_stack import Embedder
from ascribo.training import dispatch as training
from ascribo.training.batch_source import DeviceSource, Source
from ascribo.training.loop import run_steps
from ascribo.training.objective import RegularizedLoss, contrastive_objectives
from ascribo.training.penalty_weight import Constant
from ascribo.training.settings import Settings
from ascribo.training.steps_cuda_graph import GraphSteps
from ascribo.training.steps_eager import EagerSteps

CHANNELS, SPREAD = 8, 0.1
SPACES = {"line": asc.Time(dim=1)}
SETTINGS = Settings(300, 128, 3e-3, Constant(0.01))
CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"))


class LineSource:
    """What a source needs, and nothing else. A batch is (model, 3, batch, 1): references, positives, negatives."""

    objectives, regressions, separable = ["line"], [], True

    def __init__(self, seeds, device="cpu"):
        self.device, self.seeds = torch.device(device), [(seed,) for seed in seeds]
        self.module = asc.MLP((16, 16)).build(CHANNELS, 1)
        self.embedder = Embedder(self.module, SPACES)
        self._loss = RegularizedLoss(
            self.embedder, SPACES, contrastive_objectives(SPACES, "whole"), {"line": (0, 1, 2)}
        )
        generator = torch.Generator().manual_seed(0)
        self.mixing = [torch.randn(shape, generator=generator).to(device) for shape in ((1, 16), (16, CHANNELS))]

    def initial(self):
        return self.embedder.initial(self.module, [seed for (seed,) in self.seeds])

    def draw(self, start, steps, batch):
        generators = [torch.Generator().manual_seed(seed * 100_003 + start) for (seed,) in self.seeds]
        drawn = torch.stack([_latents((steps, 3, batch, 1), generator) for generator in generators], 1)
        return drawn.to(self.device).unbind()

    def sampler(self, batch):
        return partial(_latents, (len(self.seeds), 3, batch, 1))

    def loss(self, parameters, batch, weight, noise):
        return self._loss(parameters, self.mix(self._loss.ordered(batch)), {}, weight, noise)

    def digest(self):
        return hashlib.sha256(repr(self.seeds).encode()).hexdigest()

    def mix(self, latents):
        """From the line (..., 1) to the channels, one to one but far from linear."""
        first, second = self.mixing
        return torch.tanh(2 * latents @ first) @ second / 4


def _latents(shape, generator):
    """Uniform on the line from -1 to 1, but the positives, a Gaussian step beside the references."""
    device = generator.device
    out = 2 * torch.rand(shape, generator=generator, device=device) - 1
    step = SPREAD * torch.randn((*shape[:-3], *shape[-2:]), generator=generator, device=device)
    out[..., 1, :, :] = out[..., 0, :, :] + step
    return out


def learned(source, trained):
    """For each model the R² of the latent, linearly from the embedding of new samples."""
    latent = torch.linspace(-0.95, 0.95, 500, device=source.device)[:, None]
    x = source.mix(latent).expand(len(source.seeds), -1, -1)
    parameters = {name: value.to(source.device) for name, value in trained.parameters.items()}
    z = source.embedder(parameters, x).detach().cpu().numpy()
    return [asc.metrics.linear_r2(one, latent.cpu().numpy()) for one in z]


@pytest.mark.parametrize("way", [EagerSteps, GraphSteps])
@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_a_generative_process_is_learned(way, device):
    source = LineSource([1, 2, 3], device)
    assert isinstance(source, Source) and isinstance(source, DeviceSource)
    before = learned(source, run_steps(way(source, Settings(1, 128, 1e-6, Constant(0.0))), progress=False))
    trained = run_steps(way(source, SETTINGS), progress=False)
    bits = (chance(128) - trained.history["infonce"][-50:, :, 0].mean(0)) / np.log(2)
    # a step of σ leaves log₂(2 / (σ √(2πe))) = 2.27 bits of the line, nearly all of which can be seen
    assert (bits > 2.1).all() and (bits < 2.45).all()
    assert min(learned(source, trained)) > 0.99 and max(before) < 0.95
    assert trained.history["penalty"].shape == (300, 3)


def test_the_one_loop_takes_it_and_goes_on_where_it_was_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr("ascribo.training.loop.CHECKPOINT_SECONDS", 0.0)
    settings, file = Settings(120, 64, 3e-3, Constant(0.01)), tmp_path / "state.safetensors"
    whole = training.train_source(LineSource([1, 2]), settings, progress=False)
    kept = LineSource.draw

    def killed(self, start, steps, batch):
        if start == 100:
            raise KeyboardInterrupt
        return kept(self, start, steps, batch)

    with monkeypatch.context() as patch:
        patch.setattr(LineSource, "draw", killed)
        with pytest.raises(KeyboardInterrupt):
            training.train_source(LineSource([1, 2]), settings, progress=False, checkpoint=file)
    again = training.train_source(LineSource([1, 2]), settings, progress=False, checkpoint=file)
    for name, value in whole.parameters.items():
        assert torch.equal(again.parameters[name], value)
    with pytest.raises(ValueError, match="belongs to another model"):
        training.train_source(LineSource([1, 3]), settings, progress=False, checkpoint=file)


def test_how_steps_are_taken_is_a_matter_of_device_and_source(monkeypatch):
    source, settings = LineSource([1]), Settings(1, 8, 1e-3, Constant(0.0))
    assert type(training.take_steps(source, settings)) is EagerSteps
    monkeypatch.setattr(training, "_as_graphs", lambda device: True)
    assert type(training.take_steps(source, settings)) is GraphSteps
    monkeypatch.delattr(LineSource, "sampler")
    assert type(training.take_steps(source, settings)) is EagerSteps  # it cannot draw on the device

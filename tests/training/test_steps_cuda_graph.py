"""Device steps train what host steps train; a stack of recordings trains each on its own."""

import numpy as np
import pytest
import torch

import ascribo as asc
from ascribo.networks.encoders import build_encoder
from ascribo.networks.model_stack import Embedder
from ascribo.spaces.pairs import Pairs
from ascribo.training.loop import run_steps
from ascribo.training.objective import contrastive_objectives
from ascribo.training.penalty_weight import Constant, Ramp
from ascribo.training.recording_batches import RecordingSource
from ascribo.training.settings import Settings
from ascribo.training.steps_cuda_graph import GraphSteps
from ascribo.training.steps_eager import EagerSteps
from ascribo.training.training_problem import Problem

SPACES = {"position": asc.Follow(["x", "y"], 2), "rest": asc.Time(2)}


def problem(seed, steps=6000):
    data = asc.simulate.box(seed=seed, observed=2, hidden=2, channels=(8, 8), steps=steps)
    X = torch.from_numpy((data.X - data.X.mean(0)) / data.X.std(0))
    pairs = Pairs(SPACES, data.variables, data.epochs)
    module = build_encoder(asc.MLP((48, 48)), 16, 4)
    return Problem(module, SPACES, contrastive_objectives(SPACES, "whole"), X, data.epochs, pairs, {}), data


def r2(trained, task, data, model):
    embedder = Embedder(task.module, task.spaces)
    z = embedder.embed(trained.parameters, task.X, task.segments)[model].numpy()
    return asc.metrics.linear_r2(z[:, :2], data.latents[:, 2:]), asc.metrics.linear_r2(
        z[:, :2], data.latents[:, :2]
    )


def test_device_steps_learn_what_host_steps_learn():
    task, data = problem(0)
    settings = Settings(300, 128, 3e-3, Constant(0.02))
    losses = {}
    for name, steps in {
        "host": EagerSteps(RecordingSource([task] * 2, [1, 2]), settings),
        "device": GraphSteps(RecordingSource([task] * 2, [1, 2]), settings),
    }.items():
        trained = run_steps(steps, progress=False)
        losses[name] = trained.history["infonce"][-100:].mean((0, 1))
        right, wrong = r2(trained, task, data, 1)
        assert right > 0.93 and wrong < 0.1
    np.testing.assert_allclose(
        losses["host"], losses["device"], atol=0.5
    )  # chance is 4.9; a wrong sampler is off by more than 1


def test_a_stack_of_recordings_learns_each():
    tasks, data = zip(*(problem(seed, steps) for seed, steps in ((0, 4000), (5, 6000))), strict=True)
    settings = Settings(250, 128, 3e-3, Ramp(0.02))
    source = RecordingSource([tasks[k] for k in (1, 0, 1)], [1, 2, 3])
    trained = run_steps(GraphSteps(source, settings), progress=False)
    for model, which in enumerate([1, 0, 1]):
        right, wrong = r2(trained, tasks[which], data[which], model)
        assert right > 0.9 and wrong < 0.15
        other, _ = r2(trained, tasks[1 - which], data[1 - which], model)
        assert other < right


def test_same_seeds_same_bits_and_other_chunks_other_draws():
    task, _ = problem(0, 1000)
    settings = Settings(100, 64, 1e-3, Constant(0.1))
    runs = [run_steps(GraphSteps(RecordingSource([task], [seed]), settings), progress=False) for seed in (7, 7, 8)]
    np.testing.assert_array_equal(runs[0].history["infonce"], runs[1].history["infonce"])
    assert not np.allclose(runs[0].history["infonce"], runs[2].history["infonce"])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_graph_learns_and_repeats_itself():
    task, data = problem(0)
    settings = Settings(400, 256, 2e-3, Ramp(0.02), device="cuda")
    source = RecordingSource([task] * 2, [1, 2], device="cuda")
    runs = [run_steps(GraphSteps(source, settings), progress=False) for _ in range(2)]
    np.testing.assert_array_equal(runs[0].history["infonce"], runs[1].history["infonce"])
    right, wrong = r2(runs[0], task, data, 1)
    assert right > 0.93 and wrong < 0.1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_exact_penalty_can_be_captured():
    task, _ = problem(0, 1000)
    history = {}
    for device in ("cpu", "cuda"):
        settings = Settings(60, 64, 1e-3, Constant(0.1), exact_penalty=True, device=device)
        source = RecordingSource([task], [1], device=device, exact_penalty=True)
        history[device] = run_steps(GraphSteps(source, settings), progress=False).history["penalty"]
    np.testing.assert_allclose(history["cuda"].mean(), history["cpu"].mean(), rtol=0.2)

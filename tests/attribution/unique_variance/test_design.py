"""What the variables decide of a test is the same for every model of the recording."""

from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
import torch

import ascribo as asc
from ascribo.attribution.unique_variance import design
from ascribo.attribution.unique_variance.decoding_problem import make_problem
from ascribo.attribution.unique_variance.design import make_design
from ascribo.attribution.unique_variance.input_columns import Role, which
from ascribo.attribution.unique_variance.score import score_problems
from ascribo.networks.model_stack import Embedder

SPACES = {
    "place": asc.Follow(["x", "y"], 2),
    "side": asc.Discrete("side", 1),
    "speed": asc.Follow("speed", 1, nuisance=True),
    "rest": asc.Time(2),
}


@pytest.fixture(scope="module")
def recording():
    rng = np.random.default_rng(0)
    steps = 3000
    x, y = np.cumsum(rng.normal(size=(2, steps)), axis=1) * 0.2
    speed = np.convolve(rng.normal(size=steps), 0.7 ** np.arange(20))[:steps]
    side = np.where(np.cumsum(rng.random(steps) < 0.02) % 2, "left", "right")
    X = torch.from_numpy(rng.normal(size=(steps, 6)) + np.stack([x, y, speed, x, y, speed], axis=1)).float()
    return X, np.repeat([0, 1], steps // 2), pd.DataFrame({"x": x, "y": y, "speed": speed, "side": side})


def embedder(seeds):
    module = asc.MLP((8,)).build(6, sum(space.dim for space in SPACES.values()))
    own = Embedder(module, SPACES)
    return own, own.initial(module, seeds)


def test_one_design_serves_all_models_of_a_recording(recording, monkeypatch):
    X, epochs, variables = recording
    shared = make_design(SPACES, 1, epochs, variables, X)
    models = [(*embedder(seeds), SPACES, X, epochs, variables) for seeds in ([0, 1], [2])]
    problems = [make_problem(*given) for given in models]
    monkeypatch.setattr(design, "white", None)  # nothing of it is done again
    for given, alone in zip(models, problems, strict=True):
        within = make_problem(*given, design=shared)
        for field in fields(alone):
            a, b = (getattr(problem, field.name) for problem in (within, alone))
            if isinstance(a, torch.Tensor):
                assert torch.equal(a, b), field.name
            elif isinstance(a, list | np.ndarray):
                np.testing.assert_equal(a, b)
            else:
                assert a == b


def test_the_design_says_what_its_columns_are(recording):
    X, epochs, variables = recording
    own = make_design(SPACES, 1, epochs, variables, X)
    assert own.without_variables == ("rest",)
    assert own.neighbour_distance == 2  # `rest` has learned from its next step
    assert (epochs[own.index - 2] == epochs[own.index + 2]).all()  # nothing crosses the edge of an epoch
    for space, columns in (("place", 2), ("side", 2), ("speed", 1), (None, 5)):
        assert which(own.columns, {Role.VALUE}, space).sum() == columns
    white = own.values[0].double()[:, which(own.columns, {Role.VALUE}, "place")]
    np.testing.assert_allclose(white.T @ white / len(white), np.eye(2), atol=1e-4)
    place = variables[["x", "y"]].to_numpy()[own.index]
    place -= place.mean(0)
    rebuilt = white.numpy() @ np.linalg.lstsq(white.numpy(), place, rcond=None)[0]
    np.testing.assert_allclose(rebuilt, place, atol=1e-4)


def test_too_short_a_recording_is_refused(recording):
    X, epochs, variables = recording
    with pytest.raises(ValueError, match="needs at least 80"):
        make_design(SPACES, 1, epochs[:60], variables[:60], X[:60])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_scores_as_a_cpu(recording):
    """The inputs are the same, and so are the scores, but for the decoders' random numbers."""
    X, epochs, variables = recording
    own, parameters = embedder([0, 1])
    problems = {
        device: make_problem(
            *(own, {k: v.to(device) for k, v in parameters.items()}, SPACES, X.to(device), epochs, variables)
        )
        for device in ("cpu", "cuda")
    }
    cpu, gpu = problems["cpu"], problems["cuda"]
    np.testing.assert_array_equal(cpu.index, gpu.index)
    # axes may point the other way
    torch.testing.assert_close(gpu.inputs.cpu().abs(), cpu.inputs.abs(), atol=2e-3, rtol=1e-3)
    a, b = (score_problems([q], [[0, 1]], steps=300, progress=False)[0].by_block.mean((0, 3)) for q in (cpu, gpu))
    np.testing.assert_allclose(a, b, atol=0.012)  # other seeds of the decoders move a score by 0.006
    assert a.max() > 0.02 and b.max() > 0.02


def test_rare_labels_share_columns():
    """Two thousand labels have a hundred columns."""
    labels = pd.DataFrame({"label": np.random.default_rng(0).integers(0, 2000, 5000)})
    found = make_design({"label": asc.Discrete("label", 2)}, 1, np.zeros(5000, int), labels, torch.zeros(5000, 1))
    assert which(found.columns, {Role.VALUE}).sum() == design.MOST_LABELS

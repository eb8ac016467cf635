"""An attribution method from outside the package: one function and one registration, and everything takes it."""

import numpy as np
import pytest
import torch
import xarray as xr

import ascribo as asc
from ascribo.attribution import METHODS, AttributionMaps, EncodedRecording, local_method, recording_method
from ascribo.attribution.jacobian import encoder_jacobian
from ascribo.cli import main
from ascribo.spaces.base import layout


def squared_gradient(recording, index):
    """The squares of the encoder's gradient, in aligned coordinates."""
    jacobian = encoder_jacobian(recording.embedder, recording.parameters, recording.inputs(index))
    maps = torch.einsum("skd,sbdcw->sbcwk", recording.alignment.inverse, jacobian).square()
    return maps, torch.ones(maps.shape[:2], dtype=torch.bool, device=maps.device)


def correlation(model, recording, options):
    """The largest correlation of each channel with a dimension of each space."""
    own = len(model.channels)
    r = np.abs(np.corrcoef(recording.X.T, model.embed(recording).T)[:own, own:])
    scores = np.stack([r[:, where].max(1) for where in layout(model.spaces).values()], axis=1)
    labels = {"channel": list(model.channels), "space": list(model.spaces)}
    return AttributionMaps(None, xr.DataArray(scores, labels, ("channel", "space")), "correlation")


@pytest.fixture(scope="module", autouse=True)
def registered():
    local_method("squared_gradient")(squared_gradient)
    recording_method("correlation")(correlation)
    yield
    for name in ("squared_gradient", "correlation"):
        METHODS.pop(name)


@pytest.fixture(scope="module")
def data():
    return asc.simulate.box(1, observed=2, hidden=1, channels=(5, 5), steps=1500)


@pytest.fixture(scope="module")
def model(data):
    spaces = {"position": asc.Follow(["x", "y"], dim=2), "rest": asc.Time(dim=1)}
    return asc.ContrastiveEmbedding(
        spaces,
        seeds=2,
        steps=150,
        batch_size=128,
        encoder=asc.MLP((32,)),
        penalty=0.0,
        random_state=0,
        progress=False,
    ).fit(data)


def test_a_local_method_is_aggregated_like_any_other(model, data):
    maps = model.attribute(data, method="squared_gradient", samples=50)
    assert maps.method == "squared_gradient"
    index = torch.linspace(0, 1499, 50, dtype=torch.float64).long()
    gradient, _ = METHODS["neuron_gradient"].function(EncodedRecording.of(model.model_, data), index)
    np.testing.assert_allclose(maps.by_dimension, gradient[..., 0, :].square().mean((0, 1)), rtol=1e-4)
    assert maps.by_dimension.dimension.values.tolist() == ["position0", "position1", "rest0"]
    highest = model.attribute(data, method="squared_gradient", samples=50, aggregate="maximum")
    np.testing.assert_allclose(highest.by_dimension, gradient[..., 0, :].square().amax(1).mean(0), rtol=1e-4)
    assert maps.over_time(3, 5).shape == (2, 10, 2) and maps.where(np.arange(1500) < 9).by_space.shape == (10, 2)


def test_a_method_of_the_whole_recording_makes_its_own_maps(model, data):
    maps = model.attribute(data, method="correlation")
    z = model.transform(data)
    expected = max(abs(np.corrcoef(data.X[:, 7], z[:, k])[0, 1]) for k in (0, 1))
    assert maps.by_space.values[7, 0] == pytest.approx(expected, rel=1e-6)
    assert maps.auroc(data, "position") > 0.8
    with pytest.raises(ValueError, match="a correlation map has no test"):
        maps.calls()
    with pytest.raises(ValueError, match="samples=50: correlation chooses its time steps itself"):
        model.attribute(data, method="correlation", samples=50)


def test_the_command_line_takes_it(model, data, tmp_path, capsys):
    np.savez(tmp_path / "data.npz", X=data.X, x=data.variables["x"], y=data.variables["y"])
    model.save(tmp_path / "run")
    out = tmp_path / "map.csv"
    given = ["attribute", str(tmp_path / "run"), "--data", str(tmp_path / "data.npz"), "--out", str(out)]
    assert main([*given, "--method", "squared_gradient", "--samples", "30"]) in (0, None)
    assert "position" in out.read_text()


def test_a_name_is_taken_once():
    with pytest.raises(ValueError, match=r"'tangent' already, ascribo\.attribution\.methods\.tangent"):
        local_method("tangent")(squared_gradient)
    again = METHODS["squared_gradient"]
    local_method("squared_gradient")(squared_gradient)  # as when a cell of a notebook is run again
    assert METHODS["squared_gradient"].function is again.function

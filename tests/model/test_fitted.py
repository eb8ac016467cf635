"""The fitted model: maps that do not depend on a basis, parts of maps, and maps of many models at once."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import ascribo as asc
from ascribo.attribution import METHODS, attribute
from ascribo.attribution.method_inputs import EncodedRecording, reasons_without_map
from ascribo.attribution.unique_variance import make_problems, unique_variance_maps
from ascribo.attribution.unique_variance import maps as orchestration
from ascribo.attribution.unique_variance.decoding_problem import make_problem
from ascribo.model.fitted import FittedModel
from ascribo.networks.model_stack import Embedder
from ascribo.networks.seed_alignment import Alignment, align
from ascribo.spaces.base import layout
from ascribo.training.decoders import fit_decoders

SPACES = {"position": asc.Follow(["x", "y"], dim=2), "rest": asc.Time(dim=2)}
LOCAL = [name for name, method in METHODS.items() if "samples" in method.takes]


@pytest.fixture(scope="module")
def data():
    made = asc.simulate.box(1, observed=2, hidden=2, channels=(6, 6), steps=3000)
    return asc.Recording(made.X, made.variables, epochs=np.repeat([0, 1, 2], 1000), truth=made.truth)


@pytest.fixture(scope="module")
def model(data):
    encoder = asc.MLP((32,), limit="none")
    return (
        asc.ContrastiveEmbedding(
            SPACES, seeds=2, steps=200, batch_size=128, encoder=encoder, penalty=0.0, random_state=0, progress=False
        )
        .fit(data)
        .model_
    )


@pytest.fixture(scope="module")
def turned(model):
    """The same model in another basis of each block, and of each seed."""
    draws = torch.randn(2, 2, 2, 2, generator=torch.Generator().manual_seed(3))
    turn = torch.stack([torch.block_diag(*pair) for pair in draws])
    assert (torch.linalg.cond(turn) < 50).all()
    last = "2"
    parameters = dict(model.parameters)
    parameters[f"{last}.weight"] = turn @ parameters[f"{last}.weight"]
    parameters[f"{last}.bias"] = (turn @ parameters[f"{last}.bias"][..., None])[..., 0]
    old = model.alignment
    alignment = Alignment(
        (turn @ old.mean[..., None])[..., 0], turn @ old.basis, old.inverse @ torch.linalg.inv(turn), old.reference
    )
    return replace(model, parameters=parameters, alignment=alignment)


@pytest.mark.parametrize("method", LOCAL)
def test_maps_do_not_depend_on_the_basis_of_a_block(method, model, turned, data):
    steps = np.arange(0, 3000, 100)
    one, other = (attribute(m, data, method, steps) for m in (model, turned))
    np.testing.assert_allclose(one.by_space, other.by_space, rtol=2e-3)
    np.testing.assert_allclose(one.by_dimension, other.by_dimension, rtol=5e-3, atol=1e-4)
    unaligned = attribute(replace(turned, alignment=model.alignment), data, method, steps)
    assert not np.allclose(one.by_space, unaligned.by_space, rtol=0.05)


def test_alignment_finds_the_basis_itself(model, turned, data):
    """Lengths within a block are the same after `align`, which knows nothing of the change."""
    steps = np.arange(0, 3000, 100)
    for method in ("inverted_neuron_gradient", "neuron_gradient"):
        found = []
        for one in (model, turned):
            z = one.embedder.embed(one.parameters, one.standardise(data.X), data.epochs)
            aligned = replace(one, alignment=align(z, layout(SPACES), reference=0))
            found.append(attribute(aligned, data, method, steps).by_space)
        np.testing.assert_allclose(*found, rtol=2e-3)


def test_unique_variance_does_not_depend_on_the_basis_of_a_block(model, turned, data):
    first = [_first_seed(m) for m in (model, turned)]
    one, other = unique_variance_maps(first, [data, data], steps=100)
    assert one.by_space.std() > 0.1
    np.testing.assert_allclose(one.by_space, other.by_space, atol=0.04)  # other directions, other training


def _first_seed(model):
    a = model.alignment
    return replace(
        model,
        parameters={name: value[:1] for name, value in model.parameters.items()},
        decoder={name: value[:1] for name, value in model.decoder.items()},
        alignment=Alignment(a.mean[:1], a.basis[:1], a.inverse[:1], 0),
        usable=model.usable[:1],
    )


@pytest.mark.parametrize("aggregate", ["mean", "median", "maximum"])
def test_aggregates_are_those_of_the_local_maps(aggregate, model, data):
    steps = np.arange(0, 1010, 10)  # an odd number: the median is one of them
    maps = attribute(model, data, "neuron_gradient", steps, aggregate=aggregate)
    local, valid = METHODS["neuron_gradient"].function(EncodedRecording.of(model, data), torch.from_numpy(steps))
    assert valid.all()
    lengths = torch.stack([local[..., 0, where].norm(dim=-1) for where in layout(SPACES).values()], -1).numpy()
    function = {"mean": np.mean, "median": np.median, "maximum": np.max}[aggregate]
    np.testing.assert_allclose(maps.by_space, function(lengths, axis=1).mean(0), rtol=1e-4)
    entries = function(local[..., 0, :].abs().numpy(), axis=1).mean(0)
    np.testing.assert_allclose(maps.by_dimension, entries, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("method", ["generative_gradient", "neuron_gradient"])
def test_parts_of_a_map_are_parts_of_its_time(method, model, data):
    maps = attribute(model, data, method)
    local = maps.over_time()
    np.testing.assert_allclose(maps.by_space, local.mean("time"), rtol=1e-4)
    right = data.variables["x"].to_numpy() > 0.3
    np.testing.assert_allclose(maps.where(right).by_space, local.isel(time=right).mean("time"), rtol=1e-4)
    epochs = maps.by_epoch()
    for label in range(3):
        np.testing.assert_allclose(epochs[label], local.isel(time=data.epochs == label).mean("time"), rtol=1e-4)
    assert not np.allclose(epochs[0], epochs[1], rtol=1e-3)


def test_a_part_takes_no_more_steps_than_the_map_did(model, data):
    maps = attribute(model, data, "generative_gradient", np.arange(0, 3000, 100))
    every = data.variables["x"].to_numpy() > -2
    expected = np.linspace(0, 2999, 30).astype(int)
    again = attribute(model, data, "generative_gradient", expected)
    np.testing.assert_allclose(maps.where(every).by_space, again.by_space, rtol=1e-5)


def test_where_all_outputs_are_at_their_limit_there_is_no_inverse(model, data):
    """No step can be inverted: a map of NaN that says so, not a crash."""
    stuck = asc.MLP((32,), limit="hard", scale=1e-6).build(12, 4)
    for aggregate in ("mean", "median", "maximum"):
        maps = attribute(replace(model, module=stuck), data, "inverted_neuron_gradient", aggregate=aggregate)
        assert np.isnan(maps.by_space).all() and maps.rank_deficient == 1
    assert np.isnan(maps.over_time(0, 5)).all()


def test_seeds_in_which_a_space_collapsed_do_not_count(model, data, quick_unique_variance):
    one = replace(model, usable=np.array([[True, True], [True, False]]))
    first = _first_seed(model)
    for method in ("neuron_gradient", "unique_variance"):
        maps, alone = attribute(one, data, method), attribute(first, data, method)
        np.testing.assert_allclose(maps.by_space.sel(space="rest"), alone.by_space.sel(space="rest"), rtol=1e-3)
        known = method == "unique_variance"  # whose test needs no encoder
        positions = [each.by_space.sel(space="position") for each in (maps, alone)]
        assert np.allclose(*positions, rtol=1e-3) == known
    for found in (maps, alone):
        table = found.calls().set_index(["channel", "space"])["score"].to_xarray()
        np.testing.assert_allclose(table.sel(channel=maps.by_space.channel), found.by_space, rtol=1e-6)
    gone = replace(model, usable=np.zeros((2, 2), dtype=bool) | [True, False])
    assert (
        list(reasons_without_map(gone)) == ["rest"]
        and np.isnan(attribute(gone, data, "tangent").by_space.sel(space="rest")).all()
    )


def test_many_models_have_the_maps_of_each_alone(model, data):
    """Other channels, another space: other shapes, each with a stack of its own, in the order asked."""
    fewer = data.take_channels(data.channel_names[:8])
    spaces = {"rest": asc.Time(dim=1)}
    other = asc.ContrastiveEmbedding(
        spaces, seeds=1, steps=20, batch_size=64, encoder=asc.MLP((8,)), penalty=0.0, random_state=0, progress=False
    ).fit(fewer)
    models, recordings = [other.model_, model], [fewer, data[:1200]]
    both = unique_variance_maps(models, recordings, steps=25)
    assert [m.by_space.shape for m in both] == [(8, 1), (12, 2)]
    for one, recording, maps in zip(models, recordings, both, strict=True):
        (alone,) = unique_variance_maps([one], [recording], steps=25)
        np.testing.assert_allclose(maps.by_space, alone.by_space, rtol=1e-4, atol=1e-5)
        assert maps.over_time(0, 10).sizes["time"] == 10


def test_models_share_a_design_if_it_is_theirs(model, data, monkeypatch):
    """The recording, the spaces and the window make a design, and nothing else does."""

    def untrained(spaces, encoder):
        module = encoder.build(12, sum(space.dim for space in spaces.values()))
        given = {"spaces": spaces, "module": module, "parameters": Embedder(module, spaces).initial(module, [0])}
        return replace(model, **given, usable=np.ones((1, len(spaces)), dtype=bool))

    wide, far = asc.Convolution(4, (8, 8)), {**SPACES, "rest": asc.Time(dim=2, offsets=(5,))}
    one, two, window, further = (
        untrained(*given)
        for given in [(SPACES, asc.MLP((8,))), (SPACES, asc.MLP((6,))), (SPACES, wide), (far, wide)]
    )
    made = []
    real = orchestration.make_design
    monkeypatch.setattr(orchestration, "make_design", lambda *a: made.append(a) or real(*a))
    models, recordings = [one, window, two, further, one], [data, data, data, data, data[:2000]]
    for own, recording, problem in zip(models, recordings, make_problems(models, recordings), strict=True):
        given = (own.embedder, own.parameters, own.spaces, own.standardise(recording.X))
        alone = make_problem(*given, recording.epochs, recording.variables)
        assert torch.equal(problem.inputs, alone.inputs) and np.array_equal(problem.index, alone.index)
    assert len(made) == 4  # the second MLP has the first one's


def test_what_is_not_a_count_has_no_poisson_loss(model, data, quick_unique_variance):
    with pytest.raises(ValueError, match="is for counts"):
        unique_variance_maps([model], [data], loss="poisson")
    counts = asc.Recording(np.abs(data.X).round(), data.variables)
    counts.X[3, 4] = -1
    with pytest.raises(ValueError, match="is for counts"):
        attribute(model, counts, "unique_variance", loss="poisson")
    counts.X[3, 4] = 2
    maps = attribute(model, counts, "unique_variance", loss="poisson")
    assert maps.by_space.attrs["loss"] == "poisson" and np.isfinite(maps.by_space).all()


def test_windows_have_a_unique_variance_but_no_tangents(data, quick_unique_variance):
    module = asc.Convolution(4, (8, 8)).build(12, 4)
    embedder = Embedder(module, SPACES)
    z_like = torch.eye(4).expand(1, 4, 4)
    decoder = fit_decoders([torch.zeros(50, 4)], [torch.zeros(50, 12)], [(0, 0)], [0], steps=1, progress=False)
    one = FittedModel(
        SPACES,
        module,
        tuple(data.channel_names),
        np.zeros(12),
        np.ones(12),
        embedder.initial(module, [0]),
        decoder,
        Alignment(torch.zeros(1, 4), z_like, z_like, 0),
        np.ones((1, 2), dtype=bool),
    )
    assert np.isfinite(attribute(one, data, "unique_variance").by_space).all()
    with pytest.raises(ValueError, match="sees a window"):
        attribute(one, data, "tangent")

"""No pair, change or window crosses the edge of an epoch: random epochs, missing variables, held-out blocks.

Two ways to look. Indices can be checked themselves: the segments on both sides must be one. And where only a result
comes out, what lies beyond the edge is replaced: nothing may change.
"""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import ascribo as asc
from ascribo.attribution.methods.generative_gradient import decoder_rows
from ascribo.attribution.methods.tangent import tangent_basis
from ascribo.attribution.unique_variance.decoding_problem import make_problem
from ascribo.attribution.unique_variance.design import make_design
from ascribo.data.segments import hold_out, segment_bounds
from ascribo.model.fitting import prepare
from ascribo.networks.model_stack import Embedder
from ascribo.spaces.device_pairs import DeviceSampler
from ascribo.spaces.pairs import Pairs
from ascribo.training.objective import contrastive_objectives
from ascribo.training.recording_batches import RecordingSource
from ascribo.training.training_problem import Problem

LEAP = 1000.0
"""What a variable jumps by from one epoch to the next; within an epoch it moves by 1."""

lengths = st.lists(st.integers(1, 40), min_size=1, max_size=8)
seeds = st.integers(0, 10**6)
few = settings(max_examples=25)


def table(epochs, rng, missing=0.0):
    """A variable that leaps between epochs, an angle and a label, each unknown at a share of the steps."""
    steps = np.arange(len(epochs))
    columns = {
        "x": steps + LEAP * epochs,
        "angle": (0.3 * steps + 2.0 * epochs) % (2 * np.pi),
        "label": rng.integers(0, 3, len(epochs)).astype(float),
        "goal": rng.normal(size=len(epochs)),
    }
    return pd.DataFrame({k: np.where(rng.random(len(epochs)) < missing, np.nan, v) for k, v in columns.items()})


def all_kinds(offset, offsets):
    return {
        "x": asc.Follow("x", 1, offset=offset),
        "turn": asc.Follow(["x", "angle"], 2, circular=["angle"], offset=offset),
        "label": asc.Discrete("label", 1),
        "goal": asc.Regress("goal"),
        "rest": asc.Time(1, offsets=tuple(offsets)),
    }


def pairs_of(spaces, variables, segments):
    """The pairs, if the segments have any for all spaces."""
    try:
        return Pairs(spaces, variables, segments)
    except ValueError:
        assume(False)
        raise


def check_pairs(batch, spaces, rows, variables, segments, shift=0):
    """All that may not happen in batches (..., row, batch) of one recording, whose steps count from `shift`."""
    batch = batch - shift
    assert batch.min() >= 0 and batch.max() < len(segments)
    for name, space in spaces.items():
        reference, positive, negative = (None if row is None else batch[..., row, :] for row in rows[name])
        for part in (reference, positive, negative):
            if part is None:
                continue
            assert (segments[part] >= 0).all(), f"{name}: a step that is not to be used"
            known = variables[list(space.variables)].notna().all(axis=1).to_numpy()
            assert known[part].all(), f"{name}: a step whose variables are unknown"
        if isinstance(space, asc.Time):
            assert (segments[reference] == segments[positive]).all()
            assert np.isin(positive - reference, space.offsets).all()
        if name == "x":  # c' = c + Δ: a change across an edge would be of a leap
            x = variables["x"].to_numpy()
            assert np.abs(x[positive] - x[reference]).max() < LEAP / 2


@given(lengths, seeds, st.integers(1, 3), st.sets(st.integers(1, 5), min_size=1), st.sampled_from([0.0, 0.2]))
@few
def test_pairs_stay_in_their_epoch(lengths, seed, offset, offsets, missing):
    rng = np.random.default_rng(seed)
    epochs = np.repeat(np.arange(len(lengths)), lengths)
    variables, spaces = table(epochs, rng, missing), all_kinds(offset, offsets)
    pairs = pairs_of(spaces, variables, epochs)
    check_pairs(pairs.draw(rng, 4, 64), spaces, pairs.rows, variables, epochs)
    for name in ("x", "turn"):
        starts = pairs.positive[name].starts
        assert (epochs[starts] == epochs[starts + offset]).all()


@given(lengths, seeds, st.floats(0.05, 0.5), st.sampled_from([0.0, 0.2]))
@few
def test_pairs_stay_on_their_side_of_what_is_held_out(lengths, seed, fraction, missing):
    rng = np.random.default_rng(seed)
    epochs = np.repeat(np.arange(len(lengths)), lengths)
    variables, spaces = table(epochs, rng, missing), all_kinds(1, (1, 3))
    for segments in hold_out(epochs, fraction, least=5):
        pairs = pairs_of(spaces, variables, segments)
        check_pairs(pairs.draw(rng, 4, 64), spaces, pairs.rows, variables, segments)
        inside = segments >= 0
        for label in np.unique(segments[inside]):  # a segment is a run of steps of one epoch
            run = np.flatnonzero(segments == label)
            assert (np.diff(run) == 1).all() and len(np.unique(epochs[run])) == 1


@given(st.lists(lengths, min_size=2, max_size=3), seeds, st.booleans())
@few
def test_pairs_drawn_on_the_device_stay_in_their_epoch_and_recording(several, seed, held_out):
    rng = np.random.default_rng(seed)
    parts, tables, segments, spaces = [], [], [], all_kinds(1, (1, 2))
    for own in several:
        epochs = np.repeat(np.arange(len(own)), own)
        segments.append(hold_out(epochs, 0.3, least=5)[0] if held_out else epochs)
        tables.append(table(epochs, rng))
        parts.append(pairs_of(spaces, tables[-1], segments[-1]))
    assume(all(p.rows == parts[0].rows for p in parts))
    which = torch.arange(len(parts)).repeat(2)
    sampler = DeviceSampler(parts, [len(s) for s in segments], which)
    drawn = sampler.draw(64, torch.Generator().manual_seed(seed)).numpy()
    starts = np.cumsum([0, *(len(s) for s in segments)])
    for model, k in enumerate(which.tolist()):
        check_pairs(drawn[model], spaces, parts[0].rows, tables[k], segments[k], shift=starts[k])


def problem_of(segments, window):
    """A problem whose channels are the numbers of the segments, for an encoder that sees `window` steps."""
    spaces = {"rest": asc.Time(1)}
    module = asc.Convolution(window, (4, 4)).build(1, 1)
    X = torch.from_numpy(segments.astype(np.float32))[:, None]
    pairs = pairs_of(spaces, pd.DataFrame(index=range(len(segments))), segments)
    return Problem(module, spaces, contrastive_objectives(spaces, "whole"), X, segments, pairs, {})


@given(st.lists(lengths, min_size=1, max_size=3), st.integers(2, 12), st.booleans())
@few
def test_windows_hold_one_segment_only(several, window, held_out):
    """In training, on one recording or several end to end; at every time step, drawn or not."""
    problems = []
    for own in several:
        epochs = np.repeat(np.arange(len(own)), own)
        problems.append(problem_of(hold_out(epochs, 0.3, least=5)[0] if held_out else epochs, window))
    for own in (problems[:1], problems):
        every = torch.arange(sum(len(p.X) for p in own))
        seen = RecordingSource(own, range(len(own))).inputs(every)
        assert seen.shape == (len(every), 1, window)
        expected = torch.cat([p.X for p in own])
        assert (seen == expected[..., None]).all()


@given(lengths, seeds, st.integers(1, 8))
@few
def test_an_epoch_is_embedded_as_if_it_were_alone(lengths, seed, window):
    rng = np.random.default_rng(seed)
    epochs = np.repeat(np.arange(len(lengths)), lengths)
    spaces = {"rest": asc.Time(2)}
    module = asc.Convolution(window, (4, 4)).build(3, 2)
    embedder = Embedder(module, spaces)
    parameters = embedder.initial(module, [seed])
    X = torch.from_numpy(rng.normal(size=(len(epochs), 3)).astype(np.float32))
    z = embedder.embed(parameters, X, epochs)
    for label in range(len(lengths)):
        inside = epochs == label
        alone = embedder.embed(parameters, X[torch.from_numpy(inside)], np.zeros(inside.sum(), int))
        torch.testing.assert_close(z[:, torch.from_numpy(inside)], alone)


@given(lengths, seeds)
@few
def test_tangents_are_those_of_the_epoch(lengths, seed):
    epochs = np.repeat(np.arange(len(lengths)), lengths)
    first, last = (torch.from_numpy(edge) for edge in segment_bounds(epochs))
    X = torch.from_numpy(np.random.default_rng(seed).normal(size=(len(epochs), 4)).astype(np.float32))
    whole = tangent_basis(X, torch.arange(len(epochs)), first, last, 2)
    for label in range(len(lengths)):
        inside = torch.from_numpy(epochs == label)
        other = torch.where(inside[:, None], X, 1e4)
        torch.testing.assert_close(whole[inside], tangent_basis(other, inside.nonzero()[:, 0], first, last, 2))


@given(lengths, seeds, st.integers(1, 200))
@few
def test_decoders_read_neighbours_of_the_same_epoch(lengths, seed, most):
    epochs = np.repeat(np.arange(len(lengths)), lengths)
    steps, neighbours = decoder_rows(epochs, most, np.random.default_rng(seed))
    assert len(steps) <= most
    assert (epochs[neighbours] == epochs[steps][:, None]).all()


class Recorder:
    """Stands in for an encoder: remembers which steps it was asked to embed."""

    def __init__(self, window):
        self.window, self.asked = window, []

    def embed(self, parameters, X, epochs, steps):
        self.asked.append(steps)
        return torch.randn(1, len(steps), 2, generator=torch.Generator().manual_seed(0))


@given(
    st.lists(st.integers(20, 80), min_size=2, max_size=8),
    seeds,
    st.integers(1, 5),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.05]),
)
@few
def test_unique_variance_looks_back_and_ahead_within_the_epoch(lengths, seed, window, offset, missing):
    rng = np.random.default_rng(seed)
    epochs = np.repeat(np.arange(len(lengths)), lengths)
    variables = table(epochs, rng, missing)[["x", "label"]]
    spaces = {"x": asc.Follow("x", 1), "rest": asc.Time(1, offsets=(offset,))}
    embedder, X = Recorder(window), torch.from_numpy(rng.normal(size=(len(epochs), 3)).astype(np.float32))
    try:
        problem = make_problem(embedder, {"w": torch.zeros(1)}, spaces, X, epochs, variables)
    except ValueError:
        assume(False)
        raise
    steps, (asked,) = problem.index, embedder.asked
    near = make_design(spaces, window, epochs, variables, X).neighbour_distance
    assert near > window // 2  # what the encoder sees there does not reach the step itself
    for neighbours in (steps - near, steps + near):
        assert (epochs[neighbours] == epochs[steps]).all()
    assert set(asked) == {*(steps - near), *(steps + near)}
    assert torch.isfinite(problem.inputs).all()


@pytest.mark.parametrize("encoder", [asc.MLP((8,)), asc.Convolution(7, (4, 4))])
def test_a_prepared_recording_trains_on_nothing_that_is_held_out(encoder):
    """All the steps that the encoder sees in training, windows and all, are steps to train on."""
    epochs = np.repeat(np.arange(6), [40, 90, 7, 200, 60, 3])
    rng = np.random.default_rng(0)
    recording = asc.Recording(rng.normal(size=(len(epochs), 3)), table(epochs, rng, 0.1), epochs=epochs)
    item = prepare(recording, all_kinds(1, (1, 2)), encoder=encoder, validation_fraction=0.2)
    number = torch.arange(len(epochs), dtype=torch.float32)[:, None]
    embedder = Embedder(item.problem.module, item.problem.spaces)
    assert item.held_out
    for pairs, segments, others in (
        (item.problem.pairs, item.problem.segments, item.validation_segments),
        (item.validation_pairs, item.validation_segments, item.problem.segments),
    ):
        index = torch.from_numpy(pairs.draw(rng, 20, 64))
        edges = [torch.from_numpy(edge) for edge in segment_bounds(segments)]
        seen = embedder.gather(number, index, *edges).long().numpy()
        assert (segments[seen] >= 0).all() and (others[seen] == -1).all()
        own = index.numpy().reshape(*index.shape, *(1 for _ in range(seen.ndim - index.ndim)))
        assert (epochs[seen] == epochs[own]).all()

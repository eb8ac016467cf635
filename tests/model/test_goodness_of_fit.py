"""Bits on held-out time, and their interval over blocks of it."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.signal import lfilter

import ascribo as asc
from ascribo.data.segments import hold_out, hold_out_epochs
from ascribo.model.fitting import prepare
from ascribo.model.goodness_of_fit import TEMPERATURES, block_interval, goodness_of_fit, time_blocks
from ascribo.networks.encoders import build_encoder
from ascribo.networks.infonce_loss import infonce
from ascribo.networks.model_stack import Embedder
from ascribo.spaces.pairs import Pairs
from ascribo.spaces.similarities import as_similarity

SPACES = {"x": asc.Follow("x", 1), "guess": asc.Regress("x"), "rest": asc.Time(2, similarity="dot")}
STEPS, BATCH = 600, 48


@pytest.fixture(scope="module")
def parts():
    data = asc.simulate.box(3, observed=1, hidden=1, channels=(3, 3), steps=STEPS)
    X = torch.from_numpy((data.X - data.X.mean(0)) / data.X.std(0))
    module = build_encoder(asc.MLP((8,)), 6, 4)
    embedder = Embedder(module, SPACES)
    _, testing = hold_out(data.epochs, 0.3)
    return data, X, embedder, embedder.initial(module, [1, 2, 3]), testing


def targets(table):
    space = SPACES["guess"]
    return {"guess": space.targets(table, space.target_statistics(table, np.arange(STEPS)))}


def judge(parts, pairs, goal, parameters=None, **options):
    _, X, embedder, initial, testing = parts
    given = initial if parameters is None else parameters
    return goodness_of_fit(embedder, given, SPACES, X, testing, pairs, goal, batch=BATCH, **options)


def test_bits_are_those_of_the_loss(parts):
    data, X, embedder, parameters, testing = parts
    pairs, goal = Pairs(SPACES, data.variables, testing), targets(data.variables)
    fit = judge(parts, pairs, goal, batches=3, seed=4)
    index = torch.from_numpy(pairs.draw(np.random.default_rng(4), 3, BATCH))
    by_hand, weight = {"x": [], "rest": [], "guess": []}, {"x": [], "rest": [], "guess": [1, 1, 1]}
    for rows in index:
        z = embedder(parameters, X[rows.flatten()].expand(3, -1, -1)).unflatten(1, rows.shape)
        for name, where in {"x": slice(0, 1), "rest": slice(2, 4)}.items():
            part = [z[:, row, :, where] for row in pairs.rows[name]]
            terms = [(as_similarity(SPACES[name].similarity), slice(0, SPACES[name].dim))]
            # a pair of a step with itself counts for nothing
            reference, positive, negative = part
            apart = torch.ones(BATCH, dtype=torch.bool) if name == "rest" else rows[pairs.rows[name][1]] != rows[0]
            kept = (reference[:, apart], positive[:, apart], negative)
            weight[name].append(apart.sum())
            by_hand[name].append(np.log2(BATCH) - infonce(*kept, terms, count_positive=True) / np.log(2))
        known = torch.from_numpy(goal["guess"])[rows[0]]
        error = (z[:, 0, :, 1:2] - known).square().mean((1, 2))
        by_hand["guess"].append(0.5 * torch.log2(known.var(correction=0) / error))
    mean = lambda name: np.average(torch.stack(by_hand[name]), axis=0, weights=weight[name])  # noqa: E731
    expected = np.stack([mean(name) for name in SPACES], axis=1)
    np.testing.assert_allclose(fit.bits, expected, rtol=1e-4, atol=1e-5)
    # the blocks hold the same references, so they have the same mean
    np.testing.assert_allclose((fit.block_bits * fit.block_share).sum(0), fit.bits, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(fit.block_share.sum(0), 1)


def test_models_with_pairs_of_their_own_are_judged_as_if_alone(parts):
    data, *_, parameters, testing = parts
    tables = [data.variables, data.variables[::-1].reset_index(drop=True), data.variables**2]
    pairs = [Pairs(SPACES, table, testing) for table in tables]
    goals = [targets(table) for table in tables]
    together = judge(parts, pairs, goals)
    for k in range(3):
        alone = judge(parts, pairs[k], goals[k], {name: value[k : k + 1] for name, value in parameters.items()})
        np.testing.assert_allclose(together.bits[k], alone.bits[0], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(together.block_bits[:, k], alone.block_bits[:, 0], rtol=1e-3, atol=1e-4)
    assert np.ptp(together.bits[:, 0]) > 1e-3


def test_the_best_temperature_is_that_of_the_embedding_divided(parts):
    data, _, embedder, parameters, testing = parts
    pairs, goal = Pairs(SPACES, data.variables, testing), targets(data.variables)
    assert embedder.spheres == [slice(2, 4)]  # which cannot be scaled: only the first two dimensions are looked at
    last = {"2.weight": 4.0, "2.bias": 4.0}
    larger = {name: value * last.get(name, 1.0) for name, value in parameters.items()}
    smaller = {name: value / 2 if name in last else value for name, value in larger.items()}
    plain, half = (judge(parts, pairs, goal, p).bits[:, :2] for p in (larger, smaller))
    np.testing.assert_allclose(judge(parts, pairs, goal, larger, temperatures=(4.0,)).bits[:, :2], half, atol=1e-4)
    best = judge(parts, pairs, goal, larger, temperatures=(1.0, 4.0))
    np.testing.assert_allclose(best.bits[:, :2], np.maximum(plain, half), atol=1e-4)
    assert (half > plain + 0.1).any()
    np.testing.assert_allclose((best.block_bits * best.block_share).sum(0), best.bits, rtol=1e-4, atol=1e-4)


def test_the_table_gains_an_interval_and_keeps_its_columns(parts):
    data, *_, testing = parts
    table = judge(parts, Pairs(SPACES, data.variables, testing), targets(data.variables)).table()
    assert list(table) == ["space", "bits", "infonce", "chance", "left_out", "bits_low", "bits_high", "collapsed"]
    assert (table.bits_low < table.bits).all() and (table.bits < table.bits_high).all()


def test_blocks_are_runs_of_held_out_time_or_tenths_of_all_of_it():
    _, testing = hold_out(np.repeat([0, 1], 500), 0.2)
    blocks = time_blocks(testing)
    np.testing.assert_array_equal(blocks < 0, testing < 0)
    assert blocks.max() == 9 and (np.bincount(blocks[blocks >= 0]) == 20).all()
    np.testing.assert_array_equal(np.bincount(time_blocks(np.zeros(95, int))), [10, 9] * 5)
    assert time_blocks(np.zeros(3, int)).tolist() == [0, 1, 2]


@pytest.mark.parametrize("blocks", [5, 10])
def test_the_interval_covers_the_mean_of_dependent_values(blocks):
    rng, length, runs = np.random.default_rng(0), 20, 4000
    level = rng.normal(size=(runs, blocks, 1))  # within a block the values are nearly copies
    values = level + 0.2 * rng.normal(size=(runs, blocks, length))
    low, high = block_interval(values.mean(2).T, np.full((blocks, runs), 1 / blocks))
    assert ((low < 0) & (high > 0)).mean() == pytest.approx(0.95, abs=0.012)
    flat = values.reshape(runs, -1)
    naive = 1.96 * flat.std(1) / np.sqrt(flat.shape[1])
    assert (np.abs(flat.mean(1)) < naive).mean() < 0.6  # what an interval over references would do


def test_blocks_without_references_do_not_count():
    values, share = np.array([1.0, 2.0, 3.0, 0.0]), np.array([1, 1, 1, 0]) / 3
    np.testing.assert_allclose(block_interval(values, share), block_interval(values[:3], share[:3]))
    assert np.isnan(block_interval(values[:1], np.ones(1))).all()


@pytest.mark.parametrize("sessions", [False, True])
def test_bits_limits_and_collapse_are_printed_in_80_columns(monkeypatch, sessions):
    """As in a terminal, where pandas leaves out the columns in the middle."""
    monkeypatch.setenv("COLUMNS", "80")
    data = asc.simulate.box(observed=1, hidden=1, channels=(3, 3), steps=600)
    options = dict(seeds=1, steps=2, batch_size=32, penalty=0.0, encoder=asc.MLP((4,)), progress=False)
    spaces = {"position": asc.Follow("x", 1), "rest": asc.Time(1)}
    if sessions:
        model = asc.SharedEmbedding(spaces, **options).fit({"one": data[:300], "two": data[300:]})
    else:
        model = asc.ContrastiveEmbedding(spaces, **options).fit(data)
    with pd.option_context("display.max_columns", 0):
        printed = str(model.goodness_of_fit_)
    assert "..." in printed
    assert {"space", "bits", "bits_low", "bits_high", "collapsed"} <= set(printed.split("\n")[0].split())


@pytest.mark.parametrize("variables", [2, 4, 6])
def test_noise_and_walks_that_have_nothing_to_do_with_each_other_have_no_bits(variables):
    """The nearest step to where several variables go next is often the step itself, which any encoder knows."""
    rng = np.random.default_rng(variables)
    names = [f"walk{k}" for k in range(variables)]
    X = torch.from_numpy(rng.normal(size=(3000, 8))).float()
    walks = pd.DataFrame(np.cumsum(rng.normal(size=(3000, variables)), axis=0), columns=names)
    spaces = {"walks": asc.Follow(names, variables)}
    module = build_encoder("mlp", 8, variables)
    embedder = Embedder(module, spaces)
    initial = {name: 2 * value for name, value in embedder.initial(module, [0]).items()}  # it tells steps apart
    pairs, epochs = Pairs(spaces, walks, np.zeros(3000, int)), np.zeros(3000, int)
    index = pairs.draw(np.random.default_rng(0), 20, 256)
    assert (index[:, 0] == index[:, 2]).mean() > {2: 0.005, 4: 0.1, 6: 0.3}[variables]
    fit = goodness_of_fit(embedder, initial, spaces, X, epochs, pairs, {}, batch=256, temperatures=TEMPERATURES)
    assert fit.bits.item() < 0.02 and fit.collapsed.all() and fit.table()["bits_low"].item() < 0.01


# Labels of trials


def trials(seed, carried=0.0, count=100, length=50):
    """Channels that wander more slowly than trials follow each other; the first may carry the trials' labels."""
    rng = np.random.default_rng(seed)
    X = lfilter([0.1], [1, -0.995], rng.normal(size=(count * length, 10)), axis=0)
    label = np.repeat(rng.integers(0, 4, count), length)
    X[:, 0] += carried * np.array([0, 1, -1, 2])[label]
    return asc.Recording(X, {"label": label}, epochs=np.repeat(np.arange(count), length))


def fitted(recording, **options):
    spaces = {"label": asc.Discrete("label", dim=2), "rest": asc.Time(dim=2)}
    given = {"steps": 200, "seeds": 1, "penalty": 0.0, "random_state": 0, "progress": False, **options}
    return asc.ContrastiveEmbedding(spaces, **given).fit(recording)


@pytest.mark.parametrize("seed", [1, 2])
def test_noise_tells_nothing_of_the_labels_of_trials(seed):
    """Half of a trial tells the other half, and any time step those of its trial, whatever the label."""
    recording = trials(seed)
    model = fitted(recording)
    table = model.goodness_of_fit_.set_index("space")
    assert table.collapsed["label"] and table.bits["label"] < 0.01 and not table.collapsed["rest"]
    assert list(model.attribute(recording, method="neuron_gradient").refused) == ["label"]
    table = fitted(trials(seed, carried=1.5)).goodness_of_fit_.set_index("space")
    assert table.bits["label"] > 0.05 and not table.collapsed["label"]


def test_whole_trials_are_held_out_where_something_does_not_change_within_them():
    recording = trials(0, count=40, length=20)
    spaces = {"label": asc.Discrete("label", dim=2), "rest": asc.Time(dim=2)}
    item = prepare(recording, spaces, validation_fraction=0.2)
    held_out = item.validation_segments.reshape(40, 20) >= 0
    assert item.between == ("label",) and (held_out.all(1) | ~held_out.any(1)).all() and held_out[:, 0].sum() == 8
    np.testing.assert_array_equal(item.problem.segments >= 0, item.validation_segments < 0)
    for other in ({"rest": asc.Time(dim=2)}, {"label": asc.Regress("label")}):
        item = prepare(recording, other, validation_fraction=0.2)
        assert item.between == ()
        np.testing.assert_array_equal(item.validation_segments, hold_out(recording.epochs, 0.2)[1])


def test_few_trials_are_cut_through_as_all_recordings_are():
    assert hold_out_epochs(np.repeat(np.arange(7), 100), 0.3) is not None  # a third of seven is two
    assert hold_out_epochs(np.repeat(np.arange(7), 100), 0.1) is None
    training, testing = hold_out_epochs(np.repeat(np.arange(8), 100), 0.1)
    assert len(np.unique(testing)) == 3 and ((training >= 0) ^ (testing >= 0)).all()


def test_a_score_counts_pairs_of_different_trials_alone():
    label = asc.ContrastiveEmbedding({"label": asc.Discrete("label", dim=2)}, steps=5, seeds=1, progress=False)
    one_each = trials(3, count=8)
    one_each.variables["label"] = np.repeat(np.arange(8), 50)
    assert label.fit(trials(1)).score(one_each) == 0

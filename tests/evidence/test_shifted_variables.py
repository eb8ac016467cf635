"""The shift test: its lags, its pairs, and that it keeps its promise."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import ascribo as asc
from ascribo.data.segments import hold_out
from ascribo.evidence import shift_embeddings as module
from ascribo.evidence.shift_embeddings import shifted_pairs
from ascribo.evidence.shifted_variables import draw_lags, shift_test, shift_tests
from ascribo.spaces.pairs import Pairs
from ascribo.training import stack_packing as packing
from experiments.validation.nulls import recording, uniformity

FOLLOW = {"variable": asc.Follow("x", 1)}


def small(spaces=FOLLOW, **changes):
    given = {"steps": 60, "batch_size": 64, "encoder": asc.MLP((16,)), "learning_rate": 5e-3, "penalty": 0}
    given |= {"validation_fraction": 0.2, "progress": False, "device": "cpu"}
    return asc.ContrastiveEmbedding(spaces, **given | changes)


BITS = {"statistic": "embedding"}


def own(seed=0, steps=1500):
    return recording("related", seed, steps, 0.15)


# Lags


@pytest.mark.parametrize("steps, shifts", [(100, 39), (1500, 39), (1501, 19), (80, 39)])
def test_lags_are_distinct_and_spaced_on_the_circle(steps, shifts):
    for seed in range(20):
        lags = draw_lags(steps, shifts, np.random.default_rng(seed))
        points = np.r_[0, lags, steps]
        assert len(lags) == shifts and np.diff(points).min() >= max(1, steps // (2 * (shifts + 1)))


def test_zero_is_a_lag_like_any_other():
    """Else the copies would resemble each other more than the real recording, or less, and p would lie."""
    gaps = []
    for seed in range(3000):
        gaps.append(np.diff(np.r_[0, draw_lags(200, 4, np.random.default_rng(seed)), 200]))
    mean, spread = np.mean(gaps, axis=0), np.std(gaps, axis=0)
    np.testing.assert_allclose(mean, 40, rtol=0.04)  # the gaps beside 0 are the first and the last
    np.testing.assert_allclose(spread, spread.mean(), rtol=0.06)
    assert spread.min() > 10


def test_too_many_shifts_are_refused():
    with pytest.raises(ValueError, match="at most 19 shifts"):
        draw_lags(40, 20, np.random.default_rng(0))
    assert len(draw_lags(40, 19, np.random.default_rng(0))) == 19


# Pairs

EPOCHS = np.repeat(np.arange(5), [30, 50, 20, 60, 40])
TABLE = pd.DataFrame({"x": np.arange(200.0) + 1000 * EPOCHS})  # within an epoch it grows by 1 a step
SPACES = {"variable": asc.Follow("x", 1, offset=2), "rest": asc.Time(1, offsets=(1, 3))}


def test_without_a_shift_the_pairs_are_the_usual_ones():
    for segments in hold_out(EPOCHS, 0.4, least=10):
        usual = Pairs(SPACES, TABLE, segments)
        pairs, table = shifted_pairs(SPACES, TABLE, segments, EPOCHS)
        pd.testing.assert_frame_equal(table, TABLE)
        np.testing.assert_array_equal(pairs.positive["variable"].starts, usual.positive["variable"].starts)
        assert pairs.rows == usual.rows
        drawn = pairs.draw(np.random.default_rng(0), 50, 40)
        reference, positive, _ = pairs.rows["rest"]
        offset, count = np.unique(drawn[:, positive] - drawn[:, reference], return_counts=True)
        np.testing.assert_array_equal(offset, [1, 3])
        assert count.min() > 900


@pytest.mark.parametrize("lag", [1, 37, 100, 199])
def test_shifted_variables_change_only_within_their_own_epochs(lag):
    for segments in hold_out(EPOCHS, 0.4, least=10):
        pairs, table = shifted_pairs(SPACES, TABLE, segments, EPOCHS, variables_by=lag)
        np.testing.assert_array_equal(table["x"], np.roll(TABLE["x"], lag))
        follow = pairs.positive["variable"]
        change = table["x"].to_numpy()[follow.starts + 2] - table["x"].to_numpy()[follow.starts]
        np.testing.assert_array_equal(change, 2)  # across an edge it would be 1000, at the seam negative
        assert (segments[follow.starts] >= 0).all() and (segments[follow.starts + 2] >= 0).all()
        assert len(follow.starts) > 20


@pytest.mark.parametrize("lag", [1, 37, 100, 199])
def test_moved_neighbours_are_neighbours_within_another_segment(lag):
    for segments in hold_out(EPOCHS, 0.4, least=10):
        usual = Pairs(SPACES, TABLE, segments)
        pairs, _ = shifted_pairs(SPACES, TABLE, segments, EPOCHS, time_by=lag)
        reference, positive, _ = pairs.rows["rest"]
        pool, moved = pairs.uniform[reference], pairs.positive["rest"]
        np.testing.assert_array_equal(pool, usual.uniform[reference])
        partner = moved.groups.members.reshape(-1, 2)[moved.codes[pool]]
        # step + 1 and step + 3 of a step that has both within its segment, each step once
        np.testing.assert_array_equal(partner[:, 1] - partner[:, 0], 2)
        np.testing.assert_array_equal(np.sort(partner[:, 0] - 1), pool)
        assert (segments[partner[:, 0] - 1] == segments[partner[:, 1]]).all()
        assert (segments[partner[:, 1]] != segments[pool]).all() and (segments[partner] >= 0).all()
        drawn = pairs.draw(np.random.default_rng(0), 5, 40)
        assert all(
            b in partner[pool == a]
            for a, b in zip(drawn[:, reference].ravel(), drawn[:, positive].ravel(), strict=True)
        )


def test_all_models_are_judged_on_the_same_time_steps():
    spaces, rng = SPACES | {"guess": asc.Regress("x")}, np.random.default_rng(0)
    lags = draw_lags(1500, 5, rng)
    task = module.prepare_task(small(spaces), own(), spaces, list(spaces), lags.tolist(), rng)
    assert len(task.problems) == len(task.validation_pairs) == 11  # five copies of each kind
    assert task.null == {"variable": slice(1, 6), "guess": slice(1, 6), "rest": slice(6, 11)}
    for pairs in task.validation_pairs:
        for mine, real in zip(pairs.uniform, task.validation_pairs[0].uniform, strict=True):
            np.testing.assert_array_equal(mine, real)
    assert all(problem.X is task.problems[0].X for problem in task.problems)
    goals = [problem.targets["guess"][:, 0] for problem in task.problems]
    x = own().variables["x"].to_numpy()
    for k, lag in enumerate([0, *lags, 0, 0, 0, 0, 0]):
        assert np.corrcoef(goals[k], np.roll(x, lag))[0, 1] > 0.999
        for pairs in (task.problems[k].pairs, task.validation_pairs[k]):  # trained and judged on the same relation
            values = pairs.positive["variable"].values[:, 0]
            assert np.corrcoef(values, np.roll(x, lag))[0, 1] > 0.999
            moved = pairs.positive["rest"].groups.members - np.repeat(pairs.uniform[0], 2)
            assert (set(moved) == {1, 3}) == (k < 6)


# The test itself


def test_a_true_relation_has_the_smallest_p_of_all():
    spaces = {"variable": asc.Follow("x", 1), "rest": asc.Time(1), "guess": asc.Regress("x")}
    table = shift_test(small(spaces, steps=150), own(), shifts=9, **BITS)
    columns = "space statistic score score_low score_high r2 null_mean null_high shifts p".split()
    assert list(table) == columns and list(table["space"]) == ["variable", "rest", "guess"]
    np.testing.assert_allclose(table.p, 0.1)
    assert (table.score > table.null_high).all() and (table.null_high >= table.null_mean).all()
    assert (table.score_low < table.score).all() and (table.score < table.score_high).all()
    copies = np.array([table.attrs["copies"][name] for name in table["space"]])
    np.testing.assert_allclose(copies.mean(1), table.null_mean)
    np.testing.assert_allclose((copies >= table.score.to_numpy()[:, None]).sum(1), 0)


def test_unrelated_variables_have_uniform_p():
    unrelated = [recording("unrelated", seed, 600, 0.2) for seed in range(24)]
    p = [float(t.p[0]) for t in shift_tests(small(steps=20, encoder=asc.MLP((8,))), unrelated, shifts=9, **BITS)]
    assert uniformity(p, 9)[1] > 0.05
    assert 0.35 < np.mean(p) < 0.75 and len(set(p)) >= 7


def test_an_overfitted_model_still_tells_a_true_relation(monkeypatch):
    """A related variable makes the embedding surer of itself, and then more wrong: it has the fewest plain bits."""
    data = asc.simulate.box(0, observed=1, hidden=2, channels=(10, 10), steps=800, step_size=0.2, snr=0.3)
    model = small(steps=200, batch_size=128, encoder=asc.MLP((64, 64)))
    table = shift_test(model, data.X, data.variables, shifts=9, **BITS)
    assert table.p[0] == 0.1 and table.score[0] > 0.01
    monkeypatch.setattr(module, "TEMPERATURES", (1.0,))
    plain = shift_test(model, data.X, data.variables, shifts=9, **BITS)
    assert plain.score[0] < -0.2 and plain.p[0] > 0.5


@pytest.mark.parametrize("statistic", ["decoders", "embedding"])
def test_labels(statistic):
    rng = np.random.default_rng(0)
    label = np.repeat(rng.choice(list("abc"), 100), 10)
    noise = rng.normal(size=(1000, 6))
    spaces = {"kind": asc.Discrete("y", 2)}
    seen = shift_test(small(spaces), noise + (label == "a")[:, None], label, shifts=9, statistic=statistic)
    unseen = shift_test(small(spaces), noise, label, shifts=9, statistic=statistic)
    assert seen.p[0] == 0.1 and unseen.p[0] > 0.2


def test_time_is_tested_against_neighbours_of_other_steps():
    rng = np.random.default_rng(0)
    white = rng.normal(size=(800, 5))
    slow = np.stack([np.convolve(x, np.ones(10), "same") for x in white.T], axis=1)
    model = small({"rest": asc.Time(2)}, steps=100)
    assert shift_test(model, slow, shifts=9).p[0] == 0.1
    assert shift_test(model, white, shifts=9).p[0] > 0.2


def few(n_jobs=None):
    return small(steps=30, n_jobs=n_jobs), {"shifts": 12, "random_state": 3, **BITS}


def test_neither_other_recordings_nor_the_size_of_stacks_matter(monkeypatch):
    data, (model, options) = [own(1, 1000), own(2, 1200)], few()
    both = shift_tests(model, data, **options)
    monkeypatch.setattr(packing, "MOST_ON_HOST", 3)
    first = shift_test(model, data[0], **options)
    pd.testing.assert_frame_equal(both[0], first, atol=1e-3)
    assert not np.allclose(both[1].score, first.score, atol=1e-3)


@pytest.mark.slow
def test_processes_do_not_matter():
    (one, options), (two, _) = few(), few(n_jobs=2)
    alone, spread = (shift_test(model, own(1, 1000), **options) for model in (one, two))
    pd.testing.assert_frame_equal(alone, spread, atol=1e-3)


def test_only_some_spaces_and_the_model_is_left_alone():
    model = small({**FOLLOW, "rest": asc.Time(1)}, steps=10)
    assert list(shift_test(model, own(), shifts=2, only=["rest"])["space"]) == ["rest"]
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


def test_missing_values_move_with_their_variable():
    data = own()
    y = data.variables.copy()
    y.iloc[100:400] = np.nan
    model = small({**FOLLOW, "rest": asc.Time(1)}, steps=10)
    table = shift_test(model, data.X, y, shifts=4, **BITS)
    assert np.isfinite(table.drop(columns=["space", "statistic", "r2"]).to_numpy(dtype=float)).all()
    decoded = shift_test(model, data.X, y, shifts=19)
    assert decoded["statistic"].tolist() == ["decoders", "embedding"] and decoded.p[0] == 0.05
    assert decoded.r2[0] > 0.2 and np.isnan(decoded.r2[1])


def test_variables_too_slow_to_shift_are_said_to_be():
    data = own()
    drift = {"x": data.variables["x"] + np.linspace(0, 20, 1500)}
    with pytest.warns(
        UserWarning, match=r"'variable': its variables are so slow .* about [1-5] independent values"
    ):
        shift_test(small(steps=2), data.X, drift, shifts=2)
    turning = {"x": np.linspace(0, 60 * np.pi, 1500) % (2 * np.pi)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shift_test(small(steps=2), data, shifts=2)
        shift_test(small({"variable": asc.Follow("x", 2, circular=True)}, steps=2), data.X, turning, shifts=2)


@pytest.mark.parametrize(
    "options, match",
    [
        ({"shifts": 0}, "shifts=0"),
        ({"only": ["y"]}, "spaces of the model"),
        ({"statistic": "bits"}, "expected one of"),
    ],
)
def test_bad_options(options, match):
    with pytest.raises(ValueError, match=match):
        shift_test(small(), own(), **options)

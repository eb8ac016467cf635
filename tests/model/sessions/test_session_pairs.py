"""Pairs of several sessions against what they say they are."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascribo.model.sessions.session_pairs import SessionPairs, joint_measures
from ascribo.spaces.kinds.discrete import Discrete
from ascribo.spaces.kinds.follow import Follow
from ascribo.spaces.kinds.time import Time
from ascribo.spaces.sessions import Member, partners, senders

TIME = Time(1, offsets=(1, 3))


def pairs_of(spaces, tables, segments=None):
    segments = [np.zeros(len(t), int) for t in tables] if segments is None else segments
    own = [{n: s for n, s in spaces.items() if set(s.variables) <= set(t)} for t in tables]
    members = [Member(o, t, s) for o, t, s in zip(own, tables, segments, strict=True)]
    return SessionPairs(spaces, members, joint_measures(spaces, tables))


def walk(seed, steps, low=-1.0, high=1.0, size=0.05):
    rng = np.random.default_rng(seed)
    x = np.cumsum(rng.normal(0, size, steps))
    period = 2 * (high - low)
    return low + np.abs((x % period) - period / 2)


def values_at(pairs, tables, index, role):
    """The variable at the references (role 0) or positives (1) of each session: (session, step, batch)."""
    each = zip(tables, index, pairs.rows, strict=True)
    return np.stack([table["x"].to_numpy()[part[:, rows["x"][role]]] for table, part, rows in each])


@given(sessions=st.integers(1, 7), batch=st.integers(1, 20), step=st.integers(0, 50))
def test_every_place_has_one_reference_and_one_positive(sessions, batch, step):
    to, back = partners(sessions, batch, step), senders(sessions, batch, step)
    place = np.arange(batch)
    np.testing.assert_array_equal(back[to, place], np.broadcast_to(np.arange(sessions)[:, None], to.shape))
    assert (np.sort(to, axis=0) == np.arange(sessions)[:, None]).all()


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_pairs_of_time_stay_in_their_session_and_epoch(data):
    """Also where some steps have no variables, and segments are cut anywhere."""
    tables, segments = [], []
    for number in range(data.draw(st.integers(1, 4))):
        runs = data.draw(st.lists(st.integers(4, 30), min_size=1, max_size=5))
        labels = np.repeat(np.arange(len(runs)), runs)
        keep = np.array([data.draw(st.booleans()) for _ in runs])
        keep[data.draw(st.integers(0, len(runs) - 1))] = True
        segments.append(np.where(keep[labels], labels, -1))
        x = walk(number, len(labels))
        inside = np.flatnonzero(segments[-1] >= 0)
        x[inside[len(inside) // 2 :: 3]] = np.nan
        tables.append(pd.DataFrame({"x": x}))
    pairs = pairs_of({"x": Follow("x", 1), "rest": TIME}, tables, segments)
    index, _ = pairs.draw(np.random.default_rng(0), 3, 4, 16)
    for part, own, segment in zip(index, pairs.rows, segments, strict=True):
        assert (part >= 0).all() and (part < len(segment)).all() and (segment[part] >= 0).all()
        reference, positive, negative = (part[:, row] for row in own["rest"])
        assert np.isin(positive - reference, TIME.offsets).all()
        assert (segment[reference] == segment[positive]).all()
        assert (segment[negative] >= 0).all()
    for part, own, table in zip(index, pairs.rows, tables, strict=True):
        assert not np.isnan(table["x"].to_numpy()[part[:, list(own["x"])]]).any()


def test_positives_come_from_all_sessions_in_equal_shares_and_from_the_right_place():
    tables = [pd.DataFrame({"x": walk(k, n)}) for k, n in enumerate((4000, 1500, 900))]
    pairs = pairs_of({"x": Follow("x", 1)}, tables)
    index, valid = pairs.draw(np.random.default_rng(1), 7, 30, 31)
    reference, positive = (values_at(pairs, tables, index, role) for role in (0, 1))
    counts, moved = np.zeros((3, 3)), []
    for step in range(30):
        to = partners(3, 31, 7 + step)
        for k in range(3):
            counts[k] += np.bincount(to[k], minlength=3)
            moved.append(positive[to[k], step, np.arange(31)] - reference[k, step])
    assert np.ptp(counts) <= 1 and counts.sum() == 3 * 30 * 31
    assert valid["x"].mean() > 0.99
    moved = np.concatenate(moved)
    assert abs(moved.std() - 0.05) < 0.005 and abs(moved.mean()) < 0.005  # the change, and no more than it


def test_changes_are_drawn_from_every_session_alike():
    """A fast animal and a slow one: pairs are as far apart whoever holds the reference or the positive."""
    tables = [pd.DataFrame({"x": walk(1, 90_000, size=0.01)}), pd.DataFrame({"x": walk(2, 6000, size=0.1)})]
    pairs = pairs_of({"x": Follow("x", 1)}, tables)
    index, _ = pairs.draw(np.random.default_rng(1), 0, 100, 64)
    reference, positive = (values_at(pairs, tables, index, role) for role in (0, 1))
    spread = {}
    for k in range(2):
        for j in range(2):
            mine = np.stack([partners(2, 64, s)[k] == j for s in range(100)]) & (np.abs(reference[k]) < 0.6)
            spread[k, j] = (positive[j] - reference[k])[mine].std()
    expected = np.sqrt((0.01**2 + 0.1**2) / 2)
    assert all(abs(value - expected) < 0.15 * expected for value in spread.values())


def test_circular_changes_go_the_short_way_round():
    tables = [pd.DataFrame({"a": np.cumsum(np.random.default_rng(k).normal(0, 0.2, 2000)) % 360}) for k in (0, 1)]
    pairs = pairs_of({"a": Follow("a", 2, circular=True, period=360)}, tables)
    scale = 360 / np.sqrt(12)
    assert np.abs(pairs.keep(0)["a"]).max() * scale < 2


def test_what_the_other_has_not_seen_does_not_count():
    """The second session has been to the right half only; pairs with it from the left do not count."""
    tables = [pd.DataFrame({"x": walk(1, 5000)}), pd.DataFrame({"x": walk(2, 3000, low=0.0)})]
    pairs = pairs_of({"x": Follow("x", 1)}, tables)
    index, valid = pairs.draw(np.random.default_rng(0), 0, 50, 64)
    x = tables[0]["x"].to_numpy()[index[0][:, pairs.rows[0]["x"][0]]]
    other = np.stack([partners(2, 64, s)[0] == 1 for s in range(50)])
    assert not valid["x"][0][other & (x < -0.5)].any()  # more than twice the longest change
    assert valid["x"][0][other & (x > 0.2)].all()
    assert valid["x"][0][~other].all() and valid["x"][1].mean() > 0.97
    table = pairs.overlap().set_index(["session", "other"])["share"]
    mine = float((tables[0]["x"] > 0).mean())
    assert abs(table[0, 1] - mine) < 0.12 and table[1, 0] > 0.95


def test_labels_that_the_other_does_not_have_do_not_count():
    rng = np.random.default_rng(0)
    tables = [pd.DataFrame({"s": rng.choice(list("abc"), 300)}), pd.DataFrame({"s": rng.choice(list("bcd"), 200)})]
    pairs = pairs_of({"s": Discrete("s", 1)}, tables)
    index, valid = pairs.draw(rng, 0, 20, 60)
    codes = [t["s"].to_numpy()[i] for t, i in zip(tables, index, strict=True)]
    row = pairs.rows[0]["s"]
    reference, positive = (np.stack([c[:, row[role]] for c in codes]) for role in (0, 1))
    for step in range(20):
        to = partners(2, 60, step)
        for k in range(2):
            found = positive[to[k], step, np.arange(60)]
            counts = valid["s"][k, step]
            assert (found == reference[k, step])[counts].all()
            alone = (to[k] != k) & (reference[k, step] == "ad"[k])
            np.testing.assert_array_equal(~counts, alone)


@pytest.mark.parametrize("labels", [[1, 2, 3], [True, False], ["x", None, "y"]])
def test_labels_of_any_kind_match_across_sessions(labels):
    """Numbers become floats where some are missing, and still are the same labels."""
    first = pd.DataFrame({"s": labels * 20})
    second = pd.DataFrame({"s": pd.Series(labels * 20).where(np.arange(20 * len(labels)) % 7 > 0)})
    pairs = pairs_of({"s": Discrete("s", 1)}, [first, second])
    assert (pairs.overlap()["share"] == 1).all()

"""The null experiment with a tiny protocol, and its test of uniformity."""

import json

import numpy as np
import pytest

from experiments.validation import nulls

KINDS = dict(unrelated=6, wandering=4, related=2, weak=3, nonlinear=2)
TINY = dict(**KINDS, embedded=2, shifts=9, steps=1000, progress=False)
MODEL = {"steps": 40, "batch_size": 64, "learning_rate": 5e-3, "device": "cpu"}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("results")
    return out, nulls.run(out, model=MODEL, **TINY)


def test_every_recording_has_its_row(done):
    rows = done[1]["rows"]
    assert [(row["kind"], row["data_seed"]) for row in rows] == [
        (kind, k) for kind in KINDS for k in range(KINDS[kind])
    ]
    for row in rows:
        assert ("embedding" in row) == (row["data_seed"] < 2)
        for p in (row["p"], row["ridge_p"], row.get("embedding", row)["p"]):
            assert p * 10 == pytest.approx(round(p * 10)) and 0.1 <= p <= 1
    bits = [row["embedding"] for row in rows if "embedding" in row]
    assert all(row["score_low"] < row["score"] < row["score_high"] for row in bits)


def test_the_summary_tells_the_kinds_apart(done):
    rows, summary = done[1]["rows"], done[1]["summary"]
    r2 = {kind: np.mean([row["r2"] for row in rows if row["kind"] == kind]) for kind in KINDS}
    assert r2["related"] > 0.1 > max(r2["unrelated"], r2["wandering"])
    for kind, s in summary.items():
        p = np.array([row["p"] for row in rows if row["kind"] == kind])
        assert s["n"] == len(p) and s["share"] == (p <= 0.05).mean() and s["embedded"] == 2
        assert s["share_ci95"][0] <= s["share"] <= s["share_ci95"][1]


def test_what_is_written(done):
    out, result = done
    assert sorted(path.name for path in out.iterdir()) == ["nulls.json", "nulls.png"]
    assert json.loads((out / "nulls.json").read_text()) == json.loads(json.dumps(result))
    assert (out / "nulls.png").read_bytes().startswith(b"\x89PNG")
    assert result["protocol"]["shifts"] == 9 and result["protocol"]["model"]["batch_size"] == 64


def test_the_tables_count_every_recording(done):
    shares, spread = nulls.tables(done[1]).values()
    assert list(shares["variable"]) == list(KINDS)
    assert {kind: spread[kind].sum() for kind in KINDS} == KINDS


def rows(p, ridge=0.5):
    return [{"p": value, "ridge_p": ridge} for value in p]


def test_targets_can_be_missed():
    even = np.arange(1, 41) / 40
    judge = lambda p, kind, **ridge: nulls._summary(rows(p, **ridge), 39, nulls.TARGETS[kind])["met"]  # noqa: E731
    assert judge(even, "unrelated") and not judge(even, "related")
    assert judge(np.full(40, 0.025), "related") and not judge(np.full(40, 0.025), "unrelated")
    assert not judge(np.full(40, 0.5), "unrelated")  # never too small, but far from uniform
    assert judge(even, "weak") and not judge(even, "weak", ridge=0.05)


def test_the_edge_of_the_level_counts_as_at_most():
    assert nulls._summary(rows([0.025, 0.05, 0.075, 1.0]), 39, {})["share"] == 0.5


def test_an_unrelated_variable_is_another_recordings():
    unrelated, related = (nulls.recording(kind, 0, 400, 0.1) for kind in ("unrelated", "related"))
    np.testing.assert_array_equal(unrelated.X, related.X)
    assert not np.allclose(unrelated.variables["x"], related.variables["x"])


def test_uniformity_on_a_grid_keeps_its_level():
    rng = np.random.default_rng(0)
    p = (1 + rng.integers(0, 10, (400, 40))) / 10
    found = np.array([nulls.uniformity(row.tolist(), 9, draws=500)[1] for row in p])
    assert 0.02 < (found <= 0.05).mean() <= 0.075
    assert nulls.uniformity(np.minimum(p[:9], p[9:18]).ravel().tolist(), 9)[1] < 0.01

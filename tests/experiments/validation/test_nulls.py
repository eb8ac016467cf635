"""The null experiment with a tiny protocol, and its test of uniformity."""

import json

import numpy as np
import pytest

from experiments.validation import nulls

TINY = dict(unrelated=6, related=2, shifts=9, steps=1000, progress=False)
MODEL = {"steps": 40, "batch_size": 64, "learning_rate": 5e-3, "device": "cpu"}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("results")
    return out, nulls.run(out, model=MODEL, **TINY)


def test_every_recording_has_its_row(done):
    rows = done[1]["rows"]
    assert [(row["kind"], row["data_seed"]) for row in rows] == [
        *(("unrelated", k) for k in range(6)),
        *(("related", k) for k in range(2)),
    ]
    assert all(row["p"] * 10 == pytest.approx(round(row["p"] * 10)) and 0.1 <= row["p"] <= 1 for row in rows)
    assert all(row["bits_low"] < row["bits"] < row["bits_high"] for row in rows)


def test_the_summary_tells_the_kinds_apart(done):
    summary = done[1]["summary"]
    assert summary["related"]["bits"] > summary["related"]["null_bits"] + 0.1
    assert abs(summary["unrelated"]["bits"] - summary["unrelated"]["null_bits"]) < 0.1
    for kind, s in summary.items():
        p = np.array([row["p"] for row in done[1]["rows"] if row["kind"] == kind])
        assert s["n"] == len(p) and s["share"] == (p <= 0.05).mean() == s["share_below"]
        assert s["share_ci95"][0] <= s["share"] <= s["share_ci95"][1]


def test_what_is_written(done):
    out, result = done
    assert sorted(path.name for path in out.iterdir()) == ["nulls.json", "nulls.png"]
    assert json.loads((out / "nulls.json").read_text()) == json.loads(json.dumps(result))
    assert (out / "nulls.png").read_bytes().startswith(b"\x89PNG")
    assert result["protocol"]["shifts"] == 9 and result["protocol"]["model"]["batch_size"] == 64


def test_the_tables_count_every_recording(done):
    shares, spread = nulls.tables(done[1]).values()
    assert list(shares["variable"]) == ["unrelated", "related"]
    assert spread["unrelated"].sum() == 6 and spread["related"].sum() == 2


def rows(p):
    return [{"p": value, "bits": 0.0, "bits_low": 0.0, "null_mean": 0.0} for value in p]


def test_targets_can_be_missed():
    even = np.arange(1, 41) / 40
    judge = lambda p, kind: nulls._summary(rows(p), 39, nulls.TARGETS[kind])["met"]  # noqa: E731
    assert judge(even, "unrelated") and not judge(even, "related")
    assert judge(np.full(40, 0.025), "related") and not judge(np.full(40, 0.025), "unrelated")
    assert not judge(np.full(40, 0.5), "unrelated")  # never too small, but far from uniform


def test_the_edge_of_the_level_counts_as_at_most():
    s = nulls._summary(rows([0.025, 0.05, 0.075, 1.0]), 39, {})
    assert (s["share"], s["share_below"]) == (0.5, 0.25)


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

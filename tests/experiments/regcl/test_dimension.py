"""The experiment on dimensions with a tiny protocol."""

import json

import numpy as np
import pytest

import ascribo as asc
from ascribo.evidence.choose_dimension import seed_consistency
from experiments.regcl import dimension

TINY = dict(
    dims={"time": [2], "supervised": [2], "hybrid": [2, 3]},
    seeds=2,
    steps=1000,
    samples=200,
    model={"steps": 20, "batch_size": 64, "penalty": 0},
    progress=False,
)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("results")
    return out, dimension.run(out, **TINY)


def row(kind, dims, consistency, auroc=None, weighted=0.5, bits=3.0):
    """A finished row with the numbers that matter."""
    whole = {"variance_weighted": weighted, "bits": bits, "ci_low": None, "ci_high": None, "compared": 2}
    agreement = {"whole": whole}
    return {
        "kind": kind,
        "dims": dims,
        "agreement": agreement,
        "consistency": consistency,
        "collapsed": [],
        "auroc": dict.fromkeys(dimension.METHODS, auroc),
        "lambda": [0.1],
        "seconds": 1.0,
    }


def test_every_size_has_its_row(done):
    _, result = done
    sizes = [("time", [2]), ("supervised", [2])]
    sizes += [("hybrid", pair) for pair in ([2, 2], [2, 3], [3, 2], [3, 3])]
    assert [(r["kind"], r["dims"]) for r in result["rows"]] == sizes
    for r in result["rows"]:
        spaces = {"time": ["all"], "supervised": ["position"], "hybrid": ["position", "rest"]}[r["kind"]]
        assert list(r["agreement"]) == [*spaces, "whole"]
        if not r["collapsed"]:
            assert r["consistency"] == min(r["agreement"][name]["consistency"] for name in spaces)
        assert (r["auroc"]["generative_gradient"] is None) is (r["kind"] == "time" or "position" in r["collapsed"])


def test_a_row_is_what_the_library_says(done):
    data = asc.simulate.box(0, observed=3, hidden=3, steps=1000)
    spaces = {"position": asc.Follow(["x", "y", "z"], dim=3), "rest": asc.Time(dim=2)}
    settings = {**TINY["model"], "seeds": 2, "learning_rate": 1e-3, "random_state": 0, "progress": False}
    model = asc.ContrastiveEmbedding(spaces, **settings).fit(data)
    expected = seed_consistency(model, data, samples=200).set_index("space")
    found = done[1]["rows"][4]
    for name in expected.index:
        for measure in ("consistency", "variance_weighted", "bits"):
            assert found["agreement"][name][measure] == pytest.approx(expected.loc[name, measure], rel=1e-4)
    maps = model.attribute(data, method="generative_gradient", samples=200)
    assert found["auroc"]["generative_gradient"] == pytest.approx(maps.auroc(data, "position"), abs=0.01)


def test_what_is_written(done):
    out, result = done
    assert sorted(path.name for path in out.iterdir()) == ["dimension.json", "dimension.png"]
    assert json.loads((out / "dimension.json").read_text()) == json.loads(json.dumps(result, allow_nan=False))
    assert (out / "dimension.png").read_bytes().startswith(b"\x89PNG")
    assert result["protocol"]["dims"] == TINY["dims"] and result["protocol"]["model"]["steps"] == 20
    assert "within 0.03" in result["protocol"]["rule"] and "5D and 6D" in result["summary"]["time"]["paper"]
    titles = list(dimension.tables(result))
    assert "6 sizes with 2 seeds" in titles[0] and titles[1:] == [f"Consistency, {k}" for k in TINY["dims"]]


def test_the_rule_and_the_papers_peak_may_differ(done):
    rows = [
        row("time", [5], 0.996, weighted=0.97),
        row("time", [6], 0.990, weighted=0.99),
        row("time", [7], 0.80, weighted=0.9),
        row("supervised", [2], 0.6, 0.9, weighted=0.8),
        row("supervised", [3], 0.999, 1.0, weighted=0.99),
        row("supervised", [4], 0.7, 0.95, weighted=0.995),
        row("hybrid", [2, 3], 0.998, 1.0),
        row("hybrid", [2, 4], 0.993, 1.0),
        row("hybrid", [3, 3], 0.99, 1.0, bits=4.0),
        row("hybrid", [3, 4], 0.7, 1.0),
    ]
    result = dimension.conclude({**done[1], "rows": rows})
    summary = result["summary"]
    assert [summary[k]["chosen"] for k in summary] == [[6], [3], [3, 3]]
    assert all(s["found"] for s in summary.values())
    assert summary["supervised"]["peak_variance_weighted"] == [4]
    assert summary["supervised"]["spearman_of_consistency_and_auroc"]["generative_gradient"] == pytest.approx(1)
    assert summary["hybrid"]["spearman_of_consistency_and_auroc"]["generative_gradient"] is None
    assert list(next(iter(dimension.tables(result).values()))["chosen"]) == ["6", "3", "3 + 3"]
    rows[4]["consistency"] = None  # collapsed
    assert not dimension.conclude(result)["summary"]["supervised"]["found"]


def test_a_collapsed_space_has_neither_consistency_nor_map():
    model = {"steps": 1, "batch_size": 64, "learning_rate": 1e-9, "penalty": 0}
    found = dimension.one_size("supervised", [2], seeds=2, data_seed=0, steps=500, samples=50, model=model)
    assert found["collapsed"] == ["position"] and found["consistency"] is None
    assert set(found["auroc"].values()) == {None}
    json.dumps(found, allow_nan=False)
    summary = dimension._summary([found], "supervised")
    assert summary["chosen"] is None and summary["auroc_of_chosen"] is None


def test_drawn_into_given_axes(done):
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    assert dimension.draw(done[1], ax) is ax and len(ax.figure.axes) == 1
    assert len(dimension.draw(done[1]).figure.axes) == 3  # the grid of the hybrid model, and its colour bar
    time_curve = ax.lines[0].get_xydata()
    expected = [(r["dims"][0], r["consistency"] or np.nan) for r in done[1]["rows"] if r["kind"] == "time"]
    np.testing.assert_allclose(time_curve, expected)


def test_an_unknown_kind(tmp_path):
    with pytest.raises(ValueError, match="'label'"):
        dimension.run(tmp_path, dims={"label": [2]})

"""The papers' first table with a tiny protocol, its printed numbers, and its statistics."""

import json
import sys

import numpy as np
import pytest
from scipy.stats import studentized_range

from ascribo.cli import main
from ascribo.training.dispatch import train_many
from benchmarks import grid
from experiments.regcl import box_models, table1, table1_batches, table1_statistics, table2
from experiments.regcl.box_models import MODES, PAPERS
from experiments.shared import many_models
from experiments.shared.results import publish, write_json
from experiments.shared.runner import make_plan

TINY = {"dims": [3], "data_seeds": [0], "length": 600, "steps": 10, "batch": 32, "samples": 60, "costly": 20}
INVERTED = "inverted_neuron_gradient"


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("results")
    return out, table1.run(out, device="cpu", progress=False, **TINY)


def test_every_model_has_its_row(done):
    _, result = done
    assert len(result["rows"]) == result["models"] == 6
    for row in result["rows"]:
        assert list(row["entries"]) == list(PAPERS) and list(row["channels"]) == list(table1.CHANNELS)
        assert row["lambda"] == (0.0 if row["penalty"] == "none" else pytest.approx(0.1))
        assert set(row["r2"]) == set(row["bits"]) == set(box_models.spaces(row))


def test_even_ten_steps_find_the_carriers(done):
    """Half of the 25 + 25 channels carry the observed latents; every mode has begun to see which."""
    for row in done[1]["rows"]:
        entries, channels = row["entries"], row["channels"]
        assert entries["feature_ablation"] > 0.85 and entries["integrated_gradients"] > 0.8
        assert channels["unique_variance"] > 0.85 and channels["neuron_gradient"] > 0.9
        assert entries["neuron_gradient"] < channels["neuron_gradient"]  # rotated, and not yet standardised
        assert row["r2"]["position"] > 0.65 > row["r2"].get("rest", 0.0)
    none, regularized = (
        [row["entries"] for row in done[1]["rows"] if row["penalty"] == penalty]
        for penalty in ("none", "regularized")
    )
    assert none != regularized  # the penalty has reached the training


def test_cells_are_beside_the_papers(done):
    _, result = done
    entries = [cell for cell in result["cells"] if cell["kind"] == "entries"]
    assert len(entries) == 36 and len(result["cells"]) == 36 + 6 * len(table1.CHANNELS)
    cell = next(c for c in entries if (c["mode"], c["penalty"], c["method"]) == (MODES[2], "regularized", INVERTED))
    assert cell["paper"] == {"mean": 0.982, "ci95": [0.974, 0.989]} and cell["n"] == 1
    own = [r["entries"][INVERTED] for r in result["rows"] if (r["mode"], r["penalty"]) == (MODES[2], "regularized")]
    assert cell["mean"] == pytest.approx(np.mean(own)) and cell["min"] == min(own)
    assert cell["difference"] == pytest.approx(cell["mean"] - 0.982, abs=1e-4)


def test_what_is_written(done):
    out, result = done
    assert sorted(path.name for path in out.iterdir()) == ["table1.json", "table1.png"]
    assert json.loads((out / "table1.json").read_text()) == json.loads(json.dumps(result))
    assert {"simulation", "preparation", "training", "decoders", "maps", "total"} == set(result["seconds"])
    assert result["protocol"]["steps"] == 10 and result["protocol"]["device"] == "cpu"
    shown = table1.tables(result)
    first = next(iter(shown.values()))
    assert first.shape == (6, 7) and first.iloc[-1, -1].endswith("| 98.2")


def test_rows_of_another_machine_can_be_concluded(done, tmp_path, monkeypatch):
    out, result = done
    monkeypatch.setattr("ascribo.figures.style.new_figure", no_matplotlib)
    bare = {
        k: v for k, v in json.loads((out / "table1.json").read_text()).items() if k not in ("cells", "statistics")
    }
    with pytest.warns(UserWarning, match="table1.png was not drawn: figures need"):
        got = publish("table1", tmp_path, table1.conclude(bare), table1.draw)
    assert got == result and json.loads((tmp_path / "table1.json").read_text()) == json.loads(json.dumps(result))
    assert [path.name for path in tmp_path.iterdir()] == ["table1.json"]


def no_matplotlib(size):
    raise ImportError("figures need matplotlib: pip install 'ascribo[report]'")


def test_the_printed_numbers_agree_with_the_printed_tests():
    """Schneider et al. (2023), tables 4 and 5, print differences of means of these numbers."""
    assert len(table1.PAPER) == 36
    assert all(v["ci95"][0] < v["mean"] < v["ci95"][1] for v in table1.PAPER.values())

    def mean(method, mode=None, penalty=None):
        chosen = [
            100 * v["mean"]
            for (m, p, k), v in table1.PAPER.items()
            if k == method and mode in (None, m) and penalty in (None, p)
        ]
        return np.mean(chosen)

    by_mode = [  # the papers' method less supervised, supervised contrastive and hybrid
        *[("neuron_gradient", k, d) for k, d in enumerate((6.97, 9.41, 9.51))],
        *[("feature_ablation", k, d) for k, d in enumerate((7.23, 8.74, 9.00))],
        *[("shapley_zeros", k, d) for k, d in enumerate((10.09, 10.90, 10.68))],
        *[("shapley_shuffled", k, d) for k, d in enumerate((7.48, 9.13, 9.71))],
        *[("integrated_gradients", k, d) for k, d in enumerate((10.14, 10.96, 7.67))],
        *[(INVERTED, k, d) for k, d in enumerate((8.14, 11.29))],
    ]
    for method, k, difference in by_mode:
        assert mean(INVERTED, MODES[2]) - mean(method, MODES[k]) == pytest.approx(difference, abs=0.12)
    by_penalty = {
        ("neuron_gradient", "regularized"): 3.16,
        ("shapley_zeros", "regularized"): 8.91,
        (INVERTED, "none"): 11.61,
        ("feature_ablation", "regularized"): 6.25,
        ("integrated_gradients", "regularized"): 8.02,
        ("integrated_gradients", "none"): 10.38,
        ("shapley_shuffled", "regularized"): 6.11,
        ("shapley_shuffled", "none"): 10.10,
        ("neuron_gradient", "none"): 12.75,
        ("shapley_zeros", "none"): 10.86,
    }
    for (method, penalty), difference in by_penalty.items():
        # integrated gradients lack some hybrid models in Schneider et al. (2023)
        off = 0.5 if method == "integrated_gradients" else 0.12
        found = mean(INVERTED, penalty="regularized") - mean(method, penalty=penalty)
        assert found == pytest.approx(difference, abs=off)


def made_up(best):
    """Rows in which one cell is ahead of all others."""
    rng = np.random.default_rng(0)
    return [
        {
            **{"mode": mode, "penalty": penalty, "dim": dim, "data_seed": seed},
            "entries": {m: 0.7 + 0.2 * ((mode, penalty, m) == best) + 0.01 * rng.normal() for m in PAPERS},
        }
        for mode in MODES
        for penalty in ("none", "regularized")
        for dim in (4, 6)
        for seed in range(3)
    ]


@pytest.fixture(scope="module")
def ahead():
    pytest.importorskip("statsmodels")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(studentized_range, "xtol", 1e-3)  # limits to three digits, in half the time
        return table1_statistics.test_scores(made_up((MODES[2], "regularized", INVERTED)), table1.PAPER)


def test_the_papers_method_is_ahead(ahead):
    assert ahead["why"] is None and [len(part["against"]) for part in ahead["tukey"]] == [17, 11, 35, 35]
    assert [part["equal_variances"] for part in ahead["tukey"]] == [True, True, True, False]
    for part, least in zip(ahead["tukey"], (0.09, 0.06, 0.18, 0.18), strict=True):
        assert part["ahead_of_all"]
        assert all(row["difference"] > least and 0 < row["ci95"][0] < row["difference"] for row in part["against"])
        assert all(row["p"] < 0.001 for row in part["against"])
    titles = list(table1_statistics.tables(ahead))
    assert titles[0] == "ANOVA" and "is ahead of all (p < 0.05)" in titles[1]


def test_the_papers_method_may_be_behind():
    pytest.importorskip("statsmodels")
    rows = table1_statistics._long(made_up((MODES[0], "none", "shapley_zeros")))
    behind = table1_statistics._tukey(rows, ("penalty", "method"))
    assert not behind["ahead_of_all"] and behind["against"][0]["group"] == "none:shapley_zeros"
    assert behind["against"][0]["difference"] < -0.06 and behind["against"][0]["ci95"][1] < 0


def test_the_analysis_of_variance_finds_what_is_there(ahead):
    terms = {row["term"]: row for row in ahead["anova"]}
    assert len(terms) == 16 and terms["residual"]["p"] is None and terms["mode"]["paper_F"] == 28.6
    assert terms["method:mode:penalty"]["p"] < 1e-6 < 0.01 < terms["method:dim:mode"]["p"]
    json.dumps(ahead, allow_nan=False)


def test_main_effects_are_ordered(ahead):
    effects = ahead["main_effects"]
    assert next(iter(effects["mode"]["measured"])) == next(iter(effects["mode"]["paper"])) == MODES[2]
    assert effects["penalty"]["same_order"] and effects["penalty"]["paper"]["regularized"] == pytest.approx(0.8704)


def test_without_statsmodels_there_are_no_tests(monkeypatch):
    for name in ("statsmodels", "statsmodels.formula.api", "statsmodels.stats.anova"):
        monkeypatch.setitem(sys.modules, name, None)
    found = table1_statistics.test_scores(made_up(None), table1.PAPER)
    assert found["anova"] is None and found["tukey"] is None and "ascribo[stats]" in found["why"]
    titles = list(table1_statistics.tables(found))
    assert len(titles) == 2 and titles[0].startswith("Paired") and titles[1].endswith(f"(no tests: {found['why']})")


def test_data_sets_are_paired():
    """Small but constant differences are found; the cell that is really ahead is told."""
    rows = made_up((MODES[2], "regularized", INVERTED))
    paired = {row["group"]: row for row in table1_statistics._paired(rows)}
    assert len(paired) == 35 and all(row["better"] == 6 and row["worse"] == 0 for row in paired.values())
    assert all(row["p"] == pytest.approx(1 / 64) for row in paired.values())  # all signs alike in six data sets
    behind = table1_statistics._paired(made_up((MODES[0], "none", "shapley_zeros")))[0]
    assert behind["group"] == "supervised:none:shapley_zeros" and behind["p"] == 1.0 and behind["worse"] == 6


def test_the_command(done, tmp_path, capsys, monkeypatch):
    asked = {}

    def run(out, **options):
        asked.update(options)
        write_json(tmp_path / "table1.json", {})
        return done[1]

    monkeypatch.setattr(table1, "run", run)
    assert main(["reproduce", "table1", "--quick", "--jobs", "3", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert asked == {"quick": True, "jobs": 3, "scheduler": None, "fresh": False, "progress": True}
    assert "| 98.2" in said and "Main effects" in said and str(tmp_path / "table1.json") in said


def test_quick_is_shorter():
    quick, full = (make_plan(table1.FULL, preset) for preset in (table1.QUICK, {}))
    assert len(table1.cases(full)) == 360 and len(table1.cases(quick)) == 54
    assert quick["steps"] == 3000 and full["steps"] == 20_000


def test_the_benchmark_takes_its_times_from_the_table(done, tmp_path, monkeypatch, capsys):
    out = tmp_path / "grid.json"
    monkeypatch.setattr(sys, "argv", ["grid.py", "--table", str(done[0] / "table1.json"), "--out", str(out)])
    grid.main()
    got = json.loads(out.read_text())
    assert got["seconds"] == done[1]["seconds"] and got["models"] == 6 and "cpu" in got["machine"]
    assert set(got["auroc"]["hybrid contrastive, regularized, by entries"]) == set(PAPERS)
    assert "6 models" in capsys.readouterr().out


@pytest.mark.parametrize(
    "mode, outputs", [("supervised", 2), ("supervised contrastive", 2), ("hybrid contrastive", 5)]
)
def test_encoders_are_as_wide_as_in_the_released_code(mode, outputs):
    cell = {"mode": mode, "dim": 5, "data_seed": 0, "length": 300}
    for study in (table1.STUDY, table2.STUDY):
        module = study.prepare(cell, study.recording(cell)).problem.module
        wide = [len(value) for name, value in module.named_parameters() if name.endswith("bias")]
        d = outputs if study is table1.STUDY else 5
        assert wide == [30 * d, 30 * d, 10 * d, d]


def test_the_papers_batches(tmp_path, monkeypatch):
    """The plan has batches of 5,000, and the rate that reaches the training is constant."""
    full, quick = (table1_batches.cases(make_plan(table1_batches.FULL, b)) for b in ({}, table1_batches.QUICK))
    assert len(full) == 108 and {cell["batch"] for cell in full} == {5_000}
    assert sum(c["steps"] * c["batch"] for c in quick) < sum(c["steps"] * c["batch"] for c in full) / 1000
    seen = []
    monkeypatch.setattr(
        many_models, "train_many", lambda *args, **kwargs: seen.append(args[2]) or train_many(*args, **kwargs)
    )
    result = table1_batches.run(tmp_path, device="cpu", progress=False, **{**TINY, "modes": MODES[:1]})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["table1-batches.json", "table1-batches.png"]
    assert result["experiment"] == "table1-batches"
    assert result["protocol"]["learning_rate"] == 3e-4 and result["protocol"]["learning_rate_held"]
    assert [settings.batch_size for settings in seen] == [TINY["batch"]] * 2
    assert {settings.rate(step) for settings in seen for step in (0, 9)} == {3e-4}

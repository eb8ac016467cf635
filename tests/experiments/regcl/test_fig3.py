"""auROC against latents: nothing of table 1 is trained twice."""

import json
from dataclasses import replace

import pytest

from experiments.regcl import box_models, fig3, table1
from experiments.regcl.box_models import OURS, PAPERS
from experiments.shared import many_models, rows
from experiments.shared.runner import make_plan

TINY = {"dims": [3], "data_seeds": [0], "length": 600, "steps": 5, "batch": 32, "samples": 60, "costly": 20}
FAR = {"far_dims": [5], "far_data_seeds": [0, 1]}
HOW = {"jobs": 1, "fresh": False, "progress": False, "device": "cpu"}


@pytest.fixture
def scored(monkeypatch):
    """The cells that are scored; their scores are made up."""
    asked = []

    def score(cell, data, model, unique):
        asked.append(cell)
        value = round(1 / cell["dim"] + 0.1 * cell["data_seed"], 3)
        kinds = {"entries": PAPERS, "channels": (*PAPERS, *OURS)}
        return {**{k: dict.fromkeys(m, value) for k, m in kinds.items()}, "rank_deficient": {}, "r2": {}}

    nothing = lambda cells, recordings, models: [None for _ in cells]  # noqa: E731
    whole = many_models.compute_study_rows
    monkeypatch.setattr(
        many_models,
        "compute_study_rows",
        lambda study, *given, **how: whole(replace(study, score=score, together=nothing), *given, **how),
    )
    monkeypatch.setattr(rows, "code", lambda: {"sha256": "the same"})
    return asked


def test_rows_are_taken_from_table_1(tmp_path, scored):
    table = table1.run(tmp_path, **HOW, **TINY)
    assert len(scored) == 6
    result = fig3.run(tmp_path, **HOW, **TINY, **FAR)
    assert [cell["dim"] for cell in scored[6:]] == [5] * 4
    assert result["rows_of_another_experiment"] == 4 and len(result["rows"]) == 8
    assert result["rows"][:4] == [row for row in table["rows"] if row["mode"] != "supervised contrastive"]
    assert json.loads((tmp_path / "fig3.json").read_text()) == json.loads(json.dumps(result))
    assert (tmp_path / "fig3.png").exists() and not (tmp_path / ".fig3").exists()
    assert {(c["dim"], c["n"], c["mean"]) for c in result["cells"]} == {(3, 1, 0.333), (5, 2, 0.25)}
    assert "hybrid contrastive, regularized: auROC by entries in percent, by latents" in fig3.tables(result)
    labels = [line.get_label() for line in fig3.draw(result).lines]
    assert labels[0] == "papers', by entries" and "unique variance" in labels and len(labels) == 11


def test_unfinished_rows_of_table_1_are_taken_too(tmp_path, scored):
    wanted = fig3.cases(make_plan(fig3.FULL, **TINY, **FAR))
    made, _ = many_models.compute_study_rows(table1.STUDY, wanted[:1], tmp_path / ".table1", **HOW)
    assert fig3._known(wanted, tmp_path) == made


def test_other_lengths_of_training_are_not_taken():
    cases = fig3.cases(make_plan(fig3.FULL, **TINY, **FAR))
    assert {case["mode"] for case in cases} == {"supervised", "hybrid contrastive"}
    longer = [{**case, "steps": 20, "seconds": {}} for case in cases]
    assert not any(row.items() >= case.items() for row in longer for case in cases)
    assert box_models.spaces(cases[-1])["rest"].dim == 3

"""The runner of many models: same rows in stacks and one by one, nothing done twice, interruptions survived."""

import json
from dataclasses import replace

import numpy as np
import pytest

from ascribo.training import train as training
from experiments.regcl import box_models, table1
from experiments.shared import many_models

TINY = {"length": 1000, "steps": 10, "batch": 32, "samples": 100, "costly": 50}
PLAN = {**TINY, "modes": ["supervised", "hybrid contrastive"], "penalties": ["none", "regularized"], "dims": [3]}
PLAN |= {"data_seeds": [0, 1]}
CHEAP = replace(
    table1.STUDY,
    together=lambda cells, recordings, models: [{} for _ in cells],
    score=lambda cell, data, model, unique: box_models.judge(
        cell, data, model, unique, "position", entries=["neuron_gradient"], channels=["inverted_neuron_gradient"]
    ),
)
CELLS = table1.cells(PLAN)
HOW = {"jobs": 1, "progress": False, "device": "cpu"}


def in_stacks(study, cells, folder):
    return many_models._in_stacks(study, cells, many_models.row_files(cells, folder), **HOW)


def test_rows_of_a_stack_are_those_of_single_models(tmp_path):
    alone, _ = many_models.run_cells(CHEAP, CELLS, tmp_path / "a", fresh=False, **HOW)
    together, _ = in_stacks(CHEAP, CELLS, tmp_path / "b")
    assert [row["data_seed"] for row in alone] == [0, 1, 0, 1, 0, 1, 0, 1]
    for a, b in zip(alone, together, strict=True):
        for row in (a, b):
            assert set(row.pop("seconds")) == {"simulation", "preparation", "training", "decoders", "maps"}
            assert set(row["bits"]) == set(box_models.spaces(row))
        assert a.pop("bits") == pytest.approx(b.pop("bits"), abs=1e-3)
        for kind in ("entries", "channels"):
            assert a.pop(kind) == pytest.approx(b.pop(kind), abs=2e-3)
        assert a == b


def test_models_trained_together_get_their_own_rows(tmp_path, monkeypatch):
    """The way of the GPU, on a CPU: other draws, the same kind of rows."""
    monkeypatch.setattr(training, "_as_graphs", lambda device: True)
    rows, before = in_stacks(CHEAP, CELLS, tmp_path)
    assert before == 0 and [{key: row[key] for key in cell} for row, cell in zip(rows, CELLS, strict=True)] == CELLS
    assert [round(row["lambda"], 3) for row in rows] == [0.0, 0.0, 0.1, 0.1] * 2
    seen = [repr((row["bits"], row["channels"])) for row in rows]
    assert len(set(seen)) == len(seen)


def test_recordings_are_simulated_and_prepared_once(tmp_path, monkeypatch):
    calls = {"simulated": 0, "prepared": 0}

    def simulated(cell):
        calls["simulated"] += 1
        return box_models.recording(cell)

    def prepared(*given, **options):
        calls["prepared"] += 1
        return prepare(*given, **options)

    prepare = many_models.prepare
    monkeypatch.setattr(many_models, "prepare", prepared)
    in_stacks(replace(CHEAP, recording=simulated), CELLS, tmp_path)
    assert calls == {"simulated": 2, "prepared": 4}  # two data sets; two modes of each; penalties share


def test_what_threads_prepare_is_no_different(tmp_path, monkeypatch):
    monkeypatch.setattr(
        many_models, "_rows", lambda study, cells, items, *a, **b: ({"made": _digest(i)} for i in items)
    )
    one, two = (
        many_models._in_stacks(
            CHEAP, CELLS, many_models.row_files(CELLS, tmp_path / str(jobs)), **{**HOW, "jobs": jobs}
        )
        for jobs in (1, 2)
    )
    assert one == two and len({row["made"] for row in one[0]}) == 4


def _digest(item):
    """What was made of a recording: its channels, and a draw of its pairs."""
    draw = item.problem.pairs.draw(np.random.default_rng(0), 2, 8)
    return repr([float(item.problem.X.double().square().sum()), *draw.ravel().tolist()])


def test_an_interrupted_run_trains_only_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(many_models, "WORK", 2 * TINY["steps"] * TINY["batch"])  # stacks of two
    trained, scored = [], []

    def score(cell, data, model, unique):
        if len(scored) == 3 and not tmp_path.joinpath("again").exists():
            raise KeyboardInterrupt
        scored.append(cell)
        return CHEAP.score(cell, data, model, unique)

    def train(problems, *given, **options):
        trained.append(len(problems))
        return training.train_many(problems, *given, **options)

    monkeypatch.setattr(many_models, "train_many", train)
    study, state = replace(CHEAP, score=score), tmp_path / "state"
    with pytest.raises(KeyboardInterrupt):
        in_stacks(study, CELLS, state)
    assert trained == [2, 2] and len(list(state.glob("*.json"))) == 3
    tmp_path.joinpath("again").touch()
    rows, before = in_stacks(study, CELLS, state)
    assert before == 3 and sum(trained[2:]) == 5
    assert [{key: row[key] for key in cell} for row, cell in zip(rows, CELLS, strict=True)] == CELLS
    assert [cell for cell in CELLS if scored.count(cell) != 1] == []


def test_rows_that_are_known_are_not_run(tmp_path):
    known = [{**cell, "entries": {}, "seconds": {}} for cell in CELLS[1:]]
    given = {"protocol": {"x": 1}, "fresh": False, **HOW}
    result = many_models.run("some", CHEAP, CELLS, tmp_path, known=known, **given)
    assert result["rows_of_another_experiment"] == len(CELLS) - 1 and result["models"] == len(CELLS)
    assert result["rows"][1:] == known and result["rows"][0]["channels"]
    assert result["seconds"]["total"] == pytest.approx(sum(result["rows"][0]["seconds"].values()), abs=0.3)
    json.dumps(result, allow_nan=False)


def test_stacks_hold_one_shape_and_are_not_too_long(monkeypatch):
    data = box_models.recording({**CELLS[0]})
    items = {k: many_models.prepare(data, box_models.spaces(cell), one_scale=True) for k, cell in enumerate(CELLS)}
    longer = [*CELLS[:-1], {**CELLS[-1], "steps": 60}]
    assert many_models._pack(CELLS, range(8), items) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert many_models._pack(longer, range(8), items) == [[0, 1, 2, 3], [4, 5, 6], [7]]
    monkeypatch.setattr(many_models, "WORK", 3 * TINY["steps"] * TINY["batch"])
    assert many_models._pack(CELLS, [0, 1, 2, 3, 5], items) == [[0, 1], [2, 3], [5]]


def test_protocols():
    assert many_models.settle({"a": range(2), "b": 1}, {"b": 2}, a=[5]) == {"a": [5], "b": 2}
    with pytest.raises(ValueError, match="no 'dim'; did you mean 'dims'"):
        many_models.settle({"dims": [4]}, dim=[4])


def test_means_by_group():
    rows = [{"dim": d, "channels": {"a": v}} for d, v in ((4, 0.5), (4, 0.7), (9, 1.0))]
    four, nine = many_models.summarise(rows, "channels", ("dim",))
    assert four["dim"] == 4 and four["mean"] == pytest.approx(0.6) and four["min"] == 0.5 and four["n"] == 2
    assert four["kind"] == "channels" and nine["method"] == "a" and nine["ci95"] == [1.0, 1.0]
    assert many_models.summarise(rows, "channels", ("dim",), ["b"]) == []

"""The runner of many models: same rows in stacks and one by one, nothing done twice, interruptions survived."""

from dataclasses import replace

import numpy as np
import pytest

from ascribo.training import dispatch as training
from experiments.regcl import box_models, table1
from experiments.shared import many_models
from experiments.shared.rows import row_files

TINY = {"length": 1000, "steps": 10, "batch": 32, "samples": 100, "costly": 50}
PLAN = {**TINY, "modes": ["supervised", "hybrid contrastive"], "penalties": ["none", "regularized"], "dims": [3]}
PLAN |= {"data_seeds": [0, 1]}
CHEAP = replace(
    table1.STUDY,
    together=lambda cases, recordings, models: [{} for _ in cases],
    score=lambda case, data, model, unique: box_models.score_methods(
        case, data, model, unique, "position", entries=["neuron_gradient"], channels=["inverted_neuron_gradient"]
    ),
)
CASES = table1.cases(PLAN)
HOW = {"jobs": 1, "progress": False, "device": "cpu"}


def in_stacks(study, cases, folder):
    return many_models._in_stacks(study, cases, row_files(cases, folder), **HOW)


def test_rows_of_a_stack_are_those_of_single_models(tmp_path):
    alone, _ = many_models.compute_study_rows(CHEAP, CASES, tmp_path / "a", fresh=False, **HOW)
    together, _ = in_stacks(CHEAP, CASES, tmp_path / "b")
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
    rows, before = in_stacks(CHEAP, CASES, tmp_path)
    assert before == 0 and [{key: row[key] for key in case} for row, case in zip(rows, CASES, strict=True)] == CASES
    assert [round(row["lambda"], 3) for row in rows] == [0.0, 0.0, 0.1, 0.1] * 2
    seen = [repr((row["bits"], row["channels"])) for row in rows]
    assert len(set(seen)) == len(seen)


def test_recordings_are_simulated_and_prepared_once(tmp_path, monkeypatch):
    calls = {"simulated": 0, "prepared": 0}

    def simulated(case):
        calls["simulated"] += 1
        return box_models.recording(case)

    def prepared(*given, **options):
        calls["prepared"] += 1
        return prepare(*given, **options)

    prepare = many_models.prepare
    monkeypatch.setattr(many_models, "prepare", prepared)
    in_stacks(replace(CHEAP, recording=simulated), CASES, tmp_path)
    assert calls == {"simulated": 2, "prepared": 4}  # two data sets; two modes of each; penalties share


def test_what_threads_prepare_is_no_different(tmp_path, monkeypatch):
    monkeypatch.setattr(
        many_models, "_rows", lambda study, cases, items, *a, **b: ({"made": _digest(i)} for i in items)
    )
    one, two = (
        many_models._in_stacks(CHEAP, CASES, row_files(CASES, tmp_path / str(jobs)), **{**HOW, "jobs": jobs})
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

    def score(case, data, model, unique):
        if len(scored) == 3 and not tmp_path.joinpath("again").exists():
            raise KeyboardInterrupt
        scored.append(case)
        return CHEAP.score(case, data, model, unique)

    def train(problems, *given, **options):
        trained.append(len(problems))
        return training.train_many(problems, *given, **options)

    monkeypatch.setattr(many_models, "train_many", train)
    study, state = replace(CHEAP, score=score), tmp_path / "state"
    with pytest.raises(KeyboardInterrupt):
        in_stacks(study, CASES, state)
    assert trained == [2, 2] and len(list(state.glob("*.json"))) == 3
    tmp_path.joinpath("again").touch()
    rows, before = in_stacks(study, CASES, state)
    assert before == 3 and sum(trained[2:]) == 5
    assert [{key: row[key] for key in case} for row, case in zip(rows, CASES, strict=True)] == CASES
    assert [case for case in CASES if scored.count(case) != 1] == []


def test_times_are_summed_by_part():
    rows = [{"seconds": {"training": 1.0, "maps": 0.5}}, {"seconds": {"training": 2.0}}]
    found = many_models._with_times({"rows": rows, "seconds": 9.0})
    assert found["seconds"] == {"training": 3.0, "maps": 0.5, "total": 3.5}
    assert found["elapsed"] == 9.0 and found["models"] == 2


def test_stacks_hold_one_shape_and_are_not_too_long(monkeypatch):
    data = box_models.recording({**CASES[0]})
    items = {k: many_models.prepare(data, box_models.spaces(case), one_scale=True) for k, case in enumerate(CASES)}
    longer = [*CASES[:-1], {**CASES[-1], "steps": 60}]
    assert many_models._pack(CASES, range(8), items) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert many_models._pack(longer, range(8), items) == [[0, 1, 2, 3], [4, 5, 6], [7]]
    monkeypatch.setattr(many_models, "WORK", 3 * TINY["steps"] * TINY["batch"])
    assert many_models._pack(CASES, [0, 1, 2, 3, 5], items) == [[0, 1], [2, 3], [5]]

"""The benchmark's own machinery, without cebra: it runs, and its answer can be read and judged."""

import json
import subprocess
import sys
from dataclasses import replace
from functools import partial

import pytest

from ascribo.training.dispatch import train
from benchmarks import answer, cpu, gpu, memory
from benchmarks.turns import CHECKOUT


@pytest.fixture
def tiny():
    return replace(cpu.QUICK, length=600, batch=32, samples=100, fit_steps=5, lengths=(300, 600))


def test_a_model_step_takes_time(tiny):
    problem = cpu.problem_of(cpu.asc.simulate.box(steps=600), cpu.SPACES)
    assert sum(p.numel() for p in problem.module.parameters()) == 52_986  # what cebra's network has
    took = cpu.model_step(problem, 2, tiny)
    assert took["wall_ms"] > 0 and took["processor_ms"] > 0


def test_memory_of_a_child_process(monkeypatch, capsys):
    command = [sys.executable, "-m", "benchmarks.memory", "loss", "500"]
    said = subprocess.run(command, check=True, capture_output=True, text=True, cwd=CHECKOUT).stdout
    monkeypatch.setattr(memory.asc.simulate, "box", partial(memory.asc.simulate.box, steps=2000))
    memory.main("step", "500")
    for told in (said, capsys.readouterr().out):
        got = json.loads(told)
        assert 0 <= got["growth_mb"] < got["peak_mb"] and got["square_mb"] == 1.0


def test_measurements_without_cebra_are_whole_json_and_do_not_pass(tiny, monkeypatch, capsys):
    grown = {"growth_mb": 10.0, "peak_mb": 300.0, "square_mb": 1.0, "wall_ms": 1.0, "processor_ms": 1.0}
    monkeypatch.setattr(cpu, "memory", lambda size: {"step, batch 500": grown})
    got = json.loads(json.dumps(cpu.measure(tiny), allow_nan=False))
    assert got["cebra"] is None and got["holds"] is False
    bars = {bar["what"]: bar for bar in got["bars"]}
    assert bars["GB of memory, step, batch 500"]["holds"] is True
    assert bars["times faster attribution than cebra's call"]["value"] is None
    assert len(got["training"]["ascribo, stack of 1"]["rounds"]) == tiny.rounds
    cpu.show(got)
    assert "not measured" in capsys.readouterr().out


def test_ratios_are_of_median_processor_times(tiny):
    def took(ms):
        return {"median_processor_ms": ms, "median_wall_ms": 2 * ms}

    got = {
        "training": {"cebra": took(1000.0), "ascribo, stack of 1": took(20.0), "ascribo, stack of 2": took(50.0)},
        "attribution": {"cebra, its call": took(90.0), "ascribo": took(3.0)},
        "recording_length": {"300": took(1.0), "600": took(1.3)},
        "memory": {},
    }
    cores = cpu.os.cpu_count()
    got["training"] |= {
        f"cebra, {cores} threads": took(700.0),
        f"ascribo, 2 models over {cores} processes": took(14.0),
    }
    verdicts = {bar["what"]: (bar["value"], bar["holds"]) for bar in cpu.bars(got, tiny)}
    both = f"times less wall time per model-step than cebra, both on {cores} cores, 2 models"
    assert verdicts[both] == (50.0, False)
    assert verdicts["times less per model-step than cebra, stack of 1"] == (50.0, True)
    assert verdicts["times less per model-step than cebra, stack of 2"] == (20.0, False)
    assert verdicts["times faster attribution than cebra's call"] == (30.0, True)
    assert verdicts["step time at 600 over that at 300 time steps"] == (1.3, False)


@pytest.mark.usefixtures("quick_unique_variance")
def test_models_of_the_gpu_benchmark_are_scored(monkeypatch):
    """All of it that needs no GPU."""
    monkeypatch.setattr(gpu, "finish", partial(gpu.finish, decoder_steps=50))
    data = gpu.asc.simulate.box(0, observed=3, hidden=1, channels=(4, 4), steps=600)
    item = gpu.prepare(data, gpu.spaces_of("hybrid contrastive", 3, 1))
    settings = gpu.Settings(40, 64, 1e-3, gpu.Ramp(0.1))
    trained = train(item.problem, [0, 1], settings, progress=False)
    found = gpu.scores(item, trained.parameters, "cpu")
    assert next(iter(found)) == "unique_variance" and all(0 <= value <= 1 for value in found.values())


def test_time_to_an_answer_is_that_of_fit_and_attribution(monkeypatch, tmp_path, capsys):
    found = {"fit_s": [2.0, 3.0], "attribute_s": 1.0}
    assert answer._seconds(found, []) == 4.0
    assert answer._seconds(found, [100, 200]) == 3.0 + 28.0 + 1.0  # a second for each hundred of 3,000 steps
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "none")
    monkeypatch.setattr(answer, "measure", lambda size, steps: {"fit_s": [5.0], "attribute_s": 1.0})
    monkeypatch.setattr(answer, "GPU_FILE", tmp_path / "answer-gpu.json")
    assert answer.on_gpu() == 1  # 6 s: too slow for the smaller recording, quick enough for the larger
    assert [row["holds"] for row in json.loads(answer.GPU_FILE.read_text())["rows"]] == [False, True]
    assert "100000x50: 5.00 s + 1.00 s = 6.00 s, at most 4" in capsys.readouterr().out

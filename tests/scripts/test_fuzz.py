"""A thousand damaged files: none may crash, hang, run code or end in an error that nobody foresaw."""

import contextlib
import importlib.util
import json
import os
import queue
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

FILES = 1000
SCRIPT = Path(__file__).parents[2] / "scripts/fuzz.py"


@pytest.fixture
def fuzz(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    spec = importlib.util.spec_from_file_location("fuzz", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of libraries whose files are gone
def test_damaged_files_are_read_or_refused(fuzz, tmp_path, monkeypatch):
    monkeypatch.setenv("ASCRIBO_FUZZ_MARK", str(tmp_path / "CODE_RAN"))
    (tmp_path / "good").mkdir()
    good = fuzz.make_cases(tmp_path / "good")
    assert {
        *("table.csv", "words.npz", "packed.mat", "oldest.mat", "new.h5", "large plain.h5", "unpacked chunks.h5"),
        *("v2.zarr/.zgroup", "v3.zarr/zarr.json", "pynapple/units.npz", "session.nwb", "maps.nc", "run/model.json"),
        *("fit/fit.json", "fit/seeds", "sweep/sweep.toml", "sweep/cell.json", "sweep/.fingerprints.json"),
        *("run/resealed", "both/resealed", "both/session-0/resealed", "run/model replaced", "fit/.lock replaced"),
    } <= {case.kind for case in good}
    tasks, results = queue.SimpleQueue(), queue.SimpleQueue()
    for number in [*range(FILES), None]:
        tasks.put(number)
    fuzz.work(tasks, results, good, tmp_path)
    ends = [results.get() for _ in range(2 * FILES)]
    wrong = [end for end in ends if end[2] not in ("began", "fine")]
    assert Counter(end[2] for end in ends) == {"began": FILES, "fine": FILES}, wrong
    assert fuzz.structured(100, seed=None, good=good) >= 100
    assert sorted(p.name for p in tmp_path.iterdir()) == ["good", "read", "whole"]


def test_the_fuzzer_counts_what_is_wrong(fuzz, tmp_path, monkeypatch):
    monkeypatch.setenv("ASCRIBO_FUZZ_MARK", str(tmp_path / "CODE_RAN"))
    (tmp_path / "good").mkdir()
    good = [fuzz.Case(name, tmp_path / "good" / name, "", "recording") for name in ("a.csv", "b.csv")]
    for case in good:
        case.root.write_text("some text")
    tasks, results = queue.SimpleQueue(), queue.SimpleQueue()
    for number in (0, 1, None):
        tasks.put(number)
    calls = iter([None, None, KeyError("no"), ValueError("no")])

    def fails(kind, path):
        if (error := next(calls)) is not None:
            raise error

    monkeypatch.setattr(fuzz, "read", fails)
    fuzz.work(tasks, results, good, tmp_path)
    assert [results.get()[2] for _ in range(4)] == ["began", "error", "began", "fine"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes")
def test_what_links_lead_to_is_looked_at(fuzz, tmp_path, monkeypatch):
    (tmp_path / "good").mkdir()
    (tmp_path / "good/a.csv").write_text("some text")
    good = [fuzz.Case("a.csv", tmp_path / "good/a.csv", "", "recording", "place")]
    seen, ends = set(), queue.SimpleQueue()

    def writes(kind, path):
        if path.is_relative_to(tmp_path / "read"):
            seen.add(("link" if path.is_symlink() else "other", path.exists()))
            if path.is_file() or not path.exists():
                with contextlib.suppress(OSError):
                    path.write_text("gone")

    monkeypatch.setattr(fuzz, "read", writes)
    tasks = queue.SimpleQueue()
    for number in [*range(40), None]:
        tasks.put(number)
    fuzz.work(tasks, ends, good, tmp_path)
    outcomes = Counter(ends.get()[2] for _ in range(80))
    assert seen == {("link", True), ("link", False), ("other", True)}
    assert outcomes["written"] > 5 and outcomes["fine"] > 5


def error_of(function, *given):
    try:
        function(*given)
    except BaseException as error:
        return error
    return None


def test_a_type_error_is_fine_only_in_words_of_ascribo(fuzz, tmp_path):
    import ascribo as asc

    np.save(tmp_path / "a.npy", np.ones((5, 2)))
    assert fuzz.is_fine(error_of(lambda: asc.read(tmp_path / "a.npy", strange=1)))
    assert fuzz.is_fine(ValueError()) and fuzz.is_fine(FileNotFoundError())
    for accident in (lambda: len(3), lambda: asc.Time(1).check_variable("x", None), lambda: {}["a"]):
        assert not fuzz.is_fine(error_of(accident))


@pytest.mark.skipif(
    not os.access("/proc/self/clear_refs", os.W_OK), reason="this system counts from the start only"
)
def test_memory_is_counted_for_each_file_by_itself(fuzz):
    rises = []
    for size in (2**28, 2**20, 2**27):
        peak = fuzz.Peak()
        np.ones(size, np.uint8).sum()
        rises.append(peak.rise())
    assert rises[0] > 2**27.9 and rises[1] < 2**26 and rises[2] > 2**26.9


def test_what_hypothesis_edits_fails_with_the_smallest_edit(fuzz, tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,4")
    monkeypatch.setattr(fuzz, "read", lambda kind, path: {}["no"] if '"' in path.read_text() else None)
    with pytest.raises(AssertionError, match="error: recording") as found:
        fuzz.structured(300, None, [fuzz.Case("a.csv", tmp_path / "a.csv", "", "recording")])
    assert "KeyError" in str(found.value)


def test_the_figures_are_written(fuzz, tmp_path, monkeypatch, capsys):
    result = {"files": 7, "kinds": ["a"], "counts": {"fine": 7}, "examples": []}
    monkeypatch.setattr(fuzz, "fuzz", lambda *given: result)
    out = tmp_path / "fuzz.json"
    monkeypatch.setattr(sys, "argv", ["fuzz.py", "--files", "7", "--edited", "0", "--seed", "3", "--out", str(out)])
    assert fuzz.main() == 0
    figures = json.loads(out.read_text())
    assert {"files": 7, "counts": {"fine": 7}, "seed": 3}.items() <= figures.items()
    assert json.loads(capsys.readouterr().out).items() <= figures.items()
    assert figures["code"]["sha256"] and figures["machine"]["python"]


def test_a_hang_ends_and_waiting_for_a_processor_is_none(fuzz, monkeypatch):
    monkeypatch.setattr(fuzz, "SECONDS", 1)
    began = time.monotonic()
    with pytest.raises(TimeoutError), fuzz.limited_time():
        time.sleep(20)
    with pytest.raises(TimeoutError), fuzz.limited_time():
        while time.monotonic() < began + 20:
            pass
    assert time.monotonic() < began + 15
    others = iter([0.0, 2.0, 2.0, 2.5, 2.5])  # of the first second, it is said, others had the processor for two
    monkeypatch.setattr(fuzz, "waited", lambda: next(others))
    began = time.monotonic()
    with pytest.raises(TimeoutError), fuzz.limited_time():
        time.sleep(20)
    assert 2.5 < time.monotonic() - began < 15

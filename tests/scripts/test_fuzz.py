"""A few hundred damaged files: none may crash, hang, run code or end in an error that nobody foresaw."""

import importlib.util
import queue
from collections import Counter
from pathlib import Path

import pytest

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
        *("fit/fit.json", "earlier-fit/seeds", "sweep/sweep.toml", "sweep/cell.json", "sweep/.fingerprints.json"),
    } <= {case.kind for case in good}
    tasks, results = queue.SimpleQueue(), queue.SimpleQueue()
    for number in [*range(260), None]:
        tasks.put(number)
    fuzz.work(tasks, results, good, tmp_path)
    ends = [results.get() for _ in range(2 * 260)]
    assert Counter(end[2] for end in ends) == {"began": 260, "fine": 260}, [e for e in ends if e[2] == "error"]
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

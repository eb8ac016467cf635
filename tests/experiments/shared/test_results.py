"""What every result says of the code and the machine that made it."""

import json
import platform

import pytest

import ascribo as asc
from experiments.shared import results


def test_the_machine_has_no_name():
    assert platform.node() not in json.dumps(results.machine()) or not platform.node()


def test_the_digest_follows_the_code(tmp_path, monkeypatch):
    package, beside = tmp_path / "package", tmp_path / "beside"
    for folder in (package, beside):
        folder.mkdir()
        (folder / "a.py").write_text("x = 1")
    monkeypatch.setattr(results, "FOLDERS", (package, beside))
    first = results.code()
    assert first["version"] == asc.__version__ and len(first["sha256"]) == 64 and results.code() == first
    (package / "notes.txt").write_text("no code")
    assert results.code() == first
    seen = {first["sha256"]}
    (beside / "a.py").write_text("x = 2")
    seen.add(results.code()["sha256"])
    (beside / "a.py").rename(beside / "b.py")
    seen.add(results.code()["sha256"])
    assert len(seen) == 3


def test_package_and_experiments_are_the_code():
    assert {(folder / "__init__.py").is_file() for folder in results.FOLDERS} == {True}
    assert {folder.name for folder in results.FOLDERS} == {"ascribo", "experiments"}


def test_parameters_of_an_estimator_are_fit_for_json():
    model = asc.ContrastiveEmbedding({"all": asc.Time(dim=2)}, penalty=asc.Constant(0.1), steps=7)
    found = results.estimator_parameters(model)
    assert found["steps"] == 7 and "spaces" not in found and "progress" not in found
    json.dumps(found, allow_nan=False)


def test_rows_are_a_line_each_and_read_back_as_they_were(tmp_path):
    content = {"a": {"b": [1, None]}, "rows": [{"x": 1.5, "y": [1, 2]}, {"x": "ä\n"}], "z": "last"}
    text = results.write_json(tmp_path / "a.json", content).read_text()
    assert json.loads(text) == content and list(json.loads(text)) == ["a", "rows", "z"]
    assert '  {"x": 1.5, "y": [1, 2]},\n' in text
    assert json.loads(results.write_json(tmp_path / "b.json", {**content, "rows": []}).read_text())["rows"] == []
    with pytest.raises(ValueError, match="not JSON compliant"):
        results.write_json(tmp_path / "c.json", {"rows": [{"x": float("nan")}]})

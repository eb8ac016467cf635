"""Parts of an experiment that are measured once more: the others stay, and the file says which are new."""

import json
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure

from experiments.validation import parts_again


@pytest.fixture
def folder(tmp_path, monkeypatch):
    module = SimpleNamespace(
        cases=lambda plan: [{"part": "slow"}, *({"part": "fast", "shift": k} for k in plan["shifts"])],
        measure=lambda part, shift=0: {"part": part, "shift": 10 * shift, "value": "new"},
        conclude=lambda result: {**result, "new": sum(row["value"] == "new" for row in result["rows"])},
        draw=lambda result: Figure().subplots(),
    )
    monkeypatch.setattr(parts_again, "find", lambda name: module)
    rows = [{"part": "slow", "value": "old"}, *({"part": "fast", "shift": 9, "value": "old"} for _ in range(2))]
    old = {"experiment": "track", "protocol": {"shifts": [1, 2]}, "code": {"sha256": "before"}, "rows": rows}
    (tmp_path / "track.json").write_text(json.dumps(old))
    return tmp_path


def test_only_the_named_parts_are_measured(folder):
    parts_again.measure_again("track", ["fast"], folder)
    result = json.loads((folder / "track.json").read_text())
    assert [row["value"] for row in result["rows"]] == ["old", "new", "new"] and result["new"] == 2
    assert [row.get("shift") for row in result["rows"]] == [None, 10, 20]
    assert result["code"] == {"sha256": "before"} and result["parts_again"]["parts"] == ["fast"]
    assert result["parts_again"]["code"]["sha256"] != "before" and (folder / "track.png").is_file()


def test_what_does_not_fit_is_refused(folder):
    with pytest.raises(ValueError, match="track has no part 'other'; it has fast, slow"):
        parts_again.measure_again("track", ["other"], folder)
    old = json.loads((folder / "track.json").read_text())
    (folder / "track.json").write_text(json.dumps({**old, "protocol": {"shifts": [1]}}))
    with pytest.raises(ValueError, match=r"track\.json has other parts than its protocol"):
        parts_again.measure_again("track", ["fast"], folder)

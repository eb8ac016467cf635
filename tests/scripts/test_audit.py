"""The audit of packages fails on what was not checked, whatever pip-audit says of it."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts/audit.py"


def test_what_was_skipped_is_a_failure():
    spec = spec_from_file_location("audit", SCRIPT)
    assert spec is not None and spec.loader is not None
    audit = module_from_spec(spec)
    spec.loader.exec_module(audit)
    good = {"name": "a", "version": "1", "vulns": []}
    assert audit.judge({"dependencies": [good]}) == []
    assert audit.judge({"dependencies": [good, {"name": "b", "skip_reason": "no answer"}]}) == [
        "b was not checked: no answer"
    ]
    assert audit.judge({"dependencies": [{**good, "vulns": [{"id": "X-1"}]}]}) == ["a 1: X-1"]
    skipped = {"name": "b", "skip_reason": "no answer"}
    assert audit.judge({"dependencies": [skipped, skipped]})[0].startswith(
        "none of 2 packages was checked (no answer)"
    )
    assert audit.judge({})[0].startswith("none of 0 packages was checked")

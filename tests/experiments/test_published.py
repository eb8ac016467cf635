"""Published results: they can still be read, and their conclusions still follow from their rows."""

import json
from pathlib import Path

import pytest

from experiments import EXPERIMENTS, find

RESULTS = Path(__file__).parents[2] / "results"
NAMES = sorted(path.stem for path in RESULTS.glob("*.json"))
CONCLUDED = {
    **{"box": "summary", "calibration": "conditions", "dimension": "summary", "peers": "summary"},
    **{"noise": "cells", "samples": "cells", "table2": "cells", "lambda": "verdicts"},
    "labelfree-blocks": "agreement",
}
"""What `conclude` adds, of experiments whose conclusions take a moment."""


def published(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_has_what_its_readers_ask_for(name):
    experiment = find(name)
    assert callable(experiment.tables) and callable(experiment.draw) and callable(experiment.cases)
    assert f"`{name}.json`" in experiment.run.__doc__, "the name it writes to is the one it is registered with"
    assert set(experiment.QUICK) <= set(experiment.FULL)


@pytest.mark.parametrize("name", NAMES)
def test_published_results_can_be_shown(name):
    result = published(name)
    assert result["experiment"] == name and name in EXPERIMENTS
    assert all(len(table) for table in find(name).tables(result).values())
    assert find(name).draw(result).figure is not None


@pytest.mark.parametrize("name", CONCLUDED)
def test_published_conclusions_follow_from_published_rows(name):
    result = published(name)
    again = find(name).conclude({key: value for key, value in result.items() if key != CONCLUDED[name]})
    assert_same(json.loads(json.dumps(again[CONCLUDED[name]])), result[CONCLUDED[name]])


def assert_same(new, old):
    """Equal, but for the last digits of numbers."""
    assert type(new) is type(old) or {type(new), type(old)} == {int, float}
    if isinstance(old, dict):
        assert list(new) == list(old)
        for key in old:
            assert_same(new[key], old[key])
    elif isinstance(old, list):
        assert len(new) == len(old)
        for one, other in zip(new, old, strict=True):
            assert_same(one, other)
    else:
        assert new == pytest.approx(old, abs=1e-9) if isinstance(old, float) else new == old


def test_an_unknown_experiment():
    with pytest.raises(ValueError, match="there are: box"):
        find("bx")

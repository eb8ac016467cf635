"""Problems are found where they are, and not where they are not."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ascribo as asc
from ascribo.attribution.maps import AttributionMaps
from ascribo.report.agreement import seed_agreement
from ascribo.report.problems import (
    NOTE_TITLES,
    find_problems,
    variables_that_go_together,
    variables_that_lag,
    variables_that_stand_still,
)
from ascribo.report.words import answer, fit_verdict, overall
from tests.report.conftest import fit, made_up_maps


def walk(rng, steps, pace=0.05):
    """A stationary variable with a memory of some tens of steps."""
    noise, out = rng.normal(size=steps), np.zeros(steps)
    for t in range(1, steps):
        out[t] = (1 - pace) * out[t - 1] + noise[t]
    return out / out.std()


@pytest.mark.parametrize("lag", [-12, 0, 15])
def test_a_variable_that_lags_is_found_and_its_side(lag):
    rng = np.random.default_rng(0)
    signal, other = walk(rng, 8000), walk(rng, 8000)
    X = np.stack([signal, -signal, other], 1) + 0.5 * rng.normal(size=(8000, 3))
    recording = asc.Recording(X, {"late": np.roll(signal, lag), "other": other})
    spaces = {"late": asc.Follow("late", 1), "other": asc.Follow("other", 1), "rest": asc.Time(1)}
    found = dict(variables_that_lag(spaces, recording))
    assert set(found) == ({"late"} if lag else set())
    if lag:
        assert np.sign(found["late"]) == np.sign(lag) and abs(found["late"] - lag) <= 4


def test_nothing_lags_where_there_is_nothing():
    rng = np.random.default_rng(1)
    names = [f"v{k}" for k in range(12)]
    for _ in range(3):
        recording = asc.Recording(rng.normal(size=(4000, 8)), {name: walk(rng, 4000) for name in names})
        assert variables_that_lag({name: asc.Follow(name, 1) for name in names}, recording) == []


def test_variables_that_tell_each_other_are_found_once():
    rng = np.random.default_rng(0)
    a, b, angle = walk(rng, 4000), walk(rng, 4000), rng.uniform(0, 360, 4000)
    table = {"a": a, "b": b, "mixed": a + 0.3 * b, "angle": angle, "east": np.cos(np.deg2rad(angle))}
    recording = asc.Recording(rng.normal(size=(4000, 3)), table)
    spaces = {name: asc.Follow(name, 1) for name in ("a", "b", "mixed", "east")}
    spaces["angle"] = asc.Follow("angle", 2, circular=True, period=360)
    found = {frozenset(pair[:2]): pair[2] for pair in variables_that_go_together(spaces, recording)}
    assert set(found) == {frozenset(("a", "mixed")), frozenset(("angle", "east"))}
    assert found[frozenset(("angle", "east"))] == pytest.approx(1.0)  # the angle tells east, not east the angle


def test_problems_of_the_small_model(model, recording, maps):
    calls = maps.calls()
    agreement = [{"space": "position", "embedding": {"lowest": 0.3, "mean": 0.4}, "map": None}]
    titles = {p["title"]: p["grade"] for p in find_problems(model, recording, maps, calls, agreement)}
    assert titles["seeds disagree on position"] == "care"
    assert titles["every channel is called for rest"] == "note"
    assert not any("position has" in title for title in titles)
    grades = [p["grade"] for p in find_problems(model, recording, maps, calls, agreement)]
    assert grades == sorted(grades, key=("bad", "care", "note").index)


def test_missing_and_silent_channels_and_a_space_at_chance(recording, model, maps):
    import copy

    changed = copy.copy(model)
    changed.goodness_of_fit_ = model.goodness_of_fit_.assign(
        left_out=[0, 1500, 0], collapsed=[False, False, True], held_out=True
    )
    X = pd.DataFrame(recording.X.copy(), columns=recording.channel_names)
    X.iloc[:, 3] = 0.0
    X.iloc[5, 3] = 1.0
    found = find_problems(changed, asc.Recording(X, recording.variables), maps, None, [])
    titles = {p["title"]: p["grade"] for p in found}
    assert titles["50% of the time steps left out for side"] == "care"
    assert titles["1 nearly silent channel"] == "note" and titles["rest is at chance"] == "note"
    lone = AttributionMaps(
        None, maps.by_space, "unique_variance", undecided={"position": "", "side": ""}, blocks=maps.blocks
    )
    found = find_problems(changed, asc.Recording(X, recording.variables), lone, None, [])
    assert {p["title"]: p["grade"] for p in found}["rest is at chance"] == "bad"  # there is no other answer
    assert all(p["do"] for p in found)


def test_verdicts():
    row = {"bits": 3.0, "bits_low": 2.5, "bits_high": 3.5, "collapsed": False, "held_out": True}
    assert fit_verdict(row)[0] == "good"
    assert fit_verdict({**row, "collapsed": True})[0] == "bad"
    assert fit_verdict({**row, "bits_low": -0.1})[0] == "care"
    assert fit_verdict({**row, "held_out": False})[0] == "care"
    space = {
        "name": "place",
        "variables": ["x"],
        "tested": True,
        "refused": "",
        "undecided": "",
        "collapsed": False,
        "unclear": False,
    }
    rest = {**space, "name": "rest", "variables": []}
    problem = {"grade": "care", "title": "one thing", "text": "", "do": ""}
    assert overall([space], []) == (
        "good",
        "No serious problem was found: the fit is above chance on time it has not seen.",
    )
    assert overall([space], [], seeds=2)[1].endswith("not seen, and seeds agree.")
    assert "at chance for rest" in overall([space, {**rest, "collapsed": True}], [])[1]
    assert "not clearly above chance for place; calls" in overall([{**space, "unclear": True}], [], seeds=2)[1]
    assert overall([space], [{**problem, "grade": "note"}])[0] == "good"
    assert overall([space], [problem]) == ("care", "1 thing to look at first: one thing.")
    two = overall([space], [problem, {**problem, "title": "x and y stand still"}])[1]
    assert two == "2 things to look at first: one thing; x and y stand still."
    assert overall([space], [problem, {**problem, "grade": "bad"}])[0] == "bad"
    assert overall([{**space, "undecided": "why"}], [])[0] == "bad"
    grade, why = overall([{**space, "undecided": "it is too slow"}, rest], [])
    assert grade == "bad" and why == "Nothing could be said about place: see why below."
    said = answer({**space, "undecided": "it is too slow.", "called": 0}, 9, 0.05)
    assert said == "Not decided: it is too slow."
    assert answer({**space, "called": 1}, 1, 0.05) == "The only channel carries it."
    assert answer({**space, "called": 0}, 1, 0.05) == "The only channel was not found to carry it."
    assert answer({**space, "called": 0}, 6, 0.05) == "No channel of 6 was found to carry it."


def test_a_variable_that_stands_still_for_long_is_named():
    rng = np.random.default_rng(0)
    x = rng.normal(size=1000)
    held = np.where(np.arange(1000) < 400, x, x[400])  # the tracker was lost for good
    lost = np.where(np.arange(1000) < 400, x, np.nan)
    table = {"x": x, "held": held, "lost": lost, "side": np.arange(1000) // 500}
    recording = asc.Recording(rng.normal(size=(1000, 3)), table)
    spaces = {"a": asc.Follow(["x", "held", "lost"], dim=3), "side": asc.Discrete("side", dim=1)}
    assert variables_that_stand_still(spaces, recording) == [("held", 0.6)]


def test_every_kind_of_note_has_a_title_that_a_reader_understands():
    folder = Path(asc.screening.__file__).parent
    kinds = {
        kind for file in folder.glob("*.py") for kind in re.findall(r'Note\([\w.]+, "([^"]+)"', file.read_text())
    }
    assert kinds == set(NOTE_TITLES) and all("{name}" in title for title in NOTE_TITLES.values())


def test_the_report_and_the_number_of_seeds_tell_the_same_agreement():
    data = asc.simulate.box(observed=1, hidden=1, channels=(4, 4), steps=8000)  # more than a report draws
    model = fit(data, {"x": asc.Follow("x", 1)}, seeds="auto", steps=300, penalty=0.0)
    (x,) = seed_agreement(model, data, made_up_maps(model, np.ones((1, 8), bool)))
    assert model.model_.seeds == 2 and model.spent_["why_seeds"].endswith(f"R² of {x['embedding']['lowest']:.2f}")

"""Variables that have a velocity: which channels carry more of them than that?"""

import numpy as np
import pytest

from ascribo import Follow, Recording, screen
from ascribo.metrics import auroc
from ascribo.screening.features import earlier, standardise
from ascribo.screening.questions import Variable
from ascribo.screening.variables import make_variable
from ascribo.screening.velocity import make_velocity, moves_smoothly, path_adds_up_to, path_tells, velocity_note
from ascribo.simulate.navigation import navigation


def path(rng, steps):
    """A place that moves on smoothly, in one dimension, and its velocity."""
    speed = np.zeros(steps)
    for t in range(1, steps):
        speed[t] = 0.95 * speed[t - 1] + 0.3 * rng.standard_normal()
    place = np.zeros(steps)
    for t in range(1, steps):
        place[t] = place[t - 1] + 0.05 * speed[t] - 0.003 * place[t - 1]
    return place, speed


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(2)
    x, v = path(rng, 8000)
    own = np.stack([np.sin(k * x / x.std() + k) for k in np.linspace(0.5, 2, 15)], axis=1)
    through = np.stack([np.tanh(k * v / v.std() + k) for k in np.linspace(0.3, 1, 15)], axis=1)
    X = np.concatenate([own / own.std(0), through / through.std(0), np.zeros((8000, 15))], axis=1)
    X += rng.standard_normal(X.shape)
    table = {"x": x, "v": v}
    return Recording(X, table), screen(Recording(X, table), {"x": Follow("x", 1)})


def test_channels_of_the_variable_and_of_its_velocity_are_told_apart(found):
    calls = found[1].calls
    left = calls["beyond_velocity"].to_numpy()
    assert calls["called"][:30].mean() > 0.9 and calls["called"][30:].sum() <= 2
    assert left[:15].min() > left[15:].max()
    assert (left[15:30] < 0.1 * calls["score"][15:30]).all()


def test_the_note_says_how_many_carry_nothing_but_the_velocity(found):
    (note,) = [note for note in found[1].notes if note.kind == "has a velocity"]
    called = found[1].calls["called"]
    assert f"Of the {called.sum()} called, {called[15:30].sum()} carry next to nothing else" in note.text


def test_where_velocity_is_a_space_it_is_conditioned_on_anyway(found):
    calls = screen(found[0], {"x": Follow("x", 1), "v": Follow("v", 1)})
    assert not [note for note in calls.notes if note.space == "x" and "carry next to nothing else" in note.text]
    of_x = calls.calls.query("space == 'x'")
    assert of_x["called"][:15].mean() > 0.9 and of_x["called"][15:30].mean() < 0.2


def test_place_and_grid_cells_beside_those_of_heading_and_speed_by_position_alone():
    """Heading and speed are in the path of the position: only what is left beyond velocity ranks cells rightly."""
    data = navigation(0, duration=1000.0, dt=0.1, progress=False)
    calls = screen(data, {"position": Follow(("x", "y"), 2)}).calls
    truth = data.truth.sel(space="position").values
    by_score, beyond = (auroc(calls[name].to_numpy(), truth) for name in ("score", "beyond_velocity"))
    print(by_score, beyond)
    assert beyond > 0.97 > 0.7 > by_score


def test_a_walk_has_no_velocity_and_one_that_stands_still_neither():
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.standard_normal((3000, 1)), axis=0)
    assert not moves_smoothly(walk)
    calls = screen(Recording(np.c_[walk, rng.standard_normal((3000, 9))], {"w": walk[:, 0]}), {"w": Follow("w", 1)})
    assert "beyond_velocity" not in calls.calls and not [n for n in calls.notes if n.kind == "has a velocity"]


def test_velocity_does_not_cross_an_epoch_s_edge():
    from ascribo.screening.variables import make_variable

    x = np.r_[np.sin(np.linspace(0, 20, 500)), 5 + np.sin(np.linspace(0, 20, 500))][:, None]
    first, last = np.repeat([0, 500], 500), np.repeat([499, 999], 500)
    known = np.ones(1000, dtype=bool)
    made = make_velocity(make_variable(x, False, False, first, known), first, last, known)
    assert np.abs(made.values).max() < 2  # a leap of five would stand out
    still = make_variable(np.zeros((1000, 1)), False, False, first, known)
    assert make_velocity(still, first, last, known) is None


def test_the_note_without_scores_beyond():
    assert "called, " not in velocity_note("x", np.ones(3, dtype=bool), np.ones(3), None).text


def test_the_path_of_position_tells_velocity_and_not_the_other_way_round():
    speed = np.cumsum(np.random.default_rng(0).normal(size=(4_000, 1)), axis=0)
    speed = speed - np.convolve(speed[:, 0], np.ones(40) / 40, mode="same")[:, None]
    place = np.cumsum(speed, axis=0)
    first, last = np.zeros(4_000, int), np.full(4_000, 3_999)

    def variable(values):
        values = standardise(values)
        return Variable(values, False, earlier(first, 1), 1, True)

    rows = np.arange(4_000)
    away = (speed > 0).astype(float)
    label = Variable(standardise(np.c_[away, 1 - away]), True, earlier(first, 1), 1, True)
    assert path_tells(variable(speed), variable(place), first, last, rows)
    assert not path_tells(variable(place), label, first, last, rows)
    assert not path_tells(variable(place), variable(speed), first, last, rows)


def test_a_path_adds_up_to_a_position_and_not_to_what_goes_along_with_it():
    rng = np.random.default_rng(0)
    steps = 6_000
    velocity = np.zeros(steps)
    for t in range(1, steps):
        velocity[t] = 0.8 * velocity[t - 1] + rng.standard_normal()
    position = np.zeros(steps)
    for t in range(1, steps):  # drawn to the middle, so that it is not slow
        position[t] = 0.95 * position[t - 1] + velocity[t]
    beside = 0.85 * position / position.std() + 0.5 * np.cumsum(rng.standard_normal(steps)) / 40
    late = np.roll(position, 3)
    first, known = np.zeros(steps, int), np.ones(steps, bool)
    made = {
        name: make_variable(standardise(own[:, None]), False, False, first, known)
        for name, own in {"position": position, "velocity": velocity, "beside": beside, "late": late}.items()
    }
    rows = np.arange(steps)
    adds_up = lambda own, other: path_adds_up_to(made[own], made[other], rows)  # noqa: E731
    assert adds_up("position", "velocity")
    assert not adds_up("position", "beside") and not adds_up("beside", "position")
    assert not adds_up("late", "position") and not adds_up("position", "late")

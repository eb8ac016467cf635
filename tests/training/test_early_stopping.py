"""Training ends when held-out bits have stopped rising, and not before."""

import numpy as np
import pytest

from ascribo.training.decoders import _Course
from ascribo.training.early_stopping import PATIENCE, Pace
from ascribo.training.penalty_weight import Auto, Each, Ramp, shorten
from ascribo.training.settings import Settings


def follow(curve, most=3000):
    """The pace of a run with held-out bits `curve(step)`: the steps it takes."""
    pace, done = Pace(most, True), 0
    while done < pace.total:
        done += 50
        pace.observe(done, np.array([curve(done)]))
    return pace, done


def test_a_run_ends_after_as_many_steps_as_it_took_to_find_out():
    pace, done = follow(lambda step: 2 * (1 - np.exp(-step / 100)))
    assert 600 <= done <= 1200 and "stopped rising at step" in pace.why
    _, longer = follow(lambda step: 2 * (1 - np.exp(-step / 300)))
    assert longer > 1.8 * done
    _, rising = follow(lambda step: step / 100)
    assert rising == 3000
    _, soon = follow(lambda step: 1 - step / 1000)  # overfitted from the start
    assert soon == 300
    assert follow(lambda step: 0.0, most=200)[1] == 200


def test_noise_is_no_gain():
    rng = np.random.default_rng(0)
    _, done = follow(lambda step: min(2.0, step / 100) + 0.01 * rng.normal())
    assert done <= 2 * (200 + 2 * PATIENCE)


def test_a_run_that_is_not_watched_takes_all_steps():
    pace = Pace(500, False)
    assert not any(pace.observe(done, np.zeros(2)) for done in range(50, 501, 50))
    assert pace.total == 500 and pace.why == "all 500 steps were taken"


def test_learning_rate_and_penalty_follow_the_new_total():
    settings = Settings(3000, 512, 1.0, Auto())
    assert settings.rate(400, 400) == pytest.approx(0.05) and settings.rate(400) == 1.0
    search, ramp = Auto().begin(1, 3000, 10.0), Ramp(0.1).begin(1, 3000, 0.0)
    side = Each((Auto(), Ramp(0.1))).begin(2, 3000, 10.0)
    for _ in range(4):
        search.observe(np.full((50, 1), 2.0), np.full((50, 1), 20.0))
    assert search.weights(200, 1).item() == 0
    shorten(search, 400)
    shorten(ramp, 400)
    shorten(side, 400)
    search.observe(np.full((50, 1), 2.0), np.full((50, 1), 20.0))
    assert search.weights(250, 1).item() > 0 and ramp.weights(200, 1).item() == 0.1
    assert side.weights(200, 1)[0, 1] == 0.1


def test_decoders_stop_when_their_loss_is_flat():
    course = _Course(1000, 2e-3, True)
    assert course.rate(0) == 2e-3 and course.rate(500) == pytest.approx(1e-3)
    done = 0
    while done < course.total:
        done += 50
        course.observe(done, 1 + np.exp(-done / 60))
    assert 300 <= done <= 750 and course.rate(course.total - 1) < 2e-5
    still = _Course(1000, 2e-3, True)
    for chunk in range(20):
        still.observe(50 * (chunk + 1), 20.0 - chunk)
    assert still.total == 1000

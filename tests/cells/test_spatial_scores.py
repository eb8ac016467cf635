"""Scores of cells with known fields: what has them scores, what has not does not, and p is what it says."""

import numpy as np
import pandas as pd
import pytest

from ascribo import Recording
from ascribo.cells.grid_scores import autocorrelograms, score_grids
from ascribo.cells.spatial_scores import (
    _information,
    cell_scores,
    grid_score,
    head_direction_score,
    rate_maps,
    spatial_information,
    speed_score,
)

STEPS = 20_000


def path(seed=0, steps=STEPS):
    """A walk in a unit square, with a heading and a speed: smooth, and covering it."""
    rng = np.random.default_rng(seed)
    speed = np.abs(np.cumsum(rng.normal(size=steps)) * 0.02 % 0.4 - 0.2) + 0.02
    heading = np.cumsum(0.3 * rng.normal(size=steps)) % (2 * np.pi)
    place = np.cumsum(0.1 * speed[:, None] * np.stack([np.cos(heading), np.sin(heading)], 1), axis=0)
    place = 1 - np.abs(place % 2 - 1)
    return pd.DataFrame({"x": place[:, 0], "y": place[:, 1], "head_direction": heading, "speed": speed})


def lattice(place, angles, scale=0.35, phase=0.3):
    """A sum of cosines along the given directions: hexagonal for 0, 60, 120 degrees, square for 0 and 90."""
    waves = [np.cos(2 * np.pi / scale * (place @ [np.cos(a), np.sin(a)] - phase)) for a in np.deg2rad(angles)]
    return np.maximum(np.mean(waves, 0), 0)


@pytest.fixture(scope="module")
def data():
    v = path()
    place = v[["x", "y"]].to_numpy()
    rng = np.random.default_rng(1)
    X = {
        "hexagonal": lattice(place, (0, 60, 120)),
        "square": lattice(place, (0, 90)),
        "place": np.exp(-((place - [0.3, 0.6]) ** 2).sum(1) / 0.02),
        "towards": np.exp(2 * (np.cos(v["head_direction"] - 1) - 1)),
        "fast": v["speed"].to_numpy(),
        "slow": 1 - v["speed"].to_numpy(),
        "noise": rng.normal(size=STEPS),
    }
    X = {name: np.asarray(value) + 0.05 * rng.normal(size=STEPS) for name, value in X.items()}
    return Recording(pd.DataFrame(X), v, time=np.arange(STEPS) / 10)


def test_maps_show_the_fields(data):
    maps = rate_maps(data, bins=25)
    assert maps.dims == ("channel", "x", "y") and maps.shape == (7, 25, 25)
    peak = np.unravel_index(int(np.nanargmax(maps.sel(channel="place").values)), (25, 25))
    assert float(maps["x"][peak[0]]) == pytest.approx(0.3, abs=0.06)
    assert float(maps["y"][peak[1]]) == pytest.approx(0.6, abs=0.06)
    flat = maps.sel(channel="noise").values
    assert np.nanstd(flat) < 0.1 * np.nanmax(maps.sel(channel="place").values)


def test_maps_are_means_where_the_animal_was_and_missing_elsewhere():
    v = pd.DataFrame({"x": [0.0, 0.1, 0.9, 0.9], "y": [0.0, 0.1, 0.9, 1.0]})
    maps = rate_maps(Recording(np.array([[1.0], [3.0], [5.0], [7.0]]), v), bins=2, smooth=0)
    np.testing.assert_allclose(maps.values[0], [[2, np.nan], [np.nan, 6]])


def test_information_of_a_hand_worked_example():
    """Two bins visited 3:1 with rates 1 and 5: mean 2; 3/4 · 1/2 log2 1/2 + 1/4 · 5/2 log2 5/2."""
    expected = 0.75 * 0.5 * np.log2(0.5) + 0.25 * 2.5 * np.log2(2.5)
    v = {"x": [0.0, 0.0, 0.0, 1.0], "y": [0.0, 0.0, 0.0, 1.0]}
    X = np.array([[1.0], [1.0], [1.0], [5.0]])
    got = spatial_information(Recording(X, v, time=np.arange(4)), bins=2, smooth=0, shuffles=0)
    assert got["score"][0] == pytest.approx(expected)
    assert np.isnan(got["p"][0])
    # a cell that fires in one of four equal bins has log2 4 = 2 bits for each spike; one that fires everywhere none
    maps = np.array([[[1.0, 0.0], [0.0, 0.0]], [[2.0, 2.0], [2.0, 2.0]]])
    np.testing.assert_allclose(_information(maps, np.full(4, 5.0)), [2, 0], atol=1e-12)


def test_grid_scores_tell_a_hexagon_from_a_square(data):
    found = grid_score(data, bins=25, shuffles=0).set_index("channel")["score"]
    assert found["hexagonal"] > 1 and found["square"] < 0
    assert found["place"] < 0.5


def test_a_perfect_lattice_scores_above_one():
    axis = np.linspace(0, 1, 30)
    place = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1)
    maps = np.stack([lattice(place, (7, 67, 127)), lattice(place, (5, 95))])
    scores = score_grids(maps)
    assert scores[0] > 1 and scores[1] < -0.2
    # holes in the map do not change it much
    holes = np.where(np.random.default_rng(0).random(maps.shape) < 0.1, np.nan, maps)
    np.testing.assert_allclose(score_grids(holes), scores, atol=0.25)


def test_autocorrelograms_are_correlations():
    rng = np.random.default_rng(0)
    one = rng.normal(size=(1, 9, 9))
    one[0, 3, 4] = np.nan
    found = autocorrelograms(one)[0]
    assert found.shape == (17, 17) and found[8, 8] == pytest.approx(1)
    np.testing.assert_allclose(found, found[::-1, ::-1], atol=1e-8)
    a, b = one[0, 2:, :8].ravel(), one[0, :7, 1:].ravel()  # moved by (-2, 1)
    both = np.isfinite(a) & np.isfinite(b)
    assert found[8 - 2, 8 + 1] == pytest.approx(np.corrcoef(a[both], b[both])[0, 1], abs=1e-8)


def test_head_direction_and_speed(data):
    vector = head_direction_score(data, shuffles=0).set_index("channel")["score"]
    clean = np.exp(2 * (np.cos(data.variables[["head_direction"]].to_numpy() - 1) - 1))
    exact = head_direction_score(Recording(clean, data.variables), shuffles=0)["score"][0]
    assert exact == pytest.approx(0.698, abs=0.01)  # I1(2) / I0(2)
    assert 0.4 < vector["towards"] < exact  # noise below 0 lifts the curve
    assert vector["place"] < 0.3
    linear = speed_score(data, shuffles=0).set_index("channel")["score"]
    spread = data.variables["speed"].std()
    expected = spread / np.hypot(spread, 0.05)  # the noise of the cells
    assert linear["fast"] == pytest.approx(expected, abs=0.02) and linear["slow"] == pytest.approx(
        expected, abs=0.02
    )
    assert linear["noise"] < 0.1
    turned = data.variables.assign(head_direction=np.rad2deg(data.variables["head_direction"]))
    other = Recording(pd.DataFrame(data.X, columns=data.channel_names), turned, time=data.time)
    in_degrees = head_direction_score(other, period=360, shuffles=0).set_index("channel")["score"]
    np.testing.assert_allclose(in_degrees, vector, rtol=1e-6)


def test_the_table_has_every_score_with_its_p(data):
    table = cell_scores(data, shuffles=39, bins=15).set_index("channel")
    assert list(table) == [
        *("spatial_information", "spatial_information_p", "grid", "grid_p"),
        *("head_direction", "head_direction_p", "speed", "speed_p"),
    ]
    assert table.loc["place", "spatial_information_p"] == 1 / 40
    assert table.loc["hexagonal", "grid_p"] == 1 / 40
    assert table.loc["towards", "head_direction_p"] == 1 / 40
    assert table.loc[["fast", "slow"], "speed_p"].tolist() == [1 / 40] * 2
    least = cell_scores(data, head_direction=None, speed=None, shuffles=0)
    assert list(least) == ["channel", "spatial_information", "spatial_information_p", "grid", "grid_p"]


def test_p_is_uniform_for_cells_that_know_nothing():
    """Slow cells, unrelated to a slow behaviour: a null that forgot how slow they are would call them."""
    steps, cells = 4000, 120
    rng = np.random.default_rng(0)
    X = np.cumsum(rng.normal(size=(steps, cells)), axis=0)
    X = (X - X.mean(0)) / X.std(0)
    recording = Recording(X, path(5, steps), time=np.arange(steps) / 10)
    for found in (
        speed_score(recording, shuffles=39, min_shift=20),
        head_direction_score(recording, shuffles=39, min_shift=20),
        spatial_information(recording, bins=10, shuffles=39, min_shift=20),
    ):
        p = found["p"].to_numpy()
        assert 0.3 < p.mean() < 0.7
        assert (p <= 0.05).mean() < 0.15


def test_steps_without_behaviour_are_left_out(data):
    v = data.variables.copy()
    v.loc[:4999, "speed"] = np.nan
    hidden = Recording(pd.DataFrame(data.X, columns=data.channel_names), v, time=data.time)
    part = data[5000:]
    np.testing.assert_allclose(
        speed_score(hidden, shuffles=0)["score"], speed_score(part, shuffles=0)["score"], rtol=1e-6
    )


def test_what_is_refused(data):
    with pytest.raises(ValueError, match="no variable 'z'"):
        rate_maps(data, ("x", "z"))
    with pytest.raises(ValueError, match="expected 1 or 2 variables"):
        rate_maps(data, ("x", "y", "speed"))
    with pytest.raises(ValueError, match="expected 2 variables"):
        grid_score(data, ("x",))
    with pytest.raises(ValueError, match="min_shift=2000"):
        speed_score(data, min_shift=2000)


def test_a_track_has_one_dimension():
    """A field in the third of ten bins: its map, and its information against a hand-made sum."""
    place = np.tile(np.arange(1000) / 1000, 20)
    field = ((place >= 0.2) & (place < 0.3)).astype(float)
    data = Recording(
        np.stack([field, np.ones_like(field)], 1), {"position": place}, time=np.arange(len(place)) / 40
    )
    maps = rate_maps(data, ["position"], bins=10, smooth=0)
    assert maps.dims == ("channel", "position") and maps.shape == (2, 10)
    np.testing.assert_allclose(maps[0], np.eye(10)[2], atol=0.02)
    found = spatial_information(data, "position", bins=10, smooth=0, shuffles=19)
    np.testing.assert_allclose(found["score"], [np.log2(10), 0], atol=0.03)
    assert found["chance"][1] == pytest.approx(0, abs=1e-6)


def test_chance_is_what_few_spikes_have():
    """Five spikes lie in five bins of twenty, wherever the animal was: two bits, by chance alone."""
    rng = np.random.default_rng(0)
    spikes = np.zeros((20_000, 1))
    spikes[rng.choice(20_000, 5, replace=False)] = 1
    data = Recording(spikes, {"x": rng.uniform(size=20_000)}, time=np.arange(20_000) / 40)
    found = spatial_information(data, ["x"], bins=20, smooth=0).iloc[0]
    assert 1.5 < found["chance"] < 2.4 and abs(found["score"] - found["chance"]) < 0.8 and found["p"] > 0.05

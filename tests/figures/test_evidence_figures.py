"""Figures of evidence, maps over time and tuning: what is drawn is what was given."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import ascribo as asc
from ascribo import figures


@pytest.fixture(scope="module")
def calls():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"channel": [f"c{k}" for k in range(6)], "space": "place", "score": [0.5, 0.1, 0.4, 0.0, 0.3, 0.2]}
    )
    table["ci_low"], table["ci_high"] = table.score - 0.05, table.score + 0.05
    table["called"], table["region"] = table.score > 0.25, ["CA1", "MEC"] * 3
    return pd.concat([table, table.assign(space="speed", called=rng.random(6) > 1)], ignore_index=True)


def test_scores_stand_in_order_within_their_groups(calls):
    ax = figures.scores_with_intervals(calls, "place", by="region")
    assert [t.get_text() for t in ax.get_xticklabels()] == ["c0", "c2", "c4", "c5", "c1", "c3"]
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["CA1", "MEC"]
    filled = [
        p.get_offsets().data
        for p in ax.collections
        if len(p.get_facecolor()) and tuple(p.get_facecolor()[0][:3]) != (1, 1, 1)
    ]
    drawn = sorted(float(y) for part in filled for _, y in part if len(part) and part.shape[1] == 2)
    assert set(drawn) >= {0.3, 0.4, 0.5}
    for bad, match in (({"space": "plaice"}, "no calls for"), ({"by": "depth"}, "no column")):
        with pytest.raises(ValueError, match=match):
            figures.scores_with_intervals(calls, **{"space": "place", **bad})


def test_a_map_is_sorted_and_its_calls_are_marked(calls):
    scores = calls.pivot(index="channel", columns="space", values="score").to_xarray().to_array("space").T
    ax = figures.map_image(scores, calls=calls, sort=True)
    names = [t.get_text() for t in ax.get_yticklabels()]
    assert names[:3] == ["c0", "c2", "c4"]
    dots = ax.collections[0].get_offsets().data
    assert sorted((names[int(y)], int(x)) for x, y in dots) == [("c0", 0), ("c2", 0), ("c4", 0)]


def test_each_space_may_have_a_scale_of_its_own():
    scores = xr.DataArray([[0.01, 1.0], [0.02, 0.5]], coords={"channel": ["a", "b"], "space": ["slow", "rest"]})
    drawn = figures.map_image(scores, own_scale=True).images[0].get_array()
    np.testing.assert_allclose(drawn, [[0.5, 1.0], [1.0, 0.5]])


def test_a_map_over_time_stands_above_its_behaviour():
    values = np.zeros((300, 3, 1))
    values[:150, 2] = 1.0
    scores = xr.DataArray(values, coords={"time": np.arange(300.0), "channel": list("abc"), "space": ["place"]})
    ax = figures.map_over_time(scores, "place", np.arange(300), label="x", bins=30)
    drawn = ax.images[0].get_array()
    assert ax.get_yticklabels()[0].get_text() == "c" and (drawn[0] == [1.0] * 15 + [0.0] * 15).all()
    assert ax.child_axes[0].get_ylabel() == "x" and len(ax.child_axes[0].get_lines()) == 1
    with pytest.raises(ValueError, match="expected one number for each"):
        figures.map_over_time(scores, "place", np.arange(3))


def test_training_has_the_line_of_chance():
    curves = {
        "infonce": (("step", "seed", "space"), np.ones((50, 1, 1))),
        "mse": (("step", "seed", "regression"), np.ones((50, 1, 0))),
    }
    curves |= {name: (("step", "seed"), np.ones((50, 1))) for name in ("penalty", "lambda")}
    history = xr.Dataset(curves, coords={"space": ["place"]}, attrs={"lambda": [1.0]})
    ax = figures.training(history, chance=6.2)
    assert "chance" in [t.get_text() for t in ax.get_legend().get_texts()]
    assert any(np.allclose(line.get_ydata(), 6.2) for line in ax.get_lines())


def test_the_chosen_dimension_is_ringed():
    curve = pd.DataFrame({"dim": [1, 2, 3], "consistency": [0.9, 0.99, 0.7]})
    curve["ci_low"], curve["ci_high"] = curve.consistency - 0.05, curve.consistency + 0.05
    chosen = asc.evidence.ChosenDimension("place", 2, curve, 0.03)
    ax = figures.dimension_curve(chosen)
    assert ax.texts[0].get_text() == "chosen: 2" and ax.get_lines()[1].get_xdata() == [2]
    none = figures.dimension_curve(asc.evidence.ChosenDimension("place", None, curve, 0.03))
    assert none.texts[0].get_text().startswith("none chosen")


def test_a_tuning_curve_is_the_mean_in_each_bin():
    rng = np.random.default_rng(0)
    angle, side = rng.uniform(-180, 540, 4000), rng.choice(["left", "right"], 4000)
    recording = asc.Recording(
        np.cos(np.deg2rad(angle))[:, None] + (side == "right")[:, None], {"angle": angle, "side": side}
    )
    ax = figures.tuning_curve(recording, "channel0", "angle", period=360, bins=12)
    line = ax.get_lines()[-1]
    np.testing.assert_allclose(line.get_ydata(), np.cos(np.deg2rad(line.get_xdata())) + 0.5, atol=0.15)
    labels = figures.tuning_curve(recording, "channel0", "side")
    np.testing.assert_allclose(labels.get_lines()[-1].get_ydata(), [0, 1], atol=0.1)
    for bad, match in ((("channel9", "angle"), "no channel"), (("channel0", "agnle"), "no variable")):
        with pytest.raises(ValueError, match=match):
            figures.tuning_curve(recording, *bad)


def test_a_tuning_curve_refuses_a_period_of_another_unit():
    degrees = np.random.default_rng(0).uniform(0, 360, 500)
    recording = asc.Recording(np.cos(np.deg2rad(degrees))[:, None], {"angle": degrees})
    with pytest.raises(
        ValueError, match=r"'angle' runs from .* looks like degrees, and its period is 6\.28.*period=360"
    ):
        figures.tuning_curve(recording, "channel0", "angle", period=2 * np.pi)


def test_each_draws_into_the_axes_it_is_given(calls):
    axes = Figure().subplots(1, 4)
    table = pd.DataFrame({"source": [0, 1], "target": [1, 0], "r2": [0.5, 0.6]})
    rates = xr.DataArray(np.eye(3), coords={"x": [0, 1, 2], "y": [0, 1, 2]})
    assert figures.scores_with_intervals(calls, "place", axes[0]) is axes[0]
    assert figures.agreement(table, axes[1]) is axes[1]
    assert figures.roc([1, 2, 3], [False, True, True], axes[2]) is axes[2]
    assert figures.rate_map(rates, axes[3]) is axes[3]


def test_colours_can_be_told_apart_by_colour_blind_readers():
    """Colours as people without red (protanopia) and without green (deuteranopia) see them (Viénot et al. 1999)."""
    seen = {
        "protan": [[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]],
        "deutan": [[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]],
    }
    colours = np.array([to_rgb(colour) for colour in figures.PALETTE[:6]])
    for matrix in (np.eye(3), *map(np.array, seen.values())):
        shown = (colours**2.2 @ np.array(matrix).T).clip(0) ** (1 / 2.2)
        distance = np.linalg.norm(shown[:, None] - shown[None], axis=-1) + np.eye(len(shown))
        assert distance.min() > 0.14

"""Figures: what is drawn, where it is drawn, and that nothing else is touched."""

import sys

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.figure import Figure

import ascribo as asc
from ascribo import figures


@pytest.fixture(scope="module")
def data():
    return asc.simulate.box(observed=2, hidden=1, channels=(3, 4), steps=800)


@pytest.fixture(scope="module")
def model(data):
    spaces = {"position": asc.Follow(["x", "y"], dim=3), "rest": asc.Time(dim=1)}
    return asc.ContrastiveEmbedding(
        spaces, seeds=2, steps=100, batch_size=64, encoder=asc.MLP((16,)), random_state=0, progress=False
    ).fit(data)


def labels(ticks):
    return [tick.get_text() for tick in ticks]


def scores(values, spaces=("position", "rest")):
    values = np.asarray(values)
    coords = {"channel": [f"cell{k}" for k in range(len(values))], "space": list(spaces)}
    return xr.DataArray(values, dims=("channel", "space"), coords=coords)


def test_a_map_shows_its_scores(data):
    values = np.array([[0.1, 0.9], [0.5, np.nan], [0.2, 0.3]])
    ax = figures.map_image(scores(values))
    drawn = ax.images[0].get_array()
    np.testing.assert_array_equal(np.ma.filled(drawn, np.nan), values)
    assert labels(ax.get_xticklabels()) == ["position", "rest"]
    assert labels(ax.get_yticklabels()) == ["cell0", "cell1", "cell2"]
    assert len(ax.figure.axes) == 2  # the colour bar


def test_a_truth_has_no_colour_bar_and_many_channels_no_names(data):
    ax = figures.map_image(scores(np.ones((200, 2), dtype=bool)))
    assert len(ax.figure.axes) == 1 and labels(ax.get_yticklabels()) == []


def test_a_map_that_was_refused_altogether_is_drawn_empty():
    assert figures.map_image(scores(np.full((3, 2), np.nan))).images[0].get_array().mask.all()


def points(ax):
    return sum(len(drawn.get_offsets()) for drawn in ax.collections)


@pytest.mark.parametrize(("dim", "name"), [(1, "rectilinear"), (2, "rectilinear"), (3, "3d"), (5, "3d")])
def test_an_embedding_of_any_dimension(dim, name):
    ax = figures.embedding(np.random.default_rng(0).normal(size=(300, dim)), np.arange(300.0))
    assert ax.name == name and points(ax) == 300


def test_an_embedding_of_a_long_recording_is_thinned_and_missing_colours_are_left_out():
    z, colour = np.random.default_rng(0).normal(size=(20_000, 2)), np.arange(20_000.0)
    assert points(figures.embedding(z, colour)) == 5000
    colour[10:] = np.nan
    assert points(figures.embedding(z, colour)) == 10


def test_an_embedding_by_labels_has_a_legend():
    ax = figures.embedding(np.eye(4)[:, :2], ["b", "a", "a", None], label="side")
    assert labels(ax.get_legend().get_texts()) == ["a", "b"] and points(ax) == 3


def test_no_more_labels_are_named_than_there_are_colours():
    rng = np.random.default_rng(0)
    cells = np.r_[np.repeat([f"often {k}" for k in range(8)], 20), [f"rare {k}" for k in range(292)]]
    ax = figures.embedding(rng.normal(size=(len(cells), 3)), cells, label="cell")
    assert labels(ax.get_legend().get_texts()) == [*(f"often {k}" for k in range(8)), "292 others"]
    assert points(ax) == len(cells)


@pytest.mark.parametrize("dim", [2, 3])
def test_far_points_are_left_out_and_counted(dim):
    z = np.random.default_rng(0).normal(size=(2000, dim))
    z[:3] += 200
    ax = figures.embedding(z)
    assert points(ax) == 1997
    told = ax.get_xlabel() + ax.get_title(loc="right")
    assert "3 of 2,000 points far off are left out" in told


def test_labels_have_no_order_so_that_no_line_joins_them():
    rng = np.random.default_rng(0)
    many = rng.choice([f"label {k}" for k in range(300)], 3000)
    recording = asc.Recording(rng.normal(size=(3000, 1)), {"side": many > "label 3", "many": many})
    assert {line.get_linestyle() for line in figures.tuning_curve(recording, "channel0", "side").lines} == {"None"}
    ax = figures.tuning_curve(recording, "channel0", "many")
    assert ax.get_xlabel() == "many (300 labels)" and not labels(ax.get_xticklabels())


def test_bad_embeddings_are_refused():
    with pytest.raises(ValueError, match="shape"):
        figures.embedding(np.zeros(5))
    with pytest.raises(ValueError, match="3 colours for 5 points"):
        figures.embedding(np.zeros((5, 2)), [1, 2, 3])


def test_training_shows_every_space_the_penalty_and_lambda(model):
    ax = figures.training(model.history_)
    assert len(ax.get_lines()) == 2 * (2 + 1)  # two spaces, each with two seeds and their mean
    shown = labels(ax.get_legend().get_texts())
    assert shown[:3] == ["InfoNCE, position", "InfoNCE, rest", "‖J‖²"] and shown[3].startswith("λ")
    weights = ax.figure.axes[1].get_lines()[1].get_ydata()
    np.testing.assert_allclose(weights[-1], np.mean(model.history_.attrs["lambda"]))


def test_each_draws_into_the_axes_it_is_given(model, data):
    figure = Figure()
    first, second, third = figure.subplots(1, 3)
    assert figures.map_image(data.truth, first) is first and first.images
    assert figures.embedding(model.transform(data), ax=second) is second and points(second) == 800
    assert figures.training(model.history_, third) is third and third.get_lines()


def test_the_overview_is_a_whole_picture(model, data, tmp_path, quick_unique_variance):
    maps = model.attribute(data)
    figure = figures.overview(model, data, maps, tmp_path / "new" / "overview.png")
    content = (tmp_path / "new" / "overview.png").read_bytes()
    assert content.startswith(b"\x89PNG") and len(content) > 10_000
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert [t for t in titles if t] == ["map", "truth", "position, by x", "position, by y"]
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["overview.png"]
    shown, truth = (ax.images[0].get_array() for ax in figure.axes[:2])
    rows = labels(figure.axes[0].get_yticklabels())
    own = maps.by_space.sel(channel=rows)
    np.testing.assert_allclose(shown, own / own.max("channel"))  # each row under its own name, and so is the truth
    np.testing.assert_array_equal(truth, data.truth.sel(channel=rows).transpose("channel", "space"))
    assert rows != list(data.channel_names)  # channels that carry the same stand together


def test_the_overview_of_a_recording_without_truth_or_variables(model, data):
    bare = asc.Recording(data.X)
    maps = model.attribute(bare, method="generative_gradient")
    titles = [ax.get_title(loc="left") for ax in figures.overview(model, bare, maps).axes]
    assert "truth" not in titles and "map" in titles


def test_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"ascribo\[report\]"):
        figures.embedding(np.eye(3))


def test_a_notebook_shows_a_figure_without_pyplot():
    """IPython asks for `_repr_png_`, unless pyplot has told it how to draw figures."""
    figure = figures.new_axes(None, (2, 1)).figure
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_a_bin_of_a_few_time_steps_is_no_peak():
    x = np.r_[np.linspace(0, 1, 2400), 2.0]  # one time step far off
    recording = asc.Recording(np.r_[np.zeros(2400), 50.0][:, None], {"x": x})
    curve = figures.tuning_curve(recording, "channel0", "x").get_lines()[-1].get_ydata()
    assert np.nanmax(curve) == 0 and np.isnan(curve[-1])


def test_names_with_dollars_are_no_formulas():
    """Matplotlib takes what stands between two of them for mathematics, and fails on what is none."""
    odd = "$x^$"
    values = xr.DataArray([[1.0, 2.0]], coords={"channel": [odd], "space": [odd, "b"]}, dims=("channel", "space"))
    table = pd.DataFrame([[0.5]], index=[odd], columns=[odd])
    x = np.linspace(0, 1, 200)
    recording = asc.Recording(pd.DataFrame({odd: x}), {odd: x, "side": np.where(x > 0.5, odd, "b")})
    calls = pd.DataFrame(
        {"channel": [odd], "space": odd, "score": 0.5, "ci_low": 0.4, "ci_high": 0.6, "called": True}
    )
    own = {odd: {"x": [0, 1], "y": [0, 1]}, "b": {"x": [0, 1], "y": [0, 1]}}
    axes = [
        figures.map_image(values, title=odd),
        figures.number_grid(table, xlabel=odd, label=odd),
        figures.tuning_curve(recording, odd, odd),
        figures.tuning_curve(recording, odd, "side"),
        figures.stacked_curves([0, 1], {odd: [0, 1]}),
        figures.scores_with_intervals(calls, odd, by="channel"),
        figures.curves(own, xlabel=odd, ylabel=odd),
        figures.points(own),
        figures.bars({odd: [1.0], "b": [2.0]}, [odd]),
        figures.dots({odd: {"group": [odd], "value": [1.0]}}, [odd], label=odd),
        figures.roc({odd: [0.1, 0.9]}, [False, True]),
        figures.embedding(np.eye(3)[:, :2], [odd, "b", odd], label=odd),
        figures.embedding(np.eye(3)[:, :2], [0.0, 1.0, 2.0], label=odd),
    ]
    for ax in axes:
        ax.figure.canvas.draw()


def test_a_page_of_a_recording_with_dollars_in_its_names(tmp_path):
    data = asc.simulate.box(observed=1, hidden=1, channels=(2, 2), steps=600)
    X = pd.DataFrame(data.X, columns=["$x^$", *data.channel_names[1:]])
    recording = asc.Recording(X, {"$v^$": data.variables["x"].to_numpy()})
    model = asc.ContrastiveEmbedding(
        {"$s^$": asc.Follow("$v^$", dim=1)}, seeds=1, steps=10, batch_size=64, penalty=0, progress=False
    ).fit(recording)
    page = tmp_path / "page.png"
    figures.overview(model, recording, model.attribute(recording), path=page)
    assert page.stat().st_size > 1000

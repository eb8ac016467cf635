"""Decoding: what can be read is read, what cannot is not, and test steps have no neighbours in training."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascribo import Recording
from ascribo.metrics.decoding import decode_variables, time_folds


@given(
    steps=st.integers(20, 400),
    folds=st.integers(2, 5),
    blocks=st.integers(2, 20),
    gap=st.integers(0, 6),
)
def test_no_training_step_is_within_the_gap_of_a_test_step(steps, folds, blocks, gap):
    if not folds <= blocks <= steps:
        return
    try:
        found = time_folds(steps, folds, blocks, gap)
    except ValueError as error:
        assert "no step of" in str(error)
        return
    assert sorted(np.concatenate([test for _, test in found])) == list(range(steps))  # each tested once
    for train, test in found:
        apart = np.abs(train[:, None] - test[None]).min()
        assert apart >= max(gap, 1)
        # and all that are far enough are used
        near = np.abs(np.arange(steps)[:, None] - test[None]).min(1)
        assert train.tolist() == np.flatnonzero(near >= max(gap, 1)).tolist()


def walk(rng, steps=6000):
    """Position in a box, an angle, and a label, that move slowly."""
    x, y = np.clip(np.cumsum(0.02 * rng.normal(size=(2, steps)), axis=1) % 2, 0, 2)
    x, y = np.abs(x - 1), np.abs(y - 1)
    angle = np.cumsum(0.1 * rng.normal(size=steps)) % (2 * np.pi)
    side = np.where(np.sin(angle) > 0, "left", "right")
    return pd.DataFrame({"x": x, "y": y, "angle": angle, "side": side})


def test_what_is_there_is_read():
    rng = np.random.default_rng(0)
    table = walk(rng)
    Z = np.column_stack([table["x"], table["y"], np.cos(table["angle"]), np.sin(table["angle"])])
    got = decode_variables(Z, table, together={"position": ["x", "y"]}, circular=["angle"]).set_index(
        ["variable", "decoder"]
    )
    assert list(got.index.levels[0].unique()) == ["angle", "position", "side"]
    for decoder in ("knn", "linear"):
        assert (
            got.loc["position", decoder]["median_error"] < 0.1 < 0.2 < got.loc["position", decoder].constant_error
        )
        assert got.loc["angle", decoder]["median_error"] < 0.08 and got.loc["angle", decoder]["r2"] > 0.95
        assert got.loc["side", decoder]["accuracy"] > 0.95
        assert np.isnan(got.loc["side", decoder]["median_error"]) and np.isnan(
            got.loc["angle", decoder]["accuracy"]
        )


def test_errors_of_angles_are_taken_on_the_circle():
    """Just either side of zero the angle jumps by a turn, and the error must not."""
    rng = np.random.default_rng(1)
    angle = (0.2 * np.sin(np.arange(3000) / 40)) % (2 * np.pi)
    Z = np.stack([np.cos(angle), np.sin(angle)], 1) + 0.01 * rng.normal(size=(3000, 2))
    got = decode_variables(Z, {"angle": angle}, circular=["angle"])
    assert got["median_error"].max() < 0.03
    plain = decode_variables(Z, {"angle": angle}, decoders=["linear"])
    assert plain["median_error"][0] > 0.5  # which is why it is said
    assert got["constant_error"].max() < 0.2


def test_degrees_are_decoded_like_radians():
    angle = np.arange(4000) / 30 % (2 * np.pi)
    Z = np.stack([np.cos(angle), np.sin(angle)], 1)
    radians = decode_variables(Z, {"a": angle}, circular=["a"], decoders=["linear"])
    degrees = decode_variables(Z, {"a": np.rad2deg(angle)}, circular=["a"], period=360, decoders=["linear"])
    assert degrees["median_error"][0] == pytest.approx(np.rad2deg(radians["median_error"][0]), abs=1e-6)


def test_noise_is_not_read_however_smooth_it_is():
    """An embedding unrelated to a slow variable: without gaps, knn reads it off its neighbours in time."""
    rng = np.random.default_rng(3)
    n = 6000
    slow = np.cumsum(rng.normal(size=n)) % 200
    Z = np.cumsum(rng.normal(size=(n, 3)), axis=0)
    Z = (Z - Z.mean(0)) / Z.std(0)
    fair = decode_variables(Z, {"slow": slow}, decoders=["knn"], blocks=12, folds=4, gap=100)
    shuffled = np.random.default_rng(0).permutation(n)
    unfair = decode_variables(
        Z[shuffled], {"slow": slow[shuffled]}, decoders=["knn"], neighbours=3, gap=0, blocks=12
    )
    assert fair["r2"][0] < 0.3
    assert unfair["r2"][0] > 0.6  # neighbours in time leak: what the blocks are for


def test_missing_values_are_left_out_for_their_variable_only():
    rng = np.random.default_rng(0)
    table = walk(rng)
    table.loc[:999, "x"] = np.nan
    Z = np.column_stack([np.nan_to_num(table["x"]), table["y"]])
    got = decode_variables(Z, table[["x", "y"]], decoders=["linear"]).set_index("variable")["steps"]
    assert got["x"] == 5000 and got["y"] == 6000


def test_a_recording_brings_its_channels_and_variables():
    rng = np.random.default_rng(0)
    table = walk(rng, 2000)
    recording = Recording(np.column_stack([table["x"], table["y"]]), table[["x"]])
    assert decode_variables(recording)["variable"].unique().tolist() == ["x"]


@pytest.mark.parametrize(
    "change, said",
    [
        ({"decoders": ["bayes"]}, "expected some of"),
        ({"metric": "city"}, "'euclidean' or 'cosine'"),
        ({"together": {"p": ["x", "nope"]}}, "no variable 'nope'"),
        ({"circular": ["nope"]}, "no variable 'nope'"),
        ({"together": {"p": ["x", "side"]}}, "is a label"),
        ({"folds": 1}, "expected 2 <= folds"),
        ({"gap": 3000}, "no step of"),
    ],
)
def test_what_is_refused(change, said):
    table = walk(np.random.default_rng(0), 2000)
    with pytest.raises(ValueError, match=said):
        decode_variables(table[["x", "y"]].to_numpy(), table, **change)


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="variable 'x' has 11 entries and X has 10 time steps"):
        decode_variables(np.zeros((10, 2)), {"x": np.zeros(11)})

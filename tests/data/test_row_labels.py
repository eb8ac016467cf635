"""Rows belong together by their labels where both sides have them; the answer is never about other moments."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import ascribo as asc
from ascribo.data.row_labels import RowLabels, find_labels, match_rows, row_labels

N = 40
TIME = np.arange(N) / 10
X = np.random.default_rng(0).normal(size=(N, 3))
SPEED = np.arange(N, dtype=float)

DATES = pd.date_range("2030-01-01", periods=N, freq="100ms")


def frame(index=TIME):
    return pd.DataFrame(X, columns=list("abc"), index=index)


def array(time=TIME):
    return xr.DataArray(X, dims=("time", "channel"), coords={"time": time})


def series(index=TIME):
    return pd.Series(SPEED, index=index, name="speed")


def data_array(time=TIME):
    return xr.DataArray(SPEED, dims="time", coords={"time": time}, name="speed")


def speeds(*given, **companions):
    return asc.Recording(*given, **companions).variables["speed"].to_numpy()


@pytest.mark.parametrize("channels", [frame, array])
@pytest.mark.parametrize("variable", [series, data_array])
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: {"speed": v}], ids=["alone", "in a dict"])
class TestBothSidesHaveLabels:
    def test_the_same_labels(self, channels, variable, wrap):
        np.testing.assert_array_equal(speeds(channels(), wrap(variable())), SPEED)

    def test_another_order(self, channels, variable, wrap):
        order = np.random.default_rng(1).permutation(N)
        shuffled = variable().iloc[order] if variable is series else variable()[order]
        assert not np.array_equal(shuffled, SPEED)
        np.testing.assert_array_equal(speeds(channels(), wrap(shuffled)), SPEED)

    def test_rows_that_the_channels_do_not_have_are_dropped(self, channels, variable, wrap):
        np.testing.assert_array_equal(speeds(channels()[10:30], wrap(variable())), SPEED[10:30])

    def test_shifted_labels_are_refused(self, channels, variable, wrap):
        late = variable(TIME + 1.0)
        with pytest.raises(ValueError, match=r"30 of the 40 labels of X .*0\.0.* does not occur in variable"):
            asc.Recording(channels(), wrap(late))

    def test_other_labels_are_refused(self, channels, variable, wrap):
        with pytest.raises(ValueError, match=r"0 of the 40 labels.*reset_index\(drop=True\) or \.to_numpy\(\)"):
            asc.Recording(channels(), wrap(variable(TIME + 1000)))
        with pytest.raises(ValueError, match="0 of the 40 labels"):
            asc.Recording(channels(), wrap(variable(DATES)))

    def test_a_label_that_occurs_twice_is_refused(self, channels, variable, wrap):
        twice = TIME.copy()
        twice[5] = twice[4]
        with pytest.raises(ValueError, match=r"38 of the 40 labels.*0\.4.* occurs 2 times in variable"):
            asc.Recording(channels(), wrap(variable(twice)))


def test_a_frame_of_variables_is_matched_as_a_whole():
    table = pd.DataFrame({"speed": SPEED, "side": ["l", "r"] * (N // 2)}, index=DATES)
    recording = asc.Recording(frame(DATES), table[::-1])
    np.testing.assert_array_equal(recording.variables["speed"], SPEED)
    assert recording.variables["side"].tolist() == ["l", "r"] * (N // 2)
    with pytest.raises(ValueError, match="20 of the 40 labels"):
        asc.Recording(frame(DATES), table[20:])


def test_a_dict_is_matched_column_by_column():
    given = {"speed": series()[::-1], "plain": SPEED, "by_position": pd.Series(SPEED)}
    table = asc.Recording(frame(), given).variables
    for name in given:
        np.testing.assert_array_equal(table[name], SPEED)


def test_one_side_with_labels_is_matched_by_position():
    backwards = SPEED[::-1]
    np.testing.assert_array_equal(speeds(X, series(TIME[::-1]).rename("speed")), SPEED)
    np.testing.assert_array_equal(speeds(frame(), {"speed": backwards}), backwards)
    np.testing.assert_array_equal(speeds(frame(), pd.DataFrame({"speed": backwards})), backwards)
    np.testing.assert_array_equal(speeds(pd.DataFrame(X), series(TIME[::-1])), SPEED)


def test_repeated_labels_are_fine_where_both_sides_have_the_same():
    trial = np.repeat(np.arange(4), N // 4)
    np.testing.assert_array_equal(speeds(frame(trial), series(trial)), SPEED)
    with pytest.raises(ValueError, match="0 occurs more than once in X"):
        asc.Recording(frame(trial), pd.Series([1.0, 2.0, 3.0, 4.0], name="speed", index=[3, 2, 1, 0]))


def test_time_stamps_that_differ_by_rounding_are_the_same():
    other = np.cumsum(np.full(N, 0.1)) - 0.1
    assert not np.array_equal(other, TIME)
    np.testing.assert_array_equal(speeds(frame(), series(other)), SPEED)


def test_epochs_and_time_are_matched_too():
    labels = pd.Series(np.repeat([0, 1], N // 2), index=TIME)
    recording = asc.Recording(frame(), epochs=labels[::-1])
    assert recording.epochs.tolist() == labels.tolist()
    stamps = pd.Series(TIME * 2, index=TIME)
    np.testing.assert_array_equal(asc.Recording(array(), time=stamps[::-1]).time, TIME * 2)
    for role in ("epochs", "time"):
        with pytest.raises(ValueError, match=f"20 of the 40 labels of X can be found once among the 40 of {role}"):
            asc.Recording(frame(), **{role: series(TIME + 2.0)})


def test_several_levels_of_labels():
    index = pd.MultiIndex.from_product([["a", "b"], range(N // 2)])
    np.testing.assert_array_equal(speeds(frame(index), series(index)[::-1]), SPEED)
    assert asc.Recording(frame(index)).time.tolist() == list(range(N))


def test_what_counts_as_labels():
    assert row_labels(X) is None and row_labels(pd.DataFrame(X)) is None and row_labels(pd.Series(SPEED)) is None
    assert row_labels(xr.DataArray(X, dims=("time", "channel"))) is None
    assert row_labels(pd.DataFrame(X)[5:]) is not None
    assert find_labels(X) is None and find_labels(pd.DataFrame(X)).made_up
    assert match_rows(SPEED, RowLabels(pd.Index(TIME)), "speed") is SPEED


class TestWholeNumbers:
    """Two integer indexes say which rows belong together, even if pandas made one of them up."""

    plain = pd.DataFrame(X, columns=list("abc"))
    speed = pd.DataFrame({"speed": SPEED})

    def test_reversed(self):
        np.testing.assert_array_equal(speeds(self.plain, self.speed[::-1]), SPEED)
        np.testing.assert_array_equal(speeds(self.plain[::-1], self.speed), SPEED[::-1])
        np.testing.assert_array_equal(speeds(self.plain, {"speed": self.speed["speed"][::-1]}), SPEED)

    def test_shuffled(self):
        shuffled = self.speed.sample(frac=1, random_state=0)
        np.testing.assert_array_equal(speeds(self.plain, shuffled), SPEED)

    def test_a_part_and_the_whole(self):
        np.testing.assert_array_equal(speeds(self.plain[10:30], self.speed), SPEED[10:30])

    def test_shifted_slices_are_refused(self):
        with pytest.raises(ValueError, match=r"20 of the 30 labels of X .*example, 0 does not occur in variables"):
            asc.Recording(self.plain[:30], self.speed[10:])
        with pytest.raises(ValueError, match=r"20 of the 30 labels of X .*example, 30 does not occur in variables"):
            asc.Recording(self.plain[10:], self.speed[:30])
        for role in ("epochs", "time"):
            with pytest.raises(ValueError, match=f"20 of the 30 labels of X .* in {role}"):
                asc.Recording(self.plain[:30], **{role: self.speed["speed"][10:]})

    def test_equal_indexes(self):
        numbers = np.arange(N) + 7
        np.testing.assert_array_equal(speeds(self.plain.set_axis(numbers), self.speed.set_axis(numbers)), SPEED)
        np.testing.assert_array_equal(speeds(self.plain, self.speed.set_axis(np.arange(N))), SPEED)

    def test_arrays_are_matched_by_position(self):
        np.testing.assert_array_equal(speeds(X, self.speed[::-1]), SPEED[::-1])
        np.testing.assert_array_equal(speeds(X[:30], self.speed[10:]), SPEED[10:])
        np.testing.assert_array_equal(speeds(self.plain[10:], {"speed": SPEED[:30]}), SPEED[:30])


class TestTimeStampsAreLabels:
    """Channels without labels have those of `time`."""

    @pytest.mark.parametrize("channels", [X, pd.DataFrame(X, columns=list("abc"))], ids=["array", "frame"])
    @pytest.mark.parametrize("variable", [series, data_array])
    @pytest.mark.parametrize("time", [TIME, list(TIME), pd.Index(TIME), pd.Series(TIME)])
    def test_the_index_of_the_variables_is_compared_with_them(self, channels, variable, time):
        np.testing.assert_array_equal(speeds(channels, variable(), time=time), SPEED)
        np.testing.assert_array_equal(speeds(channels, variable()[::-1], time=time), SPEED)
        with pytest.raises(ValueError, match=r"X has the time stamps, .* 30 of the 40 labels of time"):
            asc.Recording(channels, variable(TIME + 1.0), time=time)

    def test_dates(self):
        np.testing.assert_array_equal(speeds(X, series(DATES)[::-1], time=DATES), SPEED)
        with pytest.raises(ValueError, match="0 of the 40 labels of time"):
            asc.Recording(X, series(DATES + pd.Timedelta("1D")), time=DATES)

    def test_epochs_too(self):
        labels = pd.Series(np.repeat([0, 1], [10, N - 10]), index=TIME)
        assert asc.Recording(X, epochs=labels[::-1], time=TIME).epochs.tolist() == labels.tolist()

    def test_a_default_index_is_no_label(self):
        for time in (TIME, np.arange(N) + 5):
            np.testing.assert_array_equal(speeds(X, pd.DataFrame({"speed": SPEED}), time=time), SPEED)

    def test_columns_of_one_table_belong_together(self):
        """Part of a table, whose rows kept their numbers: time and speed have the same index."""
        part = pd.DataFrame({"time": TIME, "speed": SPEED})[10:30]
        np.testing.assert_array_equal(speeds(X[10:30], part[["speed"]], time=part["time"]), SPEED[10:30])

    def test_labels_of_the_channels_come_first(self):
        np.testing.assert_array_equal(speeds(frame(), series()[::-1], time=TIME + 100), SPEED)
        stamps = pd.Series(TIME, name="time")
        plain = pd.DataFrame(X)
        recording = asc.Recording(plain, series()[::-1], time=stamps[::-1])  # put in the order of X first
        np.testing.assert_array_equal(recording.time, TIME)
        np.testing.assert_array_equal(recording.variables["speed"], SPEED)

    def test_time_of_another_length_is_what_is_wrong(self):
        with pytest.raises(ValueError, match="time has 39 entries and X has 40"):
            asc.Recording(X, series(), time=TIME[1:])


@pytest.fixture(scope="module")
def model():
    spaces = {"speed": asc.Follow("speed", 1)}
    small = {"seeds": 1, "steps": 150, "batch_size": 64, "penalty": 0.0, "random_state": 0, "progress": False}
    return asc.ContrastiveEmbedding(spaces, encoder=asc.MLP((4,)), **small)


def test_fit_and_attribute_match_by_label(model, quick_unique_variance):
    """The same model from variables in any order, and no answer about other moments."""
    steps = 400
    index = np.arange(steps) / 10
    rng = np.random.default_rng(0)
    speed = pd.DataFrame({"speed": np.cumsum(rng.normal(size=steps))}, index=index)
    wide = pd.DataFrame(
        speed.to_numpy() * [1, -1, 2] + rng.normal(size=(steps, 3)), columns=list("abc"), index=index
    )
    expected = model.fit(wide, speed).transform(wide)
    np.testing.assert_array_equal(model.fit(wide, speed[::-1]).transform(wide), expected)
    np.testing.assert_array_equal(
        model.attribute(wide, speed[::-1]).by_space, model.attribute(wide, speed).by_space
    )
    late = speed.set_axis(index + 30)
    for call in (model.fit, model.attribute, model.score):
        with pytest.raises(ValueError, match="100 of the 400 labels of X"):
            call(wide, late)
    plain, numbered = wide.reset_index(drop=True), speed.reset_index(drop=True)
    np.testing.assert_array_equal(model.fit(plain, numbered[::-1]).transform(plain), expected)
    np.testing.assert_array_equal(
        model.attribute(plain, numbered[::-1]).by_space, model.attribute(plain, numbered).by_space
    )
    for call in (model.fit, model.attribute, model.score):
        with pytest.raises(ValueError, match="200 of the 300 labels of X"):
            call(plain[:300], numbered[100:])


def test_sessions_match_by_label():
    steps = 300
    rng = np.random.default_rng(0)
    X = {name: pd.DataFrame(rng.normal(size=(steps, 4)), columns=list("abcd")) for name in ("one", "two")}
    y = {name: pd.DataFrame({"x": np.cumsum(rng.normal(size=steps))}) for name in X}
    small = {"seeds": 1, "steps": 5, "batch_size": 32, "penalty": 0.0, "random_state": 0, "encoder": asc.MLP((4,))}
    shared = asc.SharedEmbedding({"x": asc.Follow("x", 1)}, **small, progress=False)
    expected = shared.fit(X, y).transform(X)
    turned = shared.fit(X, {name: table[::-1] for name, table in y.items()}).transform(X)
    for name in X:
        np.testing.assert_array_equal(turned[name], expected[name])
    with pytest.raises(ValueError, match="200 of the 300 labels of X"):
        shared.fit(X, {**y, "two": y["two"].set_axis(np.arange(steps) + 100)})


def test_decoding_matches_by_label():
    steps = 400
    index = pd.date_range("2030-01-01", periods=steps, freq="1s")
    place = np.sin(np.arange(steps) / 7)
    z = pd.DataFrame({"z0": place}, index=index)
    table = pd.DataFrame({"place": place}, index=index)
    expected = asc.decode_variables(z, table, decoders=["linear"])
    assert expected["r2"][0] > 0.99
    pd.testing.assert_frame_equal(asc.decode_variables(z, table[::-1], decoders=["linear"]), expected)
    with pytest.raises(ValueError, match="0 of the 400 labels"):
        asc.decode_variables(z, table.set_axis(index + pd.Timedelta("1D")), decoders=["linear"])


def test_numbers_of_chosen_rows_are_no_time_stamps():
    """`Recording(data.X[chosen], data.variables[chosen], time=data.time[chosen])` is right as it is."""
    whole = asc.Recording(np.arange(40.0)[:, None], pd.DataFrame({"a": np.arange(40.0)}), time=np.arange(40) / 4)
    chosen = np.arange(40) % 8 > 3
    part = asc.Recording(whole.X[chosen], whole.variables[chosen], time=whole.time[chosen])
    assert part.variables["a"].tolist() == part.X[:, 0].tolist() == np.flatnonzero(chosen).tolist()
    seconds = pd.DataFrame({"a": np.arange(40.0)}, index=np.arange(40) + 30)
    with pytest.raises(ValueError, match="rows with the same label belong together"):  # stamps of whole seconds
        asc.Recording(np.zeros((40, 1)), seconds, time=np.arange(40))

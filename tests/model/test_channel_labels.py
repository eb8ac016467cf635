"""A model takes the channels it was fitted to, in their order, whatever their labels are made of."""

import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import ascribo as asc

X = np.random.default_rng(0).normal(size=(200, 3)).cumsum(0)


def fitted(X):
    small = {"seeds": 1, "steps": 10, "batch_size": 32, "penalty": 0.0, "random_state": 0, "progress": False}
    return asc.ContrastiveEmbedding({"rest": asc.Time(1)}, encoder=asc.MLP((4,)), **small).fit(X)


def frame(labels):
    return pd.DataFrame(X, columns=labels)


def array(labels):
    return xr.DataArray(X, dims=("time", "channel"), coords={"channel": labels})


@pytest.mark.parametrize("container", [frame, array])
@pytest.mark.parametrize(
    "labels", [[7, 3, 12], [0.5, 1.5, 2.5], ["a", "b", "c"], [1, 0, 2], [7, "b", 3.5]], ids=str
)
def test_labels_in_another_order_or_others_are_refused(container, labels):
    if container is array and len({type(label) for label in labels}) > 1:
        labels = np.array(labels, dtype=object)
    data = container(labels)
    model = fitted(data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.transform(data)
        model.transform(asc.Recording(data))
    swapped = container(labels)[:, [1, 0, 2]] if container is array else data.iloc[:, [1, 0, 2]]
    others = container([101, 102, 103])
    for wrong in (swapped, others, asc.Recording(swapped), asc.Recording(others)):
        with pytest.raises((ValueError, TypeError), match=r"fitted to|seen at fit time|order"):
            model.transform(wrong)


def test_made_up_labels_are_taken_by_position_but_not_swapped():
    model = fitted(frame(range(3)))
    expected = np.asarray(model.transform(frame(range(3))))
    np.testing.assert_array_equal(model.transform(X), expected)
    np.testing.assert_array_equal(model.transform(array([0, 1, 2])), expected)
    with pytest.raises(ValueError, match=r"fitted to \['0', '1', '2'\]"):
        model.transform(frame(range(3))[[1, 0, 2]])


def test_a_saved_model_knows_its_labels(tmp_path):
    fitted(frame([7, 3, 12])).save(tmp_path / "run")
    loaded = asc.load(tmp_path / "run")
    loaded.transform(frame([7, 3, 12]))
    with pytest.raises(ValueError, match="fitted to"):
        loaded.transform(frame([7, 3, 12])[[3, 7, 12]])


@pytest.mark.parametrize("container", [frame, array])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([0, 1, 2], [20, 21, 22]),
        ([20, 21, 22], [0, 1, 2]),
        ([0, 1, 2], ["a", "b", "c"]),
        (["a", "b", "c"], [0, 1, 2]),
        ([0, 1, 2], [1, 2, 3]),
    ],
    ids=str,
)
def test_made_up_labels_are_labels_beside_others(container, before, after, tmp_path):
    """A table of other channels is refused, of however many columns, and by a loaded model too."""
    model, data, other = fitted(container(before)), container(before), container(after)
    expected = np.asarray(model.transform(data))
    for own in (model, asc.load(model.save(tmp_path / "run"))):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names|X has feature names")
            for wrong in (other, asc.Recording(other)):
                for call in (own.transform, own.attribute, own.embed_seeds, own.score):
                    with pytest.raises(ValueError, match=r"fitted to|seen at fit time"):
                        call(wrong)
            for right in (data, X, asc.Recording(X), xr.DataArray(X, dims=("time", "channel"))):
                np.testing.assert_array_equal(np.asarray(own.transform(right)), expected)


def test_made_up_labels_with_a_constant_channel():
    data = frame(range(3))
    data[1] = 0.0
    small = {"seeds": 1, "steps": 5, "batch_size": 32, "penalty": 0.0, "random_state": 0, "progress": False}
    model = asc.ContrastiveEmbedding({"rest": asc.Time(1)}, drop_constant=True, **small).fit(data)
    model.transform(data)
    with pytest.raises(ValueError, match="fitted to"):
        model.transform(data.set_axis([8, 9, 10], axis=1))


def test_a_model_of_an_array_takes_any_table():
    model = fitted(X)
    np.testing.assert_array_equal(np.asarray(model.transform(frame([20, 21, 22]))), model.transform(X))


def test_sessions_refuse_other_channels():
    speed = {"speed": np.sin(np.arange(200) / 9)}
    small = {"seeds": 1, "steps": 5, "batch_size": 32, "penalty": 0.0, "random_state": 0, "encoder": asc.MLP((4,))}
    shared = asc.SharedEmbedding({"speed": asc.Follow("speed", 1)}, **small, progress=False)
    shared.fit({"one": frame(range(3)), "two": frame([5, 6, 7])}, {"one": speed, "two": speed})
    for session, wrong in {"one": frame([20, 21, 22]), "two": frame(range(3))}.items():
        with pytest.raises(ValueError, match="fitted to"):
            shared.transform(wrong, session)
        with pytest.raises(ValueError, match="fitted to"):
            shared.attribute(wrong, session, speed)

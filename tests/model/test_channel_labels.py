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

"""Bad input: each gets an error that says what was passed and what to do, before any training."""

import numpy as np
import pandas as pd
import pytest

import ascribo as asc
from ascribo.model import estimator
from ascribo.model.input_checks import resolve_spaces

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 4))
Y = pd.DataFrame({"speed": RNG.normal(size=200), "label": list("ab") * 100, "flat": np.ones(200)})


def changed(row=None, column=None, value=np.nan):
    out = X.copy()
    out[row if row is not None else slice(None), column if column is not None else slice(None)] = value
    return out


def model(**changes):
    spaces = {"a": asc.Follow("speed", 1), "rest": asc.Time(1)}
    return asc.ContrastiveEmbedding(
        **{"spaces": spaces, "batch_size": 64, "seeds": 1, "progress": False, **changes}
    )


@pytest.fixture(autouse=True)
def no_training(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("training started")

    monkeypatch.setattr(estimator, "train", refuse)


@pytest.mark.parametrize(
    "data, y, changes, message",
    [
        (X[0], None, {}, r"2-D|two|Reshape"),
        (X[None], None, {}, r"3"),
        (X[:1], None, {"spaces": None}, r"one time step"),
        (X[:1], Y[:1], {}, r"one time step"),
        (changed(3, 2), Y, {}, r"(?s)NaN.*channel2"),
        (changed(slice(5), 1, np.inf), Y, {}, r"(?s)inf.*channel1.*5|5.*channel1"),
        (changed(None, 1, 3.0), Y, {}, r"1 of 4 channels never change: channel1\. .*drop_constant=True"),
        (np.ones((200, 3)), Y, {"drop_constant": True}, r"all 3 channels are constant"),
        (X, Y[:150], {}, r"(?s)200.*150|150.*200"),
        (X, Y, {"spaces": {"a": asc.Follow("sped", 1)}}, r"no variable called 'sped'.*did you mean 'speed'"),
        (X, None, {}, r"needs variable 'speed', but no variables"),
        (X, Y, {"spaces": {"a": asc.Follow("flat", 1)}}, r"'flat' has one value"),
        (X, Y, {"spaces": {"a": asc.Follow("label", 1)}}, r"Follow needs numbers.*Discrete\('label'"),
        (X, Y.assign(speed=np.nan), {}, r"'speed' is missing everywhere"),
        (X, Y.assign(speed=np.r_[np.inf, np.arange(199.0)]), {}, r"'speed' holds infinity"),
        (X + 1j, Y, {}, r"[Cc]omplex"),
        (np.array([["a", "b"]] * 200, dtype=object), Y, {}, r"number"),
        (X, Y, {"spaces": {}}, r"expected a dict"),
        (X, Y, {"spaces": [asc.Time(1)]}, r"expected a dict"),
        (X, Y, {"spaces": {"a": "speed"}}, r"one of Follow, Time, Discrete, Regress"),
        (
            X,
            Y,
            {"spaces": {"a": asc.Time(5000)}},
            r"'a' has dim=5000, but the encoder sees 4 channels: .* dim=4 or l",
        ),
        (X, Y, {"seeds": 0}, r"seeds=0: expected an integer of at least 1"),
        (X, Y, {"steps": 1.5}, r"steps=1\.5"),
        (X, Y, {"batch_size": 1}, r"batch_size=1"),
        (X, Y, {"hybrid": "both"}, r"hybrid='both'"),
        (X, Y, {"learning_rate": -1}, r"learning_rate=-1"),
        (X, Y, {"validation_fraction": 0.9}, r"validation_fraction=0\.9"),
        (X, Y, {"early_stop": 0}, r"early_stop=0"),
        (X, Y, {"penalty": "much"}, r"penalty='much'"),
        (X, Y, {"encoder": "transformer"}, r"encoder='transformer' is unknown"),
        (X, Y, {"encoder": 3}, r"encoder=3"),
        (X, Y, {"device": "abacus"}, r"device='abacus' cannot be used"),
    ],
)
def test_bad_input_is_refused_before_training(data, y, changes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        model(**changes).fit(data, y)


def test_a_space_has_no_more_dimensions_than_the_encoder_has_inputs():
    """As many are allowed, of all spaces together more, and a regression has as many as its variables."""
    for changes in (
        {"spaces": {"rest": asc.Time(4)}},
        {"spaces": {"rest": asc.Time(12)}, "encoder": asc.Convolution(3)},
        {"spaces": {"a": asc.Follow("speed", 3), "rest": asc.Time(3)}},
    ):
        with pytest.raises(AssertionError, match="training started"):
            model(**changes).fit(X, Y)
    guess = {"guess": asc.Regress(["speed", "place"])}
    with pytest.raises(AssertionError, match="training started"):
        model(spaces=guess).fit(X[:, :1], Y.assign(place=np.arange(200.0)))
    with pytest.raises(ValueError, match=r"dim=13, .* 4 channels over a window of 3 time steps: .* dim=12 or less"):
        model(spaces={"rest": asc.Time(13)}, encoder=asc.Convolution(3)).fit(X, Y)


@pytest.mark.parametrize(
    ("channels", "variables", "dims"),
    [(20, 0, {"rest": 3}), (20, 2, {"variables": 2, "rest": 3}), (4, 2, {"variables": 2, "rest": 2}),
     (2, 3, {"variables": 2, "rest": 1}), (1, 0, {"rest": 1})],
)  # fmt: skip
def test_default_spaces_fit_into_the_channels(channels, variables, dims):
    recording = asc.Recording(
        RNG.normal(size=(30, channels)), RNG.normal(size=(30, variables)) if variables else None
    )
    assert {name: space.dim for name, space in resolve_spaces(None, recording).items()} == dims


def test_default_spaces_do_not_count_constant_channels():
    found = resolve_spaces(None, asc.Recording(np.c_[X[:, :2], np.ones((200, 3))]))
    assert found == {"rest": asc.Time(2)}


def test_windows_and_offsets_longer_than_every_epoch():
    recording = asc.Recording(X, Y, epochs=np.repeat(np.arange(20), 10))
    with pytest.raises(ValueError, match="window of 11 time steps is longer than the longest epoch"):
        model(encoder=asc.Convolution(11)).fit(recording)
    with pytest.raises(ValueError, match="offset 10 reaches beyond the longest epoch"):
        model(spaces={"rest": asc.Time(1, offsets=10)}).fit(recording)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: asc.MLP(()), "widths"),
        (lambda: asc.Convolution(51), "1 to 50"),
        (lambda: asc.MLP(limit="soft").build(2, 1), "limit='soft'"),
        (lambda: asc.MLP(scale=0).build(2, 1), "scale=0"),
    ],
)
def test_bad_descriptions_are_refused_when_made(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_unfitted_and_unknown_method():
    with pytest.raises(Exception, match="not fitted"):
        model().transform(X)
    with pytest.raises(ValueError, match=r"expected one of .*generative_gradient"):
        model().attribute(X, method="magic")

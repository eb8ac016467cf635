"""A variable or a channel in another unit is the same variable or channel: pA in A, metres in light years."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

import ascribo as asc
from ascribo.attribution.unique_variance import score

RNG = np.random.default_rng(0)
WALK = np.cumsum(RNG.standard_normal((1500, 3)), 0)
CHANNELS = np.c_[np.sin(WALK[:, :1] / 5 + np.arange(3)), np.cos(WALK[:, 1:2] / 5 + np.arange(2))]
CHANNELS += 0.1 * RNG.standard_normal(CHANNELS.shape)
SPACES = {"p": asc.Follow("x", 1), "two": asc.Follow(["y", "v"], 1), "rest": asc.Time(1)}
SCALES = [1e-30, 1e-12, 1e12, 1e30, 2.0**-100, 2.0**-40, 2.0**40, 2.0**100]


def answers(channels=1.0, variables=1.0):
    """What comes of a fit, an attribution and a screening in other units."""
    table = {name: variables * column for name, column in zip("xyv", WALK.T, strict=True)}
    recording = asc.Recording(channels * CHANNELS, table)
    model = asc.ContrastiveEmbedding(
        SPACES, seeds=1, steps=20, batch_size=64, penalty=0.1, random_state=0, progress=False, device="cpu"
    ).fit(recording)
    calls = model.attribute(recording).calls()
    return model.transform(recording), calls, asc.screen(recording, SPACES).calls


@pytest.fixture(scope="module", autouse=True)
def short_decoders():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(score, "MOST_TRAINING_STEPS", 10)
        yield


@pytest.fixture(scope="module")
def plain(short_decoders):
    return answers()


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("what", ["channels", "variables"])
def test_other_units_have_the_same_calls(what, scale, plain):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        z, calls, screened = answers(**{what: scale})
    assert plain[1]["called"].any() and plain[2]["p"].notna().all()
    exact = np.log2(scale).is_integer()
    tolerance = {"rtol": 0, "atol": 0} if exact else {"rtol": 1e-3, "atol": 1e-3}
    np.testing.assert_allclose(z, plain[0], **tolerance)
    for found, expected in ((calls, plain[1]), (screened, plain[2])):
        np.testing.assert_array_equal(found["called"], expected["called"])
        for column in ("score", "p"):
            np.testing.assert_allclose(found[column], expected[column], **tolerance)


def test_variables_of_one_space_in_far_units_are_both_used():
    """Whitening takes the smaller for a constant unless they are brought into like units."""
    from ascribo.attribution.unique_variance.design import make_design

    asked = {"p": asc.Follow(["x", "y"], 1)}
    channels = torch.zeros(1500, 2)

    def values(scale):
        table = pd.DataFrame({"x": WALK[:, 0], "y": scale * WALK[:, 1]})
        return make_design(asked, 1, np.zeros(1500, int), table, channels).values[0].numpy()

    np.testing.assert_allclose(np.abs(np.cov(values(1e-12).T)), np.eye(2), atol=1e-2)


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
@pytest.mark.parametrize("kind", [asc.Follow, asc.Regress])
def test_sizes_whose_squares_cannot_be_computed_are_refused(scale, kind):
    recording = asc.Recording(CHANNELS, {"x": scale * WALK[:, 0]})
    spaces = {"p": kind("x", 1)}
    for ask in (lambda: asc.ContrastiveEmbedding(spaces).fit(recording), lambda: asc.screen(recording, spaces)):
        with pytest.raises(ValueError, match=r"at its largest.*another unit"):
            ask()


@pytest.mark.parametrize("values", [np.full(1500, 1e-12), 3.0 + 1e-15 * RNG.integers(0, 20, 1500)])
def test_what_changes_by_rounding_alone_never_changes(values):
    found = asc.screen(asc.Recording(CHANNELS, {"x": values}), {"p": asc.Follow("x", 1)})
    assert [note.kind for note in found.notes] == ["no variation"]

"""What notebooks show: every name as text."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import ascribo as asc
from tests.report.conftest import HOSTILE, SCRIPT, fit, made_up_maps


@pytest.fixture(scope="module")
def parts():
    rng = np.random.default_rng(0)
    table = {SCRIPT: rng.normal(size=300), "label": rng.choice(HOSTILE[2:5], 300)}
    recording = asc.Recording(pd.DataFrame(rng.normal(size=(300, 4)), columns=HOSTILE[:4]), table)
    model = fit(recording, {SCRIPT: asc.Follow(SCRIPT, 1), "rest": asc.Time(1)}, seeds=1, steps=3)
    return recording, model, made_up_maps(model, np.ones((2, 4), bool))


def test_recordings_models_and_maps_are_shown_in_notebooks(parts):
    recording, model, maps = parts
    unfitted = asc.ContrastiveEmbedding({SCRIPT: asc.Time(1)})
    for thing in (recording, model, maps, unfitted):
        shown = thing._repr_html_()
        assert "<table>" in shown and "<script>" not in shown and "&lt;script&gt;" in shown and len(shown) < 3000
    assert "3 labels" in recording._repr_html_() and "bits above chance" in model._repr_html_()
    assert "4 of 4" in maps._repr_html_() and "not fitted" in unfitted._repr_html_()
    assert "not fitted" in asc.ContrastiveEmbedding()._repr_html_()
    assert "Follow of x, y, 2 dim" in asc.ContrastiveEmbedding({"p": asc.Follow(["x", "y"], 2)})._repr_html_()
    assert "'no space'" not in asc.ContrastiveEmbedding({"p": "no space"})._repr_html_()  # escaped, and no error


def test_a_space_that_could_not_be_decided_is_not_said_to_have_no_channel(parts):
    maps = replace(parts[2], undecided={"rest": "it is too slow."})
    shown = maps._repr_html_()
    assert "not decided" in shown and "too slow" in shown and shown.count("4 of 4") == 1

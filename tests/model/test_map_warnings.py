"""What is said beside a map that was made of too short a training."""

import warnings

import pytest

import ascribo as asc

EARLY = "held-out bits stopped rising at step 150; it ended at 300, after as many steps"


@pytest.fixture(scope="module")
def model_and_data():
    data = asc.simulate.box(observed=1, hidden=1, channels=(4, 4), steps=600)
    spaces = {"position": asc.Follow("x", dim=1)}
    model = asc.ContrastiveEmbedding(
        spaces, seeds=1, steps=100, batch_size=64, penalty=0.01, random_state=0, progress=False
    )
    return model.fit(data), data


def said(model, data, method):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.attribute(data, method=method)
    return [one for one in found if "training stopped by itself" in str(one.message)]


def test_the_papers_map_wants_more_steps_than_held_out_bits(model_and_data):
    model, data = model_and_data
    asked_for = dict(model.spent_)
    assert said(model, data, "inverted_neuron_gradient") == []  # all steps that were asked for were taken
    model.spent_ = {**asked_for, "seeds": 2, "steps": [300, 100], "why_steps": [EARLY, asked_for["why_steps"][0]]}
    try:
        (one,) = said(model, data, "inverted_neuron_gradient")
        assert "after 300 steps" in str(one.message) and "steps=3000" in str(one.message)
        assert one.filename == __file__  # it points at the user's own line
        assert said(model, data, "generative_gradient") == []
    finally:
        model.spent_ = asked_for


def test_a_model_without_an_account_of_its_training_has_no_such_warning(model_and_data):
    model, data = model_and_data
    kept = model.spent_
    del model.spent_
    try:
        assert said(model, data, "inverted_neuron_gradient") == []
    finally:
        model.spent_ = kept

"""The situations in a tiny form: every generator makes a recording, and a run is published."""

import json

import numpy as np
import pytest

from experiments.validation import situations, situations_page


@pytest.mark.parametrize("name", [*situations.ALL])
def test_every_generator_makes_channels_variables_and_truth(name):
    data = situations.ALL[name](np.random.default_rng(0))
    assert np.isfinite(data.channels).all() and (data.channels.std(0) > 0).all()
    assert set(data.variables) == set(data.truth) and len(data.truth) > 1
    for space, values in data.variables.items():
        assert len(values) == len(data.channels) and np.nanmax(values) > np.nanmin(values)
        assert data.truth[space].shape == (data.channels.shape[1],) and not data.truth[space].all()


def test_a_run_counts_calls_against_the_truth_and_is_published(tmp_path):
    result = situations.run(tmp_path, recordings=1, defaults=0, situations=["1,000 steps"], progress=False)
    row, each = result["rows"][0], result["summary"][0]
    assert row["situation"] == "1,000 steps" and 0 <= row["screen"]["fdp"] <= 0.3 and row["glm"]["power"] > 0.3
    assert each["walks"] == 1 and row["called_for_a_walk"] <= 2
    assert each["recordings"] == 1 and each["screen_power"] == row["screen"]["power"]
    assert json.loads((tmp_path / "situations.json").read_text())["summary"] == result["summary"]
    assert (tmp_path / "situations.png").stat().st_size > 0
    assert len(next(iter(situations.tables(result).values()))) == 1


def test_the_tables_of_the_page_are_those_of_the_results():
    page = situations_page.PAGE.read_text()
    assert situations_page.with_tables(page, json.loads(situations_page.RESULT.read_text())) == page

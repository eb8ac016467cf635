"""The comparison with methods in common use, in a tiny form."""

import json

import pytest

from experiments.validation import peers


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("peers")
    data = {**peers.PLAIN, "steps": 1_500, "channels": 10}
    return out, peers.run(out, conditions={"tiny": data}, data_seeds=[0], progress=False)


def test_every_method_answers_for_the_same_recording(done):
    out, result = done
    (row,) = result["rows"]
    assert [each["method"] for each in row["methods"]] == ["ascribo", *peers.BESIDE]
    scored = {each["method"]: each for each in row["methods"]}
    for name in ("ascribo", "tuning_information", "cross_validated_glm", "permutation_importance"):
        # variables are independent: they do well; of 11 calls on one short recording, two may be wrong
        assert scored[name]["f1"] > 0.8 and scored[name]["fdp"] < 0.2
    for name in ("linear_glm", "spline_glm"):
        assert scored[name]["fdp"] > 0.3  # hidden latents are slow, and pass for the variables
    assert all(each["seconds"] >= 0 for each in row["methods"])
    assert json.loads((out / "peers.json").read_text())["summary"] == result["summary"]


def test_the_tables_have_a_line_for_each_method(done):
    (table,) = peers.tables(done[1]).values()
    assert list(table["method"]) == ["ascribo", *peers.BESIDE] and "false discovery rate" in table

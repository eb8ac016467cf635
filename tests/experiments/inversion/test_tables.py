"""The tables of Zimmermann et al. with a tiny protocol."""

import numpy as np
import pytest

from experiments.inversion import affine, dimensions, permutation
from experiments.inversion.models import TRAINING, by_mixing, make_process

TINY = dict(
    dim=3,
    mixings=2,
    unidentified_mixings=3,
    encoders=2,
    steps=30,
    batch_size=64,
    width=8,
    last_steps=10,
    last_batch_size=64,
)
TINY |= dict(device="cpu", progress=False)


@pytest.mark.parametrize(("module", "chosen"), [(affine, [0, 6, 10, 14]), (permutation, [1, 7])])
def test_rows_beside_the_printed_ones(module, chosen, tmp_path):
    result = module.run(tmp_path, settings=chosen, layers=[3], supervised_steps=20, **TINY)
    assert [row["setting"] for row in result["rows"]] == [module.SETTINGS[k].name for k in chosen]
    for row, k in zip(result["rows"], chosen, strict=True):
        assert row["printed"] == module.SETTINGS[k].printed[3]
        assert row["mixing"] == ([0, 1, 0] if row["identified"] else [0, 1, 2, 0])
        assert len(row["r2"]) == len(row["mcc"]) == len(row["mixing"]) == len(row["before_the_last_steps"]["r2"])
        assert len(row["supervised"]["r2"]) == 2
        assert row["diagnosis"]["seeds"] == 2  # encoders of the same mixing
    (table,) = module.tables(result).values()
    assert len(table) == len(chosen) and (tmp_path / f"{result['experiment']}.png").exists()


def test_more_latents(tmp_path):
    small = dict(
        **dict(dims=[3], seeds=1, steps_per_latent=20, pieces=3, last_steps=10, batch_size=64, width=8),
        **dict(device="cpu", progress=False),
    )
    result = dimensions.run(tmp_path, **small)
    (row,) = result["rows"]
    assert [piece["steps"] for piece in row["course"]] == [20, 20, 20, 10]
    best = min(row["course"], key=lambda run: run["loss"])
    assert best["r2"] == row["r2"] and row["r2"][0] > 0.5
    (missed,) = row["most_missed"]
    assert len(missed) == 3 and abs(np.mean(missed) - (1 - row["r2"][0])) < 0.05
    (table,) = dimensions.tables(result).values()
    assert table["latents"].tolist() == [3] and (tmp_path / "inversion-dimensions.png").exists()


def test_a_row_has_its_own_training_unless_the_plan_says_otherwise():
    (setting,) = [own for own in affine.SETTINGS if own.homogeneous]
    case = {name: affine.FULL[name] for name in TRAINING}
    assert setting.otherwise.items() <= setting.training(case).items()
    own = setting.training({**case, "steps": 30})
    assert own["steps"] == 30 and own["width"] == setting.otherwise["width"]
    assert affine.SETTINGS[0].training(case) == case
    assert len({one.name for one in affine.SETTINGS}) == len(affine.SETTINGS)


def test_every_process_of_the_tables_can_be_made():
    for setting in (*affine.SETTINGS, *permutation.SETTINGS):
        made = make_process(setting, dim=3, layers=2, seed=0)
        assert made.mix(made.sample(5)).shape == (5, 3)


def row(setting, score, measure, identified=True, matched=True):
    return {
        "setting": setting,
        "layers": 3,
        "printed": 99.0,
        "matched": matched,
        "judged": True,
        "identified": identified,
        "mixing": [0] * len(score),
        measure: score,
    }


def test_each_mixing_counts_once():
    found = {**row("a", [0.99, 0.9, 0.97], "r2"), "mixing": [0, 1, 0]}
    np.testing.assert_allclose(by_mixing(found, "r2"), [0.98, 0.9])
    assert affine.conclude({"protocol": {"dim": 10}, "rows": [found]})["summary"]["missed"]  # 0.94, not 0.953


@pytest.mark.parametrize("experiment", [affine, permutation])
def test_verdicts_of_older_rows_are_those_of_the_present_rule(experiment):
    """Seeds agreed on axes that nothing holds: an earlier rule took that for an answer."""
    seen = {"shape": "unbounded", "r2": 0.9981, "mcc": 0.9114, "chance": 0.005, "pair_exponent": 1.7151}
    old = row("a", [0.99], "r2") | row("a", [0.99], "mcc") | {"diagnosis": {**seen, "coordinates": "one by one"}}
    concluded = experiment.conclude(
        {"protocol": {"dim": 10}, "rows": [old, row("b", [0.99], "r2") | {"mcc": [0.9]}]}
    )
    assert concluded["rows"][0]["diagnosis"] == {**seen, "coordinates": "up to a linear map"}
    assert "diagnosis" not in concluded["rows"][1] and old["diagnosis"]["coordinates"] == "one by one"


def test_verdicts():
    full, short = {"dim": 10}, {"dim": 5}
    rows = [row("a", [0.988], "r2"), row("b", [0.98], "r2"), row("c", [0.98], "r2", matched=False)]
    assert affine.conclude({"protocol": full, "rows": rows})["summary"]["missed"] == [
        "b (3 layers)",
        "c (3 layers)",
    ]
    said = affine.conclude({"protocol": short, "rows": rows})["summary"]
    assert said == {"judged": 2, "reached": 0, "missed": ["a (3 layers)", "b (3 layers)"]}
    rows = [
        row("a", [0.988], "mcc"),
        row("b", [0.7], "mcc", identified=False),
        row("c", [0.9], "mcc", identified=False),
    ]
    assert permutation.conclude({"protocol": full, "rows": rows})["summary"]["missed"] == ["c"]


def test_a_wide_model_is_trained_in_two_stages(tmp_path):
    small = dict(
        dim=3, mixings=1, encoders=1, steps=300, batch_size=256, width=16, supervised_steps=0, last_batch_size=256
    )
    small |= dict(layers=[2], last_steps=30, device="cpu", progress=False)
    (sphere,) = affine.run(tmp_path, settings=[3], **small)["rows"]
    assert sphere["r2"][0] > 0.98 and sphere["temperatures"][0] < 0.2 and sphere["temperatures"][1] == 1
    (box,) = permutation.run(tmp_path, settings=[4], **small)["rows"]
    assert box["mcc"][0] > 0.97 and "diagnosis" not in box

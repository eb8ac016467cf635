"""Tensors and facts that were written with good checksums, but are none of a model's: refused by name."""

import json
import re
import shutil
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import ascribo as asc
from ascribo.model import run_folder
from ascribo.support.sealed_json import seal

NAN, STEPS = float("nan"), 300


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A saved model of one recording, and one of two sessions, and what they were fitted to."""
    rng, root = np.random.default_rng(0), tmp_path_factory.mktemp("runs")
    walk = rng.standard_normal((STEPS, 4)).cumsum(0)
    data = asc.Recording(walk, {"x": walk[:, 0], "side": np.where(walk[:, 1] > 0, "left", "right")})
    spaces = {
        "x": asc.Follow("x", 1, temperature="learn"),
        "side": asc.Discrete("side", 1),
        "guess": asc.Regress("x"),
        "rest": asc.Time(1),
    }
    small = dict(steps=4, batch_size=32, penalty=0.0, encoder=asc.MLP((4,)), random_state=0, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asc.ContrastiveEmbedding(spaces, seeds=2, **small).fit(data).save(root / "one")
        asc.SharedEmbedding(spaces, seeds=1, **small).fit({"a": data[:150], "b": data[150:]}).save(root / "both")
    return root, data


def rewritten(source, target, facts=None, tensors=None):
    """A copy of a run folder with other facts and tensors, and with the checksums that go with them.

    facts, tensors : functions that change them in place.
    """
    known, values = run_folder.read_run(source)
    for change, what in ((facts, known), (tensors, values)):
        if change is not None:
            change(what)
    run_folder.write_run(target, known, values)
    return target


def put(name, value: Any):
    """Put a value into a tensor: to its first entry if it is a number; or what a function makes of it."""

    def change(tensors):
        if callable(value):
            tensors[name] = value(tensors[name]).contiguous()
        else:
            tensors[name].view(-1)[0] = value

    return change


shorter, longer = lambda v: v[..., :-1], lambda v: torch.cat([v, v[..., :1]], -1)
more_seeds, fewer_seeds = lambda v: torch.cat([v, v[:1]]), lambda v: v[:1]
ALIGNMENT = ["alignment.mean", "alignment.basis", "alignment.inverse"]
DAMAGE = {
    **{f"{name} is NaN": (put(name, NAN), name) for name in [*ALIGNMENT, "mean", "scale"]},
    **{f"{name} is infinite": (put(name, float("inf")), name) for name in ["decoder.2.weight", "regression.guess"]},
    **{f"{name} is short": (put(name, shorter), name) for name in [*ALIGNMENT, "mean", "scale", "usable"]},
    **{f"{name} is long": (put(name, longer), name) for name in [*ALIGNMENT, "mean", "scale", "decoder.4.bias"]},
    **{f"{name} has another seed": (put(name, more_seeds), name) for name in [*ALIGNMENT, "encoder.0.weight"]},
    **{f"{name} lacks a seed": (put(name, fewer_seeds), name) for name in [*ALIGNMENT, "decoder.0.bias"]},
    **{
        f"{name} is of integers": (put(name, lambda v: v.long()), name)
        for name in [*ALIGNMENT, "encoder.0.weight", "usable", "decoder.0.weight", "mean"]
    },
    "scale is 0": (put("scale", 0.0), "scale"),
    "scale is negative": (put("scale", -1.0), "scale"),
    "mean has one entry": (put("mean", lambda v: v[:1]), "mean"),
    "mean is of bfloat16": (put("mean", lambda v: v.bfloat16()), "mean"),
    "usable is no matrix": (put("usable", lambda v: v[0]), "usable"),
    "no seeds": (lambda t: t.update({n: v[:0] for n, v in t.items() if n.split(".")[0] != "mean"}), "usable"),
    "the learned temperature is gone": (lambda t: t.pop("encoder.log_temperature"), "log_temperature"),
    "the learned temperature is NaN": (put("encoder.log_temperature", NAN), "log_temperature"),
    "a regression is gone": (lambda t: t.pop("regression.guess"), "regression.guess"),
    "a regression has no spread": (lambda t: t["regression.guess"].zero_(), "regression.guess"),
    "a weight is too many": (lambda t: t.update({"encoder.9.weight": torch.ones(2, 3)}), "encoder"),
    "something else": (lambda t: t.update({"other": torch.ones(2)}), "other"),
    "a curve is short": (put("history.infonce", shorter), "history.infonce"),
    "a curve is of words": (put("history.penalty", lambda v: v > 0), "history.penalty"),
}


@pytest.mark.parametrize("damage, name", DAMAGE.values(), ids=DAMAGE.keys())
def test_odd_tensors_with_good_checksums_are_refused_by_name(folders, tmp_path, damage, name):
    folder = rewritten(folders[0] / "one", tmp_path / "run", tensors=damage)
    with pytest.raises(ValueError, match=re.escape(name)) as refused:
        asc.load(folder)
    assert str(folder) in str(refused.value)


def column(name, value):
    return lambda facts: facts["goodness_of_fit"].update({name: value})


FACTS = {
    "kept_channels beyond": (lambda f: f.update(kept_channels=[99] * 4), "kept_channels"),
    "kept_channels twice": (lambda f: f.update(kept_channels=[0, 0, 1, 2]), "kept_channels"),
    "kept_channels of text": (lambda f: f.update(kept_channels=["a"] * 4), "kept_channels"),
    "kept_channels None": (lambda f: f.update(kept_channels=None), "kept_channels"),
    "too few kept_channels": (lambda f: f.update(kept_channels=[0]), "kept_channels"),
    "alignment_reference beyond": (lambda f: f.update(alignment_reference=2), "alignment_reference"),
    "alignment_reference below": (lambda f: f.update(alignment_reference=-1), "alignment_reference"),
    "alignment_reference True": (lambda f: f.update(alignment_reference=True), "alignment_reference"),
    "channels of numbers": (lambda f: f.update(channels=[1, 2, 3, 4]), "channels"),
    "features none": (lambda f: f.update(features=0), "channels"),
    "features beyond": (lambda f: f.update(features=2**70, channel_names=None, feature_names=None), "features"),
    "names too few": (lambda f: f.update(channel_names=["a"]), "channel_names"),
    "another dim": (lambda f: f["spaces"]["items"][0][1].update(dim=2), "do not fit the architecture"),
    "no spaces": (lambda f: f["spaces"].update(items=[]), "spaces"),
    "a space is none": (lambda f: f["spaces"]["items"][0].__setitem__(1, {"type": "Treatment"}), "spaces"),
    "treatment is a space": (lambda f: f.update(treatment=f["spaces"]["items"][3][1]), "treatment"),
    "objectives": (lambda f: f.update(objectives=["x", "x", "rest"]), "objectives"),
    "lambda": (lambda f: f.update({"lambda": [0.1]}), "lambda"),
    "fit without a column": (lambda f: f["goodness_of_fit"].pop("bits"), "goodness_of_fit.bits"),
    "fit with ragged columns": (column("bits", [1.0]), "goodness_of_fit"),
    "fit with another ragged column": (column("more", [1.0]), "goodness_of_fit"),
    "fit of text": (column("bits", ["a"] * 4), "goodness_of_fit.bits"),
    "fit of other spaces": (column("space", ["a", "b", "c", "d"]), "goodness_of_fit"),
    "spent": (lambda f: f.update(spent={"seeds": 1}), "spent.why_seeds"),
    "spent ragged": (lambda f: f["spent"].update(steps=[1]), "spent"),
    "data 3": (lambda f: f.update(data=3), "data is 3"),
    "data of nothing": (lambda f: f.update(data={}), "lacks data.path"),
    "data at a number": (lambda f: f.update(data={"path": 3, "how": {}}), "data.path is 3"),
    "data without how": (lambda f: f.update(data={"path": "rat.npz"}), "lacks data.how"),
    "data read by 3": (lambda f: f.update(data={"path": "rat.npz", "how": 3}), "data.how is 3"),
    "data of channels 3": (
        lambda f: f.update(data={"path": "a", "how": {"channels": 3}}),
        "data.how.channels is 3",
    ),
    "notes": (lambda f: f.update(notes=3), "notes is 3"),
    "stack": (lambda f: f.update(stack=[[]]), "stack is [[]]"),
    **{
        f"{name} {value!r}": (lambda f, n=name, v=value: f["parameters"].update({n: v}), f"parameters.{name}")
        for name, values in {
            "device": (None, 1e308, [], True),
            "n_jobs": ("x", 1e308, [None]),
            "seeds": (None, [2]),
            "checkpoint": (3,),
            "learning_rate": ("fast",),
        }.items()
        for value in values
    },
}


@pytest.mark.parametrize("damage, name", FACTS.values(), ids=FACTS.keys())
def test_odd_facts_with_a_good_checksum_are_refused_by_name(folders, tmp_path, damage, name):
    folder = rewritten(folders[0] / "one", tmp_path / "run", facts=damage)
    with pytest.raises(ValueError, match=re.escape(name)) as refused:
        asc.load(folder)
    assert str(folder) in str(refused.value)


def test_a_prefix_is_said_even_if_the_folder_has_a_letter_of_the_error_for_its_name(folders, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rewritten(
        folders[0] / "one", tmp_path / "m", facts=lambda f: f["spaces"]["items"][0].__setitem__(1, {"type": "No"})
    )
    with pytest.raises(ValueError, match=r"^m cannot be loaded: 'No' is unknown"):
        asc.load("m")


def session(k, **changes):
    return lambda facts: facts["sessions"][k].update(changes)


SHARED = {
    "z is short": (None, put("0.z", lambda v: v[:, :-1]), "does not fit together"),
    "z has another dim": (None, put("0.z", shorter), "z has shape"),
    "z is NaN": (None, put("1.z", NAN), "holds NaN or infinity in z"),
    "labels beyond": (None, put("0.variable.side", 7), "does not fit together"),
    "held_out of numbers": (None, put("1.held_out", lambda v: v.double()), "held_out is of type float64"),
    "variable gone": (None, lambda t: t.pop("0.variable.x"), "variable.x"),
    "seeds": (lambda f: f.update(seeds=[1, 2]), None, "1 seeds for 2"),
    "no seeds": (lambda f: f.update(seeds=[]), None, "seed"),
    "names twice": (session(1, name="a"), None, "sessions are called"),
    "labels of numbers": (session(0, labels={"side": 3}), None, "labels"),
    "one session": (lambda f: f["sessions"].pop(), None, "sessions are called"),
    "ragged overlap": (lambda f: f["overlap"].update(share=[1.0]), None, "overlap"),
    "measure of nothing": (lambda f: f["measures"].update(other=[1.0]), None, "no space"),
    "another dim": (lambda f: f["spaces"]["items"][3][1].update(dim=2), None, "'rest' is none of the model's"),
}


@pytest.mark.parametrize("facts, tensors, said", SHARED.values(), ids=SHARED.keys())
def test_what_sessions_share_is_checked(folders, tmp_path, facts, tensors, said):
    folder = tmp_path / "run"
    shutil.copytree(folders[0] / "both", folder)
    rewritten(folders[0] / "both", folder, facts, tensors)
    with pytest.raises(ValueError, match=re.escape(said)) as refused:
        asc.load(folder)
    assert str(folder) in str(refused.value)


def test_the_part_of_a_session_is_checked_as_a_model_is(folders, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(folders[0] / "both", folder)
    rewritten(folders[0] / "both/session-1", folder / "session-1", tensors=put("scale", 0.0))
    facts = json.loads((folder / "model.json").read_text())
    facts["sessions"][1]["sha256"] = json.loads((folder / "session-1/model.json").read_text())["sha256"]
    (folder / "model.json").write_text(json.dumps(seal(facts)))
    with pytest.raises(ValueError, match=r"session-1 is damaged: scale holds numbers that are not above zero"):
        asc.load(folder)


def test_what_was_rewritten_unchanged_is_the_same_model(folders, tmp_path):
    root, data = folders
    again = asc.load(rewritten(root / "one", tmp_path / "run"))
    np.testing.assert_array_equal(again.transform(data), asc.load(root / "one").transform(data))
    assert again.model_.seeds == 2 and list(asc.load(root / "both").sessions_) == ["a", "b"]


def test_an_encoder_that_is_larger_than_its_file_is_not_built(folders, tmp_path, monkeypatch):
    def widths(*sizes):
        return lambda facts: facts["parameters"].update(encoder={"type": "MLP", "widths": list(sizes)})

    monkeypatch.setattr("ascribo.model.loading.build_encoder", lambda *given: pytest.fail("it was built"))
    for sizes in ((20_000, 20_000), (10**12,)):
        folder = rewritten(folders[0] / "one", tmp_path / "run", facts=widths(*sizes))
        with pytest.raises(ValueError, match="do not fit the architecture"):
            asc.load(folder)
    folder = rewritten(folders[0] / "one", tmp_path / "run", facts=widths(*[1] * 100_000))
    with pytest.raises(ValueError, match=r"100,000 of them.*expected 1 to 100"):
        asc.load(folder)

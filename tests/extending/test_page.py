"""The code on the page docs/extending.md runs, and its sampler draws what the page says."""

import dataclasses
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

import ascribo as asc
from ascribo.spaces import base
from ascribo.spaces.device_pairs import DeviceSampler
from ascribo.spaces.pairs import Pairs
from ascribo.support import stored_parameters

PAGE = Path(__file__).parents[2] / "docs/extending.md"
TURN = 2 * np.pi


@pytest.fixture(scope="module")
def page():
    """The names that the code of the page defines."""
    module = ModuleType("my_spaces")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "KINDS", {k: v for k, v in base.KINDS.items() if v.option is None or "Side" not in k})
        patch.setattr(stored_parameters, "REGISTERED", dict(stored_parameters.REGISTERED))
        patch.setitem(sys.modules, "my_spaces", module)
        for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
            exec(compile(block, str(PAGE), "exec"), vars(module))
        yield module


def _recording(seed, steps=1200):
    rng = np.random.default_rng(seed)
    phase = np.cumsum(0.3 + 0.2 * rng.standard_normal(steps)) % TURN
    X = np.cos(phase[:, None] - rng.uniform(0, TURN, 8)) + 0.3 * rng.standard_normal((steps, 8))
    return asc.Recording(X, variables=pd.DataFrame({"phase": phase}))


def _distance(phase, drawn, reference):
    return (phase[drawn] - phase[reference] + np.pi) % TURN - np.pi


def test_the_page_names_every_field_that_the_library_reads():
    """The fields of `Space`, and no others: a field of the user's own changes nothing."""
    read = {name for name, kind in inspect.get_annotations(asc.Space).items() if "ClassVar" not in kind}
    assert len(read) == 5 and "Five fields are read by the library" in PAGE.read_text()
    assert set(re.findall(r"^  - `(\w+)`: ", PAGE.read_text(), re.MULTILINE)) == read


def test_the_table_has_all_that_can_be_overridden():
    fields = inspect.get_annotations(asc.Space)
    own = {name for name in [*vars(asc.Space), *fields] if not name.startswith("_")}
    own -= {name for name, kind in fields.items() if "ClassVar" not in kind}
    own -= {"follows_time"}  # which follows from the variables
    assert len(own) > 20
    told = PAGE.read_text().partition("## What else the library asks of a space")[2]
    named = set(re.findall(r"`(\w+)[`(]", told)) | {"positives", "target_values"}
    assert own <= named, own - named


@pytest.mark.parametrize(("field", "changes"), [("temperature", True), ("similarity", True), ("degrees", False)])
def test_only_the_fields_that_the_page_names_change_the_loss(page, field, changes):
    """`temperature` is one: the same model with and without a field of that name, at the same draws."""
    value = {"temperature": 37.0, "similarity": "dot", "degrees": 37.0}[field]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "KINDS", dict(base.KINDS))
        patch.setattr(stored_parameters, "REGISTERED", dict(stored_parameters.REGISTERED))
        kind = dataclasses.make_dataclass("With", [(field, object, value)], bases=(page.Side,), frozen=True)
        spaces = [base.space_kind(kind)(("phase",), dim=1, threshold=3.0), page.Side(("phase",), 1, 3.0)]
        small = {"steps": 3, "batch_size": 64, "seeds": 1, "penalty": 0.0, "encoder": asc.MLP((4,))}
        data, curves = _recording(3, 400), []
        for space in spaces:
            model = asc.ContrastiveEmbedding({"own": space}, **small, random_state=0, progress=False)
            curves.append(model.fit(data).history_["infonce"].values)
    assert np.array_equal(*curves) is not changes


@pytest.mark.parametrize("way", ["host", "device"])
def test_positives_are_uniform_over_the_arc_and_never_held_out(page, way):
    recordings = [_recording(0), _recording(1, 900)]
    space = page.SamePhase(("phase",))
    segments = [np.where(np.arange(len(r)) % 300 < 60, -1, 0) for r in recordings]
    pairs = [Pairs({"theta": space}, r.variables, s) for r, s in zip(recordings, segments, strict=True)]
    sampler = DeviceSampler(pairs, [len(r) for r in recordings], torch.tensor([0, 1]))
    joint = sampler.draw(4000, torch.Generator().manual_seed(0)).numpy()
    for k, r in enumerate(recordings):
        own = (
            joint[k] - k * len(recordings[0])
            if way == "device"
            else pairs[k].draw(np.random.default_rng(k), 1, 4000)[0]
        )
        reference, positive, _ = (own[i] for i in pairs[k].rows["theta"])
        assert (segments[k][positive] == 0).all()
        away = _distance(r.variables["phase"].to_numpy(), positive, reference) / np.deg2rad(20)
        assert np.abs(away).max() <= 1
        assert stats.kstest(away, stats.uniform(-1, 2).cdf).statistic < 0.05  # phases are nearly uniform themselves


def test_a_model_learns_the_phase_and_comes_back(page, tmp_path):
    data = _recording(2)
    options = {"steps": 200, "batch_size": 64, "learning_rate": 1e-2, "seeds": 1, "progress": False}
    model = asc.ContrastiveEmbedding({"theta": page.SamePhase(("phase",))}, **options, penalty=0.0, random_state=0)
    model.fit(data)
    assert model.goodness_of_fit_["bits"].item() > 1
    model.save(tmp_path)
    assert asc.load(tmp_path).spaces == model.spaces


def test_sessions_share_a_space_of_groups(page):
    """Positives in the other session lie on the same side, and both sessions get the same coordinates."""
    rng = np.random.default_rng(0)
    x = np.sin(np.arange(2000) / 9) + 0.1 * rng.standard_normal(2000)
    sessions = {
        name: asc.Recording(np.outer(x, weight) + 0.1 * rng.standard_normal((2000, 4)), {"x": x})
        for name, weight in (("one", rng.normal(size=4)), ("two", rng.normal(size=4)))
    }
    shared = asc.SharedEmbedding(
        {"side": page.SharedSide(("x",), dim=1)},
        **{"steps": 150, "batch_size": 64, "seeds": 1, "penalty": 0.0, "learning_rate": 1e-2},
        encoder=asc.MLP((16,)),
        progress=False,
        random_state=0,
    ).fit(sessions)
    above = x > 0
    side = [shared.transform(sessions)[name][:, 0] for name in sessions]
    middle = np.mean([z[above].mean() + z[~above].mean() for z in side]) / 2
    sign = np.sign(side[0][above].mean() - middle)
    for z in side:
        assert ((sign * (z - middle) > 0) == above).mean() > 0.9

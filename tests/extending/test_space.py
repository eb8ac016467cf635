"""A kind of space that is defined here, outside the package, and goes everywhere a space goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch

import ascribo as asc
from ascribo.cli import main
from ascribo.cli.spaces import options
from ascribo.spaces import Space, base, space_kind
from ascribo.spaces.base import Option
from ascribo.spaces.device_pairs import DeviceSampler
from ascribo.spaces.group_draws import Groups
from ascribo.spaces.pairs import Pairs
from ascribo.spaces.positives import SameGroup
from ascribo.support import stored_parameters as records

TRAINING = {"steps": 200, "batch_size": 64, "learning_rate": 1e-2, "penalty": 0.0}
SMALL = {**TRAINING, "seeds": 2, "encoder": asc.MLP((16,)), "progress": False}


@space_kind
@dataclass(frozen=True)
class Side(Space):
    """Positives lie on the same side of a threshold."""

    variables: tuple[str, ...]
    dim: int
    threshold: float = 0.0
    nuisance: bool = False

    option: ClassVar[Option | None] = Option("side", "NAME=VAR:DIM", "positives lie on the same side of zero")

    def positives(self, variables, segments):
        rows = np.flatnonzero((segments >= 0) & self.known(variables))
        above = (variables[self.variables[0]].to_numpy() > self.threshold).astype(int)
        return SameGroup(above, Groups.of(rows, above[rows]))


@pytest.fixture(scope="module")
def data():
    return asc.simulate.box(seed=0, observed=1, hidden=1, channels=(5, 5), steps=3000)


@pytest.fixture(scope="module")
def spaces():
    return {"side": Side(("x",), dim=1, threshold=0.1), "rest": asc.Time(dim=1)}


@pytest.fixture(scope="module")
def model(data, spaces):
    return asc.ContrastiveEmbedding(spaces, **SMALL, random_state=0).fit(data)


def test_it_is_fitted_and_tells_the_sides_apart(model, data):
    fit = model.goodness_of_fit_.set_index("space")
    assert fit.loc["side", "bits"] > 0.3 and not fit.loc["side", "collapsed"]  # one bit is all there is to know
    z, above = model.transform(data)[:, 0], (data.variables["x"] > 0.1).to_numpy()
    assert abs(np.corrcoef(z, above)[0, 1]) > 0.5


def test_it_is_attributed_and_called(model, data, fair_unique_variance):
    maps = model.attribute(data)
    assert maps.auroc(data.truth.sel(space="position"), "side") > 0.9
    calls = maps.calls().set_index(["space", "channel"])
    assert calls.loc["side", "called"].sum() > 0
    gradients = model.attribute(data, method="inverted_neuron_gradient", samples=200)
    assert list(gradients.by_dimension["dimension"].values) == ["side0", "rest0"]


def test_it_is_saved_and_loaded(model, data, spaces, tmp_path):
    model.save(tmp_path / "run")
    loaded = asc.load(tmp_path / "run")
    assert dict(loaded.model_.spaces) == spaces
    np.testing.assert_array_equal(loaded.transform(data), model.transform(data))


def test_sessions_learn_it_each_on_its_own(data, spaces):
    other = asc.simulate.box(seed=1, observed=1, hidden=1, channels=(4, 6), steps=2000)
    both = {"one": data, "two": other}
    with_position = {"position": asc.Follow("x", dim=1), **spaces}
    shared = asc.SharedEmbedding(with_position, **SMALL, random_state=0).fit(both)
    fit = shared.goodness_of_fit_.set_index(["session", "space"])
    assert (fit.loc[[("one", "side"), ("two", "side")], "bits"] > 0.3).all()
    assert set(shared.consistency()["space"]) == {"position"}  # nothing says which of its coordinates correspond


def test_the_draws_of_the_gpu_path_have_the_same_distribution(data, spaces):
    pairs = Pairs(spaces, data.variables, data.epochs)
    sampler = DeviceSampler([pairs], [len(data)], torch.zeros(3, dtype=torch.long))
    drawn = sampler.draw(4000, torch.Generator().manual_seed(0)).numpy()
    reference, positive, _ = pairs.rows["side"]
    above = data.variables["x"].to_numpy() > 0.1
    assert (above[drawn[:, reference]] == above[drawn[:, positive]]).all()
    share = above[drawn[:, positive]].mean()
    assert abs(share - above[pairs.uniform[0]].mean()) < 0.02
    host = pairs.draw(np.random.default_rng(0), 1, 4000)[0]
    assert abs(above[host[positive]].mean() - share) < 0.03


def test_shifted_variables_are_its_null(data, spaces):
    model = asc.ContrastiveEmbedding(spaces, **SMALL)
    table = asc.shift_test(model, data, shifts=4, only=["side"])
    assert table["p"].item() == 0.2  # the real recording has the most bits


def test_the_command_line_knows_it(data, tmp_path, capsys):
    table = pd.DataFrame(data.X, columns=data.channel_names).assign(x=data.variables["x"])
    table.to_csv(tmp_path / "data.csv", index=False)
    options = ["--steps", "5", "--batch-size", "32", "--seeds", "1", "--jobs", "1"]
    run = str(tmp_path / "run")
    assert main(["fit", str(tmp_path / "data.csv"), "--side", "half=x:1", *options, "--out", run]) == 0
    assert main(["info", run]) == 0
    assert "half = Side(variables=" in capsys.readouterr().out
    assert main(["fit", str(tmp_path / "data.csv"), "--side", "half=x", "--out", run]) == 2
    assert "NAME=VAR:DIM" in capsys.readouterr().err


def test_what_a_kind_must_define_is_said(data):
    @dataclass(frozen=True)
    class Empty(Space):
        dim: int

    with pytest.raises(NotImplementedError, match="Empty is contrastive: it needs a method `positives`"):
        asc.ContrastiveEmbedding({"empty": Empty(1)}, **SMALL).fit(data)


def test_a_namesake_leaves_the_option_of_ours_alone(monkeypatch):
    monkeypatch.setattr(base, "KINDS", dict(base.KINDS))
    monkeypatch.setattr(records, "REGISTERED", dict(records.REGISTERED))

    @space_kind
    @dataclass(frozen=True)
    class Follow(asc.Follow):
        """Has the name of one of ours, and inherits its option."""

    flags = [option.flag for option, _ in options()]
    assert flags.count("follow") == 1 and flags.count("side") == 1
    assert dict(zip(flags, options(), strict=True))["follow"][1]("a=x:1").kind is asc.Follow

    with pytest.raises(ValueError, match=r"Taken and .*\.Side both have the option --side: give one another flag"):

        @space_kind
        @dataclass(frozen=True)
        class Taken(Side):
            option: ClassVar[Option | None] = Option("side", "NAME=VAR:DIM", "the same flag again")

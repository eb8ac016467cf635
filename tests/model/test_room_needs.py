"""Room on the disk is taken before a fit: enough, and not far too much."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ascribo as asc
from ascribo.cli.main import main
from ascribo.model.room_needs import bytes_of_calls, bytes_of_map, bytes_of_report, bytes_on_disk, room_for_fit
from ascribo.model.saving import save
from ascribo.training import dispatch, loop

SPACES = {"position": asc.Follow("x", dim=1), "rest": asc.Time(dim=2)}


def size(folder):
    return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())


@pytest.mark.parametrize(
    ("channels", "changes"),
    [
        ((3, 3), {"seeds": 1, "steps": 50}),
        ((150, 150), {"seeds": 3, "steps": 100}),
        ((4, 4), {"seeds": 2, "steps": 60, "encoder": asc.Convolution(window=5)}),
        ((10, 10), {"seeds": 2, "steps": "auto", "encoder": asc.MLP((4,))}),
    ],
)
def test_the_estimate_is_enough(channels, changes, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    data, states = asc.simulate.box(0, observed=1, hidden=1, channels=channels, steps=500), []
    write = loop.write_checkpoint

    def measured(path, *rest):
        write(path, *rest)
        states.append(size(tmp_path / "state"))

    monkeypatch.setattr(loop, "write_checkpoint", measured)
    model = asc.ContrastiveEmbedding(
        SPACES, batch_size=32, penalty=0.1, n_jobs=1, random_state=0, progress=False, **changes
    )
    saved, state = bytes_on_disk(model, SPACES, sum(channels))
    model.set_params(checkpoint=tmp_path / "state").fit(data).save(tmp_path / "run")
    assert size(tmp_path / "run") <= saved <= 2 * size(tmp_path / "run") + 1_000_000
    assert max(states) <= state <= 2 * max(states) + 1_000_000


@pytest.mark.parametrize(("channels", "seeds"), [((3, 3), 1), ((60, 60), 2)])
def test_the_estimates_of_what_follows_a_fit_are_enough(channels, seeds, tmp_path, quick_unique_variance):
    data = asc.simulate.box(0, observed=1, hidden=1, channels=channels, steps=4000)
    changes = {"steps": 20, "batch_size": 32, "penalty": 0.0, "n_jobs": 1, "random_state": 0, "progress": False}
    model = asc.ContrastiveEmbedding(SPACES, seeds=seeds, **changes).fit(data)
    model.model_.usable[:] = True
    for method in ("unique_variance", "generative_gradient"):
        maps = model.attribute(data, method=method)
        maps.to_netcdf(tmp_path / "map.nc")
        maps.to_csv(tmp_path / "map.csv")
        names = data.channel_names
        assert (tmp_path / "map.nc").stat().st_size <= bytes_of_map(SPACES, names, seeds) < 1_000_000
        assert (tmp_path / "map.csv").stat().st_size <= bytes_of_calls(SPACES, names) < 300_000
        page = model.report(data, tmp_path / "report.html", maps=maps).stat().st_size
        assert page <= bytes_of_report(SPACES, names) < 4 * page + 3_000_000


@pytest.fixture
def full(monkeypatch):
    """A disk without room, and training that must not begin."""

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", fails, raising=False)
    monkeypatch.setattr(dispatch, "_train_stack", lambda *_: pytest.fail("it was trained"))


def test_commands_say_so_before_the_work(full, tmp_path, capsys):
    file = tmp_path / "a.csv"
    data = asc.simulate.box(0, observed=1, hidden=1, channels=(3, 3), steps=400)
    pd.DataFrame(data.X, columns=data.channel_names).join(data.variables).to_csv(file, index=False)
    for command in (["fit", "--time", "rest:1"], ["analyse", "--follow", "x"]):
        words = [
            command[0],
            str(file),
            *command[1:],
            "--seeds",
            "1",
            "--steps",
            "50",
            "--out",
            str(tmp_path / "run"),
        ]
        assert main([*words, "--quiet"]) == 2
        said = capsys.readouterr().err
        assert "not enough room for the model and the state of its fit" in said and "MB are free" in said
        assert not (tmp_path / "run").exists()


@pytest.fixture
def runs(tmp_path):
    """A recording, and two models of it, made while there was room."""
    data = asc.simulate.box(0, observed=1, hidden=1, channels=(3, 3), steps=400)
    np.savez(tmp_path / "a.npz", X=data.X, x=data.variables["x"])
    small = {"seeds": 1, "steps": 5, "batch_size": 32, "penalty": 0.0, "n_jobs": 1, "progress": False}
    model = asc.ContrastiveEmbedding(SPACES, **small).fit(data)
    for run in ("run", "other"):
        save(model, tmp_path / run, data={"path": str(tmp_path / "a.npz"), "how": {}})
    return tmp_path


def test_commands_that_follow_a_fit_say_so_before_the_work(runs, full, capsys, monkeypatch):
    for name in ("attribute", "fit"):
        monkeypatch.setattr(asc.ContrastiveEmbedding, name, lambda *_, **__: pytest.fail("it was begun"))
    monkeypatch.setattr("ascribo.cli.commands.screen_recording", lambda *_, **__: pytest.fail("it was begun"))
    for what, words in {
        "the map": ["attribute", "run", "--out", "maps/map.nc"],
        "the calls": ["screen", "a.npz", "--follow", "x=x", "--out", "calls.csv"],
        "the report": ["report", "run"],
        "the report ": ["report", "run", "other"],
        "the demo": ["demo", "--out", "demo"],
    }.items():
        monkeypatch.chdir(runs)
        assert main([*words, "--quiet"]) == 2
        said = capsys.readouterr().err
        assert f"not enough room for {what.strip()} in" in said and "MB are free" in said
    assert sorted(path.name for path in runs.iterdir()) == ["a.npz", "other", "run"]


def test_a_cell_of_a_sweep_fails_before_the_work(full, tmp_path):
    data = asc.simulate.box(0, observed=1, hidden=1, channels=(3, 3), steps=400)
    model = asc.ContrastiveEmbedding(SPACES, seeds=1, steps=50, batch_size=32, random_state=0)
    found = asc.sweep({"a": data}, model, tmp_path / "out", progress=False)
    assert "not enough room" in found.cells()["error"][0]


def test_what_is_wrong_with_a_model_is_said_as_ever():
    data = asc.simulate.box(0, observed=1, hidden=1, channels=(3, 3), steps=400)
    with pytest.raises(ValueError, match="steps=0: expected an integer"):
        room_for_fit(asc.ContrastiveEmbedding(SPACES, steps=0), data, ".")

"""Room on the disk is taken before a fit: enough, and not far too much."""

import os
from pathlib import Path

import pandas as pd
import pytest

import ascribo as asc
from ascribo.cli.main import main
from ascribo.model.room_needs import bytes_on_disk, room_for_fit
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


def test_a_cell_of_a_sweep_fails_before_the_work(full, tmp_path):
    data = asc.simulate.box(0, observed=1, hidden=1, channels=(3, 3), steps=400)
    model = asc.ContrastiveEmbedding(SPACES, seeds=1, steps=50, batch_size=32, random_state=0)
    found = asc.sweep({"a": data}, model, tmp_path / "out", progress=False)
    assert "not enough room" in found.cells()["error"][0]


def test_what_is_wrong_with_a_model_is_said_as_ever():
    data = asc.simulate.box(0, observed=1, hidden=1, channels=(3, 3), steps=400)
    with pytest.raises(ValueError, match="steps=0: expected an integer"):
        room_for_fit(asc.ContrastiveEmbedding(SPACES, steps=0), data, ".")

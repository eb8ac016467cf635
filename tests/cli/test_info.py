"""`ascribo info`, and sessions on the command line."""

import json
import re
import shutil

import pandas as pd
import pytest
import xarray as xr

import ascribo as asc
from ascribo.cli.main import main
from ascribo.model import run_folder
from ascribo.support.sealed_json import write_sealed

pytestmark = pytest.mark.usefixtures("quick_unique_variance")


def test_info_as_json(run, table, capsys):
    assert main(["info", str(run), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["ascribo"] == asc.__version__ and facts["data"] == str(table)
    assert facts["channels"] == [f"channel{k}" for k in range(10)]
    space = facts["spaces"]["position"]
    assert (space["type"], space["variables"], space["dim"]) == ("Follow", ["x", "y"], 2)
    assert facts["steps"] == {"asked": 60, "done": 60} and len(facts["lambda"]) == 1
    bits = asc.load(run).goodness_of_fit_.set_index("space")["bits"]
    assert {row["space"]: row["bits"] for row in facts["goodness_of_fit"]} == pytest.approx(bits.to_dict())


def test_info_for_people(run, table, capsys):
    assert main(["info", str(run)]) == 0
    said = capsys.readouterr().out
    for part in (str(table), asc.__version__, "position = Follow(", "60 of 60", "bits above chance", "λ"):
        assert part in said


def test_info_says_if_batches_had_to_be_smaller(run, tmp_path, capsys):
    facts, tensors = run_folder.read_run(run)
    assert facts["batch_size"] == 64  # as was asked for: there is nothing to say
    assert main(["info", str(run)]) == 0 and "batch" not in capsys.readouterr().out
    run_folder.write_run(tmp_path, {**facts, "batch_size": 50}, tensors)
    assert main(["info", str(tmp_path)]) == 0
    assert "50 time steps, all there are (batch_size=64)" in capsys.readouterr().out


def test_info_on_a_folder_that_is_no_run(tmp_path, fails):
    assert "there is no such folder" in fails("info", tmp_path / "nothing")
    assert "not a finished ascribo run" in fails("info", tmp_path)
    (tmp_path / "rat.csv").write_text("a,b\n1,2\n")
    assert "rat.csv is a file: expected the folder of a fitted model" in fails("info", tmp_path / "rat.csv")


@pytest.mark.parametrize(
    "changes",
    [
        {"data": 3},
        {"data": {}},
        {"data": {"path": "rat.npz"}},
        {"channels": 3},
        {"spaces": {"type": "dict", "items": [["a", {}]]}},
        {"spaces": 3},
        {"parameters": {}},
    ],
)
def test_odd_facts_with_a_good_checksum_are_refused_in_a_sentence(run, table, tmp_path, fails, changes):
    folder = shutil.copytree(run, tmp_path / "odd")
    write_sealed(folder / "model.json", {**json.loads((run / "model.json").read_text()), **changes})
    for command in (["info", folder], ["report", folder], ["attribute", folder, "--out", tmp_path / "map.nc"]):
        assert f"{folder} is damaged" in fails(*command)


def test_info_needs_no_module_of_the_users(run, tmp_path, capsys):
    """A model that holds classes of another laboratory can be looked at, if not loaded."""
    facts, tensors = run_folder.read_run(run)
    spaces = facts["spaces"]["items"]
    spaces[0][1]["similarity"] = {"type": "their_module:Cosine", "power": 2}
    run_folder.write_run(tmp_path, facts, tensors)
    assert main(["info", str(tmp_path)]) == 0
    assert "similarity=Cosine(power=2)" in capsys.readouterr().out


def test_info_about_sessions(sessions, capsys):
    assert main(["info", str(sessions)]) == 0
    said = capsys.readouterr().out
    words = [line.split() for line in said.splitlines()]
    assert ["left", "4", "20", "0", "position,", "height,", "rest"] in words
    assert ["[right]", "6", "20", "0", "position,", "rest"] in words
    fit = asc.load(sessions).goodness_of_fit_
    for session, space, bits in zip(fit["session"], fit["space"], fit["bits"], strict=True):
        assert any(row[:3] == [session, space, f"{bits:.3f}"] for row in words)


def test_info_says_if_batches_of_sessions_had_to_be_smaller(sessions, tmp_path, capsys):
    assert main(["info", str(sessions)]) == 0
    assert "batch:" not in capsys.readouterr().out
    folder = shutil.copytree(sessions, tmp_path / "run")
    for own in folder.glob("session-*"):
        facts, tensors = run_folder.read_run(own)
        run_folder.write_run(own, {**facts, "batch_size": 10}, tensors)
    assert main(["info", str(folder)]) == 0
    said = capsys.readouterr().out
    assert re.search(r"batch: +10 time steps, all there are in the shortest session \(batch_size=\d+\)", said)
    assert said.count("batch:") == 1


def test_info_about_sessions_as_json(sessions, capsys):
    assert main(["info", str(sessions), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert list(facts["spaces"]) == ["position", "height", "rest"] and facts["seeds"] == 1
    assert {name: len(part["channels"]) for name, part in facts["sessions"].items()} == {"left": 4, "[right]": 6}
    assert list(facts["sessions"]["[right]"]["spaces"]) == ["position", "rest"]
    fit = asc.load(sessions).goodness_of_fit_
    rows = [{"session": name, **row} for name, part in facts["sessions"].items() for row in part["goodness_of_fit"]]
    pd.testing.assert_frame_equal(pd.DataFrame(rows)[list(fit)], fit)
    assert {row["space"] for row in facts["overlap"]} == {"position"}


def test_a_session_is_attributed_by_its_name(sessions, table, tmp_path, capsys, fails):
    command = ["attribute", sessions, "--out", tmp_path / "maps.nc", "--method", "neuron_gradient"]
    said = fails(*command)
    assert "2 sessions (left, [right])" in said and "--session NAME" in said and "--data FILE" in said
    assert "did you mean 'left'" in fails(*command, "--session", "letf")
    assert "--data" in fails(*command, "--session", "[right]")
    assert main([str(part) for part in (*command, "--session", "[right]", "--data", table)]) == 0
    model = asc.load(sessions)
    frame = pd.read_csv(table)
    recording = asc.Recording(frame[[f"channel{k}" for k in range(4, 10)]], frame[["x"]], epochs=frame["trial"])
    expected = model.attribute(recording, session="[right]", method="neuron_gradient")
    with xr.open_dataset(tmp_path / "maps.nc") as maps:
        xr.testing.assert_allclose(maps["by_space"].load(), expected.by_space)


def test_a_single_model_has_no_session(run, tmp_path, fails):
    assert "Leave --session out" in fails("attribute", run, "--out", tmp_path / "maps.nc", "--session", "left")

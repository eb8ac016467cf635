"""`ascribo report`: from a run folder to the file."""

import os
import shutil

import numpy as np
import pandas as pd
import pytest

from ascribo.cli import report
from ascribo.cli.main import main

pytestmark = pytest.mark.usefixtures("quick_unique_variance")


def test_the_report_of_a_run_and_its_map_is_used_if_it_is_younger(run, table, tmp_path, capsys, monkeypatch):
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    assert main(["attribute", str(folder), "--out", str(folder / "map.nc")]) == 0
    capsys.readouterr()
    from ascribo import ContrastiveEmbedding

    with monkeypatch.context() as patch:
        patch.setattr(ContrastiveEmbedding, "attribute", None)  # it is not asked again
        assert main(["report", str(folder), "--quiet"]) == 0
    said = capsys.readouterr()
    assert said.out == f"report: {folder / 'report.html'}\n" and said.err == ""
    assert "Which channels carry position?" in (folder / "report.html").read_text()
    (folder / "model.json").touch()
    assert report.maps_in(folder, None) is None  # older than the model


def test_the_recording_can_be_passed_and_the_file_be_named(run, table, tmp_path, capsys):
    out = tmp_path / "new" / "rat.html"
    assert main(["report", str(run), str(table), "--out", str(out), "--title", "Rat <7>"]) == 0
    assert "<title>Rat &lt;7&gt;</title>" in out.read_text() and not (run / "report.html").exists()


def test_what_cannot_be_reported_is_said(run, table, sessions, tmp_path, fails):
    assert "expected the folder of at least one fitted model" in fails("report", table)
    assert "expected one recording" in fails("report", run, table, table)
    assert "choose one with --session" in fails("report", sessions)
    assert "ascribo report RUN FILE" in fails("report", sessions, "--session", "left")


def test_several_runs_are_compared(run, tmp_path, capsys):
    folders = [tmp_path / name for name in ("one", "two <b>")]
    for folder in folders:
        shutil.copytree(run, folder)
        assert main(["attribute", str(folder), "--out", str(folder / "map.nc")]) == 0
    out = tmp_path / "both.html"
    assert main(["report", *map(str, folders), "--out", str(out), "--quiet"]) == 0
    page = out.read_text()
    assert "two &lt;b&gt;" in page and "<b>" not in page and "rank correlation of 1.00" in page
    capsys.readouterr()
    assert main(["report", str(folders[0]), str(folders[0])]) == 2
    assert "given twice" in capsys.readouterr().err


def test_a_shift_test_in_the_folder_is_reported_with_its_copies(run, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    bits = {"score": 1.5, "score_low": 1.0, "score_high": 2.0, "r2": np.nan, "null_mean": 0.1, "null_high": 0.3}
    decoders = {**bits, "score_low": np.nan, "score_high": np.nan, "r2": 0.2}
    rows = [
        {"space": "position", "statistic": "embedding", **bits},
        {"space": "NA", "statistic": "decoders", **decoders},
    ]
    table = pd.DataFrame(rows).assign(shifts=3, p=0.25)
    table.attrs["copies"] = {"position": [0.1, -0.2, 0.3], "NA": [1.0, 2.0, 0.5]}
    report.write_shift(table, folder)
    back = report.shift_in(folder)
    pd.testing.assert_frame_equal(back, table)
    assert back.attrs == table.attrs
    assert main(["report", str(folder), "--quiet"]) == 0
    assert '"copies":[0.1,-0.2,0.3]' in (folder / "report.html").read_text()
    old = (
        table.iloc[:1].rename(columns=lambda name: name.replace("score", "bits")).drop(columns=["statistic", "r2"])
    )
    old.to_csv(folder / "shift.csv", index=False)
    assert report.shift_in(folder)[["statistic", "score", "score_low"]].to_numpy().tolist() == [
        ["embedding", 1.5, 1.0]
    ]
    os.utime(folder / "shift.csv", (0, 0))
    assert report.shift_in(folder) is None  # older than the model

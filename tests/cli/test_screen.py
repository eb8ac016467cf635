"""`ascribo screen`: calls on standard output and in a file, and errors in one sentence."""

import numpy as np
import pandas as pd
import pytest

from ascribo.cli.main import main


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    a = np.zeros(2_000)
    for t, push in enumerate(rng.normal(size=2_000)):
        a[t] = 0.97 * a[t - 1] + 0.25 * push
    table = pd.DataFrame({f"cell{k}": (k < 3) * a + rng.normal(size=2_000) for k in range(6)})
    path = tmp_path / "rat.csv"
    table.assign(x=a, side=np.where(rng.random(2_000) < 0.5, "left", "right")).to_csv(path, index=False)
    return path


def test_it_prints_and_writes_calls(file, tmp_path, capsys):
    out = tmp_path / "calls.csv"
    spaces = ["--follow", "position=x", "--discrete", "side=side:1"]
    assert main(["screen", str(file), "--channels", "cell*", *spaces, "--out", str(out), "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert "Who carries position? 3 of 6 channels called, at a false discovery rate of 5%" in shown
    row = next(line.split() for line in shown.splitlines() if line.startswith("cell0"))
    assert 0 < float(row[4]) <= float(row[5]) < 0.05  # p and q as they are, not 0.000
    calls = pd.read_csv(out)
    assert calls[calls.called & (calls.space == "position")].channel.tolist() == ["cell0", "cell1", "cell2"]
    assert set(calls.space) == {"position", "side"}


def test_wrong_usage_is_said_in_one_sentence(file, capsys):
    assert main(["screen", str(file)]) == 2
    assert "nothing to ask about" in capsys.readouterr().err
    assert main(["screen", str(file), "--follow", "position=x", "--out", "calls.txt"]) == 2
    assert ".csv" in capsys.readouterr().err


def test_a_disk_that_is_full_leaves_the_old_file(file, tmp_path, monkeypatch):
    out = tmp_path / "calls.csv"
    out.write_text("old")

    def fills(self, path, **_):
        with open(path, "w") as half:
            half.write("channel,spa")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", fills)
    assert main(["screen", str(file), "--channels", "cell*", "--follow", "position=x", "--out", str(out)]) == 1
    assert out.read_text() == "old" and sorted(path.name for path in tmp_path.iterdir()) == ["calls.csv", "rat.csv"]

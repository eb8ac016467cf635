"""How the command line starts: at once, and quietly if asked to."""

import subprocess
import sys

import pandas as pd
import pytest

import ascribo as asc
from ascribo.cli import commands, reproduce
from ascribo.cli.main import main
from ascribo.cli.options import COMMANDS

QUICK = ["--seeds", "1", "--steps", "5", "--batch-size", "64", "--jobs", "1", "--penalty", "0"]

pytestmark = pytest.mark.usefixtures("quick_unique_variance")


def started(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_questions_about_itself_are_answered_without_torch():
    code = "import sys; from ascribo.cli import main; main(sys.argv[1:]); print('torch' in sys.modules)"
    for argv, answer in (
        (["--version"], f"ascribo {asc.__version__}"),
        (["--help"], "usage"),
        (["info", "-h"], "usage"),
    ):
        done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=False)
        assert done.stdout.startswith(answer) and done.stdout.endswith("False\n") and done.stderr == ""


def test_importing_the_package_is_quick_and_its_names_are_all_there():
    done = started("import sys, ascribo; print('torch' in sys.modules, 'numpy' in sys.modules)")
    assert done.stdout == "False False\n"
    for name in asc.__all__:
        assert getattr(asc, name) is not None and name in dir(asc)
    with pytest.raises(AttributeError, match="'ascribo' has no attribute 'folow'"):
        asc.folow  # noqa: B018


def test_the_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "ascribo", "info"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stdout == ""
    assert (
        done.stderr.startswith("ascribo info: starting\nusage: ascribo info ")
        and "ascribo info: error: " in done.stderr
    )


def test_the_first_line_comes_before_anything_is_imported():
    code = """
import sys
class Stop:
    def find_spec(self, name, *_):
        if name in ("numpy", "torch"):
            sys.exit(7)
sys.meta_path.insert(0, Stop())
from ascribo.cli.main import main
sys.exit(main(["demo"]))
"""
    done = started(code)
    assert (done.returncode, done.stderr) == (7, "ascribo demo: starting\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_can_be_quiet(name, capsys):
    assert main([name, "--help"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"usage: ascribo {name}") and "--quiet" in said.out and said.err == ""


def test_quiet_commands_say_nothing_but_the_result(table, run, tmp_path, capsys, monkeypatch):
    out = tmp_path / "run"
    fit = ["fit", table, "--channels", "channel*", "--time", "rest:1", *QUICK, "--out", out]
    attribute = ["attribute", run, "--out", tmp_path / "maps.nc"]
    for command in (fit, attribute, ["info", run]):
        argv = [str(part) for part in command]
        assert main([*argv, "--quiet"]) == 0
        quiet = capsys.readouterr()
        assert main(argv) == 0
        told = capsys.readouterr()
        assert quiet.out == told.out != "" and quiet.err == ""
        assert told.err.startswith(f"ascribo {argv[0]}: starting\nreading {argv[1]}\n")
    assert asc.load(out).progress is True, "silence was asked for this command, not for the model"


def test_names_in_errors_are_text(table, tmp_path, fails):
    said = fails("fit", table, "--channels", "red\x1b[31m,[/b]", "--time", "rest:1", "--out", tmp_path / "run")
    assert "\x1b" not in said and "red\\x1b[31m" in said


def test_experiments_outside_a_checkout(tmp_path, monkeypatch, fails, capsys):
    monkeypatch.setattr(reproduce, "CHECKOUT", tmp_path)
    said = fails("reproduce", "box")
    assert "not part of the installed package" in said and "pip install -e" in said
    assert main(["reproduce", "--help"]) == 0
    assert "experiments:" not in capsys.readouterr().out


def test_experiments_of_a_checkout_are_listed(capsys, fails):
    assert main(["reproduce", "--help"]) == 0
    assert "table1" in capsys.readouterr().out
    assert "choose from" in fails("reproduce", "tabel1")


def test_an_experiment_is_told_what_was_asked(tmp_path, monkeypatch, capsys):
    asked = {}

    class Experiment:
        @staticmethod
        def run(out, **options):
            asked.update(options, out=out)
            (out / "box.json").write_text("{}")

        @staticmethod
        def tables(result):
            return {"What came out": pd.DataFrame({"auROC": [0.5]})}

    monkeypatch.setattr(commands, "find_experiment", lambda name: Experiment)
    assert main(["reproduce", "box", "--quick", "--quiet", "--out", str(tmp_path)]) == 0
    assert asked == dict(out=tmp_path, quick=True, jobs=2, scheduler=None, fresh=False, progress=False)
    said = capsys.readouterr()
    assert said.err == "" and "0.500" in said.out and str(tmp_path / "box.json") in said.out
    assert main(["reproduce", "box", "--layers", "2", "--out", str(tmp_path)]) == 2
    assert "inversion and permutation have" in capsys.readouterr().err
    Experiment.FULL = {"layers": (3, 2)}
    assert main(["reproduce", "inversion", "--layers", "2", "--quiet", "--out", str(tmp_path)]) == 0
    assert asked["layers"] == [2]
    capsys.readouterr()
    Experiment.TAKES = "a minute on a GPU"
    assert main(["reproduce", "inversion", "permutation", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert [f"{name}: a minute on a GPU" in said.err for name in ("inversion", "permutation")] == [True, True]
    assert "the same command goes on" in said.err and said.out.count("What came out") == 2
    (tmp_path / "file").write_text("")
    assert main(["reproduce", "box", "--out", str(tmp_path / "file")]) == 2

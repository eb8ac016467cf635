"""What a type checker says to users: the README's example and other common calls pass, wrong ones do not."""

import inspect
import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import ascribo as asc

pytestmark = pytest.mark.skipif(find_spec("pyright") is None, reason="pyright is not installed")

ROOT = Path(__file__).parents[1]

COMMON = """
import numpy as np
import pandas as pd
import ascribo as asc

X, y = np.zeros((100, 5)), pd.DataFrame({"x": np.zeros(100), "angle": np.zeros(100), "side": ["left"] * 100})
recording = asc.Recording(X, y, epochs=np.arange(100) // 50)
spaces = {
    "x": asc.Follow("x", dim=1),
    "angle": asc.Follow("angle", 2, circular=True, period=360, similarity=asc.Lp(3), temperature="learn"),
    "side": asc.Discrete("side", dim=2),
    "guess": asc.Regress(["x"]),
    "rest": asc.Time(dim=2, offsets=(1, 2), nuisance=True),
}
encoders = [asc.MLP((8,)), asc.Convolution(window=5)]
model = asc.ContrastiveEmbedding(spaces, penalty=asc.Ramp(0.1), encoder=encoders[0], early_stop=None)
z = model.fit(X, y).transform(X, seed=0)[:, :2]
bits: float = model.fit(recording).score(recording)
rows = model.goodness_of_fit_["bits"].mean()
maps = model.attribute(recording, method="tangent", samples="all", aggregate="median")
called: pd.DataFrame = maps.calls()
treated = recording.treat(model.treatment)
search = model.set_params(spaces__x__dim=2).get_params()["spaces"]
shared = asc.SharedEmbedding(spaces, penalty="auto").fit({"rat1": recording, "rat2": recording})
several = shared.attribute({"rat1": recording})["rat1"].calls()
single = shared.attribute(recording, "rat1").calls()
p = asc.shift_test(model, X, y, shifts=39, only="x")["p"]
chosen = asc.select_dimension(recording, spaces=spaces, space="x", dims=range(2, 5), steps=100).dim
halves = asc.evidence.split_half(model, recording).maps
low, high = asc.metrics.bootstrap_interval([0.1, 0.2])
ax = asc.figures.embedding(z, y["x"], circular=True)
"""

WRONG = {
    "asc.Follow('x', dim='two')": "dim",
    "asc.ContrastiveEmbedding({'rest': 3})": "spaces",
    "asc.ContrastiveEmbedding(hybrid='both')": "hybrid",
    "asc.ContrastiveEmbedding(penalty='much')": "penalty",
    "asc.SharedEmbedding(n_jobs=2)": "n_jobs",
    "asc.ContrastiveEmbedding(step=3)": "step",
    "asc.evidence.consistency([], weight='equal')": "weight",
}


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    """The errors that pyright finds in files of a user who has ascribo installed, by file."""
    folder = tmp_path_factory.mktemp("user")
    readme = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert readme and "ContrastiveEmbedding" in readme[0]
    files = {"readme": "\n".join(readme), "common": COMMON, "wrong": "\n".join(["import ascribo as asc", *WRONG])}
    for name, code in files.items():
        (folder / f"{name}.py").write_text(code)
    settings = {"include": ["*.py"], "extraPaths": [str(ROOT / "src")], "typeCheckingMode": "standard"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [
        sys.executable,
        "-m",
        "pyright",
        "--project",
        str(folder),
        "--pythonpath",
        sys.executable,
        "--outputjson",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):  # it finds errors or none; anything else is trouble of its own
        pytest.skip(f"pyright does not run here: {(done.stderr or done.stdout)[-300:]}")
    report = json.loads(done.stdout[done.stdout.index("{") :])
    assert report["summary"]["filesAnalyzed"] == len(files)
    found = {name: [] for name in files}
    for each in report["generalDiagnostics"]:
        if each["severity"] == "error":
            found[Path(each["file"]).stem].append((each["range"]["start"]["line"], each["message"]))
    return found


def test_the_example_of_the_readme_passes(errors):
    assert errors["readme"] == []


def test_common_calls_pass(errors):
    assert errors["common"] == []


def test_wrong_calls_are_found(errors):
    for line, (call, about) in enumerate(WRONG.items(), start=1):
        assert any(line == place and about in message for place, message in errors["wrong"]), (
            call,
            errors["wrong"],
        )


def test_every_public_parameter_has_a_type():
    missing = [
        f"{name}({parameter.name})"
        for name, function in _public_functions()
        for parameter in inspect.signature(inspect.unwrap(function)).parameters.values()
        if parameter.annotation is parameter.empty and parameter.name not in ("self", "cls")
    ]
    assert not missing


def _public_functions():
    """Functions, and methods of classes, that `import ascribo` and the folders it shows offer."""
    shown = {name: getattr(asc, name) for name in asc.__all__}
    folders = {name: thing for name, thing in shown.items() if inspect.ismodule(thing)}
    inside = {
        f"{name}.{k}": getattr(folder, k)
        for name, folder in folders.items()
        for k in getattr(folder, "__all__", ())
    }
    for name, thing in {**shown, **inside}.items():
        if inspect.isclass(thing) and thing.__module__.startswith("ascribo"):
            for method, value in vars(thing).items():
                function = getattr(value, "__func__", value)
                if inspect.isfunction(function) and not method.startswith("_"):
                    yield f"{name}.{method}", function
        elif inspect.isfunction(thing):
            yield name, thing

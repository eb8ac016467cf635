"""The short form of `make strange`, and strange recordings that hypothesis makes, and shrinks where one fails."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

import ascribo as asc

EXAMPLES = int(os.environ.get("ASCRIBO_STRANGE_EXAMPLES", "25"))
"""Recordings that hypothesis makes; 1,000 take some minutes."""
QUIET: dict[str, Any] = {
    **{"deadline": None, "derandomize": True, "database": None},
    "suppress_health_check": list(HealthCheck),
}
SCRIPT = Path(__file__).parents[2] / "scripts/strange_recordings.py"


def test_strange_recordings_are_answered_or_refused_with_a_reason():
    command = [sys.executable, SCRIPT, "--recordings", "25", "--first", "1040"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert '"wrong": 0' in done.stdout and '"answered"' in done.stdout


CHANNELS = ["walk", "noise", "silent", "constant", "offset", "counts", "outlier", "steps", "heavy", "first"]
VARIABLES = ["walk", "nearly", "absolute", "rounded", "constant", "large", "missing", "known once"]
LABELS = ["few", "each once", "one", "text", "missing"]


@st.composite
def strange(draw: Any) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """What `make` of the script gives, of choices that hypothesis makes: a recording as a function, the spaces, and
    the parameters of a small model. Plain choices come first, so that a failure shrinks to them."""
    rng, steps = np.random.default_rng(draw(st.integers(0, 99))), draw(st.sampled_from([200, 80, 500, 30, 5, 900]))
    kinds = draw(st.lists(st.sampled_from(CHANNELS), min_size=1, max_size=5))
    walk = rng.standard_normal((steps, 3)).cumsum(0)
    X = np.stack([_channel(rng, kind, walk) for kind in kinds], 1)
    X[:, [k for k, kind in enumerate(kinds) if kind == "first"]] = X[:, :1]
    if draw(st.booleans()):
        X = X * 10.0 ** np.array(draw(st.lists(st.integers(-30, 30), min_size=len(kinds), max_size=len(kinds))))
    table = pd.DataFrame({"a": walk[:, 0], "b": _variable(draw(st.sampled_from(VARIABLES)), walk)})
    table["angle"] = np.mod(walk[:, 1], 2 * np.pi) * draw(st.sampled_from([1.0, 57.3]))
    table["label"] = _labels(rng, draw(st.sampled_from(LABELS)), steps)
    spaces: dict[str, Any] = {
        "a": asc.Follow("a", dim=1),
        "b": asc.Follow(["a", "b"] if len(kinds) > 1 else "b", dim=min(2, len(kinds))),
        "angle": asc.Follow("angle", dim=2, circular=True),
        "label": asc.Discrete("label", dim=1),
        "guess": asc.Regress("b"),
        "rest": asc.Time(dim=1),
    }
    chosen = draw(st.lists(st.sampled_from(list(spaces)), min_size=1, max_size=4, unique=True))
    length = draw(st.sampled_from([None, 70, 20, 3]))
    epochs = None if length is None else np.arange(steps) // length
    parameters = {
        **{
            "seeds": 1,
            "steps": 10,
            "encoder": asc.MLP((4,)),
            "random_state": 0,
            "progress": False,
            "device": "cpu",
        },
        "batch_size": draw(st.sampled_from([32, 8, 512])),
        "penalty": draw(st.sampled_from([0.0, 0.1])),
        "drop_constant": draw(st.booleans()),
    }
    return lambda: asc.Recording(X, table, epochs=epochs), {name: spaces[name] for name in chosen}, parameters


def _channel(rng: np.random.Generator, kind: str, walk: np.ndarray) -> np.ndarray:
    steps = len(walk)
    own = walk @ rng.standard_normal(3) + rng.standard_normal(steps)
    made = {
        "noise": rng.standard_normal(steps),
        "silent": np.zeros(steps),
        "constant": np.full(steps, 1e6),
        "offset": own + 1e9,
        "counts": rng.poisson(0.03, steps).astype(float),
        "outlier": np.where(np.arange(steps) == steps // 2, 1e9, own),
        "steps": (own > 0).astype(float),
        "heavy": rng.standard_t(0.7, steps),
    }
    return made.get(kind, own)


def _variable(kind: str, walk: np.ndarray) -> np.ndarray:
    a, steps = walk[:, 0], len(walk)
    made = {
        "nearly": a + 1e-9 * walk[:, 1],
        "absolute": np.abs(a),
        "rounded": np.round(a / 20),
        "constant": np.full(steps, 2.0),
        "large": np.arange(steps) * 1e15,
        "missing": np.where(np.arange(steps) < steps // 2, a, np.nan),
        "known once": np.where(np.arange(steps) == 0, a, np.nan),
    }
    return made.get(kind, walk[:, 1])


def _labels(rng: np.random.Generator, kind: str, steps: int) -> Any:
    text = rng.choice(["left", "right", ""], steps).astype(object)
    made = {"few": rng.integers(0, 3, steps), "each once": np.arange(steps), "one": np.zeros(steps, int)}
    return np.where(rng.random(steps) < 0.3, None, text) if kind == "missing" else made.get(kind, text)


@pytest.fixture(scope="module")
def take_through():
    """The script's own check, with a short test of known variables."""
    from ascribo.attribution.unique_variance import score

    spec = importlib.util.spec_from_file_location("strange_recordings", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(score, "MOST_TRAINING_STEPS", 10)
        yield module.take_through


def test_recordings_that_hypothesis_makes_are_answered_or_refused(take_through):
    ends = []

    @settings(max_examples=EXAMPLES, **QUIET)
    @given(strange())
    def check(made):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ends.append(take_through(*made, Path(folder)).partition(":")[0])

    check()
    assert len(ends) >= EXAMPLES and "answered" in ends and set(ends) <= {"answered", "refused"}


def test_a_failure_shrinks_to_a_plain_recording():
    """Where only the missing variable matters, one channel and one space are left."""
    plain = settings(max_examples=300, **QUIET)
    data, spaces, _ = find(strange(), lambda made: made[0]().variables["b"].isna().any(), settings=plain)
    assert data().X.shape == (200, 1) and list(spaces) == ["a"]

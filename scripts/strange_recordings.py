"""Do strange recordings ever end in something else than an answer or a refusal that says why?

    python scripts/strange_recordings.py --recordings 1000

Recordings are made at random of what users have been seen to bring: channels at scales from 1e-30 to 1e30, with
offsets, doubled, silent, constant, counts, integers, with outliers; variables that are nearly functions of each
other, hardly ever change, are missing for a while, are angles, are labels of which each occurs once; few time
steps, one channel, many short epochs. Each goes through fit, attribute, calls, screen, save and load. Fine are
numbers that are finite (or missing where the library says that they are) and the same after loading, or a
ValueError. All else counts: another exception, NaN or infinity in an embedding, a call without a score, more than a
minute.

The exit status is 0 only if nothing was counted.
"""

import argparse
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

SECONDS = 60


def make(rng: np.random.Generator) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """A strange recording, its spaces and the parameters of a small model."""
    import ascribo as asc

    steps = int(rng.choice([5, 30, 80, 200, 500, 900], p=[0.03, 0.05, 0.1, 0.27, 0.3, 0.25]))
    channels = int(rng.choice([1, 2, 5, 9]))
    walk = np.cumsum(rng.standard_normal((steps, 3)), 0)
    X = walk @ rng.standard_normal((3, channels)) + rng.standard_normal((steps, channels))
    for k in range(channels):
        X[:, k] = _strange_channel(rng, X, k)
    if rng.random() < 0.2:
        X = X * 10.0 ** rng.integers(-30, 31, channels)
    table = pd.DataFrame({"a": walk[:, 0], "b": _strange_variable(rng, walk)})
    if rng.random() < 0.2:
        table.loc[rng.integers(steps) :, "a"] = np.nan
    labels = rng.choice(["few", "many", "one", "text"])
    numbers = {"few": rng.integers(0, 3, steps), "many": np.arange(steps), "one": np.zeros(steps, int)}
    table["label"] = numbers.get(labels, rng.choice(["left", "right", ""], steps))
    table["angle"] = rng.choice([1.0, 57.3], p=[0.9, 0.1]) * np.mod(walk[:, 1], 2 * np.pi)
    spaces: dict[str, Any] = {
        "a": asc.Follow("a", dim=1),
        "b": asc.Follow(["a", "b"] if channels > 1 else "b", dim=min(2, channels)),
        "angle": asc.Follow("angle", dim=2, circular=True),
        "label": asc.Discrete("label", dim=1),
        "guess": asc.Regress("b"),
        "rest": asc.Time(dim=int(rng.choice([1, 3], p=[0.8, 0.2]))),
    }
    chosen = [name for name in spaces if rng.random() < 0.4] or ["a"]
    epochs = None if rng.random() < 0.6 else np.arange(steps) // int(rng.choice([3, 20, 70]))
    parameters = {
        **{"seeds": 1, "steps": 20, "batch_size": int(rng.choice([8, 64, 512])), "encoder": asc.MLP((8,))},
        **{"penalty": float(rng.choice([0.0, 0.1])), "random_state": 0, "progress": False, "device": "cpu"},
        "drop_constant": bool(rng.random() < 0.9),
    }
    names = rng.permutation(["", "é", "<b>", "a", "unit 1", "0", "x" * 300, "🐀", "-1"])[:channels]
    X = X.astype(np.int64) if np.abs(X).max() < 2**40 and rng.random() < 0.1 else X
    data = lambda: asc.Recording(pd.DataFrame(X, columns=list(names)), table, epochs=epochs)  # noqa: E731
    return data, {name: spaces[name] for name in chosen}, parameters


def _strange_channel(rng: np.random.Generator, X: np.ndarray, k: int) -> np.ndarray:
    own, kind = X[:, k], rng.integers(12)
    if kind == 0:
        return X[:, 0]
    if kind == 1:
        return np.zeros(len(own))
    if kind == 2:
        return np.full(len(own), 1e6)
    if kind == 3:
        return own + 10.0 ** rng.integers(3, 13)
    if kind == 4:
        return rng.poisson(0.03, len(own)).astype(float)
    if kind == 5:
        return np.where(np.arange(len(own)) == len(own) // 2, 1e9, own)
    if kind == 6:
        return (own > 0).astype(float)
    if kind == 7:
        return rng.standard_t(0.7, len(own))
    return own


def _strange_variable(rng: np.random.Generator, walk: np.ndarray) -> np.ndarray:
    a, kind = walk[:, 0], rng.integers(8)
    choices = [
        a,
        a + 1e-9 * walk[:, 1],
        np.abs(a),
        np.round(a / 20),
        np.full(len(a), 2.0),
        np.arange(len(a)) * 1e15,
    ]
    return choices[kind] if kind < len(choices) else walk[:, 1]


def take_through(data: Any, spaces: dict[str, Any], parameters: dict[str, Any], folder: Path) -> str:
    """What came of it: "answered", or "refused" with the reason; anything else is an exception."""
    import ascribo as asc

    try:
        recording = data()
    except ValueError as error:
        return f"refused: recording: {_first_words(error)}"
    try:
        asc.screen(recording, {n: s for n, s in spaces.items() if s.variables})
    except ValueError as error:
        _first_words(error)
    try:
        model = asc.ContrastiveEmbedding(spaces, **parameters).fit(recording)
    except ValueError as error:
        return f"refused: fit: {_first_words(error)}"
    z = model.transform(recording)
    assert np.isfinite(np.asarray(z)).all(), "the embedding is not finite"
    loaded = asc.load(model.save(folder))
    np.testing.assert_array_equal(np.asarray(loaded.transform(recording)), np.asarray(z))
    try:
        maps = model.attribute(recording)
        calls = maps.calls()
    except ValueError as error:
        return f"refused: attribute: {_first_words(error)}"
    assert not calls.loc[calls["score"].isna(), "called"].any(), "a call without a score"
    assert not np.isinf(calls.select_dtypes(float)).any(axis=None), "infinity in the calls"
    maps.to_netcdf(folder / "maps.nc")
    asc.attribution.AttributionMaps.load(folder / "maps.nc")
    return "answered"


def _first_words(error: ValueError) -> str:
    text = str(error)
    assert len(text) > 15 and "\n\n" not in text, f"an error that says little: {text!r}"
    return " ".join(text.split()[:6])


def main() -> int:
    """Make, take through, count."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--recordings", type=int, default=1000, help="(%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="number of the first one (%(default)s)")
    parser.add_argument("--verbose", action="store_true", help="also print why recordings were refused")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    given = parser.parse_args()
    from ascribo.attribution.unique_variance import score

    score.MOST_TRAINING_STEPS = 30
    warnings.simplefilter("ignore")
    found, wrong, began = Counter(), [], time.monotonic()

    def too_long(number: int, frame: object) -> None:
        raise TimeoutError(f"more than {SECONDS} s")

    signal.signal(signal.SIGALRM, too_long)
    for number in range(given.first, given.first + given.recordings):
        with tempfile.TemporaryDirectory() as folder:
            signal.alarm(SECONDS)
            try:
                outcome = take_through(*make(np.random.default_rng(number)), Path(folder))
                found[outcome if given.verbose else outcome.partition(":")[0]] += 1
            except Exception as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                said = (str(error).strip().splitlines() or [""])[0][:150]
                wrong.append(f"recording {number}: {type(error).__name__}: {said} ({place.name}, {place.lineno})")
                print(wrong[-1], flush=True)
            finally:
                signal.alarm(0)
    seconds = round(time.monotonic() - began)
    from keep_figures import keep_figures

    asked = {"recordings": given.recordings, "first": given.first, "seconds": seconds}
    keep_figures(given.out, {**asked, "wrong": len(wrong), **dict(found.most_common()), "examples": wrong[:20]})
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

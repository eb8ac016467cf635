"""Does the code give the same numbers as an old commit, to the last bit, on the CPU?

    python scripts/same_numbers.py --old COMMIT

For changes that move code and should not change what it computes. The package of the old commit and that of the
working tree run the same cases, small fits of every kind, each in a process of its own on one core. All arrays that
come back are compared: a line for each, and exit status 0 only if all are the same. Only names under
`import ascribo as asc` are used, so modules may move.

Takes two minutes on two free cores. Not compared: GPUs, data files, the command line, recordings too large to copy.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import torch

ROOT = Path(__file__).resolve().parents[1]
ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
if "--run" in sys.argv:  # the process that compares needs no package
    import ascribo as asc

    METHODS = asc.attribution.METHODS
    GENERAL = [method for method in METHODS if method not in ("tangent", "deeplift")]  # for all encoders
    TREATMENT = asc.Treatment(smooth=0.2, transform="zscore")
    SMALL = {"seeds": 2, "steps": 100, "batch_size": 128, "penalty": 0.01, "random_state": 0}
    SMALL |= {"encoder": asc.MLP((32, 16)), "device": "cpu", "progress": False}


def box(seed=0, steps=2000, **options):
    """Ten channels, variables x and y, one hidden latent."""
    return asc.simulate.box(seed, observed=2, hidden=1, channels=(5, 5), steps=steps, **options)


def trials(data):
    """The recording in epochs of 500 steps, x missing here and there."""
    missing = np.random.default_rng(0).random(len(data)) < 0.1
    table = data.variables.assign(x=data.variables["x"].mask(missing))
    return asc.Recording(data.X, table, epochs=np.arange(len(data)) // 500)


def mixed(**options):
    """Channels that carry some of a (an angle), b, c and a label, and spaces of all kinds."""
    sizes = {"a": 1, "b": 2, "c": 1}
    made = asc.simulate.mixed(1, sizes, hidden=1, channels=12, steps=2000, labels=3, **options)
    table = made.variables.assign(a0=np.pi * made.variables["a0"])
    spaces = {"a": asc.Follow("a0", dim=2, circular=True), "b": asc.Regress(["b0", "b1"])}
    spaces |= {"c": asc.Follow("c0", dim=1, nuisance=True), "label": asc.Discrete("label", dim=2)}
    return made, asc.Recording(made.X, table, time=np.arange(2000) / 10), {**spaces, "rest": asc.Time(dim=1)}


def position(**options):
    """Two spaces for `box`: one follows x and y, the other time."""
    return {"position": asc.Follow(["x", "y"], **{"dim": 2, **options}), "rest": asc.Time(dim=1)}


def fit(data, spaces, y=None, **options):
    """A small model."""
    return asc.ContrastiveEmbedding(spaces, **{**SMALL, **options}).fit(data, y)


def of_model(model, data, y=None):
    """What every fitted model says."""
    said = {"goodness_of_fit_": model.goodness_of_fit_, "history_": model.history_, "score": model.score(data, y)}
    return {**said, "transform": model.transform(data), "transform, seed 1": model.transform(data, seed=1)}


def of_maps(model, data, methods=None, **options):
    """Maps by some methods (None: all), whole and in parts."""
    found, high = {}, data.X[:, 0] > np.median(data.X[:, 0])
    for method in methods or METHODS:
        unique = method == "unique_variance"
        maps = model.attribute(data, method=method, **options, **({} if unique else {"samples": 100}))
        found[method] = {"by_space": maps.by_space, "by_epoch": maps.by_epoch(), "table": maps.to_frame()}
        found[method] |= {"over_time": maps.over_time(100, 140, 8), "where": maps.where(high).by_space}
        parts = {"blocks": maps.blocks, "tests": maps.tests} if unique else {"by_dimension": maps.by_dimension}
        found[method] |= {name: part for name, part in parts.items() if part is not None}
        found[method] |= {"calls": maps.calls()} if unique else {"left out": maps.rank_deficient}
    return found


def hybrid():
    """Follow and Time, λ found, everything that can be asked."""
    data = box()
    yield "data", {"X": data.X, "variables": data.variables, "truth": data.truth}
    model = fit(data, position(), penalty="auto", steps=500)
    yield "model", {**of_model(model, data), **of_maps(model, data)}
    yield "model", {how: of_maps(model, data, ["tangent"], aggregate=how) for how in ("median", "maximum")}
    seeds, places = [model.transform(data, seed=k) for k in (0, 1)], [data.variables.to_numpy()] * 2
    yield "consistency", {w: asc.evidence.consistency(seeds, weight=w) for w in ("variance", "direction")}
    yield "consistency_by_label", asc.evidence.consistency_by_label(seeds, places, bins=6)
    maps = [model.attribute(data, method=method) for method in ("tangent", "unique_variance")]
    yield "map_consistency", asc.evidence.map_consistency(maps)
    yield "decode_variables", asc.decode_variables(seeds[0], data.variables, together={"place": ["x", "y"]})


def spaces():
    """An angle, a regression, a nuisance, labels."""
    made, data, its = mixed(snr=10, correlation=0.3)
    yield "data", {"X": made.X, "effects": made.effects, "latents": made.latents, "variables": made.variables}
    model = fit(data, its, steps=150)
    yield "model", {**of_model(model, data), **of_maps(model, data)}
    yield "decode_variables", asc.decode_variables(model.transform(data), data.variables, circular=["a0"])


def counts():
    """Counts as they are and treated."""
    _, data, its = mixed(counts=True)
    model = fit(data, its)
    yield "data", {"X": data.X, "square root": data.treat(smooth=0.3, transform="sqrt").X}
    yield "model", {**of_model(model, data), **of_maps(model, data, ["unique_variance"], loss="poisson")}
    treated = data[:1200].treat(TREATMENT)
    later, model = data[1200:].treat(treated.treatment), fit(treated, its)
    yield "treated", {"X": treated.X, **of_model(model, treated)}
    yield "later", {"X": later.X, "transform": model.transform(later)}
    model.save("treated")


def settings():
    """Other geometries, encoders, penalties and schedules, in trials and with missing values."""
    data = trials(box(1, snr=4))
    own = torch.nn.Sequential(torch.nn.Linear(10, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
    for name, options in {
        "trials": {},
        "Lp": {"spaces": {**position(similarity=asc.Lp(3), offset=2), "rest": asc.Time(dim=1, offsets=(1, 3))}},
        "dot": {"spaces": position(dim=3, similarity="dot", temperature="learn")},
        "convolution": {"encoder": asc.Convolution(5, (16, 16, 8))},
        "tanh, constant": {"encoder": asc.MLP((16,), limit="tanh"), "penalty": asc.Constant(0.1)},
        "module, ramp": {"encoder": own, "penalty": asc.Ramp(0.1)},
        "exact": {"exact_penalty": True, "validation_fraction": 0.0},
        "separate": {"hybrid": "separate", "spaces": position(temperature=2.0)},
        "search": {"penalty": asc.Auto(0.1), "steps": 300, "learning_rate": 3e-3},
        "early stop": {"steps": 2000, "batch_size": 32, "encoder": asc.MLP((8,)), "early_stop": 0.3},
    }.items():
        model = fit(data, **{"spaces": position(), **options})
        methods = GENERAL if name in ("trials", "dot", "convolution") else ["inverted_neuron_gradient", "tangent"]
        yield name, {**of_model(model, data), **of_maps(model, data, methods)}
    whole = box(2)
    X, y = np.column_stack([whole.X, np.ones(len(whole))]), whole.variables
    yield "constant channel", of_model(fit(X, position(), y, drop_constant=True), X, y)
    yield "processes", of_model(fit(whole.X, None, y, seeds=3, n_jobs=2, encoder="mlp"), whole.X, y)


def sessions():
    """Recordings with different channels in one embedding."""
    data = {"one": box(7, 1500), "two": trials(box(8, 1300)), "three": box(9, 1100)}
    model = asc.SharedEmbedding({**position(), "y": asc.Regress("y")}, **SMALL)
    model.fit({name: data[name] for name in ("one", "two")}).save("sessions")
    model.add_session("three", data["three"], steps=60)
    yield "model", {name: getattr(model, name) for name in ("goodness_of_fit_", "history_", "overlap_")}
    yield "transform", {**model.transform(data), "seed 1": model.transform(data["two"], session="two", seed=1)}
    yield "consistency", {"held out": model.consistency(), "recordings": model.consistency(data)}
    yield "unique_variance", {name: maps.calls() for name, maps in model.attribute(data).items()}
    yield "tangent", model.attribute(data["three"], session="three", method="tangent").by_dimension


def saved():
    """What `counts` and `sessions` saved, read again."""
    model, data = asc.load("treated"), mixed(counts=True)[1][:1200].treat(TREATMENT)
    yield "treated", {**of_model(model, data), **of_maps(model, data)}
    model, new = asc.load("sessions"), box(11, 1000)
    yield "sessions", {"one": model.transform(box(7, 1500), session="one"), "consistency": model.consistency()}
    yield "sessions", {"added": model.add_session("new", new, steps=20).transform(new, session="new")}


def evidence():
    """Tests, halves, dimensions."""
    data, model = box(12), asc.ContrastiveEmbedding(position(), **SMALL)
    yield "shift_test", asc.shift_test(model, data, shifts=4)
    _, several, its = mixed()
    yield "shift_test, all kinds", asc.shift_test(model.set_params(spaces=its), several, shifts=3, random_state=1)
    halves = asc.evidence.split_half(model.set_params(spaces=position()), data, blocks=5)
    yield "split_half", {"embeddings": halves.embeddings, "maps": halves.maps}
    options = {**SMALL, "seeds": 3, "spaces": position(), "space": "position", "dims": (1, 2, 3)}
    chosen = asc.select_dimension(data, **options)
    yield "select_dimension", {"dim": chosen.dim, "curve": chosen.curve}


def cells():
    """Classical scores of a place cell, a grid cell, a head-direction cell and two speed cells."""
    place, rng, turns = box(13, 3000).variables.to_numpy(), np.random.default_rng(0), np.pi / 3 * np.arange(3)
    heading, speed = (part(*np.diff(place, axis=0, prepend=0).T) for part in (np.arctan2, np.hypot))
    grid = 1.5 + np.cos(9 * place @ [np.cos(turns), np.sin(turns)]).sum(1)
    rates = [np.exp(-np.square(place - 0.3).sum(1) / 0.1), grid, 1 + np.cos(heading), speed, 1 - speed]
    X, x = np.stack(rates, 1) + 0.1 * rng.normal(size=(3000, 5)), np.where(place[:, 0] > 0.9, np.nan, place[:, 0])
    table = {"x": x, "y": place[:, 1], "head_direction": heading, "speed": speed}
    data = asc.Recording(X, table, time=np.arange(3000) / 10)
    yield "cell_scores", asc.cells.cell_scores(data, shuffles=19)
    yield "rate_maps", asc.cells.rate_maps(data, bins=12)
    for name in ("spatial_information", "grid_score", "head_direction_score", "speed_score"):
        yield name, getattr(asc.cells, name)(data, shuffles=19, seed=1)


CASES = {f.__name__: f for f in (hybrid, spaces, counts, settings, sessions, saved, evidence, cells)}


def arrays_of(name, value):
    """A value as named arrays: a table as its numbers and its text, a dict or dataset part by part.

    The columns of a table are taken by name: their order is no number.
    """
    if isinstance(value, pd.DataFrame):
        value = value.loc[:, sorted(value.columns, key=str)]
        numbers = value.select_dtypes(["number", "bool"])
        text = value.drop(columns=numbers.columns).astype(str).to_numpy().ravel()
        return {name: numbers.to_numpy(float), f"{name} (text)": np.array([*map(str, value.columns), *text])}
    value = getattr(value, "data_vars", value)
    if isinstance(value, Mapping):
        return {k: v for key, part in value.items() for k, v in arrays_of(f"{name}, {key}", part).items()}
    return {name: np.asarray(value)}


def run_cases(file: Path, names: list[str]) -> bool:
    """Run cases with the package of this process and write what they found; returns whether any failed."""
    if not Path(asc.__file__).is_relative_to(os.environ["PYTHONPATH"]):
        raise SystemExit(f"{asc.__file__} is in the way: expected the package in {os.environ['PYTHONPATH']}.")
    found, failed, start = {}, False, time.monotonic()
    for case in names:
        try:
            for name, value in CASES[case]():
                found |= arrays_of(f"{case}: {name}", value)
        except Exception:
            traceback.print_exc()
            failed = True
        print(f"{file.stem}: {case}, {time.monotonic() - start:.0f} s", file=sys.stderr)
    np.savez(file, **found)
    return failed


def difference(old, new) -> str:
    """How two arrays differ, in words; empty if they do not. NaN is the same as NaN, 0 is not the same as -0."""
    if old is None or new is None:
        return f"MISSING in the {'old' if old is None else 'new'} code"
    if old.shape != new.shape or (old.dtype != new.dtype and old.dtype.kind + new.dtype.kind != "UU"):
        return f"DIFFERS: was {old.dtype} {old.shape}, is {new.dtype} {new.shape}"
    unlike = old != new
    if old.dtype.kind != "f":
        return f"DIFFERS: {unlike.sum()} of {old.size}" if unlike.any() else ""
    unlike = (unlike | (np.signbit(old) != np.signbit(new))) & ~(np.isnan(old) & np.isnan(new))
    gap = np.abs(old[unlike].astype(float) - new[unlike])
    return f"DIFFERS: {gap.size} of {old.size}, by {gap.max():.2g} at most" if gap.size else ""


def compare(commit: str) -> bool:
    """Run both sides and print the table; returns whether anything differs."""
    with tempfile.TemporaryDirectory() as folder:
        place, children = Path(folder).resolve(), []
        if subprocess.run(["git", "archive", "-o", str(place / "old.tar"), commit, "src"], cwd=ROOT).returncode:
            raise SystemExit(f"git has no src at {commit!r}: pass --old with a commit of this repository.")
        shutil.unpack_archive(place / "old.tar", place / "old", filter="data")
        (place / "new").mkdir()

        def start(name, tree, cwd, cases):
            """Run cases in a folder, with the package of a tree, on one core; small fits have much to warn of."""
            command = [sys.executable, str(Path(__file__).resolve()), "--run", str(place / f"{name}.npz"), *cases]
            environment = {**os.environ, **ONE_CORE, "PYTHONPATH": str(tree / "src"), "PYTHONWARNINGS": "ignore"}
            children.append(subprocess.Popen(command, env=environment, cwd=place / cwd))

        try:
            start("old", place / "old", "old", CASES)
            start("new", ROOT, "new", CASES)
            failed = sum(child.wait() != 0 for child in children)
        finally:
            for child in children:
                child.kill()
        files = [place / f"{name}.npz" for name in ("old", "new")]
        old, new = (dict(np.load(file)) if file.exists() else {} for file in files)
    rows = {name: (old.get(name), new.get(name)) for name in {**old, **new}}
    said = {name: difference(*pair) for name, pair in rows.items()}
    for name, text in sorted(said.items(), key=lambda item: bool(item[1])):  # differences last
        print(f"{name:<72} {text or 'same'}")
    wrong = sum(map(bool, said.values()))
    print(f"{len(said)} quantities, {wrong} not the same as at {commit}; {failed} of 2 runs failed.")
    return bool(wrong or failed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compare the numbers of the working tree with an old commit's.")
    parser.add_argument("--old", metavar="COMMIT", default="HEAD", help="the commit to compare with")
    parser.add_argument("--run", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    sys.exit(run_cases(Path(given.run[0]), given.run[1:]) if given.run else compare(given.old))

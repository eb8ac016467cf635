"""How long training and attribution take on a rat's cells, beside cebra and captum (001, tables 4 and 5).

One process and one thread for each side, and the sides take turns, so that what else the machine does hits all of
them. Training: milliseconds a step of each training mode, pairs drawn. Attribution: seconds for the map of all
outputs of one hybrid model at the same steps; captum is given the same encoder. cebra runs in an environment of its
own (`benchmarks/peer_cebra.py`), and is left out where there is none. It trains the hybrid, regularized mode only,
with its own architecture, and inverts the Jacobian.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from ascribo import figures
from ascribo.attribution import attribute
from ascribo.attribution.unique_variance import unique_variance_maps
from ascribo.data.segments import evenly
from ascribo.model.fitted import FittedModel
from ascribo.model.fitting import finish, prepare
from ascribo.simulate.navigation import NavigationRecording
from ascribo.support.compute import one_thread
from ascribo.support.progress import bar
from ascribo.training.penalty import Constant
from ascribo.training.settings import Settings
from ascribo.training.train import train
from experiments.regcl import box_models, navigation_models
from experiments.regcl.box_models import MODES, PAPERS
from experiments.regcl.reporting import spell
from experiments.shared.many_models import RATE, settle
from experiments.shared.rows import Row, machine, publish

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "PAPER", "QUICK", "draw", "run", "tables"]

REPOSITORY = Path(__file__).parents[2]
PEER = REPOSITORY / "benchmarks" / "peer_cebra.py"
PYTHON = REPOSITORY / ".venv-cebra" / "bin" / "python"
PENALTIES = ("none", "regularized")
HYBRID = ("hybrid contrastive", "regularized")
PAPER = {
    "training": "contrastive training adds a 2x overhead, hybrid training a 3x one (section 5)",
    "attribution": "faster than integrated gradients and feature ablation, as fast as Shapley values (section 5)",
    "tables": "the copy of the paper at hand has lost the cells of tables 4 and 5; its machine was an A5000 GPU",
}
FULL = {"simulation": 0, "length": 20_000, "batch": 512, "rounds": 5, "timed": 20, "fitted": 300, "samples": 2_000}
QUICK = {"length": 3_000, "batch": 128, "rounds": 1, "timed": 5, "fitted": 30, "samples": 1_100}
"""cebra takes 1,024 samples at a time, and no fewer."""


def run(
    out: str | Path = "results",
    *,
    quick: bool = False,
    jobs: int = 1,
    fresh: bool = False,
    progress: bool = True,
    device: str = "auto",
    cebra: str | Path | None = PYTHON,
    **overrides: Any,
) -> dict[str, Any]:
    """Run the experiment; write `navigation-timing.json` and its figure to `out`, return what is in the former.

    quick : a short recording, few steps and samples: it only shows that all sides run.
    cebra : the Python of an environment with cebra; None, or one that is not there, leaves it out.
    jobs, fresh : what is timed runs alone, from the start, whatever these are. device : "auto" or "cpu".
    overrides : other values for what is in `FULL`.
    """
    if device not in ("auto", "cpu"):
        raise ValueError(f"device={device!r}: expected 'auto' or 'cpu': every side is timed on one CPU thread.")
    began, out = time.monotonic(), Path(out)
    plan = settle(FULL, QUICK if quick else {}, **overrides)
    with one_thread(), ExitStack() as stack, warnings.catch_warnings(action="ignore"):
        data = navigation_models.recording({"simulation": plan["simulation"], "length": plan["length"]})
        peer = (
            _Peer(str(cebra), data, plan) if cebra is not None and Path(cebra).exists() and PEER.exists() else None
        )
        if peer is not None:
            stack.callback(peer.close)
        training = _turns("training", _training(data, plan, peer), plan["rounds"], progress)
        attribution = _turns("attribution", _attribution(data, plan, peer), plan["rounds"], progress)
    result = {
        "experiment": "navigation-timing",
        "protocol": {**plan, **navigation_models.PROTOCOL, "paper": PAPER},
        "machine": machine(),
        "cebra": None if peer is None else peer.about,
        "training": training,
        "attribution": attribution,
        "seconds": round(time.monotonic() - began, 1),
    }
    return publish("navigation-timing", out, result, draw)


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: training by mode, attribution by method; medians over rounds of processor time."""
    base = result["training"]["supervised, none"]["median_processor_ms"]
    training = [
        {
            "training": name,
            "ms a step": own["median_processor_ms"],
            "of supervised": own["median_processor_ms"] / base,
        }
        for name, own in result["training"].items()
    ]
    attribution = [
        {"attribution": name, "s": own["median_processor_ms"] / 1e3, "s, wall": own["median_wall_ms"] / 1e3}
        for name, own in result["attribution"].items()
    ]
    steps = result["protocol"]["samples"]
    return {
        f"Training, batch {result['protocol']['batch']}": pd.DataFrame(training),
        f"Attribution at {steps:,} steps (unique variance: of all steps, decoders fitted)": pd.DataFrame(
            attribution
        ),
    }


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Seconds of each attribution, by whom."""
    ax = figures.new_axes(ax, (7.2, 0.24 * len(result["attribution"]) + 1.2))
    items = sorted(result["attribution"].items(), key=lambda item: -item[1]["median_processor_ms"])
    sides = {"ascribo": figures.PALETTE[0], "captum": figures.PALETTE[1], "cebra": figures.PALETTE[4]}
    for k, (name, own) in enumerate(items):
        ax.barh(k, own["median_processor_ms"] / 1e3, color=sides[name.split(",")[0]], height=0.7)
    ax.set_yticks(range(len(items)), [name for name, _ in items])
    ax.set(xlabel="seconds of one thread", xscale="log")
    figures.tidy(ax)
    return ax


def _training(
    data: NavigationRecording, plan: Mapping[str, Any], peer: _Peer | None
) -> dict[str, Callable[[], Row]]:
    """What to time of training: a step of each mode, and of cebra's solver."""
    timed: dict[str, Callable[[], Row]] = {}
    for mode in MODES:
        problem = prepare(data, navigation_models.spaces({"mode": mode}), validation_fraction=0.0).problem
        for penalty in PENALTIES:
            # a constant λ from the first step on: the papers' schedule has none in the first
            settings = Settings(plan["timed"], plan["batch"], RATE, Constant(0.0 if penalty == "none" else 0.1))
            work = lambda problem=problem, settings=settings: train(problem, [0], settings, progress=False)  # noqa: E731
            timed[f"{mode}, {penalty}"] = lambda work=work: _clock(work, plan["timed"])
    if peer is not None:
        timed["cebra, hybrid contrastive, regularized"] = lambda: peer.ask(f"steps {max(2, plan['timed'] // 5)}")
    return timed


def _attribution(
    data: NavigationRecording, plan: Mapping[str, Any], peer: _Peer | None
) -> dict[str, Callable[[], Row | dict[str, Row]]]:
    """What to time of attribution: ours, captum's of the same encoder, cebra's."""
    model = _model(data, plan)
    steps = evenly(len(data), plan["samples"])
    timed: dict[str, Callable[[], Any]] = {}
    for method in (*PAPERS, "generative_gradient"):
        work = lambda method=method: attribute(model, data, method, steps)  # noqa: E731
        timed[f"ascribo, {spell(method)}"] = lambda work=work: _clock(work)
    timed["ascribo, unique variance"] = lambda: _clock(lambda: unique_variance_maps([model], [data]))
    try:
        timed |= _captum(model, data, steps)
    except ImportError:
        warnings.warn("captum is not installed: it is left out", stacklevel=2)
    if peer is not None:
        timed["cebra"] = lambda: peer.ask("attribute")
    return timed


def _model(data: NavigationRecording, plan: Mapping[str, Any]) -> FittedModel:
    """A hybrid, regularized model, hardly trained: times do not depend on it."""
    item = prepare(data, navigation_models.spaces({"mode": HYBRID[0]}))
    settings = Settings(plan["fitted"], plan["batch"], RATE, box_models.PENALTIES[HYBRID[1]])
    parameters = train(item.problem, [0], settings, progress=False).parameters
    ((model, _),) = finish(
        [item], [parameters], [[0]], batch_size=plan["batch"], decoder_steps=plan["fitted"], progress=False
    )
    return replace(model, usable=np.ones_like(model.usable))


def _captum(model: FittedModel, data: NavigationRecording, steps: np.ndarray) -> dict[str, Callable[[], Row]]:
    """captum's methods on the model's encoder, one output after the other, as the papers call it."""
    import captum.attr as attr

    module = copy.deepcopy(model.module)
    module.load_state_dict({name: value[0] for name, value in model.parameters.items()})
    x = model.standardise(data.X)[torch.from_numpy(steps)]
    shuffled = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(0))]
    outputs = range(model.embedder.dim)
    gradient, shap = attr.NeuronGradient(module, module), attr.GradientShap(module)
    calls: dict[str, Callable[[int], Any]] = {
        "neuron_gradient": lambda k: gradient.attribute(x, k),
        "integrated_gradients": lambda k: attr.IntegratedGradients(module).attribute(x, target=k),
        "feature_ablation": lambda k: attr.FeatureAblation(module).attribute(x, target=k),
        "shapley_zeros": lambda k: shap.attribute(x, torch.zeros_like(x[:1]), target=k),
        "shapley_shuffled": lambda k: shap.attribute(x, shuffled, target=k),
    }

    def timed(call: Callable[[int], Any]) -> Callable[[], Row]:
        return lambda: _clock(lambda: [call(k) for k in outputs])

    return {f"captum, {spell(name)}": timed(call) for name, call in calls.items()}


def _turns(what: str, timed: Mapping[str, Callable[[], Any]], rounds: int, progress: bool) -> dict[str, Row]:
    """All sides in turn, `rounds` times after one to warm up: medians, and the times of every round."""
    got: list[dict[str, Row]] = []
    with bar(what, (rounds + 1) * len(timed), progress) as shown:
        for _ in range(rounds + 1):
            one: dict[str, Row] = {}
            for name, work in timed.items():
                answer = work()
                one |= {name: answer} if "wall_ms" in answer else answer  # cebra answers for several at once
                shown.advance()
            got.append(one)
    keys = ("processor_ms", "wall_ms")
    return {
        name: {f"median_{key}": median(times[name][key] for times in got[1:]) for key in keys}
        | {"rounds": [times[name] for times in got[1:]]}
        for name in got[0]
    }


def _clock(work: Callable[[], Any], number: int = 1) -> Row:
    """Milliseconds of wall and of processor time for one of `number` pieces of work done together."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return {
        "wall_ms": 1e3 * (time.perf_counter() - wall) / number,
        "processor_ms": 1e3 * (time.process_time() - processor) / number,
    }


class _Peer:
    """cebra in its own process and environment: see `benchmarks/peer_cebra.py`."""

    def __init__(self, python: str, data: NavigationRecording, plan: Mapping[str, Any]):
        X = (data.X - data.X.mean(0)) / data.X.std(0)
        dim = sum(space.dim for space in navigation_models.spaces({"mode": HYBRID[0]}).values())
        given = {"--dim": dim, "--batch": plan["batch"], "--penalty": 0.1, "--samples": plan["samples"]}
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "recording.npz"
            np.savez(file, X=X, labels=data.variables[["x", "y"]].to_numpy())
            command = [python, str(PEER), str(file), *(str(part) for option in given.items() for part in option)]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **threads},
                stdin=pipe,
                stdout=pipe,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            self.about = self._answer()

    def ask(self, request: str) -> Any:
        """Have it do one thing and say how long it took."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{request}\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """Let it end."""
        self._process.communicate()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"cebra's side ended early: run {PEER.name} by hand to see why.")
        return json.loads(line)

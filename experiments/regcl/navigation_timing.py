"""Times of training and attribution on a rat's cells, beside cebra and captum (Schneider et al. 2025, tables 4, 5).

One process and one thread for each side, and the sides take turns, so that what else the machine does hits all of
them. Training: milliseconds of a step in each training mode, the drawing of pairs included. Attribution: seconds
for the map of all outputs of one hybrid model at the same time steps; captum is given the same encoder. cebra runs
in an environment of its own (the setting `ASCRIBO_CEBRA_PYTHON`, see `shared/environment.py`), and is left out
where there is none. It trains in the hybrid, regularized mode only, with its own architecture, and inverts the
Jacobian.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
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
from ascribo.training.dispatch import train
from ascribo.training.penalty_weight import Constant
from ascribo.training.settings import Settings
from benchmarks.clock import clock
from benchmarks.turns import CebraProcess, take_turns
from experiments.regcl import box_models, navigation_models
from experiments.regcl.box_models import MODES, PAPERS
from experiments.regcl.reporting import spell_out
from experiments.shared.environment import cebra_python
from experiments.shared.many_models import RATE
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, experiment

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "PAPER", "QUICK", "cases", "conclude", "draw", "run", "tables", "timed"]

PENALTIES = ("none", "regularized")
HYBRID = ("hybrid contrastive", "regularized")
PAPER = {
    "training": "contrastive training adds a 2x overhead, hybrid training a 3x one (section 5)",
    "attribution": "faster than integrated gradients and feature ablation, as fast as Shapley values (section 5)",
    "tables": "the numbers of tables 4 and 5 are not legible in our copy; the machine was an A5000 GPU",
}
FULL = {"simulation": 0, "length": 20_000, "batch": 512, "rounds": 5, "timed": 20, "fitted": 300, "samples": 2_000}
QUICK = {"length": 3_000, "batch": 128, "rounds": 1, "timed": 5, "fitted": 30, "samples": 1_100}
"""cebra takes 1,024 samples at a time, and no fewer."""


def cases(plan: Plan) -> list[Case]:
    """One case: all sides take turns."""
    return [plan]


def timed(
    cases: Sequence[Case], state: Path, /, *, jobs: int, fresh: bool, progress: bool, device: str
) -> tuple[list[Row], int]:
    """The one row of this experiment. What is timed runs alone, in this process, from the start."""
    (plan,) = cases
    python = cebra_python()
    with one_thread(), ExitStack() as stack, warnings.catch_warnings(action="ignore"):
        data = navigation_models.recording({"simulation": plan["simulation"], "length": plan["length"]})
        cebra = None if python is None or device != "cpu" else _cebra(python, data, plan)
        if cebra is not None:
            stack.callback(cebra.close)
        training = take_turns("training", _training(data, plan, cebra), plan["rounds"], progress)
        attribution = take_turns("attribution", _attribution(data, plan, cebra), plan["rounds"], progress)
    about = None if cebra is None else cebra.about
    return [{"cebra": about, "training": training, "attribution": attribution}], 0


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """The times as the result's own."""
    (row,) = result["rows"]
    return {**{key: value for key, value in result.items() if not key.startswith("rows")}, **row}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: training by mode, attribution by method; medians of processor time, on a GPU of wall time."""
    kind = _kind(result)
    base = result["training"]["supervised, none"][kind]
    training = [
        {"training": name, "ms a step": own[kind], "of supervised": own[kind] / base}
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
    kind = _kind(result)
    items = dict(sorted(result["attribution"].items(), key=lambda item: item[1][kind]))
    series = {}
    for side in dict.fromkeys(name.split(",")[0] for name in items):
        own = [name for name in items if name.split(",")[0] == side]
        series[side] = {"group": own, "value": [items[name][kind] / 1e3 for name in own], "lane": 0}
    for series_color, own in zip((0, 1, 4), series.values(), strict=False):
        own["color"] = figures.PALETTE[series_color]
    label = "seconds of one thread" if kind == "median_processor_ms" else "seconds"
    ax = figures.dots(series, list(items), ax, label=label, size=(7.2, 0.24 * len(items) + 1.2))
    ax.set_xscale("log")
    return ax


def _kind(result: Mapping[str, Any]) -> str:
    """Which times count: on a GPU the processor mostly waits."""
    return "median_processor_ms" if result["protocol"].get("device", "cpu") == "cpu" else "median_wall_ms"


def _training(
    data: NavigationRecording, plan: Mapping[str, Any], cebra: CebraProcess | None
) -> dict[str, Callable[[], Row]]:
    """What to time of training: a step of each mode, and of cebra's solver."""
    sides: dict[str, Callable[[], Row]] = {}
    for mode in MODES:
        problem = prepare(data, navigation_models.spaces({"mode": mode}), validation_fraction=0.0).problem
        for penalty in PENALTIES:
            # a constant λ from the first step on: the papers' schedule has none in the first
            weight = Constant(0.0 if penalty == "none" else 0.1)
            settings = Settings(plan["timed"], plan["batch"], RATE, weight, device=plan["device"])
            work = lambda problem=problem, settings=settings: train(problem, [0], settings, progress=False)  # noqa: E731
            sides[f"{mode}, {penalty}"] = lambda work=work: clock(work, plan["timed"])
    if cebra is not None:
        sides["cebra, hybrid contrastive, regularized"] = lambda: cebra.ask(f"steps {max(2, plan['timed'] // 5)}")
    return sides


def _attribution(
    data: NavigationRecording, plan: Mapping[str, Any], cebra: CebraProcess | None
) -> dict[str, Callable[[], Row | dict[str, Row]]]:
    """What to time of attribution: ours, captum's of the same encoder, cebra's."""
    model = _model(data, plan)
    steps = evenly(len(data), plan["samples"])
    sides: dict[str, Callable[[], Any]] = {}
    for method in (*PAPERS, "generative_gradient"):
        work = lambda method=method: attribute(model, data, method, steps)  # noqa: E731
        sides[f"ascribo, {spell_out(method)}"] = lambda work=work: clock(work)
    sides["ascribo, unique variance"] = lambda: clock(lambda: unique_variance_maps([model], [data]))
    try:
        sides |= _captum(model, data, steps)
    except ImportError:
        warnings.warn("captum is not installed: it is left out", stacklevel=2)
    if cebra is not None:
        sides["cebra"] = lambda: cebra.ask("attribute")
    return sides


def _model(data: NavigationRecording, plan: Mapping[str, Any]) -> FittedModel:
    """A hybrid, regularized model, hardly trained: times do not depend on it."""
    item = prepare(data, navigation_models.spaces({"mode": HYBRID[0]}))
    settings = Settings(plan["fitted"], plan["batch"], RATE, box_models.PENALTIES[HYBRID[1]], device=plan["device"])
    parameters = train(item.problem, [0], settings, progress=False).parameters
    ((model, _),) = finish(
        [item], [parameters], [[0]], batch_size=plan["batch"], decoder_steps=plan["fitted"], progress=False
    )
    return replace(model, usable=np.ones_like(model.usable)).to(plan["device"])


def _captum(model: FittedModel, data: NavigationRecording, steps: np.ndarray) -> dict[str, Callable[[], Row]]:
    """captum's methods on the model's encoder, one output after the other, as the papers call it."""
    import captum.attr as attr

    module = copy.deepcopy(model.module).to(model.device)
    module.load_state_dict({name: value[0] for name, value in model.parameters.items()})
    x = model.standardise(data.X)[torch.from_numpy(steps).to(model.device)]
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

    def side(call: Callable[[int], Any]) -> Callable[[], Row]:
        return lambda: clock(lambda: [call(k).cpu() for k in outputs])

    return {f"captum, {spell_out(name)}": side(call) for name, call in calls.items()}


def _cebra(python: Path, data: NavigationRecording, plan: Mapping[str, Any]) -> CebraProcess:
    """cebra on the same data, for a model of the same size."""
    X = (data.X - data.X.mean(0)) / data.X.std(0)
    dim = sum(space.dim for space in navigation_models.spaces({"mode": HYBRID[0]}).values())
    options = {"dim": dim, "batch": plan["batch"], "penalty": 0.1, "samples": plan["samples"]}
    return CebraProcess(python, X, data.variables[["x", "y"]].to_numpy(), **options)


run = experiment(
    *("navigation-timing", FULL, QUICK),
    cases=cases,
    rows=timed,
    conclude=conclude,
    draw=draw,
    protocol={**navigation_models.PROTOCOL, "paper": PAPER},
    cpu_only=True,
    in_one_process=True,
)

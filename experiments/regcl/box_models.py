"""Models of box data: the data and spaces of a case, and the two ways in which maps are scored.

A *case* holds dim (latents, two of them observed), data_seed, length (time steps), snr, mode (of training),
penalty, steps and batch (of training), samples and costly (time steps that maps are averaged over).

*Entries*, the papers' protocol (Schneider et al. 2025, equation 11): the auROC is over all (channel, dimension)
entries of a block of the map, in the encoder's own coordinates and in the units of the channels it was trained on;
each entry is the mean over time of its size, and the truth of a channel holds for each dimension. *Channels*, ours:
the length of a channel's row within the block, in coordinates in which the block is white, for standardised
channels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ascribo.attribution import attribute
from ascribo.attribution.maps import AttributionMaps
from ascribo.attribution.unique_variance import MOST_TRAINING_STEPS, known_spaces, make_problems, score_problems
from ascribo.data.recording import Recording
from ascribo.data.segments import evenly
from ascribo.data.standardised_channels import StandardisedChannels, channel_statistics
from ascribo.metrics.scores import auroc, linear_r2
from ascribo.model.fitted import FittedModel
from ascribo.networks.encoders import MLP
from ascribo.networks.seed_alignment import Alignment
from ascribo.screening import screen_spaces
from ascribo.simulate.box import BoxRecording, box
from ascribo.spaces.base import Space, layout
from ascribo.spaces.kinds.follow import Follow
from ascribo.spaces.kinds.regress import Regress
from ascribo.spaces.kinds.time import Time
from ascribo.training.penalty_weight import Auto, Constant, Ramp, Schedule
from experiments.shared.many_models import Study
from experiments.shared.rows import Case, Row

__all__ = [
    "COSTLY",
    "MODES",
    "OBSERVED",
    "OURS",
    "PAPERS",
    "PROTOCOL",
    "STANDARDISED",
    "VERIFICATION",
    "box_study",
    "channel_scores",
    "channel_spread",
    "encoder",
    "entry_scores",
    "nothing_together",
    "recording",
    "recovered_latents",
    "schedule",
    "score_methods",
    "score_observed",
    "spaces",
    "unique_scores",
]

OBSERVED = 2
NAMES = ("x", "y")
MODES = ("supervised", "supervised contrastive", "hybrid contrastive")
PAPERS = (
    *("feature_ablation", "shapley_shuffled", "shapley_zeros"),
    *("integrated_gradients", "neuron_gradient", "inverted_neuron_gradient"),
)
"""The papers' methods in the order of their table."""
OURS = ("unique_variance", "generative_gradient", "tangent")
COSTLY = (
    *("feature_ablation", "shapley_shuffled", "shapley_zeros"),
    *("integrated_gradients", "smoothgrad", "tangent"),
)
"""Methods that are averaged over `costly` time steps rather than `samples`."""
UNITS = {
    **dict.fromkeys(("generative_gradient", "tangent", "inverted_neuron_gradient"), -1),
    **dict.fromkeys(("neuron_gradient", "smoothgrad"), 1),
}
"""Power of a channel's standard deviation that makes its row that of the standardised channel: -1 for ∂x/∂u, 1 for
∂u/∂x. Shares of the output or of variance have no unit of the channel."""
TOGETHER = 64
"""Models whose decoders for the unique variance are fitted together."""
Scores = dict[str, np.ndarray]
"""Space -> one score for each channel."""
PROTOCOL = {
    "data": "simulate.box(100 * dim + data_seed, observed=2, hidden=dim - 2), 25 + 25 channels",
    "channels_on": "one scale for all (the papers name none)",
    "encoder": "mlp (180, 180, 60), outputs limited to ±5; one model for each data set, its seed is the data seed",
    "penalties_mean": "none: λ = 0; regularized: Ramp(0.1), the papers' schedule; auto: Auto(); λ: Ramp(λ)",
    "entries": "papers' protocol: auROC over the (channel, dimension) entries of the block, own coordinates",
    "channels": "length of a channel's row in the whitened block, standardised channels",
    "costly_methods": list(COSTLY),
}
"""What all experiments on box data share, in words."""
STANDARDISED = "each its own scale"
"""`channels_on` of experiments that train as the estimator does."""
VERIFICATION = {
    **PROTOCOL,
    "encoder": "mlp (30 d, 30 d, 10 d) for d outputs, limited to ±5; one model for each data set, seeded as it is",
}
"""The papers' own tables."""
PENALTIES: dict[str, Schedule] = {"none": Constant(0.0), "regularized": Ramp(0.1), "auto": Auto()}


def recording(case: Case) -> BoxRecording:
    """The data of a case: the papers' box with two observed latents."""
    return box(
        seed=100 * case["dim"] + case["data_seed"],
        observed=OBSERVED,
        hidden=case["dim"] - OBSERVED,
        steps=case["length"],
        snr=case.get("snr"),
    )


def spaces(case: Case) -> dict[str, Space]:
    """The spaces of a training mode: "position" has the observed latents, "rest" the others.

    >>> list(spaces({"mode": "hybrid contrastive", "dim": 5}))
    ['position', 'rest']
    """
    if case["mode"] == "supervised":
        return {"position": Regress(NAMES)}
    follow: dict[str, Space] = {"position": Follow(NAMES, dim=OBSERVED)}
    return follow if case["mode"] == "supervised contrastive" else {**follow, "rest": Time(case["dim"] - OBSERVED)}


def encoder(spaces: Mapping[str, Space]) -> MLP:
    """The papers' encoder: as wide as their released code has it (cebra 0.6.1, offset1-model-mse-clip-5-5).

    >>> encoder({"position": Follow(NAMES, dim=2)}).widths
    (60, 60, 20)
    """
    outputs = sum(space.dim for space in spaces.values())
    return MLP(widths=(30 * outputs, 30 * outputs, 10 * outputs))


def schedule(case: Case) -> Schedule:
    """How λ moves: "none", "regularized" (the papers' 0.1), "auto", or a number, on the papers' schedule."""
    penalty = case["penalty"]
    return PENALTIES[penalty] if isinstance(penalty, str) else Ramp(penalty)


def entry_scores(
    model: FittedModel,
    data: Recording,
    method: str,
    steps: np.ndarray,
    space: str,
    standard: Tensor | StandardisedChannels | None = None,
    aggregate: str = "mean",
) -> np.ndarray:
    """Mean |entry| of a space's block in the encoder's own coordinates: (channel, dim)."""
    same = torch.eye(model.embedder.dim, device=model.device).expand(model.seeds, -1, -1)
    plain = replace(model, alignment=Alignment(torch.zeros_like(same[:, 0]), same, same, 0))
    found = attribute(plain, data, method, steps, X=standard, aggregate=aggregate).by_dimension
    assert found is not None  # only the unique variance has none
    return found.values[:, found["space"].values == space]


def channel_spread(data: Recording, model: FittedModel) -> np.ndarray:
    """Standard deviation of each channel in the units that the encoder sees: (channel,)."""
    return channel_statistics(data.X)[1] / model.scale


def channel_scores(maps: AttributionMaps, spread: np.ndarray, space: str) -> np.ndarray:
    """Length of each standardised channel's row within a space: (channel,). spread : see `channel_spread`."""
    return maps.by_space.sel(space=space).values * spread ** UNITS.get(maps.method, 0)


def unique_scores(
    cases: Sequence[Case], recordings: Sequence[Recording], models: Sequence[FittedModel]
) -> list[Scores]:
    """Unique variance of every space and channel: by the test of known variables, and for the other spaces by
    decoders, those of models of one shape fitted as stacks.

    Channels are standardised, as the score is to be that of standardised channels whatever the encoder sees.
    """
    found: list[Scores] = []
    tests: dict[tuple[int, str], Scores] = {}  # models of one recording share them
    for model, data in zip(models, recordings, strict=True):
        known = {name: model.spaces[name] for name in known_spaces(model, data)}
        key = id(data), repr(known)
        if key not in tests:
            tests[key] = {test.space: test.score for test in screen_spaces(data, known)} if known else {}
        found.append(dict(tests[key]))
    problems = make_problems(models, recordings)
    members = [k for k, problem in enumerate(problems) if problem is not None]
    for start in range(0, len(members), TOGETHER):
        some = members[start : start + TOGETHER]
        scores = score_problems(
            [replace(own, x=own.x / own.x.std(0)) for k in some if (own := problems[k]) is not None],
            [[cases[k]["data_seed"]] for k in some],
            steps=min(MOST_TRAINING_STEPS, cases[0]["steps"]),
            progress=False,
        )
        for k, own in zip(some, scores, strict=True):
            found[k] |= dict(zip(own.problem.spaces, own.by_block.mean((0, 3)), strict=True))
    return found


def nothing_together(cases: Sequence[Case], recordings: Sequence[Any], models: Sequence[Any]) -> list[None]:
    """For studies that measure nothing of a whole stack at once."""
    return [None] * len(cases)


def score_methods(
    case: Case,
    data: Recording,
    model: FittedModel,
    unique: Scores,
    space: str,
    *,
    entries: Sequence[str] = (),
    channels: Sequence[str] = (),
) -> Row:
    """auROC of a space by some methods, scored by entries and by channels.

    unique : the model's `unique_scores`.

    A space that has collapsed is judged like any other. Where a method has no map at all (no Jacobian could be
    inverted), the auROC is 0.5, and `no_map` names the method.
    """
    assert data.truth is not None
    truth = data.truth.sel(space=space).values
    every = {
        method: evenly(len(data), case["costly" if method in COSTLY else "samples"])
        for method in (*entries, *channels)
    }
    out: Row = {"entries": {}, "channels": {}, "rank_deficient": {}, "no_map": []}
    standard, spread = model.standardise(data.X), channel_spread(data, model)

    def add(kind: str, method: str, scores: np.ndarray) -> None:
        known = bool(np.isfinite(scores).all())
        each = np.broadcast_to(truth.reshape(-1, *(1,) * (scores.ndim - 1)), scores.shape)
        out[kind][method] = round(auroc(scores, each), 6) if known else 0.5
        if not known and method not in out["no_map"]:
            out["no_map"].append(method)

    for method in entries:
        add("entries", method, entry_scores(model, data, method, every[method], space, standard))
    for method in channels:
        if method == "unique_variance":
            add("channels", method, unique[space])
            continue
        maps = attribute(model, data, method, every[method], X=standard)
        add("channels", method, channel_scores(maps, spread, space))
        if method in ("inverted_neuron_gradient", "tangent"):
            out["rank_deficient"][method] = round(maps.rank_deficient, 4)
    return out


def recovered_latents(
    case: Case, data: BoxRecording, model: FittedModel, goals: Mapping[str, Any] | None = None
) -> Row:
    """R² of latents from the blocks of the embedding, by a linear map: space -> R².

    goals : space -> (time, latent) what its block should hold, by default the observed and the hidden latents;
        spaces the model does not have are left out.
    """
    if goals is None:
        goals = {"position": data.latents[:, -OBSERVED:], "rest": data.latents[:, :-OBSERVED]}
    steps = evenly(len(data), case["samples"])
    z = model.embedder.embed(model.parameters, model.standardise(data.X), data.epochs, steps)[0].cpu().numpy()
    blocks = layout(model.spaces)
    return {
        name: round(linear_r2(z[:, blocks[name]], np.asarray(goal)[steps]), 4)
        for name, goal in goals.items()
        if name in blocks
    }


def score_observed(
    case: Case,
    data: BoxRecording,
    model: FittedModel,
    unique: Scores,
    *,
    entries: Sequence[str] = (),
    channels: Sequence[str] = (),
) -> Row:
    """auROC of the observed space by some methods, and R² of both blocks."""
    scores = score_methods(case, data, model, unique, "position", entries=entries, channels=channels)
    return {**scores, "r2": recovered_latents(case, data, model)}


def box_study(score: Callable[[Case, Any, FittedModel, Any], Row], **different: Any) -> Study:
    """A study of box data on standardised channels. different : fields of `Study` that are not as usual."""
    usual = {"recording": recording, "spaces": spaces, "schedule": schedule, "together": unique_scores}
    data = ("dim", "data_seed", "length", "snr")
    return Study(**{**usual, "score": score, "data": data, "one_scale": False, **different})

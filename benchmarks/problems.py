"""The box data of the papers as training problems, for the benchmarks."""

from __future__ import annotations

import numpy as np
import torch

import ascribo as asc
from ascribo.networks.encoders import build_encoder
from ascribo.spaces.base import Space
from ascribo.spaces.kinds.regress import Regress
from ascribo.spaces.pairs import Pairs
from ascribo.training.objective import contrastive_objectives
from ascribo.training.training_problem import Problem

MODES = ("supervised", "supervised contrastive", "hybrid contrastive")


def spaces_of(mode: str, observed: int, hidden: int) -> dict[str, Space]:
    """The spaces of a training mode of Schneider et al. (2025), table 1."""
    names = ["x", "y", "z"][:observed]
    if mode == "supervised":
        return {"position": asc.Regress(names)}
    follow = {"position": asc.Follow(names, dim=observed)}
    return follow if mode == "supervised contrastive" else {**follow, "rest": asc.Time(dim=hidden)}


def problem_of(data: asc.Recording, spaces: dict[str, Space], encoder: object = "mlp") -> Problem:
    """A training problem on all of a recording, standardised, hybrid "whole"."""
    X = torch.from_numpy((data.X - data.X.mean(0)) / data.X.std(0))
    targets = {
        name: space.targets(data.variables, space.target_statistics(data.variables, np.arange(len(data))))
        for name, space in spaces.items()
        if isinstance(space, Regress)
    }
    module = build_encoder(encoder, X.shape[1], sum(space.dim for space in spaces.values()))
    pairs = Pairs(spaces, data.variables, data.epochs)
    return Problem(module, spaces, contrastive_objectives(spaces, "whole"), X, data.epochs, pairs, targets)

"""Scores of representations of sprites: the six of disentanglement, and the correlation with the true factors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ascribo import metrics
from ascribo.simulate import Sprites
from ascribo.simulate.sprites import FACTORS

__all__ = ["SCORES", "correlation_between", "score_codes", "score_dci", "score_encoder"]

SIZES = list(FACTORS.values())
SCORES = ("BetaVAE", "FactorVAE", "MIG", "DCI", "Modularity", "SAP", "MCC")
"""As the columns of Zimmermann et al. (2020), table 3. DCI is its disentanglement."""


def score_codes(codes: np.ndarray, **counts: int) -> dict[str, float]:
    """The scores but DCI of codes (737280, dimension) of all images of the grid. counts : see `score_encoder`."""
    steps = np.cumprod([1, *SIZES[:0:-1]])[::-1]  # how far apart in the grid two values of a factor are
    return score_encoder(lambda factors: codes[factors @ steps], **counts)


def score_dci(codes: np.ndarray, *, dci: int, **_: int) -> dict[str, float]:
    """The disentanglement of DCI of codes (737280, dimension), from `dci` samples, half as many to test.

    Boosted trees for 40 classes take minutes for the published 10,000.
    """
    rng = np.random.default_rng(0)
    index = rng.integers(len(codes), size=dci * 3 // 2)
    factors = np.stack(np.unravel_index(index, SIZES), 1)
    return {"DCI": metrics.dci_scores(codes[index], factors, dci).disentanglement}


def score_encoder(
    encode: Callable[[np.ndarray], np.ndarray],
    *,
    points: int,
    pairs: int,
    samples: int,
    fitted: int,
    seed: int = 0,
    **_: int,
) -> dict[str, float]:
    """The scores of an encoder but DCI (`score_dci`), factors (n, 5) -> codes (n, dimension).

    points : to train the BetaVAE and FactorVAE scores on, half as many test them (published: 10,000). pairs : of
    images in each point (64). samples : of MIG, Modularity and MCC (100,000), a tenth of them for the variance
    over all data. fitted : of SAP (10,000).
    """
    rng = np.random.default_rng(seed)
    factors = np.column_stack([rng.integers(size, size=samples) for size in SIZES])
    shown = encode(factors)
    drawn: dict[str, Any] = {"train": points, "test": points // 2, "batch": pairs, "seed": seed}
    some = slice(0, fitted * 3 // 2)
    return {
        "BetaVAE": metrics.beta_vae_score(encode, SIZES, **drawn),
        "FactorVAE": metrics.factor_vae_score(encode, SIZES, variance=samples // 10, **drawn),
        "MIG": metrics.mutual_information_gap(shown, factors),
        "Modularity": metrics.modularity_score(shown, factors),
        "SAP": metrics.sap_score(shown[some], factors[some], fitted, seed),
        "MCC": metrics.mean_correlation_coefficient(shown, factors),
    }


def correlation_between(
    grid: Sprites, encode: Callable[[Tensor], Tensor], latents: Tensor, at_once: int = 2000
) -> list[float]:
    """MCC of every model of a stack for images of latents (n, 5) that need not lie on the grid."""
    with torch.no_grad():
        codes = torch.cat([encode(grid.draw_between(part)).float().cpu() for part in latents.split(at_once)])
    truth = latents.cpu().numpy()
    return [metrics.mean_correlation_coefficient(own, truth) for own in codes.transpose(0, 1).numpy()]

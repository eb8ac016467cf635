"""Published experiments by name, in a folder for each line of papers: protocol, published numbers, `run`.

- `regcl`: the tables and figures of Schneider et al. (2025), and what they leave open.
- `validation`: whether ascribo's own calls and tests keep their promises, on simulated and on real recordings.
- `inversion`: when contrastive learning finds the true latents (Zimmermann et al. 2021 and 2020).
- `images`: the same on images of which every factor is known (Zimmermann et al. 2020 and 2021).
- `labelfree`: explaining encoders without labels, after Crabbé & van der Schaar (2022).
- `shared`: the machinery of all of them; nothing in it knows of a particular experiment.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import NamedTuple

__all__ = ["EXPERIMENTS", "Entry", "find"]


class Entry(NamedTuple):
    """An experiment: its module below this folder, and in one line what it shows."""

    module: str
    shows: str


EXPERIMENTS = {
    "box": Entry(
        "regcl.box",
        "which channels carry the observed latents of a simulated box (Schneider et al. 2025, section 5)",
    ),
    "table1": Entry(
        "regcl.table1",
        "training modes, penalty and attribution methods beside the paper's (Schneider et al. 2025, table 1)",
    ),
    "table1-batches": Entry(
        "regcl.table1_batches", "table1 with the papers' batches of 5,000 and a constant learning rate"
    ),
    "table2": Entry(
        "regcl.table2", "table1 for latents that were not observed (Schneider et al. 2023 and 2025, table 2)"
    ),
    "fig3": Entry("regcl.fig3", "auROC against the number of latents, up to 20 (Schneider et al. 2025, figure 3)"),
    "noise": Entry("regcl.noise", "auROC of every method against observation noise"),
    "samples": Entry("regcl.samples", "auROC and bits against the length of the recording"),
    "more-samples": Entry(
        "regcl.more_samples", "whether more than 100,000 time steps allow more latents (Schneider et al. 2025)"
    ),
    "map-choices": Entry(
        "regcl.map_choices",
        "mean, median or maximum over time; the cut at a z-score of 0; hybrid whole or separate",
    ),
    "lambda": Entry("regcl.penalties", "the self-tuned penalty beside fixed ones"),
    "dimension": Entry(
        "regcl.dimension", "which size of a space is consistent across seeds (Schneider et al. 2025, figure 6)"
    ),
    "calibration": Entry(
        "validation.calibration", "whether calls keep their false discovery rate, and their power"
    ),
    "situations": Entry(
        "validation.situations", "screening where tests of tuning go wrong, beside a cross-validated GLM"
    ),
    "short-recordings": Entry(
        "validation.short_recordings", "screening of 1,000 time steps beside tests that know what it was made from"
    ),
    "ablation": Entry(
        "validation.ablation", "what the embedding adds to calls for known variables: trained, untrained, none"
    ),
    "peers": Entry("validation.peers", "calls beside those of tuning curves, linear models and a decoder"),
    "nulls": Entry("validation.nulls", "whether the shift test keeps its level on unrelated variables"),
    "track": Entry("validation.track", "units of a real rat on a linear track: position and running direction"),
    "reaching": Entry(
        "validation.reaching", "units of a real monkey's M1: position and velocity of the hand, beside a GLM"
    ),
    "grid-cells": Entry(
        "validation.grid_cells",
        "real entorhinal cells: grid score against attribution of position (Schneider et al. 2025, figure 7)",
    ),
    "navigation": Entry(
        "regcl.navigation",
        "cells of a rat in a box: position, head direction and speed (Schneider et al. 2025, table 3, figure 4)",
    ),
    "navigation-training": Entry(
        "regcl.navigation_training",
        "auROC and cross-validated R² of position across training (Schneider et al. 2025, figure 4)",
    ),
    "navigation-noise": Entry(
        "regcl.navigation_noise",
        "the same with noise on every cell, by every method (Schneider et al. 2025, figure 10)",
    ),
    "navigation-timing": Entry(
        "regcl.navigation_timing",
        "training and attribution times beside cebra and captum (Schneider et al. 2025, tables 4 and 5)",
    ),
    "navigation-timing-gpu": Entry("regcl.navigation_timing_gpu", "the same on a GPU"),
    "inversion": Entry(
        "inversion.affine",
        "latents up to an affine map, twelve processes (Zimmermann et al. 2021 and 2020, table 1)",
    ),
    "inversion-dimensions": Entry(
        "inversion.dimensions", "the same with 10, 20 and 50 latents on a sphere and a matched model"
    ),
    "permutation": Entry(
        "inversion.permutation",
        "latents up to order, sign and scale, ten processes (Zimmermann et al. 2021, table 2)",
    ),
    "theory": Entry(
        "inversion.theory",
        "limits of the contrastive loss, radius, isometry and uniformity (Zimmermann et al. 2021)",
    ),
    "sprites": Entry(
        "images.sprites",
        "disentanglement of contrastive encoders of sprites (Zimmermann et al. 2020, tables 2 to 4)",
    ),
    "scenes": Entry(
        "images.scenes", "latents of rendered scenes from pairs of images (Zimmermann et al. 2021, table 4)"
    ),
    "labelfree-consistency": Entry(
        "labelfree.consistency",
        "masked features and labels of top examples (Crabbé & van der Schaar 2022, figures 2 and 3)",
    ),
    "labelfree-roar": Entry(
        "labelfree.roar", "retraining without important pixels (Crabbé & van der Schaar 2022, figure 7)"
    ),
    "labelfree-pretext": Entry(
        "labelfree.pretext",
        "do encoders of different tasks see the same? (Crabbé & van der Schaar 2022, tables 1 and 2)",
    ),
    "labelfree-vae": Entry(
        "labelfree.vae", "saliency of units of disentangled VAEs (Crabbé & van der Schaar 2022, figures 6 and 8)"
    ),
    "labelfree-blocks": Entry(
        "labelfree.blocks", "influence of blocks of time on the contrastive loss beside retraining without them"
    ),
}
"""Name -> entry: the one place where an experiment is registered."""


def find(name: str) -> ModuleType:
    """The module of an experiment; it has `run(out, quick, jobs, fresh, progress)` and `tables(result)`.

    >>> find("box").__name__, find("lambda").__name__
    ('experiments.regcl.box', 'experiments.regcl.penalties')
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"no experiment is called {name!r}; there are: {', '.join(EXPERIMENTS)}.")
    return import_module(f"{__name__}.{EXPERIMENTS[name].module}")

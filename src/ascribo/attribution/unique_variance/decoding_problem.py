"""What the decoders of the unique variance learn: inputs, targets, and which time steps are held out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ...data.standardised_channels import StandardisedChannels
from ...networks.model_stack import Embedder
from ...spaces.base import Space, layout, reported
from .design import FOLDS, HELD_OUT_RUNS, Design, make_design
from .fourier_features import wave_heights
from .input_columns import Column, Role, which
from .whitening import white

__all__ = ["DecodingProblem", "make_problem"]


@dataclass(frozen=True)
class DecodingProblem:
    """What the decoders of one recording learn. A *variant* is a decoder that sees some of the inputs.

    Attributes
    ----------
    index : (n,), time steps; the other arrays have a row for each.
    x : (n, channel), the targets: standardised channels, or counts.
    inputs : (seed, n, dim), white: variables, and embeddings of spaces without variables.
    masks : (variant, dim), 1 for the inputs that a variant sees. The first sees all.
    spaces : the spaces that are compared, those without variables; the variant after the first that belongs to
        each does not see it.
    fold, block : (n,), the fold that holds a row out, and the block of time it is in.
    training_rows : for each fold the rows its decoders learn from.
    loss : "squared" or "poisson".
    phases : (dim, w) or None, phases of waves over the values of the variables, as a linear map of the inputs.
    """

    index: np.ndarray
    x: Tensor
    inputs: Tensor
    masks: Tensor
    spaces: tuple[str, ...]
    fold: np.ndarray
    block: np.ndarray
    training_rows: list[np.ndarray]
    loss: str
    phases: Tensor | None = None

    def with_waves(self, inputs: Tensor) -> Tensor:
        """Inputs (..., dim) with the waves behind them: (..., dim + 2w)."""
        if self.phases is None:
            return inputs
        phase = inputs @ self.phases
        heights = wave_heights().to(inputs)
        heights = heights.repeat(self.phases.shape[1] // len(heights))  # for each space
        return torch.cat([inputs, heights * phase.cos(), heights * phase.sin()], -1)

    @property
    def masks_with_waves(self) -> Tensor:
        """The masks for inputs with waves, (variant, dim + 2w): all decoders see the waves."""
        extra = 0 if self.phases is None else 2 * self.phases.shape[1]
        return torch.nn.functional.pad(self.masks, (0, extra), value=1.0)


def make_problem(
    embedder: Embedder,
    parameters: Mapping[str, Tensor],
    spaces: Mapping[str, Space],
    X: Tensor | StandardisedChannels,
    epochs: np.ndarray,
    variables: pd.DataFrame,
    *,
    counts: Tensor | StandardisedChannels | None = None,
    design: Design | None = None,
) -> DecodingProblem:
    """What the decoders of one model and recording learn.

    Parameters
    ----------
    X : (time, channel), standardised. variables : those that are known.
    counts : (time, channel), to be predicted under a Poisson loss instead of X.
    design : that of these spaces and this recording, if it is at hand from another model.

    A nuisance is not compared, but the decoders see it like any other space.
    """
    if design is None:
        design = make_design(spaces, embedder.window, epochs, variables, X)
    inputs, columns = _inputs(embedder, parameters, spaces, X, epochs, design)
    compared = tuple(name for name in reported(spaces) if name in design.without_variables)
    masks = [np.ones(len(columns), dtype=bool)]
    masks += [~which(columns, {Role.EMBEDDING}, name) for name in compared]
    phases = design.phases
    if phases is not None:  # they do not depend on the embedding
        phases = torch.nn.functional.pad(phases, (0, 0, 0, len(columns) - len(phases)))
    at = torch.from_numpy(design.index).to(X.device)
    return DecodingProblem(
        index=design.index,
        x=X[at] if counts is None else counts[at],
        inputs=inputs,
        masks=torch.from_numpy(np.stack(masks)).to(inputs),
        spaces=compared,
        fold=design.fold,
        block=design.block,
        training_rows=_training_rows(design.fold, 2 * design.neighbour_distance),
        loss="squared" if counts is None else "poisson",
        phases=phases,
    )


def _inputs(
    embedder: Embedder,
    parameters: Mapping[str, Tensor],
    spaces: Mapping[str, Space],
    X: Tensor | StandardisedChannels,
    epochs: np.ndarray,
    design: Design,
) -> tuple[Tensor, list[Column]]:
    """The columns of a design with those of the embedding of one model: (seed, n, dim), and what they are."""
    index, near, slices = design.index, design.neighbour_distance, layout(spaces)
    # the neighbour after one time step is as a rule that before another: each is embedded once
    steps, place = np.unique(np.concatenate([index - near, index + near]), return_inverse=True)
    before, after = torch.from_numpy(place).to(X.device).split(len(index))
    z = embedder.embed(parameters, X, epochs, steps)
    around = (z[:, before] + z[:, after]) / 2
    columns, parts = list(design.columns), [design.values.expand(len(around), -1, -1)]
    for name in design.without_variables:
        parts.append(white(around[..., slices[name]]))
        columns += [Column(Role.EMBEDDING, name)] * parts[-1].shape[-1]
    return torch.cat(parts, -1), columns


def _training_rows(fold: np.ndarray, reach: int) -> list[np.ndarray]:
    """For each fold the rows that its decoders learn from. fold : (n,), the fold that holds each row out."""
    n = len(fold)
    gap = min(reach, n // HELD_OUT_RUNS // 4)
    apart = np.ones(n, dtype=bool)  # rows near those of another fold share neighbours with them
    apart[gap:] &= fold[gap:] == fold[: n - gap]
    apart[: n - gap] &= fold[gap:] == fold[: n - gap]
    return [np.flatnonzero((fold != k) & apart) for k in range(FOLDS)]

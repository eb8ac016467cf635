"""What the decoders of the unique variance learn: inputs, targets, and which time steps are held out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ...data.standardised_channels import StandardisedChannels
from ...networks.model_stack import Embedder
from ...spaces.base import Space, layout, reported
from .design import FOLDS, HELD_OUT_RUNS, Design, make_design
from .fourier_features import wave_heights
from .input_columns import SEEN_WITH_EMBEDDINGS, SEEN_WITH_INNOVATIONS, VARIABLES, Column, Role, which
from .whitening import white

__all__ = ["DecodingProblem", "make_problem"]


@dataclass(frozen=True)
class DecodingProblem:
    """What the decoders of one recording learn. A *variant* is a decoder that sees some of the inputs.

    Attributes
    ----------
    index : (n,), time steps; the other arrays have a row for each.
    x : (n, channel), the targets: standardised channels, or counts.
    inputs : (seed, n, dim), white.
    masks : (variant, dim), 1 for the inputs that a variant sees.
    spaces : the spaces that are tested.
    redraws : space with variables -> its innovations, a slice of the inputs, and what they are exchanged for,
        (draw, n, k), in the first variant.
    trial_redraws : space whose variables are those of whole epochs -> the same, in variant `variables_alone`.
    levels : space with variables -> the columns that know of it, of which variant `variables_alone` sees some.
        elsewhere : (n,), the row of another time that these are taken from.
    comparisons : space without variables -> the variant that sees it, and the one that does not.
    fold, block : (n,), the fold that holds a row out, and the block of time it is in.
    training_rows : for each fold the rows its decoders learn from.
    loss : "squared" or "poisson".
    undecided : space -> why its test would mean nothing.
    phases : (dim, w) or None, phases of waves over the present values of the variables, as a linear map of the
        inputs.
    """

    index: np.ndarray
    x: Tensor
    inputs: Tensor
    masks: Tensor
    spaces: tuple[str, ...]
    redraws: dict[str, tuple[slice, Tensor]]
    comparisons: dict[str, tuple[int, int]]
    fold: np.ndarray
    block: np.ndarray
    training_rows: list[np.ndarray]
    loss: str
    phases: Tensor | None = None
    trial_redraws: dict[str, tuple[slice, Tensor]] = field(default_factory=dict)
    variables_alone: int = 0
    levels: dict[str, tuple[int, ...]] = field(default_factory=dict)
    elsewhere: np.ndarray | None = None
    undecided: dict[str, str] = field(default_factory=dict)

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
    lag: int | None = None,
    design: Design | None = None,
) -> DecodingProblem:
    """What the decoders of one model and recording learn.

    Parameters
    ----------
    X : (time, channel), standardised. variables : those that are known.
    counts : (time, channel), to be predicted under a Poisson loss instead of X.
    lag : over which innovations are taken, by default by the pace of each space's variables.
    design : that of these spaces and this recording, if it is at hand from another model.

    A nuisance is not tested, but the decoders see it like any other space.
    """
    if design is not None and lag is not None:
        raise ValueError(f"lag={lag!r} beside a design, which has lags of its own: give the lag to `make_design`.")
    if design is None:
        design = make_design(spaces, embedder.window, epochs, variables, X, lag)
    inputs, columns = _inputs(embedder, parameters, spaces, X, epochs, design)
    variants = _variants(columns, design, reported(spaces))
    columns_of = lambda name, role: np.flatnonzero(which(columns, {role}, name))  # noqa: E731
    redraws, trial_redraws = (
        {
            name: (slice(where[0], where[-1] + 1), drawn)
            for name, drawn in every.items()
            for where in [columns_of(name, role)]
        }
        for every, role in ((design.redraws, Role.INNOVATION), (design.trial_redraws, Role.PRESENT))
    )
    phases = design.phases
    if phases is not None:  # they do not depend on the embedding
        first = int(which(columns, {Role.PAST_EMBEDDING}).sum())
        phases = torch.nn.functional.pad(phases, (0, 0, first, len(columns) - first - len(phases)))
    at = torch.from_numpy(design.index).to(X.device)
    return DecodingProblem(
        index=design.index,
        x=X[at] if counts is None else counts[at],
        inputs=inputs,
        masks=torch.from_numpy(np.stack(variants.masks)).to(inputs),
        spaces=tuple(reported(spaces)),
        redraws=redraws,
        comparisons=variants.comparisons,
        fold=design.fold,
        block=design.block,
        training_rows=_training_rows(design.fold, design.reach),
        loss="squared" if counts is None else "poisson",
        phases=phases,
        trial_redraws=trial_redraws,
        variables_alone=variants.variables_alone,
        levels={n: tuple(np.flatnonzero(which(columns, VARIABLES, n)).tolist()) for n in design.redraws},
        elsewhere=design.elsewhere,
        undecided=design.undecided,
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
    embed = lambda index: embedder.embed(parameters, X, epochs, index)  # noqa: E731
    index, seeds, slices = design.index, len(next(iter(parameters.values()))), layout(spaces)
    columns, parts = list(design.columns), [design.values.expand(seeds, -1, -1)]
    if design.lags:
        early = index - design.embedding_lag
        past = white((embed(early) + embed(early - 1)) / 2)
        columns, parts = [Column(Role.PAST_EMBEDDING)] * past.shape[-1] + columns, [past, *parts]
    if design.without_variables:
        around = (embed(index - design.neighbour_distance) + embed(index + design.neighbour_distance)) / 2
        for name in design.without_variables:
            parts.append(white(around[..., slices[name]]))
            columns += [Column(Role.EMBEDDING, name)] * parts[-1].shape[-1]
    return torch.cat(parts, -1), columns


class _Variants(NamedTuple):
    """What each variant sees; the two that are compared for each tested space without variables; and the one that
    sees the variables alone."""

    masks: list[np.ndarray]
    comparisons: dict[str, tuple[int, int]]
    variables_alone: int


def _variants(columns: list[Column], design: Design, tested: list[str]) -> _Variants:
    masks = [which(columns, SEEN_WITH_INNOVATIONS)] if design.lags else []
    comparisons = {}
    if design.without_variables:
        full, seen = len(masks), which(columns, SEEN_WITH_EMBEDDINGS)
        masks.append(seen)
        for name in (n for n in design.without_variables if n in tested):
            comparisons[name] = (full, len(masks))
            masks.append(seen & ~which(columns, {Role.EMBEDDING}, name))
    alone = 0
    if design.redraws or design.trial_redraws:
        # Without the embedding, which knows of a variable from any channel that carries it, and of what it is mixed
        # up with. Where one space follows time there is such a variant already.
        present = which(columns, {Role.PRESENT})
        same = [k for k, mask in enumerate(masks) if np.array_equal(mask, present)]
        alone = same[0] if same else len(masks)
        masks += [] if same else [present]
    return _Variants(masks, comparisons, alone)


def _training_rows(fold: np.ndarray, reach: int) -> list[np.ndarray]:
    """For each fold the rows that its decoders learn from. fold : (n,), the fold that holds each row out."""
    n = len(fold)
    gap = min(reach, n // HELD_OUT_RUNS // 4)
    apart = np.ones(n, dtype=bool)  # rows near those of another fold share neighbours with them
    apart[gap:] &= fold[gap:] == fold[: n - gap]
    apart[: n - gap] &= fold[gap:] == fold[: n - gap]
    return [np.flatnonzero((fold != k) & apart) for k in range(FOLDS)]

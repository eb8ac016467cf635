"""The training of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import xarray as xr

from .style import FAINT, INK, PALETTE, new_axes, plain, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["training"]


def training(
    history: xr.Dataset, ax: Axes | None = None, *, chance: float | None = None, title: str | None = None
) -> Axes:
    """Draw the training: the contrastive loss of each space, the size of the Jacobian, and its weight λ.

    The losses are on the left, in nats; ‖J_f‖² and λ on the right, on a logarithmic scale. Lines are means over
    seeds, smoothed; the faint ones behind are the seeds.

    history : `model.history_`. ax : the axes to draw into; None: those of a new figure. chance : the loss of an
    embedding that tells nothing, drawn as a line: `model.goodness_of_fit_["chance"][0]`.

    Examples
    --------
    >>> import ascribo as asc
    >>> data = asc.simulate.box(observed=1, hidden=1, channels=(6, 6), steps=600)
    >>> spaces = {"place": asc.Follow("x", dim=1), "rest": asc.Time(dim=1)}
    >>> model = asc.ContrastiveEmbedding(spaces, steps=20, seeds=2, batch_size=32, penalty=0, encoder=asc.MLP((8,)))
    >>> ax = training(model.fit(data).history_, chance=model.goodness_of_fit_["chance"][0])
    >>> [line.get_label() for line in ax.get_lines() if not line.get_label().startswith("_")]
    ['InfoNCE, place', 'InfoNCE, rest', 'chance']
    """
    ax = new_axes(ax, (5.6, 3.4))
    steps = np.arange(1, history.sizes["step"] + 1)
    errors = [("regression", history["mse"][..., k]) for k in range(history.sizes["regression"])]
    spaces = [(f"InfoNCE, {name}", history["infonce"].sel(space=name)) for name in history["space"].values]
    for k, (name, curve) in enumerate([*spaces, *errors]):
        colour = PALETTE[k % len(PALETTE)]
        ax.plot(steps, _smooth(curve.values), color=colour, linewidth=0.6, alpha=0.35)
        ax.plot(steps, _smooth(_mean(curve.values)), color=colour, linewidth=1.6, label=plain(name))
    if chance is not None:
        ax.axhline(chance, color=FAINT, linewidth=1.2, linestyle=(0, (5, 3)), label="chance")
    right = ax.twinx()
    penalty, weight = (_mean(history[name].values) for name in ("penalty", "lambda"))
    right.plot(steps, _smooth(penalty), color=INK, linewidth=1.0, label="‖J‖²")
    if (weight > 0).any():
        ended = ", at the end " + ", ".join(f"{value:.2g}" for value in history.attrs["lambda"])
        weight = np.where(weight > 0, weight, np.nan)
        right.plot(steps, weight, color=INK, linewidth=1.2, linestyle=(0, (3, 2)), label=f"λ{ended}")
    right.set_yscale("log")
    ax.set(xlabel="training step", ylabel="loss (nats)", xlim=(0, len(steps)))
    right.set_ylabel("‖J‖² and λ", color=INK, fontsize=8)
    tidy(ax, title)
    tidy(right)
    right.spines["right"].set_visible(True)
    lines = [line for a in (ax, right) for line in a.get_lines() if line.get_label()[0] != "_"]  # type: ignore[index]
    ax.legend(
        lines,
        [str(line.get_label()) for line in lines],
        ncols=min(3, len(lines)),
        fontsize=7.5,
        frameon=False,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.2),
    )
    return ax


def _mean(curves: np.ndarray) -> np.ndarray:
    """Mean over seeds, (step, seed) -> (step,), of those that had not stopped yet."""
    running = np.isfinite(curves)
    return np.where(running, curves, 0).sum(1) / np.maximum(running.sum(1), 1)


def _smooth(curve: np.ndarray) -> np.ndarray:
    """Running mean over a hundredth of all steps."""
    frame = pd.DataFrame(curve)
    return np.asarray(frame.rolling(max(1, len(frame) // 100), min_periods=1, center=True).mean())

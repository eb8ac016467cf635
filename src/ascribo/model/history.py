"""The curves of training as a fitted estimator keeps them: `history_`."""

from __future__ import annotations

import numpy as np
import xarray as xr

__all__ = ["make_history"]


def make_history(curves: dict[str, np.ndarray], objectives: list[str]) -> xr.Dataset:
    """The curves of training as `history_` has them; the last λ of each seed is an attribute."""
    weights = curves["lambda"]
    last = [column[np.isfinite(column)][-1] for column in weights.T]
    watched = {"held_out": (("step", "seed"), curves["held_out"])} if "held_out" in curves else {}
    return xr.Dataset(
        watched
        | {
            "infonce": (("step", "seed", "space"), curves["infonce"]),
            "mse": (("step", "seed", "regression"), curves["mse"]),
            "penalty": (("step", "seed"), curves["penalty"]),
            "lambda": (("step", "seed"), weights),
        },
        coords={"space": objectives},
        attrs={"lambda": [float(value) for value in last]},
    )

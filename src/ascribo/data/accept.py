"""Anything that may be a recording, as one."""

from __future__ import annotations

from typing import Any

from ..support.names import first_few
from .formats.pynapple import from_pynapple
from .recording import Recording
from .treatment import Treatment
from .validation import is_pynapple

__all__ = ["as_recording"]


def as_recording(X: Any, y: Any = None, *, treatment: Treatment | None = None) -> Recording:
    """`X` itself if it is a Recording already, else `Recording(X, y)`, or `from_pynapple(X, y)`.

    treatment : what is done to X if it comes from pynapple. Anything else is taken as it is.

    >>> as_recording([[1.0], [2.0]])
    Recording(2 time steps x 1 channel, no variables, 1 epoch)
    """
    if is_pynapple(X):
        return from_pynapple(X, y, treatment=treatment)
    if not isinstance(X, Recording):
        return Recording(X, y)
    if y is not None:
        raise ValueError(
            f"y ({type(y).__name__}) was given beside a Recording, which holds its variables "
            f"({first_few(X.variables) or 'none'}). Leave y out, or pass recording.X and y."
        )
    return X

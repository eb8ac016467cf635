"""Shapes of arrays in annotations: `Float[Array, "time channel"]`, checked while the tests run.

jaxtyping is a tool for developers and may be absent: then the annotations mean nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy import ndarray as Array
from torch import Tensor

__all__ = ["Array", "Bool", "Float", "Int", "Shaped", "Tensor"]

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, Shaped
else:
    try:
        from jaxtyping import Bool, Float, Int, Shaped
    except ImportError:

        class _Unchecked:
            def __class_getitem__(cls, shape: Any) -> Any:
                return Any

        Bool = Float = Int = Shaped = _Unchecked

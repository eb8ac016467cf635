"""Shapes of arrays in annotations, such as `Float[Array, "time channel"]`, and their check.

`shaped` marks a function whose annotations are checked at every call while the tests run (the environment variable
ASCRIBO_CHECK_SHAPES, which `tests/conftest.py` sets); otherwise it leaves the function alone. jaxtyping and
beartype are tools for developers and may be absent.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from numpy import ndarray as Array
from torch import Tensor

__all__ = ["Array", "Bool", "Float", "Int", "Num", "Tensor", "UInt8", "shaped"]

Function = TypeVar("Function", bound=Callable[..., Any])

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, Num, UInt8
else:
    try:
        from jaxtyping import Bool, Float, Int, Num, UInt8
    except ImportError:

        class _Unchecked:
            def __class_getitem__(cls, shape: Any) -> Any:
                return Any

        Bool = Float = Int = Num = UInt8 = _Unchecked


def shaped(function: Function) -> Function:
    """The function itself; while the tests run, one that refuses arguments and results of other shapes.

    Sizes that have one name are equal within a call: (model, B, d) and (model, N, d) agree in `model` and `d`.
    """
    if not os.environ.get("ASCRIBO_CHECK_SHAPES"):
        return function
    from beartype import BeartypeConf, beartype
    from jaxtyping import jaxtyped

    checked = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is a float, as for other type checkers
    return jaxtyped(typechecker=checked)(function)

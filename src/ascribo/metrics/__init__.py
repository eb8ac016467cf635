"""How close an answer is to the truth, and how far two answers agree."""

from .decoding import decode_variables
from .scores import auroc, linear_r2

__all__ = ["auroc", "decode_variables", "linear_r2"]

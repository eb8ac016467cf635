"""How close an answer is to the truth, how far two answers agree, and how sure one is of a mean."""

from .bootstrap import bootstrap_interval
from .decoding import decode_variables
from .scores import auroc, linear_r2

__all__ = ["auroc", "bootstrap_interval", "decode_variables", "linear_r2"]

"""How close an answer is to the truth, how far two answers agree, and how sure one is of a mean.

scores.py                            auROC of a map, R² of an affine map
identifiability.py                   recovered latents beside the true ones: held-out R², MCC
decoding.py                          how well variables can be read, on held-out time
agreement.py, bootstrap.py           how far embeddings agree; bootstrap intervals
"""

from .bootstrap import bootstrap_interval
from .decoding import decode_variables
from .identifiability import MatchedCorrelation, held_out_r2, match_latents, mean_correlation_coefficient
from .scores import auroc, linear_r2

__all__ = [
    "MatchedCorrelation",
    "auroc",
    "bootstrap_interval",
    "decode_variables",
    "held_out_r2",
    "linear_r2",
    "match_latents",
    "mean_correlation_coefficient",
]

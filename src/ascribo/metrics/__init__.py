"""How close an answer is to the truth, how far two answers agree, and how sure one is of a mean.

scores.py                            auROC of a map, R² of an affine map
identifiability.py                   recovered latents beside the true ones: held-out R², MCC, what is missed
decoding.py                          how well variables can be read, on held-out time
agreement.py, bootstrap.py           how far embeddings agree; bootstrap intervals
"""

from .bootstrap import bootstrap_interval
from .decoding import decode_variables
from .disentanglement import (
    DCI,
    beta_vae_score,
    dci_scores,
    factor_vae_score,
    modularity_score,
    mutual_information_gap,
    sap_score,
)
from .identifiability import (
    MatchedCorrelation,
    held_out_r2,
    match_latents,
    mean_correlation_coefficient,
    missed_directions,
)
from .scores import auroc, linear_r2

__all__ = [
    "DCI",
    "MatchedCorrelation",
    "auroc",
    "beta_vae_score",
    "bootstrap_interval",
    "dci_scores",
    "decode_variables",
    "factor_vae_score",
    "held_out_r2",
    "linear_r2",
    "match_latents",
    "mean_correlation_coefficient",
    "missed_directions",
    "modularity_score",
    "mutual_information_gap",
    "sap_score",
]

"""ascribo: which channels carry which variable, and how sure can I be?"""

from . import attribution, cells, evidence, losses, metrics, pairs, penalty, simulate
from .behaviour import align_variables
from .decoding import decode_variables
from .encoders import MLP, Convolution
from .estimator import ContrastiveEmbedding
from .evidence import select_dimension, shift_test
from .formats import annotate, from_pynapple, to_pynapple
from .losses import Lp
from .penalty import Auto, Constant, Ramp
from .read import read
from .recording import Recording
from .sessions import SharedEmbedding
from .sessions.saving import load
from .spaces import Discrete, Follow, Regress, Time
from .treatment import Treatment
from .version import __version__

__all__ = [
    "MLP",
    "Auto",
    "Constant",
    "ContrastiveEmbedding",
    "Convolution",
    "Discrete",
    "Follow",
    "Lp",
    "Ramp",
    "Recording",
    "Regress",
    "SharedEmbedding",
    "Time",
    "Treatment",
    "__version__",
    "align_variables",
    "annotate",
    "attribution",
    "cells",
    "decode_variables",
    "evidence",
    "from_pynapple",
    "load",
    "losses",
    "metrics",
    "pairs",
    "penalty",
    "read",
    "select_dimension",
    "shift_test",
    "simulate",
    "to_pynapple",
]

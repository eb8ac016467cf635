"""ascribo: which channels carry which variable, and how sure can I be?"""

from . import attribution, evidence, losses, metrics, pairs, penalty, simulate
from .encoders import MLP, Convolution
from .estimator import ContrastiveEmbedding
from .evidence import select_dimension, shift_test
from .losses import Lp
from .penalty import Auto, Constant, Ramp
from .read import read
from .recording import Recording
from .saving import load
from .spaces import Discrete, Follow, Regress, Time
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
    "Time",
    "__version__",
    "attribution",
    "evidence",
    "load",
    "losses",
    "metrics",
    "pairs",
    "penalty",
    "read",
    "select_dimension",
    "shift_test",
    "simulate",
]

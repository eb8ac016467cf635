"""What `import ascribo` offers. `ascribo/__init__.py` imports it when the first of these names is used."""

from . import attribution, cells, evidence, explain, figures, metrics, report, simulate
from .data.formats import annotate, from_pynapple, to_pynapple
from .data.preprocessing import Treatment
from .data.read import read
from .data.recording import Recording
from .data.variables import align_variables
from .evidence import select_dimension, shift_test
from .metrics import decode_variables
from .model.estimator import ContrastiveEmbedding
from .model.generative_process_inversion import invert_process
from .model.loading import load
from .model.sessions import SharedEmbedding
from .networks.encoders import MLP, Convolution
from .screening import screen
from .spaces import Discrete, Follow, Regress, Space, Time
from .spaces.similarities import Lp
from .support.stored_parameters import storable
from .sweeps import Sweep, sweep
from .training.penalty_weight import Auto, Constant, Ramp
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
    "Space",
    "Sweep",
    "Time",
    "Treatment",
    "__version__",
    "align_variables",
    "annotate",
    "attribution",
    "cells",
    "decode_variables",
    "evidence",
    "explain",
    "figures",
    "from_pynapple",
    "invert_process",
    "load",
    "metrics",
    "read",
    "report",
    "screen",
    "select_dimension",
    "shift_test",
    "simulate",
    "storable",
    "sweep",
    "to_pynapple",
]

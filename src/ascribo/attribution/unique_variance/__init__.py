"""Unique variance, the default method: what of a channel only one space explains.

How it is asked depends on the space.

**Spaces with variables** (`Follow`, `Discrete`, `Regress`) have the test of `ascribo.screening`, which needs no
model: features of the variables and the channels are regressed on all else that is known, the past of all channels
among it, and what is left of both is compared. `ascribo.screen` reports the same scores and calls.

**Spaces that follow time alone**, or whose variables are unknown, are tested by a comparison of decoders, small
networks that predict the channels on held-out time: one sees all variables and the embedding of these spaces, one
never saw the space in question. The loss that this costs is what only that space explains. The embedding is taken
from neighbours of the time step, so that the channel's own noise is not in it. As long as the variables are known,
what a channel owes to them cannot leak.

How it goes, and where:

    input_columns.py        what the columns of the decoders' inputs are
    fourier_features.py     inputs for channels that rise and fall many times (place fields, grids)
    whitening.py            inputs that are white
    design.py               all that the variables decide, shared by the models of a recording
    decoding_problem.py     inputs, targets and folds of the decoders of one model
    score.py                decoders fitted, and scored on held-out time
    maps.py                 all of the above in order, and the test of known variables; as attribution maps
"""

from .maps import known_spaces, make_problems, unique_variance_maps
from .score import MOST_TRAINING_STEPS, score_problems

__all__ = ["MOST_TRAINING_STEPS", "known_spaces", "make_problems", "score_problems", "unique_variance_maps"]

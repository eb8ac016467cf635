"""Unique variance, the default method: what of a channel only one space explains, on time that was held out.

Small networks, *decoders*, predict the channels from all that is known: the variables, and the embedding of the
model. Then what is known of one space is taken away, and the loss that this costs on held-out time is what only
that space explains. How it is taken away depends on the space.

**Spaces with variables** (`Follow`, `Discrete`, `Regress`) are tested by a conditional randomisation test
(Candès et al. 2018) on *innovations*. The innovation of a variable is its change since some time steps ago, the
*lag*. The decoder sees the innovations of all variables, their past, and the embedding as it was before. The
innovation of one space is then exchanged for that of another time step with a like past. If the channel carries the
space, the decoder predicts it worse; half of that loss is the variance that the innovation explains. If it does
not, the decoder on average neither loses nor gains, whatever it has learned.

Why innovations, and not the variables themselves? Blocks of the embedding leak into each other: given the
embedding, the value of a variable helps to predict a channel that carries only another block. But blocks of latents
that move on independently of each other, given the past, are what makes them identifiable (Schneider et al. 2025,
definition 1). Then the innovation of one says nothing about a channel of the others, however much has leaked.

Variables that never change within an epoch have no innovation. Their values are exchanged among epochs instead, and
the decoder sees the variables alone.

**Spaces that follow time alone**, or whose variables are unknown, are tested by a comparison of decoders: one sees
all variables and the embedding of these spaces, one never saw the space in question. The embedding is taken from
neighbours of the time step, so that the channel's own noise is not in it. As long as the variables are known, what
a channel owes to them cannot leak.

How it goes, and where:

    innovation.py           the lag over which a space changes enough
    conditional_draws.py    innovations exchanged among time steps with a like past
    joint_histograms.py     where variables have been together, and whether what is redrawn is there too
    trials.py               values of whole trials, exchanged among trials
    input_columns.py        what the columns of the decoders' inputs are
    fourier_features.py     inputs for channels that rise and fall many times (place fields, grids)
    design.py               all that the variables decide, shared by the models of a recording
    decoding_problem.py     inputs, targets and folds of the decoders of one model
    score.py                decoders fitted, and scored on held-out time
    maps.py                 all of the above in order; the scores as attribution maps
"""

from .maps import make_problems, unique_variance_maps
from .score import MOST_TRAINING_STEPS, score_problems

__all__ = ["MOST_TRAINING_STEPS", "make_problems", "score_problems", "unique_variance_maps"]

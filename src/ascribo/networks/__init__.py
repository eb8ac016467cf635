"""Encoders, a stack of them as one function, and the contrastive loss.

    encoders.py           `MLP`, `Convolution`, and how a user's own is built
    dense.py              the MLP for a stack of models: values and tangents in one pass
    outputs.py            where an embedding lies: unbounded, on a sphere, in a box
    model_stack.py        any encoder as a stack of models: parameters have an axis of seeds
    infonce_loss.py       InfoNCE
    seed_alignment.py     a common basis for the seeds of a model

A stack is several models of one shape, computed together.
"""

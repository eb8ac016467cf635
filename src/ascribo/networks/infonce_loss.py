"""The generalized InfoNCE loss of Schneider et al. (2025), equations 8 to 10.

    ℓ(x, x⁺, S) = -ψ(x, x⁺) + log Σ_{x⁻ ∈ S} exp ψ(x, x⁻)

The sum over negatives is the only large object here: `kernels` computes it, with its gradient written out, so that
memory grows with the batch and not with its square.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .. import kernels
from ..kernels.similarity_terms import Term
from ..spaces.similarities import SquaredL2
from ..support.array_shapes import Float, shaped

__all__ = ["chance", "infonce", "infonces", "log_sum_exp"]


@shaped
def log_sum_exp(
    reference: Float[Tensor, "model B d"], negatives: Float[Tensor, "model N d"], terms: Sequence[Term]
) -> Float[Tensor, "model B"]:
    """log Σ_j exp ψ(r_i, n_j) without a B x N array in memory: (model, B, d), (model, N, d) -> (model, B).

    >>> r, n = torch.zeros(1, 4, 2), torch.zeros(1, 8, 2)
    >>> log_sum_exp(r, n, [(SquaredL2(), slice(0, 2))]).exp()
    tensor([[8., 8., 8., 8.]])
    """
    return kernels.log_sum_exp(reference, negatives, terms)


@shaped
def infonce(
    reference: Float[Tensor, "model B d"],
    positive: Float[Tensor, "model B d"],
    negatives: Float[Tensor, "model N d"],
    terms: Sequence[Term] | None = None,
    *,
    count_positive: bool = False,
) -> Float[Tensor, " model"]:
    """Generalized InfoNCE of each model, averaged over references, in nats.

    Parameters
    ----------
    reference, positive : (model, B, d).
    negatives : (model, N, d), shared by all references of a model.
    terms : ψ as a sum of similarities on coordinates (Schneider et al., 2025, equation 25); squared L2 on all by
        default.
    count_positive : False: S holds the N negatives (the loss of the paper; chance is log N, and with few negatives
        in many dimensions the value may fall below log N - KL). True: S holds the positive and the first
        N - 1 negatives; log N minus it then is a lower bound of the information at any N, at most log N.

    Returns
    -------
    (model,) tensor. An embedding that carries nothing gives log N, in either form.

    Examples
    --------
    >>> z = torch.zeros(1, 16, 3)
    >>> round(infonce(z, z, z).exp().item())
    16
    """
    terms = [(SquaredL2(), slice(0, reference.shape[-1]))] if terms is None else terms
    if not count_positive:
        return infonces(reference, [positive], negatives, [terms])[:, 0]
    aligned = _rowwise(terms, reference, positive)
    # used now and then, to measure the goodness of fit: not worth compiling a kernel for
    uniform = torch.logaddexp(aligned, kernels.log_sum_exp_blocked.log_sum_exp(reference, negatives[:, 1:], terms))
    return (uniform - aligned).mean(-1)


@shaped
def infonces(
    reference: Float[Tensor, "model B d"],
    positives: Sequence[Float[Tensor, "model B d"]],
    negatives: Float[Tensor, "model N d"],
    objectives: Sequence[Sequence[Term]],
    weight: Float[Tensor, "model B"] | None = None,
) -> Float[Tensor, "model objective"]:
    """`infonce` of several objectives that share references and negatives: (model, objective).

    One pass over the pairs serves all of them. positives : (model, B, d) for each objective. weight : (model, B), 0
    for references that do not count; None if all do.

    >>> z = torch.zeros(2, 16, 3)
    >>> terms = [(SquaredL2(), slice(0, 3))]
    >>> infonces(z, [z, z], z, [terms, terms]).shape
    torch.Size([2, 2])
    """
    uniform = kernels.log_sum_exps(reference, negatives, objectives)
    pairs = zip(objectives, positives, strict=True)
    aligned = torch.stack([_rowwise(terms, reference, positive) for terms, positive in pairs], -1)
    if weight is None:
        return (uniform - aligned).mean(1)
    share = weight / weight.sum(1, keepdim=True).clamp_min(1e-12)
    return ((uniform - aligned) * share[..., None]).sum(1)


def _rowwise(terms: Sequence[Term], reference: Tensor, other: Tensor) -> Tensor:
    first, *rest = (similarity.rowwise(reference[..., w], other[..., w]) for similarity, w in terms)
    return sum(rest, start=first)


def chance(negatives: int) -> float:
    """The InfoNCE of an embedding that carries nothing: log N nats.

    >>> round(chance(512), 3)
    6.238
    """
    return math.log(negatives)

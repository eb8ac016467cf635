"""SimplEx (Crabbé et al. 2021): a representation as a mixture of those of training examples, solved to optimality.

    min ‖h - Σₙ λₙ hₙ‖  over weights λ ≥ 0 that add up to 1,

a projection onto the convex hull of the training representations. Wolfe's (1976) method finds it in finitely many
steps, here for many h at once: each keeps a small set of examples, moves to the nearest point of the plane through
them, and drops those whose weight would become negative, until no other example lies on the near side.

Inside the hull the weights are not unique, and the paper's descent returns the ones it happens to reach. Of all
optimal weights we take those of the nearest examples, with the smallest Σ λₙ ‖h - hₙ‖²: the corners of the Delaunay
simplex around h. They do not depend on the order of the examples or on a rotation of the representation. A further
coordinate, LIFT times that squared distance, makes them the only minimum.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..support.array_shapes import Float, shaped

__all__ = ["simplex_weights"]

LIFT = 3e-4
"""Size of the further coordinate, relative to the others."""
PAIRS_AT_ONCE = 2**24
"""Pairs of targets and examples whose distances are held in memory together."""
TOLERANCE = 1e-14
"""How much nearer an example must promise to be, relative to the largest squared distance, to be taken in."""


@shaped
def simplex_weights(
    targets: Float[Tensor, "target dim"], corpus: Float[Tensor, "corpus dim"]
) -> tuple[Float[Tensor, "target corpus"], Float[Tensor, " target"]]:
    """Weights (target, corpus) of the mixture nearest to each target (target, dim), and its distance (target,).

    corpus : (corpus, dim). Both results are float64.

    >>> corners = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [9.0, 9.0]])
    >>> weights, distance = simplex_weights(torch.tensor([[0.25, 0.25], [-1.0, 0.0]]), corners)
    >>> weights.round(decimals=6).tolist()
    [[0.5, 0.25, 0.25, 0.0], [1.0, 0.0, 0.0, 0.0]]
    >>> distance.round(decimals=6).tolist()
    [0.0, 1.0]
    """
    parts = [_solve(part.double(), corpus.double()) for part in targets.split(max(1, PAIRS_AT_ONCE // len(corpus)))]
    return torch.cat([weights for weights, _ in parts]), torch.cat([distance for _, distance in parts])


@shaped
def _solve(
    h: Float[Tensor, "target dim"], corpus: Float[Tensor, "corpus dim"]
) -> tuple[Float[Tensor, "target corpus"], Float[Tensor, " target"]]:
    """The same for a chunk of targets."""
    tests, examples = len(h), len(corpus)
    h, corpus = h - corpus.mean(0), corpus - corpus.mean(0)
    square = torch.cdist(h, corpus, compute_mode="donot_use_mm_for_euclid_dist").square()
    # the unit of length of each target: its farthest example
    unit = square.amax(1).sqrt().clamp_min(torch.finfo(h.dtype).tiny)
    closeness = square.clamp_min(torch.finfo(h.dtype).tiny).rsqrt()

    def points(rows: Tensor, index: Tensor) -> Tensor:
        """Corners, counted from the target, in its unit, with the further coordinate: (row, slot, dim + 1)."""
        flat = (corpus[index] - h[rows, None]) / unit[rows, None, None]
        lifted = LIFT * square[rows[:, None], index] / unit[rows, None].square()
        return torch.cat([flat, lifted[..., None]], -1)

    longer = torch.cat([corpus, corpus.square().sum(1, keepdim=True)], 1)

    def best_corner(rows: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """How much nearer to the target than x (row, dim + 1) a corner promises to be, ⟨x, x - c⟩, and which
        corner.

        Of all corners the one with the most for its distance from the target: the far ones promise most, but would
        be left again for nearer ones. One product of matrices for all corners, since their further coordinate is
        linear in the corner and its squared length: ‖c - h‖² = ‖c‖² - 2⟨c, h⟩ + ‖h‖².
        """
        flat, last = x[:, :-1] / unit[rows, None], x[:, -1:] * (LIFT / unit[rows, None].square())
        promise = torch.cat([flat - 2 * last * h[rows], last], 1) @ longer.mT
        own = (flat * h[rows]).sum(1) - last[:, 0] * h[rows].square().sum(1) + x.square().sum(1)
        near = closeness if len(rows) == tests else closeness[rows]
        least, which = promise.sub_(own[:, None]).mul_(near).min(1)
        return -least / near.gather(1, which[:, None])[:, 0], which

    everyone = torch.arange(tests, device=h.device)
    index = square.argmin(1, keepdim=True)  # (test, slot), the examples in use
    used = torch.ones(tests, 1, dtype=torch.bool, device=h.device)
    weight = torch.ones(tests, 1, dtype=h.dtype, device=h.device)
    open_ = torch.ones(tests, dtype=torch.bool, device=h.device)  # not yet optimal
    inner = torch.zeros(tests, dtype=torch.bool, device=h.device)  # its set has changed, its weights not yet
    for _ in range(50 * (h.shape[1] + 2) + examples):
        rows = everyone[open_ & ~inner]
        if len(rows):  # look for an example on the near side
            x = (points(rows, index[rows]) * weight[rows, :, None]).sum(1)
            promise, new = best_corner(rows, x)
            better = promise > TOLERANCE
            open_[rows[~better]] = False
            rows, new = rows[better], new[better]
            inner[rows] = True
            index, used, weight = _take_in(index, used, weight, rows, new)
        rows = everyone[inner]
        if not len(rows):
            break
        index, used, weight, settled = _nearest_in_plane(index, used, weight, rows, points(rows, index[rows]))
        inner[rows[settled]] = False
    distance, weight = _polished(h, corpus, unit, index, used, weight)
    out = torch.zeros(tests, examples, dtype=h.dtype, device=h.device)
    return out.scatter_add(1, index, weight * used), distance


def _take_in(index: Tensor, used: Tensor, weight: Tensor, rows: Tensor, new: Tensor):
    """Put a new example, of weight 0, into a free slot of each row; there are more slots if one has none."""
    if len(rows) and bool(used[rows].all(1).any()):
        index, used, weight = (torch.cat([a, torch.zeros_like(a[:, :1])], 1) for a in (index, used, weight))
    slot = used[rows].to(torch.uint8).argmin(1)
    index[rows, slot], used[rows, slot], weight[rows, slot] = new, True, 0.0
    return index, used, weight


def _nearest_in_plane(index: Tensor, used: Tensor, weight: Tensor, rows: Tensor, points: Tensor):
    """One step of Wolfe's inner loop: towards the nearest point of the plane, as far as weights stay positive."""
    on = used[rows]
    goal = _affine(points, on)
    before = weight[rows]
    negative = on & (goal <= 1e-14)
    # how far each weight can go before it is zero
    share = torch.where(negative, before / (before - goal).clamp_min(1e-300), torch.inf).amin(1)
    settled = ~negative.any(1)
    share = torch.where(settled, 1.0, share.clamp(0, 1))
    after = before + share[:, None] * (goal - before)
    gone = negative & (after <= 1e-14)
    stuck = ~settled & ~gone.any(1)  # rounding: drop the most negative, so that something moves
    worst = torch.where(negative, goal, torch.inf).argmin(1)
    gone[stuck, worst[stuck]] = True
    after = torch.where(gone | ~on, 0.0, after.clamp_min(0))
    weight[rows] = after / after.sum(1, keepdim=True)
    used[rows] = on & ~gone
    return index, used, weight, settled


def _affine(points: Tensor, on: Tensor) -> Tensor:
    """Weights that add up to 1 of the nearest point of the plane through the points in use: (row, slot)."""
    pair = on[:, :, None] & on[:, None, :]
    gram = torch.where(pair, points @ points.mT, 0.0)
    size = gram.diagonal(dim1=1, dim2=2).amax(1)[:, None, None].clamp_min(1e-300)
    # adding a multiple of 1·1ᵀ changes nothing on the plane and makes the matrix invertible
    system = torch.where(pair, gram / size + 1.0, 0.0)
    free = torch.diag_embed((~on).to(gram.dtype))
    solution = torch.linalg.solve_ex(system + free, on.to(gram.dtype)).result
    return solution / solution.sum(1, keepdim=True)


def _polished(h: Tensor, corpus: Tensor, unit: Tensor, index: Tensor, used: Tensor, weight: Tensor):
    """Distances, and the weights without what the further coordinate cost, where the same examples still do."""
    flat = (corpus[index] - h[:, None]) / unit[:, None, None]

    def length(w: Tensor) -> Tensor:
        return (flat * (w * used)[..., None]).sum(1).norm(dim=1)

    better = torch.where(used, _affine(flat, used), 0.0)
    kept = (better >= 0).all(1) & better.isfinite().all(1)
    kept &= torch.nan_to_num(length(better), nan=torch.inf) <= length(weight)
    weight = torch.where(kept[:, None], better, weight)
    return length(weight) * unit, weight

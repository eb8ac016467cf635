"""Goodness of fit: how much each space of a fitted model tells about its pairs on held-out time.

A space that has nothing to do with the channels ends at chance: its InfoNCE, the contrastive loss, is log N with N
candidates. It has collapsed, and its map would mean nothing (Schneider et al. 2025, theorem 1). All others are some
bits above chance: log₂ N minus the InfoNCE, in bits. The positive counts among the N candidates here, so that the
bits are a lower bound of the information at any N (see `ascribo.networks.infonce_loss.infonce`), and each space is
measured by its own dimensions alone.

Neighbouring time steps are nearly copies of each other, so the interval of the bits is not one over time steps: the
bits are averaged within blocks of time, and a t interval is taken over the blocks.

The positive of a time step may be that time step, above all where several variables are followed together: nothing
else is as near. Such pairs are left out. Any embedding that tells time steps apart by their noise would pass for
one that knows of the variables.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from scipy.stats import t as student
from torch import Tensor

from ..data.segments import segment_bounds
from ..data.standardised_channels import StandardisedChannels
from ..kernels.log_sum_exp_blocked import log_sum_exp
from ..kernels.similarity_terms import Similarity
from ..networks.infonce_loss import chance
from ..networks.model_stack import Embedder
from ..spaces.base import Space, layout
from ..spaces.pairs import Pairs
from ..spaces.similarities import as_similarity

__all__ = ["TEMPERATURES", "Fit", "block_interval", "goodness_of_fit", "time_blocks"]

FEWEST_BITS = 0.01
"""A space with no more bits than this has collapsed, whatever their standard error."""
TEMPERATURES = (1.0, 4.0, 16.0, 64.0, 256.0)
"""In units of the model's own temperature: enough for an embedding that is sixteen times too large."""
FEWEST_BLOCKS = 5
"""If held-out time has fewer runs than this, it is cut into ten blocks instead."""


@dataclass(frozen=True)
class Fit:
    """The goodness of fit of every seed and space; `table()` gives one row for each space, averaged over seeds.

    infonce, bits, collapsed : (seed, space) InfoNCE in nats, bits above chance, whether the space is at chance.
    chance : (space,) InfoNCE of an embedding that tells nothing, in nats.
    left_out : (space,) time steps at which the variables of the space are missing.
    block_bits, block_share : (block, seed, space) mean bits in each block of time, and the share of the references
        that lie in it.
    """

    spaces: tuple[str, ...]
    infonce: np.ndarray
    chance: np.ndarray
    bits: np.ndarray
    collapsed: np.ndarray
    left_out: np.ndarray
    block_bits: np.ndarray
    block_share: np.ndarray

    def table(self) -> pd.DataFrame:
        """One row for each space, averaged over seeds, as `ContrastiveEmbedding.goodness_of_fit_` describes it."""
        low, high = block_interval(self.block_bits.mean(1), self.block_share.mean(1))
        return pd.DataFrame(
            {
                "space": list(self.spaces),
                "bits": self.bits.mean(0),
                "infonce": self.infonce.mean(0),  # in 80 columns pandas leaves out what stands in the middle
                "chance": self.chance,
                "left_out": self.left_out,
                "bits_low": low,
                "bits_high": high,
                "collapsed": self.collapsed.all(0),
            }
        )


def block_interval(values: np.ndarray, share: np.ndarray, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Confidence interval of a weighted mean over blocks of time: Student's t, the blocks taken as independent.

    values, share : (block, ...) means within blocks and their weights, which sum to 1 over blocks.

    It tells how the bits vary from one part of the recording to another. Two things it does not know: the
    candidates are shared by all blocks, and a model may have learned a relation that holds over the whole recording
    by chance. `ascribo.shift_test` is the test of the latter.

    >>> low, high = block_interval(np.array([1.0, 2.0, 3.0]), np.full(3, 1 / 3))
    >>> round(float(low), 2), round(float(high), 2)
    (-0.48, 4.48)
    """
    used = (share > 0).sum(0)
    mean = (share * values).sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):  # one block has no spread: the interval is NaN
        error = np.sqrt((np.square(share * (values - mean))).sum(0) * used / (used - 1))
    reach = student.ppf((1 + level) / 2, np.maximum(used - 1, 1)) * error
    return mean - reach, mean + reach


def time_blocks(segments: np.ndarray) -> np.ndarray:
    """The block of time that each time step lies in, -1 for time steps that are not used: (time,) integers.

    segments : (time,), -1 for time steps that are not used. Each run of used time steps, such as a block that was
    held out, is a block; where there are fewer than five runs (a whole recording), there are ten blocks of equal
    size.

    >>> time_blocks(np.array([0, 0, -1, 2, 3, -1, 5, -1, 7, -1, 9]))
    array([ 0,  0, -1,  1,  1, -1,  2, -1,  3, -1,  4])
    """
    used = segments >= 0
    first = used & ~np.r_[False, used[:-1]]
    if first.sum() >= FEWEST_BLOCKS:
        return np.where(used, np.cumsum(first) - 1, -1)
    number = np.full(len(segments), -1)
    number[used] = np.arange(used.sum()) * min(10, used.sum()) // max(1, used.sum())
    return number


@torch.no_grad()
def goodness_of_fit(
    embedder: Embedder,
    parameters: Mapping[str, Tensor],
    spaces: Mapping[str, Space],
    X: Tensor | StandardisedChannels,
    segments: np.ndarray,
    pairs: Pairs | Sequence[Pairs],
    targets: Mapping[str, np.ndarray] | Sequence[Mapping[str, np.ndarray]],
    *,
    batch: int,
    batches: int = 20,
    seed: int = 0,
    temperatures: Sequence[float] = (1.0,),
    between: Collection[str] = (),
) -> Fit:
    """Measure every space of every model on fresh batches of pairs, as a rule of held-out time.

    Parameters
    ----------
    embedder, parameters : the encoders, with stacked parameters (model, ...).
    X : (time, channel), standardised. segments : (time,), which of it is used; windows stay inside a segment.
    pairs, targets : what batches are drawn from, and what spaces that predict something predict, for all models; or
        a list of each with one entry for each model. The models then have the same rows of pairs, and draw the same
        references where they can.
    batch, batches, seed : references in a batch, number of batches, seed of the draws.
    temperatures : each space of each model is measured at the best of these, in units of its own temperature. An
        overfitted embedding is right about the direction and wrong about how sure it is: its bits are far below
        zero, and above it once it is shrunk. (Choosing the best flatters a little: an embedding that knows nothing
        ends at or just above 0.)
    between : names of spaces whose variables do not change within a segment, such as labels of trials. A time step
        knows others of its own trial by all that moves slowly there, whatever the label: such pairs do not count.

    A space that predicts something has no InfoNCE; its bits are the Gaussian information of its prediction,
    -½ log₂(1 - R²) summed over dimensions.
    """
    every = [pairs] if isinstance(pairs, Pairs) else list(pairs)
    given = [targets] if isinstance(targets, Mapping) else list(targets)
    first, last = (torch.from_numpy(edge).to(X.device) for edge in segment_bounds(segments))
    draws = [p.draw(np.random.default_rng(seed), batches, batch) for p in every]
    index = torch.from_numpy(np.stack(draws, axis=1)).to(X.device)  # (batches, pairs, rows, batch)
    goals = {
        name: torch.from_numpy(np.stack([g[name] for g in given])).to(X.device, torch.float32) for name in given[0]
    }
    which = torch.arange(len(given), device=X.device)[:, None]
    number = time_blocks(segments)
    block = torch.from_numpy(number).to(X.device)
    slices, names = layout(spaces), tuple(spaces)
    models = next(iter(parameters.values())).shape[0]
    # bits, summed over the references of a batch: read once
    measured = torch.zeros(batches, len(names), len(temperatures), models, device=X.device)
    shape = (len(names), len(temperatures), models, int(number.max()) + 1)
    total = torch.zeros(shape, device=X.device, dtype=torch.float64)
    count = torch.zeros((len(names), *shape[2:]), device=X.device, dtype=torch.float64)
    similarities = {name: as_similarity(space.similarity) for name, space in spaces.items()}
    scales = {
        name: torch.tensor([own.rescale(t) for t in temperatures]).to(X.device)[:, None, None, None]
        for name, own in similarities.items()
    }
    for b in range(batches):
        x = embedder.gather(X, index[b], first, last).flatten(1, 2)
        z = embedder(parameters, x.expand(models, *x.shape[1:]))
        rows = embedder.tempered(parameters, z).split(batch, 1)
        for k, name in enumerate(names):
            space, where = spaces[name], slices[name]
            reference, positive, negative = every[0].rows[name]
            time_steps = index[b, :, reference]
            at = block[time_steps].expand(models, -1)
            # A time step is known by its own noise: a pair of it with itself says nothing of the space.
            apart = torch.ones_like(time_steps, dtype=torch.bool)
            if positive is not None:
                apart = index[b, :, positive] != time_steps
                if name in between:
                    apart &= first[index[b, :, positive]] != first[time_steps]
            kept = apart.expand(models, -1)
            count[k].scatter_add_(1, at, kept.double())
            similarity = similarities[name]
            scaled = [  # a model at another temperature is one more model: (temperature · model, B, dim)
                (rows[row][..., where] * scales[name]).flatten(0, 1)
                for row in (reference, positive, negative)
                if row is not None
            ]
            if not space.contrastive:
                goal = goals[name][which, time_steps].expand(models, -1, -1).repeat(len(temperatures), 1, 1)
                each = _information(scaled[0], goal)
            else:
                nats = _infonce(scaled[0], scaled[1], scaled[2], similarity)
                # of pairs that do not count: as at chance
                nats = torch.where(kept.repeat(len(temperatures), 1), nats, chance(batch))
                each = (chance(batch) - nats) / np.log(2)
            each = each.unflatten(0, (-1, models))
            measured[b, k] = each.sum(-1)
            total[k].scatter_add_(2, at.expand_as(each), each.double())
    means = (total / count[:, None].clamp_min(1)).permute(1, 3, 2, 0).cpu().numpy()
    regress = np.array([not space.contrastive for space in spaces.values()])
    used = (count.sum(-1) / batches).clamp_min(1)[:, None]  # (space, 1, model), references of a batch
    bits = (measured.double() / used).permute(2, 0, 3, 1).cpu().numpy()  # (temperature, batch, model, space)
    best = bits.mean(1).argmax(0)[None, None]  # (1, 1, model, space)
    bits, block_bits = (np.take_along_axis(v, best, 0)[0] for v in (bits, means))
    error = bits.std(0, ddof=1) / np.sqrt(batches)
    mean = bits.mean(0)
    return Fit(
        names,
        np.where(regress, np.nan, chance(batch) - mean * np.log(2)),
        np.where(regress, np.nan, chance(batch)),
        mean,
        mean <= np.maximum(FEWEST_BITS, 2 * error),
        np.array([every[0].left_out[name] for name in names]),
        block_bits,
        (count / count.sum(-1, keepdim=True).clamp_min(1)).permute(2, 1, 0).cpu().numpy(),
    )


def _infonce(reference: Tensor, positive: Tensor, negatives: Tensor, similarity: Similarity) -> Tensor:
    """InfoNCE of each reference, the positive counted, in nats: (model, B). Its mean is `infonce`."""
    aligned = similarity.rowwise(reference, positive)
    terms = [(similarity, slice(0, reference.shape[-1]))]
    return torch.logaddexp(aligned, log_sum_exp(reference, negatives[:, 1:], terms)) - aligned


def _information(prediction: Tensor, goal: Tensor) -> Tensor:
    """What each reference adds to -½ log₂(1 - R²), summed over dimensions: (model, B).

    The mean over references is the information itself. How a single reference differs from it is linear in its
    squared error and in its distance from the mean, which is what an interval over blocks needs.
    """
    square, spread = (prediction - goal).square(), (goal - goal.mean(1, keepdim=True)).square()
    error, variance = (part.mean(1, keepdim=True).clamp_min(1e-12) for part in (square, spread))
    each = torch.log(variance / error) - square / error + spread / variance
    return 0.5 / np.log(2) * each.sum(-1)

"""How much a fitted space tells about its pairs on held-out time: bits above chance (001, theorem 1).

A space that has nothing to do with its variable ends at chance, log N: it has collapsed, and its map means
nothing. The InfoNCE here counts the positive among the N candidates, so that the bits are a lower bound of the
information at any N (see `ascribo.networks.losses.infonce`), and each space is judged on its own dimensions.

Neighbouring steps are nearly copies of each other, so the interval of the bits is not one over references: each
reference's bits are averaged within contiguous blocks of time, and a t interval is taken over the blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from scipy.stats import t as student
from torch import Tensor

from ..data.segments import segment_bounds
from ..data.standardised import StandardisedChannels
from ..kernels.blocked import log_sum_exp
from ..kernels.terms import Similarity
from ..networks.losses import chance
from ..networks.stack import Embedder
from ..spaces.base import Space, layout
from ..spaces.pairs import Pairs
from ..spaces.similarities import as_similarity

__all__ = ["TEMPERATURES", "Fit", "block_interval", "goodness_of_fit", "time_blocks"]

FLOOR = 0.01
"""Bits under which a space counts as collapsed whatever its standard error."""
TEMPERATURES = (1.0, 4.0, 16.0, 64.0, 256.0)
"""Times the model's own: enough for an embedding that is sixteen times too large for what it knows."""
FEWEST_BLOCKS = 5
"""With fewer contiguous runs of judged steps than this, the steps are cut into ten blocks instead."""


@dataclass(frozen=True)
class Fit:
    """Per seed and space: InfoNCE in nats, bits above chance, whether collapsed; each (seed, space).

    block_bits, block_share : (block, seed, space) mean bits of the references in each block of time, and the
        share of the references that lie in it.

    `table()` gives one row per space, averaged over seeds.
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
        """One row per space: space, infonce, chance, bits, collapsed (all seeds), left_out (time steps), and
        bits_low and bits_high, the 95% interval of the bits over blocks of time (`block_interval`)."""
        low, high = block_interval(self.block_bits.mean(1), self.block_share.mean(1))
        return pd.DataFrame(
            {
                "space": list(self.spaces),
                "infonce": self.infonce.mean(0),
                "chance": self.chance,
                "bits": self.bits.mean(0),
                "collapsed": self.collapsed.all(0),
                "left_out": self.left_out,
                "bits_low": low,
                "bits_high": high,
            }
        )


def block_interval(values: np.ndarray, share: np.ndarray, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """t interval of the weighted mean of block means, the blocks taken as independent.

    values, share : (block, ...) means within blocks and their weights, which sum to 1 over blocks.

    It tells how the bits vary from one stretch of the recording to another. Two things it does not know: the
    candidates are shared by all blocks, and a model may have learned a chance relation that holds over the whole
    recording. `ascribo.evidence.shift_test` is the test of the latter.

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
    """Number of the block of time each step lies in, -1 for steps that are not judged: (time,).

    Contiguous runs of judged steps, such as the blocks that were held out; where there are fewer than five runs
    (a whole recording), ten blocks of equal size.

    >>> time_blocks(np.array([0, 0, -1, 2, 3, -1, 5, -1, 7, -1, 9]))
    array([ 0,  0, -1,  1,  1, -1,  2, -1,  3, -1,  4])
    """
    judged = segments >= 0
    first = judged & ~np.r_[False, judged[:-1]]
    if first.sum() >= FEWEST_BLOCKS:
        return np.where(judged, np.cumsum(first) - 1, -1)
    number = np.full(len(segments), -1)
    number[judged] = np.arange(judged.sum()) * min(10, judged.sum()) // max(1, judged.sum())
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
) -> Fit:
    """Judge every space of every seed on `batches` fresh batches of pairs.

    X (time, channel) is standardised; `pairs` draws from the steps to be judged. A Regress space has no
    InfoNCE; its bits are the Gaussian information of its prediction, -½ log₂(1 - R²) summed over dimensions.

    pairs, targets : for all models, or a list of each with one entry per model; the models then have the same
        rows of pairs, and draw the same references where they can.
    temperatures : each space of each model is judged at the best of these, in units of its own temperature. An
        overfitted embedding is right about the direction and wrong about how sure it is: its bits are far below
        zero, and above it once it is shrunk. (Choosing on the judged steps flatters a little: an embedding that
        knows nothing ends at or just above 0.)
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
    measured = torch.zeros(
        2, batches, len(names), len(temperatures), models, device=X.device
    )  # nats, bits: read once
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
            steps = index[b, :, reference]
            at = block[steps].expand(models, -1)
            count[k].scatter_add_(1, at, torch.ones_like(at, dtype=torch.float64))
            similarity = similarities[name]
            scaled = [  # a model at another temperature is one more model: (temperature · model, B, dim)
                (rows[row][..., where] * scales[name]).flatten(0, 1)
                for row in (reference, positive, negative)
                if row is not None
            ]
            if not space.contrastive:
                goal = goals[name][which, steps].expand(models, -1, -1).repeat(len(temperatures), 1, 1)
                each = _information(scaled[0], goal)
            else:
                nats = _infonce(scaled[0], scaled[1], scaled[2], similarity)
                measured[0, b, k] = nats.mean(-1).unflatten(0, (-1, models))
                each = (chance(batch) - nats) / np.log(2)
            each = each.unflatten(0, (-1, models))
            measured[1, b, k] = each.mean(-1)
            total[k].scatter_add_(2, at.expand_as(each), each.double())
    means = (total / count[:, None].clamp_min(1)).permute(1, 3, 2, 0).cpu().numpy()
    regress = np.array([not space.contrastive for space in spaces.values()])
    values, bits = measured.permute(0, 3, 1, 4, 2).double().cpu().numpy()  # (temperature, batch, model, space) each
    values[..., regress] = np.nan
    best = bits.mean(1).argmax(0)[None, None]  # (1, 1, model, space)
    values, bits, block_bits = (np.take_along_axis(v, best, 0)[0] for v in (values, bits, means))
    error = bits.std(0, ddof=1) / np.sqrt(batches)
    mean = bits.mean(0)
    return Fit(
        names,
        values.mean(0),
        np.where(regress, np.nan, chance(batch)),
        mean,
        mean <= np.maximum(FLOOR, 2 * error),
        np.array([every[0].left_out[name] for name in names]),
        block_bits,
        (count / count.sum(-1, keepdim=True)).permute(2, 1, 0).cpu().numpy(),
    )


def _infonce(reference: Tensor, positive: Tensor, negatives: Tensor, similarity: Similarity) -> Tensor:
    """InfoNCE of each reference, the positive counted, in nats: (model, B). Its mean is `losses.infonce`."""
    aligned = similarity.rowwise(reference, positive)
    terms = [(similarity, slice(0, reference.shape[-1]))]
    return torch.logaddexp(aligned, log_sum_exp(reference, negatives[:, 1:], terms)) - aligned


def _information(prediction: Tensor, goal: Tensor) -> Tensor:
    """Share of each reference in -½ log₂(1 - R²), the sum over dimensions: (model, B).

    The mean over references is the information itself; the rest is its linear part in the squared error and in
    the variance, which is what an interval over blocks needs.
    """
    square, spread = (prediction - goal).square(), (goal - goal.mean(1, keepdim=True)).square()
    error, variance = (part.mean(1, keepdim=True).clamp_min(1e-12) for part in (square, spread))
    each = torch.log(variance / error) - square / error + spread / variance
    return 0.5 / np.log(2) * each.sum(-1)

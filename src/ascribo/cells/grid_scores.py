"""Grid scores of maps over a plane: how much a map looks like itself turned by 60 degrees rather than by 30."""

from __future__ import annotations

import numpy as np
from scipy.fft import irfft2, next_fast_len, rfft2
from scipy.ndimage import map_coordinates

from ..support.array_shapes import Array, Float, shaped

__all__ = ["autocorrelograms", "score_grids"]

LEAST = 0.3
"""A ring must hold at least this share of a quarter of the autocorrelogram's bins for a grid score."""
TURNS = (30, 60, 90, 120, 150)
WIDTHS = 8
"""How many outer edges of the ring are tried, from beyond the central peak to the end of the autocorrelogram."""


@shaped
def score_grids(maps: Float[Array, "cell x y"]) -> Float[Array, " cell"]:
    """Grid scores of rate maps (cell, bin, bin), NaN where nothing is known: (cell,).

    >>> x, y = np.meshgrid(np.linspace(0, 1, 20), np.linspace(0, 1, 20), indexing="ij")
    >>> turns = np.deg2rad([0, 60, 120])[:, None, None]
    >>> hexagons = np.cos(20 * (np.cos(turns) * x + np.sin(turns) * y)).sum(0)
    >>> squares = np.cos(20 * x) + np.cos(20 * y)
    >>> score_grids(np.stack([hexagons, squares])).round(1)
    array([ 1.4, -0.9])
    """
    automaps = autocorrelograms(maps)
    size = automaps.shape[-1]
    middle = size // 2
    y, x = np.mgrid[:size, :size] - middle
    radius = np.hypot(x, y)
    inner = _central_radius(automaps, radius)
    turned = np.stack([_turn(automaps, x, y, angle) for angle in TURNS], 1)  # (cell, angle, size, size)
    outer = np.linspace(0, middle, WIDTHS + 2)[2:]
    scores = np.full((len(maps), len(outer)), np.nan)
    for k, edge in enumerate(outer):
        ring = (radius >= inner[:, None, None]) & (radius <= edge)
        enough = (ring.sum((1, 2)) > LEAST * (size - 2) ** 2 / 4) & (inner + 2 <= edge)
        r = _correlation(automaps[:, None], turned, ring[:, None])
        best = np.minimum(r[:, 1], r[:, 3]) - np.max(r[:, [0, 2, 4]], 1)
        scores[:, k] = np.where(enough, best, np.nan)
    found = np.full(len(maps), np.nan)
    some = np.isfinite(scores).any(1)
    found[some] = np.nanmax(scores[some], 1)
    return found


@shaped
def autocorrelograms(maps: Float[Array, "cell x y"]) -> Float[Array, "cell _ _"]:
    """Correlation of each map (cell, bin, bin) with itself moved, over the bins that are known in both.

    (cell, 2 bin - 1, 2 bin - 1), 1 in the middle; NaN where fewer than 10 bins are known in both.

    >>> stripes = np.tile([1.0, 0.0], (8, 4))[None]
    >>> found = autocorrelograms(stripes)
    >>> found.shape, found[0, 7, 7:10].round(6).tolist()  # moved by 0, 1 and 2 bins
    ((1, 15, 15), [1.0, -1.0, 1.0])
    """
    n = maps.shape[-1]
    known = np.isfinite(maps)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(known, maps, 0).sum((1, 2)) / known.sum((1, 2))
    value = np.where(known, maps - mean[:, None, None], 0)  # about zero: far less rounding
    size = next_fast_len(2 * n - 1, real=True)

    def against(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Σ a(p) b(p + move) for all moves."""
        shape = (size, size)
        first, second = np.asarray(rfft2(a, shape)), np.asarray(rfft2(b, shape))
        product = np.asarray(irfft2(np.conj(first) * second, shape))
        around = np.roll(product, (n - 1, n - 1), (1, 2))
        return around[:, : 2 * n - 1, : 2 * n - 1]

    mask = known.astype(float)
    shared = np.round(against(mask, mask))
    first, second = against(value, mask), against(mask, value)
    first_square, second_square = against(value**2, mask), against(mask, value**2)
    product = against(value, value)
    with np.errstate(invalid="ignore", divide="ignore"):
        above = shared * product - first * second
        below = (shared * first_square - first**2) * (shared * second_square - second**2)
        r = above / np.sqrt(np.maximum(below, 1e-20))
    return np.where(shared >= 10, np.clip(r, -1, 1), np.nan)


def _central_radius(automaps: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """Where the central peak ends: the first ring of one bin in which the mean is below 0.1 or rises again."""
    rings = [
        np.nanmean(np.where(np.abs(radius - k) <= 0.5, automaps, np.nan), (1, 2))
        for k in range(radius.shape[0] // 2)
    ]
    means = np.nan_to_num(np.stack(rings, 1), nan=1.0)
    ends = (means[:, 1:] < 0.1) | (np.diff(means, axis=1) > 0)
    return np.where(ends.any(1), ends.argmax(1) + 1, radius.shape[0]).astype(float)


def _turn(automaps: np.ndarray, x: np.ndarray, y: np.ndarray, degrees: float) -> np.ndarray:
    """Each autocorrelogram turned about its middle; NaN stays where it was not known."""
    angle, middle = np.deg2rad(degrees), automaps.shape[-1] // 2
    rows = np.sin(angle) * x + np.cos(angle) * y + middle
    columns = np.cos(angle) * x - np.sin(angle) * y + middle
    known = np.isfinite(automaps)
    at = np.stack([rows, columns])
    full, mask = (
        np.stack([map_coordinates(one, at, order=1, cval=0.0) for one in part])
        for part in (np.where(known, automaps, 0.0), known.astype(float))
    )
    return np.where(mask > 0.99, full, np.nan)


def _correlation(a: np.ndarray, b: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Correlations over the last two axes where both are known and chosen: broadcasts over the rest."""
    both = np.isfinite(a) & np.isfinite(b) & chosen
    a, b = np.where(both, a, 0.0), np.where(both, b, 0.0)
    n = both.sum((-2, -1))
    with np.errstate(invalid="ignore", divide="ignore"):
        ma, mb = (v.sum((-2, -1)) / n for v in (a, b))
        cov = (a * b).sum((-2, -1)) / n - ma * mb
        va, vb = (v.sum((-2, -1)) / n - m**2 for v, m in ((a**2, ma), (b**2, mb)))
        return cov / np.sqrt(np.maximum(va * vb, 1e-24))

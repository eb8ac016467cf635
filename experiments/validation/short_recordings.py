"""How many channels can be found in 1,000 time steps? The test of known variables beside tests that know the truth.

Data: `ascribo.simulate.box` with two observed and four hidden latents at SNR 3; half of 50 channels carry the
observed ones. An *oracle* is given what no test of a recording has:

- `hidden`: the hidden latents at every time step, the networks, the level of the noise. It compares two simple
  hypotheses, the channel as it is made and its mean given the hidden latents alone. No test is more powerful
  (Neyman and Pearson).
- `tuning`: the channel's tuning, its mean given the observed latents, up to a factor above zero; and the
  autocovariance of all else in the channel, which stands for the hidden latents and the noise. The path of
  the hidden latents is not known.
- `functions`: this autocovariance, but of the tuning only that it is a sum of nine slow functions on the square
  (cosines). It is a test of one channel alone, as a general one has to be.

All are calibrated by the same observed latents simulated anew, of which the channels know nothing: p is the rank
of the real ones. Benjamini and Hochberg's rule at 0.05 follows, as in `screen`. The first is a bound for every
test. The others are bounds for tests that know no more of the hidden latents than their autocovariance: other
channels tell more of them, which `screen` makes use of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import linalg, ndimage, stats

from ascribo import figures
from ascribo.screening import screen
from ascribo.simulate.box import BoxRecording, Mixing, wander
from ascribo.spaces.kinds.follow import Follow
from experiments.regcl import box_models
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, experiment, one_by_one
from experiments.shared.summaries import summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "ORACLES", "QUICK", "Truth", "cases", "conclude", "draw", "measure", "run", "tables"]

LEVEL = 0.05
FULL = {"data_seeds": range(10, 20), "dim": 6, "length": 1_000, "snr": 3.0, "draws": 199}
"""Recordings (the first five are those of the experiment `samples`); draws of observed latents for p."""
QUICK = {"data_seeds": range(10, 12), "draws": 99}
STEP = 0.1
"""Standard deviation of a step of the latents, as in `simulate.box`."""
LONG = 40_000
"""Time steps from which autocovariances are taken."""
GRID, MEANS = 25, 400
"""Knots of tuning functions along each observed latent, and draws of hidden latents that means are taken over."""
ORDERS = [(i, j) for i in range(4) for j in range(4) if 0 < i + j < 4]
"""Half waves of the cosines along both observed latents."""
EDGES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 1.0)
"""Edges of the shares of a channel's variance, for the table."""


class Truth:
    """What a recording was made from, of its carrying channels and of the others beside them.

    Each other channel is tested with the tuning of a carrying one: for it any tuning is as good as another.
    """

    def __init__(self, data: BoxRecording, snr: float) -> None:
        alone, both = data.mixings
        known = box_models.OBSERVED
        self.hidden, self.observed = data.latents[:, :-known], data.latents[:, -known:]
        self.others, self.carrying = alone, both
        assert data.truth is not None
        self.carries: np.ndarray = data.truth.sel(space="position").values.astype(bool)
        self.X = np.asarray(data.X, float)
        signal = np.concatenate([alone(self.hidden), both(data.latents)], axis=1)
        self.noise = signal.var(0) / snr  # variance, as `box` adds it
        rng = np.random.default_rng(0)
        self.tuning = _table(both, self.hidden.shape[1], rng)
        self.rest = self._autocovariances(rng, len(data.X))

    def tuned(self, observed: np.ndarray) -> np.ndarray:
        """Means of the carrying channels given the observed latents (time, 2): (channel, time)."""
        place = (observed.T + 1) / 2 * (GRID - 1)
        return np.stack([ndimage.map_coordinates(each, place, order=1, mode="nearest") for each in self.tuning])

    def made(self, observed: np.ndarray) -> np.ndarray:
        """The carrying channels without noise, from the real hidden latents and some observed ones."""
        return self.carrying(np.concatenate([self.hidden, observed], axis=1)).T

    def _autocovariances(self, rng: np.random.Generator, steps: int) -> np.ndarray:
        """Of what the observed latents' tuning does not tell of each channel: (channel, lag)."""
        z = wander(rng, LONG, self.hidden.shape[1] + self.observed.shape[1], STEP)
        hidden, observed = z[:, : self.hidden.shape[1]], z[:, self.hidden.shape[1] :]
        left = np.concatenate([self.others(hidden).T, self.carrying(z).T - self.tuned(observed)])
        left -= left.mean(1, keepdims=True)
        power = np.abs(np.fft.rfft(left, 2 * LONG)) ** 2
        rest = np.fft.irfft(power)[:, :steps] / (LONG - np.arange(steps))
        rest *= 1 - np.arange(steps) / steps  # so that it is one: long lags are hardly known
        rest[:, 0] += self.noise
        return rest

    def carried(self) -> np.ndarray:
        """Share of the variance of each carrying channel, noise included, that the observed latents make."""
        rng = np.random.default_rng(1)
        z, other = rng.uniform(-1, 1, (2, 20_000, self.hidden.shape[1] + self.observed.shape[1]))
        other[:, : self.hidden.shape[1]] = z[:, : self.hidden.shape[1]]
        first, second = self.carrying(z), self.carrying(other)
        return np.square(first - second).mean(0) / 2 / (first.var(0) + self.noise[self.carries])


def _table(network: Mixing, hidden: int, rng: np.random.Generator) -> np.ndarray:
    """Means over the hidden latents on a grid of the observed ones, less their mean: (channel, GRID, GRID)."""
    knots = np.linspace(-1, 1, GRID)
    at = np.stack(np.meshgrid(knots, knots, indexing="ij"), axis=-1).reshape(-1, 2)
    total: Any = 0
    for h in rng.uniform(-1, 1, (MEANS, hidden)):
        total = total + network(np.concatenate([np.broadcast_to(h, (len(at), hidden)), at], axis=1))
    out = (total / MEANS).T.reshape(-1, GRID, GRID)
    return out - out.mean((1, 2), keepdims=True)


Statistic = Callable[[np.ndarray], np.ndarray]
"""Observed latents (time, 2) -> how much they tell of each channel, (channel,)."""


def hidden_known(truth: Truth) -> Statistic:
    """Log-likelihood ratio of the channel as it is made against the mean of that over the observed latents."""
    rng = np.random.default_rng(2)
    draws = rng.uniform(-1, 1, (100, 2))
    without = np.mean([truth.made(np.broadcast_to(z, truth.observed.shape)) for z in draws], axis=0)
    means = np.concatenate([truth.others(truth.hidden).T, without])
    left = (truth.X.T - means) / truth.noise[:, None]

    def statistic(observed: np.ndarray) -> np.ndarray:
        change = truth.made(observed) - without
        change = np.concatenate([change, change])  # the other channels are tested with these too
        return (left * change).sum(1) - np.square(change).sum(1) / truth.noise / 2

    return statistic


def _whitened(truth: Truth) -> tuple[np.ndarray, np.ndarray]:
    """For each channel what makes the rest of it white, (channel, time, time), and the channel so treated."""
    inverses = []
    for row in truth.rest:
        root = linalg.cholesky(linalg.toeplitz(row), lower=True)
        inverses.append(linalg.solve_triangular(root, np.eye(len(row)), lower=True))
    white = np.stack(inverses).astype(np.float32)
    ones = white.sum(2)
    ones /= np.linalg.norm(ones, axis=1, keepdims=True)
    y = np.einsum("cst,tc->cs", white, truth.X.astype(np.float32))
    y -= ones * (ones * y).sum(1, keepdims=True)  # whatever its mean
    return white, y


def tuning_known(truth: Truth) -> Statistic:
    """The most powerful test of a Gaussian channel for its tuning, times a factor above zero."""
    white, y = _whitened(truth)
    back = np.einsum("cst,cs->ct", white, y)

    def statistic(observed: np.ndarray) -> np.ndarray:
        tuned = truth.tuned(observed).astype(np.float32)
        tuned = np.concatenate([tuned, tuned])
        size = np.linalg.norm((white @ tuned[:, :, None])[:, :, 0], axis=1)
        return (back * tuned).sum(1) / size

    return statistic


def functions_known(truth: Truth) -> Statistic:
    """F-test of nine functions, with generalised least squares."""
    white, y = _whitened(truth)
    ones = np.ones((len(truth.X), 1), np.float32)

    def statistic(observed: np.ndarray) -> np.ndarray:
        x = np.pi * (observed + 1) / 2
        waves = np.stack([np.cos(i * x[:, 0]) * np.cos(j * x[:, 1]) for i, j in ORDERS], axis=1)
        q = np.linalg.qr(white @ np.concatenate([ones, waves.astype(np.float32)], axis=1))[0]
        return np.square(np.einsum("csk,cs->ck", q[:, :, 1:], y)).sum(1)

    return statistic


ORACLES: dict[str, Callable[[Truth], Statistic]] = {
    "hidden": hidden_known,
    "tuning": tuning_known,
    "functions": functions_known,
}
"""Name -> what makes the statistic of an oracle from the truth. The larger it is, the surer."""


def cases(plan: Plan) -> list[Case]:
    """The recordings."""
    given = {name: plan[name] for name in ("dim", "length", "snr", "draws")}
    return [{**given, "data_seed": seed} for seed in plan["data_seeds"]]


def measure(data_seed: int, dim: int, length: int, snr: float, draws: int) -> Row:
    """One recording, screened and given to the oracles: which channels each calls."""
    case = {"data_seed": data_seed, "dim": dim, "length": length, "snr": snr}
    data = box_models.recording(case)
    truth = Truth(data, snr)
    calls = screen(data, {"position": Follow(list(data.variables), box_models.OBSERVED)}, LEVEL).calls
    called: dict[str, np.ndarray] = {"screen": calls["called"].to_numpy(bool)}
    rng = np.random.default_rng([data_seed, 7])
    others = [wander(rng, length, box_models.OBSERVED, STEP) for _ in range(draws)]
    for name, oracle in ORACLES.items():
        statistic = oracle(truth)
        found = statistic(truth.observed)
        larger = np.sum([statistic(each) >= found for each in others], axis=0)
        called[name] = stats.false_discovery_control((1 + larger) / (1 + draws)) <= LEVEL
    carries = truth.carries
    return {
        **case,
        "carried": np.round(truth.carried(), 4).tolist(),
        "found": {name: own[carries].tolist() for name, own in called.items()},
        "wrong": {name: int(np.sum(own & ~carries)) for name, own in called.items()},
    }


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """Power and false discovery rate of each method, and power by how much a channel carries."""
    rows = result["rows"]
    carried = np.concatenate([row["carried"] for row in rows])
    methods = {}
    for name in ("screen", *ORACLES):
        found = np.concatenate([row["found"][name] for row in rows])
        power = summary([float(np.mean(row["found"][name])) for row in rows])
        wrong = [row["wrong"][name] / max(1, row["wrong"][name] + sum(row["found"][name])) for row in rows]
        inside = [(carried > a) & (carried <= b) for a, b in pairwise(EDGES)]
        methods[name] = {
            "power": power["mean"],
            "power_ci95": power["ci95"],
            "fdr": summary(wrong)["mean"],
            "by_share": [round(float(found[some].mean()), 4) if some.any() else None for some in inside],
            "median_share_of_missed": float(np.median(carried[~found])) if not found.all() else None,
        }
    counts = np.histogram(carried, EDGES)[0].tolist()
    return {**result, "summary": methods, "channels_by_share": counts}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: each method, and power by how much of a channel the variable makes."""
    rows = [
        {
            "test": name,
            "power": own["power"],
            "95% interval": "{:.2f} to {:.2f}".format(*own["power_ci95"]),
            "FDR": own["fdr"],
            "median share carried by missed": own["median_share_of_missed"],
        }
        for name, own in result["summary"].items()
    ]
    shares = {
        "share of variance": [f"{a:.1f} to {b:.1f}" for a, b in pairwise(EDGES)],
        "channels": result["channels_by_share"],
        **{name: own["by_share"] for name, own in result["summary"].items()},
    }
    length = result["protocol"]["length"]
    return {
        f"Calls at q = {LEVEL} in {length:,} time steps": pd.DataFrame(rows),
        "Power by the share of a channel's variance that the variable makes": pd.DataFrame(shares),
    }


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Power against the share of a channel's variance that the variable makes."""
    middle = [(a + b) / 2 for a, b in pairwise(EDGES)]
    series = {}
    for name, own in result["summary"].items():
        points = [(x, y) for x, y in zip(middle, own["by_share"], strict=True) if y is not None]
        series[name if name == "screen" else f"oracle: {name}"] = dict(
            zip("xy", zip(*points, strict=True), strict=True)
        )
    ax = figures.curves(series, ax, xlabel="share of the channel that the variable makes", ylabel="power")
    ax.set(ylim=(0, 1.02))
    return ax


def _line(row: Row) -> str:
    found = ", ".join(f"{name} {np.mean(own):.2f}" for name, own in row["found"].items())
    return f"{row['data_seed']}: power {found}"


run = experiment(
    *("short-recordings", FULL, QUICK),
    cases=cases,
    rows=one_by_one(measure, _line),
    conclude=conclude,
    draw=draw,
    protocol={
        "level": LEVEL,
        "data": box_models.PROTOCOL["data"],
        "p": "rank among observed latents simulated anew",
    },
)

"""Simulated cells of a rat that explores a square: the navigation data of Schneider et al. (2025).

A rat runs about a square of one metre (simulated by ratinabox; section 5 and appendix B.2 of the paper). Its place
and grid cells carry position, its head-direction cells head direction, its speed cells speed; mixed cells carry two
of them. Which cell carries what is known. The three variables are not independent as they are in `box`: a step is a
speed in the direction of the body, which the head follows.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ..data.recording import Recording
from ..support.files import write_atomically
from ..support.progress import bar

__all__ = ["NavigationRecording", "navigation"]

SPACES = ("position", "head_direction", "speed")
CARRIES: Mapping[str, tuple[str, ...]] = {
    "place": ("position",),
    "grid": ("position",),
    "head_direction": ("head_direction",),
    "speed": ("speed",),
    "grid x head_direction": ("position", "head_direction"),
    "place x speed": ("position", "speed"),
    "head_direction x speed": ("head_direction", "speed"),
}
"""Cell type -> the spaces that its cells carry."""
MIXED = tuple(name for name, spaces in CARRIES.items() if len(spaces) > 1)
WIDTH = 0.2
"""Width of a place field in metres: the standard deviation of the inner of two Gaussians."""
GRIDS: Mapping[str, tuple[float, float]] = {"gridscale": (0.3, 0.4), "orientation": (0.0, 0.1)}
"""Scale (m) and orientation (radians) of the two modules of grid cells."""
SPIKING = 20.0
"""Rate in Hz at the centre of a field where spikes are drawn and nothing else is said."""
TIME_STEPS_AT_ONCE = 2000
"""Time steps at which rates are computed together."""


@dataclass(frozen=True)
class Population:
    """All that the path and the rates depend on."""

    seed: int
    duration: float
    dt: float
    place: int
    grid: int
    head_direction: int
    speed: int
    mixed: int


class NavigationRecording(Recording):
    """A simulated recording, with all that it was made from.

    units : has one column, "type", the cells' types.
    rates : (time, channel) in Hz, without noise and before spikes are drawn.
    """

    rates: np.ndarray
    along_time = ("rates",)
    along_channels = ("rates",)

    @property
    def types(self) -> np.ndarray:
        """The type of each cell, (channel,) of text."""
        return np.array(self.units["type"].tolist())


def navigation(
    seed: int = 0,
    duration: float = 2000.0,
    dt: float = 0.1,
    *,
    place: int = 100,
    grid: int = 100,
    head_direction: int = 100,
    speed: int = 100,
    mixed: int = 0,
    noise: float = 0.0,
    spikes: bool = False,
    peak: float | None = None,
    cache: str | Path | None = None,
    progress: bool = True,
) -> NavigationRecording:
    """Place, grid, head-direction and speed cells of a rat that explores a square of one metre.

    Place fields are differences of Gaussians of width 0.2 m; grid cells, three rectified cosines, come in two
    modules of 0.3 and 0.4 m; all else is as ratinabox has it. Its speed cells are copies of each other: their rate
    is the speed over 0.16 m/s.

    Parameters
    ----------
    seed : different seeds have different paths and different cells. The path does not depend on the cells.
    duration, dt : length of the recording and of a time step, in seconds.
    place, grid, head_direction, speed : numbers of cells.
    mixed : number of cells whose rate is the product of two: grid x head direction, place x speed and head
        direction x speed, in turn.
    noise : standard deviation of white noise added to every cell, in standard deviations of the cell.
    spikes : channels are counts, drawn from the rates (Poisson).
    peak : rate in Hz at the centre of a field (of speed cells: at 0.16 m/s). None: 1, as in ratinabox, and 20 where
        spikes are drawn.
    cache : a folder; path and rates are written to it, and read from it the next time. None: nothing is written.
    progress : show a bar while the rat runs, about ten seconds for 20,000 steps.

    Returns
    -------
    NavigationRecording with variables "x", "y" (m), "head_direction" (radians, -π to π) and "speed" (m/s), `.truth`
    (channel, space) for the spaces "position", "head_direction" and "speed", `.types` and `.rates`.

    Examples
    --------
    >>> data = navigation(duration=5, place=3, grid=2, head_direction=2, speed=1, mixed=3)  # doctest: +SKIP
    >>> data.types[-3:].tolist()  # doctest: +SKIP
    ['grid x head_direction', 'place x speed', 'head_direction x speed']
    """
    population = Population(seed, float(duration), float(dt), place, grid, head_direction, speed, mixed)
    _check(population, noise, spikes, peak)
    file = None if cache is None else Path(cache) / f"navigation-{_digest(population)}.npz"
    if file is not None and file.exists():
        with np.load(file) as stored:
            path, rates = stored["path"], stored["rates"]
    else:
        path, rates = _simulate(population, progress)
        if file is not None:
            write_atomically(file, lambda temporary: np.savez(temporary, path=path, rates=rates))
    rates = rates * np.float32(peak if peak is not None else SPIKING if spikes else 1.0)
    rng = np.random.default_rng([seed, 1])
    X = rates
    if spikes:
        X = rng.poisson(np.maximum(rates, 0) * dt)  # differences of Gaussians go a little below 0
    elif noise:
        X = rates + noise * rates.std(0) * rng.standard_normal(rates.shape)
    types = _types(population)
    names = [f"{kind.replace(' x ', '_x_')}{k}" for kind, number in types.items() for k in range(number)]
    of_channel = np.repeat(list(types), list(types.values()))
    truth = [[space in CARRIES[kind] for space in SPACES] for kind in of_channel]
    recording = NavigationRecording(
        pd.DataFrame(X, columns=names),
        pd.DataFrame(path, columns=["x", "y", "head_direction", "speed"]),
        time=np.arange(1, len(path) + 1) * dt,
        truth=xr.DataArray(truth, dims=("channel", "space"), coords={"channel": names, "space": list(SPACES)}),
        units=pd.DataFrame({"type": of_channel}, index=names),
    )
    recording.rates = rates
    return recording


def _types(population: Population) -> dict[str, int]:
    """Cell type -> how many there are, in the order of the channels."""
    numbers = {name: getattr(population, name) for name in CARRIES if name not in MIXED}
    shares = [len(range(k, population.mixed, len(MIXED))) for k in range(len(MIXED))]
    return {kind: number for kind, number in {**numbers, **dict(zip(MIXED, shares, strict=True))}.items() if number}


def _simulate(population: Population, progress: bool) -> tuple[np.ndarray, np.ndarray]:
    """Path (time, 4: x, y, head direction, speed), and rates (time, channel) float32 with a peak of 1."""
    steps = round(population.duration / population.dt)
    with _ratinabox(population.seed) as box:
        rat = box.Agent(box.Environment(), {"dt": population.dt})
        with bar("the rat runs", steps, progress) as shown:
            for _ in range(steps):
                rat.update()
                shown.advance()
        place = np.array(rat.history["pos"])
        towards = np.array(rat.history["head_direction"])
        speed = np.linalg.norm(rat.history["vel"], axis=1)
        angle = np.arctan2(towards[:, 1], towards[:, 0])
        np.random.seed([population.seed, 1])  # noqa: NPY002 - cells do not depend on how long the rat ran
        types = _types(population)
        pairs = [kind.split(" x ") for kind in types if kind in MIXED]
        numbers = [types[kind] for kind in types if kind in MIXED]
        single = {kind: [types.get(kind, 0)] for kind in CARRIES if kind not in MIXED}
        for pair, number in zip(pairs, numbers, strict=True):
            for kind in pair:
                single[kind].append(number)
        rates = {kind: _rates(box, rat, kind, sum(own), place, angle, speed) for kind, own in single.items()}
        # the factors of mixed cells are cells of their own, which come after the pure ones
        start = {kind: own[0] for kind, own in single.items()}
        parts = [rates[kind][:, : own[0]] for kind, own in single.items()]
        for pair, number in zip(pairs, numbers, strict=True):
            factors = [rates[kind][:, start[kind] : start[kind] + number] for kind in pair]
            start = {kind: at + number * (kind in pair) for kind, at in start.items()}
            parts.append(factors[0] * factors[1])
    return np.column_stack([place, angle, speed]), np.concatenate(parts, axis=1).astype(np.float32)


def _rates(
    box: Any, rat: Any, kind: str, number: int, place: np.ndarray, angle: np.ndarray, speed: np.ndarray
) -> np.ndarray:
    """Rates of cells of one type along the path, (time, cell), between 0 and 1 but for speed cells."""
    if not number:
        return np.empty((len(place), 0))
    if kind == "speed":
        cell = box.SpeedCell(rat)
        return np.repeat(speed[:, None] / cell.one_sigma_speed, number, axis=1)
    if kind == "head_direction":
        cells = box.HeadDirectionCells(rat, {"n": number})
        # mixed cells take the last of these: in a random order they do not all look the same way
        towards = np.random.permutation(cells.preferred_angles)  # noqa: NPY002
        return box.von_mises(angle[:, None], towards, cells.angular_tunings, norm=1)
    if kind == "place":
        cells = box.PlaceCells(
            rat, {"n": number, "description": "diff_of_gaussians", "widths": WIDTH, "wall_geometry": "geodesic"}
        )
        np.random.shuffle(cells.place_cell_centres)  # noqa: NPY002
    else:
        modules = np.arange(number) * len(GRIDS["gridscale"]) // number
        own = {name: np.array(values)[modules] for name, values in GRIDS.items()}
        cells = box.GridCells(rat, {"n": number, **own})
    parts = np.array_split(place, -(-len(place) // TIME_STEPS_AT_ONCE))
    return np.concatenate([cells.get_state(evaluate_at=None, pos=part).T for part in parts])


@contextmanager
def _ratinabox(seed: int) -> Iterator[Any]:
    """ratinabox, silent, with numpy's global random state set to a seed while the block runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from ratinabox.Agent import Agent
            from ratinabox.Environment import Environment
            from ratinabox.Neurons import GridCells, HeadDirectionCells, PlaceCells, SpeedCell
            from ratinabox.utils import von_mises
        except ImportError as error:
            raise ImportError("navigation is simulated by ratinabox: pip install 'ascribo[neuro]'") from error
        parts = (Agent, Environment, GridCells, HeadDirectionCells, PlaceCells, SpeedCell, von_mises)
        state = np.random.get_state()  # noqa: NPY002
        np.random.seed(seed)  # noqa: NPY002
        try:
            yield SimpleNamespace(**{part.__name__: part for part in parts})
        finally:
            np.random.set_state(state)  # noqa: NPY002


def _digest(population: Population) -> str:
    """A name for what is cached: the population, and the version of what simulates it."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        made_by = version("ratinabox")
    except PackageNotFoundError:  # what is cached can be read without it
        made_by = ""
    content = json.dumps([asdict(population), made_by, WIDTH, dict(GRIDS)])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _check(population: Population, noise: float, spikes: bool, peak: float | None) -> None:
    given = asdict(population)
    numbers = {name: given[name] for name in ("place", "grid", "head_direction", "speed", "mixed")}
    said = ", ".join(f"{name}={number}" for name, number in numbers.items())
    if min(numbers.values()) < 0 or not sum(numbers.values()):
        raise ValueError(f"navigation({said}): expected numbers of cells from 0 on, and at least one cell.")
    if not population.dt > 0 or round(population.duration / population.dt) < 2:
        raise ValueError(
            f"navigation(duration={population.duration:g}, dt={population.dt:g}): expected seconds, and at least "
            "two time steps."
        )
    if not noise >= 0 or (noise and spikes):
        raise ValueError(
            f"navigation(noise={noise}, spikes={spikes}): expected standard deviations from 0 on, and none with "
            "spikes, whose noise is Poisson."
        )
    if peak is not None and not peak > 0:
        raise ValueError(f"navigation(peak={peak}): expected a rate in Hz above 0.")

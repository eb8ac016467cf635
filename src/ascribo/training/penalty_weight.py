"""The weight λ of the Jacobian penalty, and how it moves during training.

Schneider et al. (2025), section 3, pick the largest λ that leaves the InfoNCE at its minimum, by hand. `Auto` does
so while training: λ = 0 until the InfoNCE is flat, then as large as keeps it there, then constant.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..support.stored_parameters import storable

__all__ = ["Auto", "Constant", "Each", "Ramp", "Schedule", "as_schedule", "shorten"]


class Controller(Protocol):
    """λ for the next steps, given what the last ones cost."""

    def weights(self, start: int, steps: int) -> np.ndarray:
        """λ of steps start, start + 1, ...: (steps, model)."""
        ...

    def observe(self, loss: np.ndarray, penalty: np.ndarray) -> None:
        """The loss without the penalty, and the penalty, of the steps just done, each (steps, model)."""
        ...

    def settled(self) -> bool:
        """Whether λ has reached the value it keeps."""
        ...


def shorten(controller: Controller, steps: int) -> None:
    """Tell a controller that there will be `steps` steps instead of more, if it counts them."""
    for one in getattr(controller, "controllers", [controller]):
        if hasattr(one, "steps"):
            one.steps = steps


class Schedule(Protocol):
    """How λ moves during training: what `penalty=` takes besides "auto" and a number."""

    def begin(self, models: int, steps: int, chance: float) -> Controller:
        """A controller for one training run; chance is the summed InfoNCE of a collapsed embedding."""
        ...


@storable
@dataclass(frozen=True)
class Ramp:
    """λ = 0, then a linear ramp, then `weight`: the schedule of Schneider et al. (2025), section 5.

    warmup, ramp : fractions of all training steps.

    >>> Ramp(0.1).begin(1, 20_000, 0.0).weights(3_750, 1).item()
    0.05
    """

    weight: float
    warmup: float = 0.125
    ramp: float = 0.125

    def __post_init__(self):
        if not (np.isfinite(self.weight) and self.weight >= 0):
            raise ValueError(f"penalty weight {self.weight!r}: expected a number of at least 0.")
        if not (0 <= self.warmup and 0 <= self.ramp and self.warmup + self.ramp <= 1):
            raise ValueError(
                f"Ramp(warmup={self.warmup!r}, ramp={self.ramp!r}): expected fractions of all steps, "
                "together at most 1."
            )

    def begin(self, models: int, steps: int, chance: float) -> Controller:
        """See `Schedule`."""
        return _Planned(self, models, steps)


@storable
@dataclass(frozen=True)
class Constant(Ramp):
    """λ = `weight` from the first step to the last.

    >>> Constant(0.1).begin(2, 100, 0.0).weights(0, 1)
    array([[0.1, 0.1]])
    """

    warmup: float = field(default=0.0, init=False)
    ramp: float = field(default=0.0, init=False)


@dataclass
class _Planned:
    """The controller of a schedule that is known beforehand."""

    plan: Ramp
    models: int
    steps: int
    done: int = 0

    def weights(self, start: int, steps: int) -> np.ndarray:
        progress = np.arange(start, start + steps) / self.steps - self.plan.warmup
        rise = np.clip(progress / self.plan.ramp, 0, 1) if self.plan.ramp else progress >= 0
        return np.repeat(self.plan.weight * rise[:, None], self.models, axis=1)

    def observe(self, loss: np.ndarray, penalty: np.ndarray) -> None:
        self.done += len(loss)

    def settled(self) -> bool:
        return self.done >= (self.plan.warmup + self.plan.ramp) * self.steps


@storable
@dataclass(frozen=True)
class Auto:
    """Finds λ by itself: the largest that keeps the InfoNCE within a tolerance of its minimum at λ = 0.

    Parameters
    ----------
    tolerance : how much of the gain over chance (chance - InfoNCE at λ = 0) may be given up.
    plateau_by : the minimum is taken when the InfoNCE is flat, at the latest after this fraction of steps.
    hold_from : the search ends here; from then on λ stays what it was found to be.

    Examples
    --------
    >>> import ascribo as asc
    >>> model = asc.ContrastiveEmbedding({"rest": asc.Time(dim=2)}, penalty=asc.Auto(tolerance=0.05))
    >>> model.penalty
    Auto(tolerance=0.05, plateau_by=0.4, hold_from=0.75)
    """

    tolerance: float = 0.03
    plateau_by: float = 0.4
    hold_from: float = 0.75

    def __post_init__(self):
        if not 0 < self.tolerance < 1:
            raise ValueError(f"Auto(tolerance={self.tolerance!r}): expected a fraction between 0 and 1.")
        if not 0 < self.plateau_by < self.hold_from < 1:
            raise ValueError(
                f"Auto(plateau_by={self.plateau_by!r}, hold_from={self.hold_from!r}): expected "
                "0 < plateau_by < hold_from < 1."
            )

    def begin(self, models: int, steps: int, chance: float) -> Controller:
        """See `Schedule`."""
        return _Search(self, models, steps, chance)


class _Search:
    """The controller of `Auto`: an integral controller on log λ, one for each model."""

    FLAT = 0.003  # the InfoNCE is flat when one smoothing length gains less than this share of the total
    SMOOTH = 0.4  # weight of the newest observation
    RATE = 0.7  # largest change of log λ for one observation
    FIRST = 0.01  # the first λ makes the penalty this share of the gain

    def __init__(self, plan: Auto, models: int, steps: int, chance: float):
        self.plan, self.steps, self.chance, self.done = plan, steps, chance, 0
        self.level = np.full(models, np.nan)  # smoothed InfoNCE
        self.plateau = np.full(models, np.nan)  # its minimum at λ = 0, once known
        self.log_weight = np.full(models, -np.inf)
        self.trail: list[np.ndarray] = []  # log λ during the search

    def weights(self, start: int, steps: int) -> np.ndarray:
        return np.repeat(np.exp(self.log_weight)[None], steps, axis=0)

    def settled(self) -> bool:
        return self.done >= self.plan.hold_from * self.steps

    def observe(self, loss: np.ndarray, penalty: np.ndarray) -> None:
        self.done += len(loss)
        newest = loss.mean(0)
        before = self.level
        self.level = np.where(np.isnan(before), newest, before + self.SMOOTH * (newest - before))
        progress = self.done / self.steps
        gain = np.maximum(self.chance - self.level, 1e-6)
        flat = (before - self.level < self.FLAT * gain) & (progress > self.plan.plateau_by / 4)
        fresh = np.isnan(self.plateau) & (flat | (progress >= self.plan.plateau_by))
        searching = ~np.isnan(self.plateau)
        if progress < self.plan.hold_from:
            allowed = self.plan.tolerance * np.maximum(self.chance - self.plateau, 1e-6)
            slack = np.clip((self.plateau + allowed - self.level) / allowed, -1, 1)
            self.log_weight = np.where(searching, self.log_weight + self.RATE * slack, self.log_weight)
            self.trail.append(self.log_weight)
        elif self.trail:
            # the search hunts around the answer: hold the mean of its last quarter, as far as it had begun
            late = np.stack(self.trail[-max(1, len(self.trail) // 4) :])
            begun = np.isfinite(late)
            mean = np.where(begun, late, 0).sum(0) / np.maximum(begun.sum(0), 1)
            self.log_weight = np.where(begun.any(0), mean, self.log_weight)
            self.trail = []
        self.plateau = np.where(fresh, self.level, self.plateau)
        first = np.log(self.FIRST * gain / np.maximum(penalty.mean(0), 1e-12))
        self.log_weight = np.where(fresh, first, self.log_weight)


@dataclass(frozen=True)
class Each:
    """A schedule for each model of a stack.

    >>> Each((Constant(0.0), Constant(0.1))).begin(2, 10, 0.0).weights(0, 1)
    array([[0. , 0.1]])
    """

    schedules: tuple[Schedule, ...]

    def begin(self, models: int, steps: int, chance: float) -> Controller:
        """See `Schedule`."""
        if models != len(self.schedules):
            raise ValueError(f"{len(self.schedules)} schedules for {models} models.")
        return _Side([schedule.begin(1, steps, chance) for schedule in self.schedules])


@dataclass
class _Side:
    """Controllers of single models, side by side."""

    controllers: list[Controller]

    def weights(self, start: int, steps: int) -> np.ndarray:
        return np.concatenate([c.weights(start, steps) for c in self.controllers], axis=1)

    def observe(self, loss: np.ndarray, penalty: np.ndarray) -> None:
        for k, controller in enumerate(self.controllers):
            controller.observe(loss[:, k : k + 1], penalty[:, k : k + 1])

    def settled(self) -> bool:
        return all(controller.settled() for controller in self.controllers)


def as_schedule(penalty: Any) -> Schedule:
    """The schedule behind `penalty=`: "auto", a number (constant), or a schedule.

    >>> as_schedule(0.1)
    Constant(weight=0.1, warmup=0.0, ramp=0.0)
    """
    if isinstance(penalty, str):
        if penalty != "auto":
            raise ValueError(f"penalty={penalty!r}: expected 'auto', a number, or a schedule such as Ramp(0.1).")
        return Auto()
    if isinstance(penalty, int | float) and not isinstance(penalty, bool):
        return Constant(float(penalty))
    if not isinstance(penalty, bool) and hasattr(penalty, "begin"):
        return penalty
    raise ValueError(f"penalty={penalty!r}: expected 'auto', a number, or a schedule such as Ramp(0.1).")

"""The result of an attribution: scores by channel and dimension, by channel and space, and over time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike

from ..data.recording import Recording
from ..metrics.scores import auroc
from ..support.files import write_atomically
from ..support.html_tables import html_table
from ..support.names import first_few, plural
from .false_discovery_rate import CROSS_FITTED, call_by_p, call_channels
from .map_files import read_arrays, write_arrays

__all__ = ["NUMBERS", "AttributionMaps", "Parts", "TooFewSteps"]

NUMBERS = ("p", "ci_low", "ci_high")
"""What `AttributionMaps.tests` holds of each channel and space."""

TAKEN = {
    *("channel", "space", "dimension", "seed", "block", "time", "epoch", "score", "z", "ci_low", "ci_high"),
    *("p", "q", "called", "note", "level", "by_space", "by_dimension", "blocks", "tests", "number"),
}
"""Names that maps and tables of calls use themselves."""


class TooFewSteps(ValueError):
    """Some time steps are too few for a map of their own."""


@dataclass(frozen=True, eq=False)
class Parts:
    """How to make parts of a map. They need the model and the recording, which neither a file nor a pickle keeps.

    time, epochs : (time,), of the recording.
    over_time : time steps (n,) -> scores (n, channel, space). only_at : time steps (n,) -> the maps of these alone.
    scores_at : time steps (n,) -> the scores of these, (channel, space); None: those of `only_at`.
    """

    time: np.ndarray
    epochs: np.ndarray
    over_time: Callable[[np.ndarray], np.ndarray]
    only_at: Callable[[np.ndarray], AttributionMaps]
    scores_at: Callable[[np.ndarray], np.ndarray] | None = None

    def __deepcopy__(self, memo: object) -> Parts:
        return self

    def __reduce__(self):
        return _nothing, ()


def _nothing() -> None:
    """What is left of `Parts` in a pickle."""


@dataclass(frozen=True)
class AttributionMaps:
    """Which channels carry which space.

    Attributes
    ----------
    by_space : DataArray (channel, space). Unique variance: the share of the channel's variance that only the space
        explains. For known variables it is the variance of the channel's ranks, and as a rule only what is new in
        the variables since some time steps ago (their innovation) counts, so that it is small for slow ones; it
        may be a little below 0. The other methods: mean over time and seeds of
        the length of a channel's row within the space, which does not depend on the basis of the block; for the
        generative gradient the unit is standard deviations of the channel per standard deviation of the space.
    by_dimension : DataArray (channel, dimension), mean over time and seeds of |entry|. Rows are standardised
        channels, columns the aligned coordinates of the spaces (principal axes, unit variance). None for the unique
        variance, which is about whole spaces.
    method : the method's name.
    refused : space -> why it has no map; its scores are NaN.
    rank_deficient : share of samples left out because the Jacobian could not be inverted.
    blocks : DataArray (seed, space, channel, block) or None; the unique variance in blocks of time, of spaces
        without variables, which `calls` tests.
    tests : DataArray (number, channel, space) or None; p and the limits of the interval, of spaces with variables.
    untested : space -> why its scores cannot be tested, so that `calls` leaves it out.
    undecided : space -> why nothing can be asked about it in this recording: `calls` calls no channel for it, and
        says why.
    notes : space -> kind of note -> what about its variables may mislead, and what to do; see docs/screening.md.
    level : DataArray (channel, space) or None; the share of the channel's variance that the values of the space
        explain, their past included. Unlike `by_space` it compares spaces with variables and those without. It is
        not tested, and variables that go with each other share it.

    Examples
    --------
    >>> import tempfile
    >>> import ascribo as asc
    >>> data = asc.simulate.box(observed=1, hidden=1, channels=(4, 4), steps=3000)
    >>> small = dict(seeds=1, steps=100, batch_size=128, encoder=asc.MLP((16,)), penalty=0, random_state=0)
    >>> model = asc.ContrastiveEmbedding({"position": asc.Follow("x", dim=1)}, **small).fit(data)
    >>> maps = model.attribute(data)
    >>> maps
    AttributionMaps(unique_variance, 8 channels: channel0, channel1 and 6 more; spaces: position; calls: position)
    >>> maps.auroc(data, space="position")
    1.0
    >>> maps.tested, maps.calls().query("called")["channel"].tolist()
    (['position'], ['channel4', 'channel5', 'channel6', 'channel7'])
    >>> maps.threshold().sum("channel").values.tolist()  # how many scores are above their mean
    [3]
    >>> maps.where(data.variables["x"] > 0).by_space.shape, maps.over_time(0, 100, 10).shape
    ((8, 1), (10, 8, 1))
    >>> maps.by_epoch().shape, list(maps.by_unit().columns)
    ((1, 8, 1), ['position_score', 'position_q', 'position_called'])
    >>> regions = pd.DataFrame({"region": ["CA1"] * 4 + ["MEC"] * 4}, index=data.channel_names)
    >>> maps.with_units(regions).by_space.groupby("region").mean().shape
    (2, 1)
    >>> maps.to_frame().columns.tolist()
    ['channel', 'space', 'score', 'z', 'p', 'q', 'ci_low', 'ci_high', 'called']
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = maps.to_csv(f"{folder}/map.csv").name
    ...     again = AttributionMaps.load(maps.to_netcdf(f"{folder}/map.nc"))
    >>> table, bool((again.by_space == maps.by_space).all())
    ('map.csv', True)
    """

    by_dimension: xr.DataArray | None
    by_space: xr.DataArray
    method: str
    refused: dict[str, str] = field(default_factory=dict)
    rank_deficient: float = 0.0
    blocks: xr.DataArray | None = None
    untested: dict[str, str] = field(default_factory=dict)
    undecided: dict[str, str] = field(default_factory=dict)
    level: xr.DataArray | None = None
    tests: xr.DataArray | None = None
    notes: dict[str, dict[str, str]] = field(default_factory=dict)
    parts: Parts | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        channels, spaces = (self.by_space[dim].values.tolist() for dim in ("channel", "space"))
        parts = [
            f"{self.method}, {len(channels)} channel{plural(len(channels))}: {first_few(channels, 2)}",
            f"spaces: {first_few(spaces)}",
            f"calls: {first_few(self.tested) or 'none'}",
        ]
        return f"AttributionMaps({'; '.join(parts)})"

    def _repr_html_(self) -> str:
        """In a notebook: how many channels carry each space, and the strongest of them."""
        calls, rows = self._calls_if_any(), []
        for space in self.by_space["space"].values.tolist():
            scores = self.by_space.sel(space=space)
            if space in self.refused:
                rows.append([space, "no map", self.refused[space]])
                continue
            if space in self.undecided:
                rows.append([space, "not decided", self.undecided[space]])
                continue
            own = None if calls is None else calls[calls["space"] == space]
            carry = "not tested" if own is None or not len(own) else f"{own['called'].sum()} of {len(scores)}"
            best = scores[np.argsort(-scores.values, kind="stable")[:3]]
            told = [f"{c} ({v:.3g})" for c, v in zip(best["channel"].values, best.values, strict=True)]
            rows.append([space, carry, ", ".join(told)])
        title = f"Attribution map by {self.method.replace('_', ' ')}"
        return html_table(title, ["space", "channels that carry it", "strongest (score)"], rows)

    def calls(self, q: float = 0.05) -> pd.DataFrame:
        """Which channels carry which space, at a false discovery rate of q within each space.

        Columns: channel, space, score (the share of the channel's variance that only the space explains; of
        variables that change, by what is new in them), level (the share that the values of the space explain, which
        is not tested), note (why nothing was tested, or which `notes` there are about the space), p (that the space
        adds nothing), q (p adjusted by the method of Benjamini and Hochberg 1995), ci_low and ci_high (95%),
        called. Spaces with variables have the test of `ascribo.screen`. Only for method="unique_variance". Spaces
        without a map and `undecided` ones have no p and are not called. Spaces that cannot be tested (`untested`)
        are left out; if there are no others, this is an error.
        """
        if self.blocks is None and self.tests is None:
            raise ValueError(
                f"a {self.method} map has no test that knows what an unconnected channel scores: use "
                "model.attribute(recording, method='unique_variance').calls()."
            )
        if not self.tested:
            raise ValueError(f"no space can be tested: {'; '.join(dict.fromkeys(self.untested.values()))}.")
        table = pd.concat([self._call_space(space, q) for space in self.tested], ignore_index=True)
        shares = ["score", "ci_low", "ci_high"]
        table[shares] = table[shares].clip(upper=1.0)  # of some blocks of time it may be more
        if self.level is not None:
            own = [self.level.sel(space=name).values for name in self.tested]
            table.insert(3, "level", np.concatenate(own))
        reasons = {**{name: ", ".join(own) for name, own in self.notes.items()}, **self.undecided, **self.refused}
        table.insert(list(table.columns).index("p"), "note", [reasons.get(name, "") for name in table["space"]])
        return table

    @property
    def tested(self) -> list[str]:
        """The spaces that `calls` has rows of."""
        tested = [array for array in (self.blocks, self.tests) if array is not None]
        there = {name for array in tested for name in array["space"].values.tolist()}
        return [name for name in self.by_space["space"].values.tolist() if name in there - {*self.untested}]

    def _call_space(self, space: str, q: float) -> pd.DataFrame:
        """The rows of one space."""
        if self.tests is not None and space in self.tests["space"].values:
            p, low, high = self.tests.sel(space=space, number=list(NUMBERS)).values
            return call_by_p(self.by_space.sel(space=space, drop=True), space, p, low, high, q)
        assert self.blocks is not None
        reasons = [name for name in (*self.undecided, *self.refused) if name == space]
        own = self.blocks.sel(space=[space])
        return call_channels(own, q, refused=list(self.refused), undecided=reasons, dependence=CROSS_FITTED)

    def by_unit(self) -> pd.DataFrame:
        """A row for each channel: what is known of it, and for each space its score.

        Columns: those of the recording's `units`, then `<space>_score` and, for a space that was tested,
        `<space>_q` and `<space>_called`.
        """
        channels = self.by_space.indexes["channel"]
        table = pd.DataFrame({c: self.by_space[c].values for c in self._about_channels}, index=channels)
        calls = self._calls_if_any()
        for space in self.by_space["space"].values.tolist():
            table[f"{space}_score"] = self.by_space.sel(space=space).values
            if calls is not None and space in self.tested:
                own = calls[calls["space"] == space].set_index("channel")
                table[[f"{space}_q", f"{space}_called"]] = own[["q", "called"]]
        return table

    def with_units(self, units: pd.DataFrame) -> AttributionMaps:
        """These maps with what is known of the channels as coordinates along them: a column of `units` each.

        A column that has the name of something else in a map or a table of calls is called unit_<name>.
        """
        if not units.shape[1]:
            return self
        coords = {}
        for name in units:
            values = units.loc[self.by_space["channel"].values.tolist(), name]
            if not pd.api.types.is_numeric_dtype(values):
                values = values.astype(object).where(values.notna(), "").astype(str)
            elif values.isna().any():
                values = values.to_numpy(float, na_value=np.nan)
            coords[f"unit_{name}" if name in TAKEN else str(name)] = ("channel", np.asarray(values))
        labelled = {
            part: None if (value := getattr(self, part)) is None else value.assign_coords(coords)
            for part in ("by_space", "by_dimension", "blocks", "level", "tests")
        }
        parts = self.parts
        if parts is not None:
            whole = parts.only_at
            parts = replace(parts, only_at=lambda index: whole(index).with_units(units))
        return replace(self, **labelled, parts=parts)

    def where(self, condition: ArrayLike) -> AttributionMaps:
        """The maps of the time steps at which a condition holds, for example maps.where(speed > 5).

        condition : (time,) booleans, one for each time step of the recording.
        """
        parts, chosen = self._parts(), np.asarray(condition)
        if chosen.dtype != bool or chosen.shape != parts.time.shape:
            raise ValueError(
                f"condition is {chosen.dtype} of shape {chosen.shape}: expected a boolean for each of the "
                f"{len(parts.time)} time steps."
            )
        if not chosen.any():
            raise ValueError("the condition holds at no time step.")
        return parts.only_at(np.flatnonzero(chosen))

    def by_epoch(self) -> xr.DataArray:
        """Scores of each epoch on its own: DataArray (epoch, channel, space); NaN where an epoch is too short."""
        parts = self._parts()
        scores_at = parts.scores_at or (lambda index: parts.only_at(index).by_space.values)
        labels = np.unique(parts.epochs)
        scores: list[xr.DataArray] = []
        for label in labels:
            try:
                found = scores_at(np.flatnonzero(parts.epochs == label))
                scores.append(self.by_space.copy(data=found))
            except TooFewSteps:
                scores.append(xr.full_like(self.by_space, np.nan))
        return xr.concat(scores, dim=pd.Index(labels, name="epoch"))

    def over_time(self, start: int = 0, stop: int | None = None, step: int = 1) -> xr.DataArray:
        """Scores at time steps start, start + step, ... before stop: DataArray (time, channel, space).

        Nothing is computed before it is asked for, and then in chunks: ask for the part you need. Where a
        Jacobian could not be inverted in any seed the entry is NaN; so is the unique variance at time steps without
        a past, a future or all their variables.
        """
        parts = self._parts()
        index = np.arange(len(parts.time))[start:stop:step]
        return xr.DataArray(
            parts.over_time(index),
            dims=("time", "channel", "space"),
            coords={"time": parts.time[index], **{c: self.by_space[c] for c in ("channel", "space")}},
            name="score",
            attrs=self.by_space.attrs,
        )

    def auroc(self, truth: xr.DataArray | Recording | ArrayLike, space: str) -> float:
        """Area under the ROC curve of a space's scores against the truth.

        truth : DataArray (channel, space) of booleans, a Recording with a `.truth`, or one boolean per
            channel, in the order of the channels.
        """
        scores = self._scores(space)
        known = truth.truth if isinstance(truth, Recording) else truth
        if known is None:
            raise ValueError("this recording has no truth: pass an array with one boolean per channel.")
        if isinstance(known, xr.DataArray) and known.ndim == 2:
            if space not in known["space"].values:
                raise ValueError(
                    f"the truth has no space {space!r}, only {list(known['space'].values)}: pass "
                    f"truth.sel(space=...) for the one you mean."
                )
            known = known.sel(space=space, channel=scores["channel"])
        return auroc(scores.values, np.asarray(known))

    def threshold(self, z: float = 0.0) -> xr.DataArray:
        """Channels whose score lies more than z standard deviations above the mean of their space's scores
        (Schneider et al. 2025, section 5).

        Spaces that have no map are left out: nothing is known of them.
        """
        known = self.by_space.drop_sel(space=list(self.refused))
        return (known - known.mean("channel")) / known.std("channel") > z

    def to_frame(self) -> pd.DataFrame:
        """Long table: channel, space, score, z (the score in standard deviations from its space's mean).

        That of a unique variance has p, q, ci_low, ci_high and called beside them (see `calls`), missing for spaces
        that cannot be tested.
        """
        spread = (self.by_space - self.by_space.mean("channel")) / self.by_space.std("channel")
        table = xr.Dataset({"score": self.by_space, "z": spread}).to_dataframe().reset_index()
        table = table.loc[:, ["channel", "space", "score", "z", *self._about_channels]]
        calls = self._calls_if_any()
        if calls is None:
            return table
        columns = ["p", "q", "ci_low", "ci_high", "called"]
        table = table.merge(calls[["channel", "space", *columns]], how="left", on=["channel", "space"])
        if self.untested:
            table["called"] = table["called"].astype("boolean")  # with missing values
        return table.loc[:, ["channel", "space", "score", "z", *columns, *self._about_channels]]

    def to_netcdf(self, path: str | Path) -> Path:
        """Write all but what needs the model to one netCDF file, which `AttributionMaps.load` reads."""
        arrays = {"by_space": self.by_space, "by_dimension": self.by_dimension, "blocks": self.blocks}
        arrays |= {"level": self.level, "tests": self.tests}
        facts = {"method": self.method, "rank_deficient": self.rank_deficient}
        return write_arrays(path, arrays, {**facts, **self._reasons()})

    @classmethod
    def load(cls, path: str | Path) -> AttributionMaps:
        """Maps that `to_netcdf` wrote. `over_time`, `where` and `by_epoch` need the model, and are not there."""
        arrays, facts = read_arrays(path, ("by_space", "by_dimension", "blocks", "level", "tests"))
        try:
            return cls(**arrays, **facts)
        except TypeError as error:  # more facts or fewer than there should be
            raise ValueError(f"{path} is no whole file of attribution maps ({error}): make it again.") from error

    def to_csv(self, path: str | Path) -> Path:
        """Write `to_frame` as CSV."""
        return write_atomically(path, lambda temporary: self.to_frame().to_csv(temporary, index=False))

    def _reasons(self) -> dict[str, dict]:
        return {
            **{"refused": self.refused, "untested": self.untested, "undecided": self.undecided},
            "notes": self.notes,
        }

    @property
    def _about_channels(self) -> list[str]:
        """Names of what is known of the channels."""
        return [str(c) for c in self.by_space.coords if c != "channel" and self.by_space[c].dims == ("channel",)]

    def _calls_if_any(self) -> pd.DataFrame | None:
        """The calls; None if there is no test, or none of any space."""
        return self.calls() if self.tested else None

    def _parts(self) -> Parts:
        if self.parts is None:
            raise ValueError(
                "these maps come without their model, from a file or a pickle: run model.attribute(X) to get parts "
                "of them."
            )
        return self.parts

    def _scores(self, space: str) -> xr.DataArray:
        if space not in self.by_space["space"].values:
            raise ValueError(f"no space {space!r}: this map has {list(self.by_space['space'].values)}.")
        if space in self.refused:
            raise ValueError(f"space {space!r} has no map: {self.refused[space]}")
        return self.by_space.sel(space=space)

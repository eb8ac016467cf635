"""Recordings as they stand on the command line: a file, what is what in it, its spaces, its treatment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pandas as pd

from ..data.format_registry import find_loader, is_recording_file, suffixes
from ..data.preprocessing import Treatment
from ..data.read import read
from ..data.recording import Recording
from ..model.estimator import ContrastiveEmbedding
from ..spaces.base import Space
from ..support.progress import say
from .longer_bins import average_in_bins
from .spaces import SpaceText, build_spaces

__all__ = [
    "RecordingOptions",
    "describe_size",
    "is_table",
    "load_table",
    "processes",
    "read_file",
    "read_like",
    "take_options",
]

TABLES = (".csv", ".tsv", ".parquet")


@dataclass(frozen=True)
class RecordingOptions:
    """The options that `ascribo fit` and `ascribo screen` share, by their names on the command line."""

    data: str
    spaces: list[SpaceText] | None
    circular: tuple[str, ...]
    period: float | None
    nuisance: tuple[str, ...]
    channels: str | None
    variables: tuple[str, ...] | None
    epochs: str | None
    timestamps: str | None
    bin_size: float | None
    smooth: float | None
    transform: str | None
    unpack: str | None

    def build_spaces(self) -> dict[str, Space]:
        """The spaces that were asked for, by name."""
        return build_spaces(self.spaces or [], self.circular, self.period, self.nuisance)

    def arguments(self) -> dict[str, Any]:
        """What is what in the file: arguments of `ascribo.read`."""
        variables = self.variables
        if variables is None and is_table(self.data):
            variables = tuple(dict.fromkeys(v for space in self.build_spaces().values() for v in space.variables))
        channels = self.channels
        return {
            "channels": channels.split(",") if channels and "," in channels else channels,
            "variables": None if variables is None else list(variables),
            "epochs": self.epochs,
            "time": self.timestamps,
            **({} if self.unpack is None else {"unpack": str(Path(self.unpack).absolute())}),
        }

    def read(self, progress: bool) -> Recording:
        """The recording, treated as was asked for."""
        say(f"reading {self.data}", progress)
        treatment = {"bin_size": self.bin_size, "smooth": self.smooth, "transform": self.transform}
        given = {key: value for key, value in treatment.items() if value is not None}
        return read_file(self.data, {**self.arguments(), **given})


def take_options(given: Mapping[str, Any]) -> tuple[RecordingOptions, dict[str, Any]]:
    """The options of a recording, and what else was given."""
    own = {field.name for field in fields(RecordingOptions)}
    options = RecordingOptions(**{name: given[name] for name in own})
    return options, {name: value for name, value in given.items() if name not in own}


def processes(jobs: int, memory: str | None) -> int:
    """How many processes `--jobs` and `--memory` ask for: one for each core, unless memory is limited.

    >>> processes(-1, None), processes(-1, "2GB"), processes(3, None)
    (-1, 1, 3)
    """
    return 1 if memory is not None and jobs == -1 else jobs


def describe_size(recording: Recording) -> str:
    """How large a recording is, for a line of progress."""
    return f"{recording.X.shape[1]:,} channels over {len(recording):,} time steps"


def read_like(path: str, how: dict[str, Any], model: ContrastiveEmbedding) -> Recording:
    """The recording of a file as the one that the model was fitted to: its channels by name, treated alike."""
    treatment, names = model.treatment, model.channel_names_
    if not how and names and is_table(path):  # saved from Python: the model knows what to look for
        variables = [v for space in model.model_.spaces.values() for v in space.variables]
        how = {"channels": names, "variables": list(dict.fromkeys(variables))}
    binned = has_own_bins(path)
    recording = read_file(path, {**how, "treatment": treatment} if binned else how)
    if names:  # the columns of another file may come in another order
        recording = recording.take_channels(names)
    if binned or treatment is None:
        return recording
    averaged = treatment.bin_size is not None and treatment.counts_events is False
    return average_in_bins(recording, treatment) if averaged else recording.treat(treatment)


def has_own_bins(path: str) -> bool:
    """Whether a file, or a folder of pynapple's, is of a kind that is read in bins of the size asked for."""
    folder = Path(path).is_dir() and not is_recording_file(path)
    return folder or Path(path).suffix.lower() in suffixes("bin_size")


def is_table(path: str) -> bool:
    """Whether a file is a table, by the ending of its name."""
    return Path(path).suffix.lower() in TABLES


def load_table(path: str) -> pd.DataFrame:
    """A table as it is in its file; its columns have texts for names."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: no such file.")
    table = find_loader(Path(path))(Path(path))
    return table.set_axis([str(name) for name in table], axis=1)


def read_file(path: str, how: dict[str, Any]) -> Recording:
    """The recording of a file; how : arguments of `ascribo.read`. Files with time steps of their own are averaged
    in bins if there is a bin size."""
    try:
        if how.get("bin_size") is None or has_own_bins(path):
            return read(path, **how)
        treatment = {name: how[name] for name in ("bin_size", "smooth", "transform") if how.get(name) is not None}
        plain = {name: value for name, value in how.items() if name not in treatment}
        return average_in_bins(read(path, **plain), Treatment(**treatment))
    except TypeError as error:  # the file holds something that is not a recording
        raise ValueError(str(error)) from error

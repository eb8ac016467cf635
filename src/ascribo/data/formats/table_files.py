"""Tables in files (.csv, .tsv, .parquet), a row for each time step, and recordings from their columns."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype, is_bool_dtype, is_numeric_dtype, is_object_dtype, is_string_dtype

from ...support.names import first_few, plural, suggest
from ..format_registry import FileContentError, file_format
from ..recording import Recording
from .hdf5_safety import check_size

__all__ = ["load_parquet", "load_text", "recording_from_table"]

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
LINES_LOOKED_AT = 50
"""Lines at the start of a file from which its delimiter is told."""
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:[.,' ]\d{3})+(?:[.,]\d+)?")
"""A number with a mark between its thousands, such as 1.000,5."""
MISSING = {"", "na", "n/a", "#n/a", "<na>", "null", "none", "nan"}
"""What stands for a missing value, in lower case."""
SAY_HEADER = "Pass header=False if it is data, header=True if these are names, or write names into the file."


@file_format(".csv", ".tsv")
def load_text(path: str | Path, *, header: bool | None = None) -> pd.DataFrame:
    """A table from a text file: columns between commas, semicolons or tabs, numbers with a point or a comma.

    In a .tsv file columns are between tabs. In a .csv file the delimiter is the one that gives every line the same
    number of columns. Numbers with a decimal comma are read as numbers.

    header : whether the first row holds the names of the columns. None: it does; but a first row that may be data
        is refused: nothing but numbers, or numbers above columns of numbers and no name above one. With False
        columns are called column0, column1, ...

    Rows may have one cell more than the header where the first is the row's name, as R writes them.
    """
    path = Path(path)
    with open(path, encoding="utf-8-sig", newline="") as file:
        lines = [line for line in itertools.islice(file, LINES_LOOKED_AT) if line.strip()]
    delimiter = "\t" if path.suffix.lower() == ".tsv" else find_delimiter(lines)
    first = next(csv.reader(lines[:1], delimiter=delimiter), [])
    if header is None and first and all(_is_number(cell) for cell in first):
        raise FileContentError(
            f"the first row holds nothing but numbers ({first_few(first)}): it may be data, or names of columns. "
            f"{SAY_HEADER}"
        )
    names = 0 if header in (None, True) else None
    second = next(csv.reader(lines[1:2], delimiter=delimiter), [])
    if names == 0 and len(second) > len(first):  # pandas takes the first column for names of rows
        _check_row_names(path, delimiter)
    table = pd.read_csv(path, sep=delimiter, header=names)
    with_commas = [name for name, column in table.items() if _has_decimal_commas(column)]
    if with_commas:
        points = table.select_dtypes("number")
        table = pd.read_csv(path, sep=delimiter, header=names, decimal=",")
        if delimiter == "," or not all(is_numeric_dtype(table[name]) for name in points):
            raise FileContentError(
                f"column {with_commas[0]!r} has numbers with commas, but there are commas between columns, or "
                "numbers with points, as well: it is not clear what they mean. Write all numbers with points."
            )
    if names is None:
        return table.set_axis([f"column{i}" for i in range(table.shape[1])], axis=1)
    if header is None:
        _check_names(first, table)
    # a column without a name, such as the row numbers that pandas writes, is no data
    return table.loc[:, [not str(column).startswith("Unnamed: ") for column in table.columns]]


def find_delimiter(lines: Sequence[str]) -> str:
    """What stands between the columns of a text file, told from its first lines.

    >>> find_delimiter(["a;b", "1,5;2,5"]), find_delimiter(["a,b", "1.5,2.5"])
    (';', ',')
    """
    rows = {mark: list(csv.reader(lines, delimiter=mark)) for mark in DELIMITERS}
    present = [mark for mark in DELIMITERS if any(len(row) > 1 for row in rows[mark])]
    even = [mark for mark in present if len({len(row) for row in rows[mark]}) == 1]
    if len(even) > 1:  # one of them may be a decimal comma, or part of a text
        even = [mark for mark in even if not any(_holds(cell, even) for row in rows[mark] for cell in row)]
    if len(even) == 1 or len(present) <= 1:
        return (even or present or [","])[0]
    said = " and ".join(DELIMITERS[mark] for mark in present)
    raise FileContentError(
        f"it is not clear what stands between the columns: lines have {said}, and no one of them gives every line "
        "the same number of columns. Write the table with commas between columns and points in numbers."
    )


def _check_row_names(path: Path, delimiter: str) -> None:
    """Refuse rows with more cells than the header, unless the first of one more is the row's name."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = (row for row in csv.reader(file, delimiter=delimiter) if row)
        columns = len(next(rows))
        widths, last = zip(*((len(row), row[-1].strip()) for row in rows), strict=True)
    if set(widths) == {columns + 1} and any(last):
        return
    end = ", the last one empty (a delimiter too many)" if not any(last) else ""
    raise FileContentError(
        f"the header names {columns} column{plural(columns)}, but rows have up to {max(widths)} cells{end}: it is "
        "not clear which column has which name. Give every row as many cells as the header (names of rows may "
        "stand before them), or pass what pandas.read_csv(..., index_col=False) gives to ascribo.Recording."
    )


def _check_names(cells: Sequence[str], table: pd.DataFrame) -> None:
    """Refuse a first row that was taken for names, but may be data: numbers above numbers, no name above any."""
    if len(cells) != table.shape[1]:  # names of rows stand before the columns: a row of data is longer
        return
    number = [is_numeric_dtype(kind) and not is_bool_dtype(kind) for kind in table.dtypes]
    above = [cell.strip() for cell, below in zip(cells, number, strict=True) if below]
    numbers = [cell for cell in above if _is_number(cell) and cell.lower() not in MISSING]
    named = any(not _is_number(cell) and cell.lower() not in MISSING for cell in above)
    row_numbers = not cells[0] and np.array_equal(table.iloc[:, 0], np.arange(len(table)))
    if numbers and not (named or row_numbers):
        raise FileContentError(
            f"the first row ({first_few(cells)}) may be data, or names of columns: {first_few(numbers)} "
            f"stand{'s' if len(numbers) == 1 else ''} above numbers. {SAY_HEADER}"
        )


def _holds(cell: str, marks: Sequence[str]) -> bool:
    """Whether a cell has one of the marks in it, other than as a decimal comma."""
    return any(mark in cell for mark in marks) and not DECIMAL_COMMA.fullmatch(cell.strip())


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True


def _has_decimal_commas(column: pd.Series) -> bool:
    """Whether a column was read as text although all its entries are numbers, some with a decimal comma."""
    if not (is_object_dtype(column.dtype) or is_string_dtype(column.dtype)):
        return False
    cells = column.dropna().astype(str).str.strip()
    commas = cells.str.fullmatch(DECIMAL_COMMA.pattern)
    return bool(commas.any() and cells[~commas].map(_is_number).all())


def _check_left_out(column: pd.Series) -> None:
    """Refuse to leave out a column of text most of whose cells are numbers: a stray cell would lose a channel."""
    if infer_dtype(column, skipna=True) != "string":
        return
    cells = column.dropna().astype(str).str.strip()
    plain = cells.map(_is_number)
    numbers = int((plain | cells.str.fullmatch(THOUSANDS.pattern)).sum())
    if 2 * numbers <= len(cells):
        return
    stray = int((~plain).to_numpy().argmax())
    row = int(np.flatnonzero(column.notna())[stray])
    raise ValueError(
        f"column {column.name!r} is text, although {numbers:,} of its {len(cells):,} cells are numbers: it has "
        f"{cells.iloc[stray]!r} in row {row + 1} below the header. Write numbers plainly, leave cells of missing "
        "values empty; or name the channels and the variables, if this column is not needed or holds labels."
    )


@file_format(".parquet")
def load_parquet(path: str | Path) -> pd.DataFrame:
    """A table from a parquet file. An index that has a name, such as time, is a column; row numbers are not."""
    try:
        import pyarrow  # noqa: F401
        from pyarrow.parquet import read_metadata
    except ImportError as error:
        raise ImportError(f"{path}: reading .parquet needs pyarrow: pip install 'ascribo[parquet]'") from error
    described = read_metadata(path)
    shape = (described.num_rows, described.num_columns)
    check_size(shape, np.float64, "the table", stored=Path(path).stat().st_size)
    table = pd.read_parquet(path, engine="pyarrow")
    return table.reset_index(drop=all(name is None for name in table.index.names))


def recording_from_table(
    table: pd.DataFrame,
    channels: str | Sequence[str] | None = None,
    variables: str | Sequence[str] | None = None,
    epochs: str | None = None,
    time: str | None = None,
) -> Recording:
    """A recording from the columns of a table with a row for each time step: see `ascribo.read`.

    >>> table = pd.DataFrame({"cell1": [0.0, 1.0], "cell2": [1.0, 0.0], "speed": [3.0, 4.0]})
    >>> recording_from_table(table, channels="cell*")
    Recording(2 time steps x 2 channels, variables: speed, 1 epoch)
    """
    columns = [str(column) for column in table.columns]
    table = table.set_axis(columns, axis=1)
    variables = [variables] if isinstance(variables, str) else variables
    if isinstance(channels, str) and channels.endswith("*"):
        prefix = channels[:-1]
        channels = [column for column in columns if column.startswith(prefix)]
        if not channels:
            raise ValueError(f"no column begins with {prefix!r}{suggest(prefix, columns)}")
    channels = [channels] if isinstance(channels, str) else channels
    named = [*(channels or []), *(variables or [])]
    free = [column for column in columns if column not in named]
    epochs = epochs or next((name for name in ("epoch", "epochs", "trial") if name in free), None)
    time = time or next((name for name in ("time",) if name in free), None)
    for name in (*named, epochs, time):
        if name is not None and name not in columns:
            raise ValueError(f"no column called {name!r}{suggest(name, columns)}")
    used = {*named, epochs, time}
    left = [column for column in columns if column not in used]
    rest = [column for column in left if is_numeric_dtype(table[column])]
    if channels is None or variables is None:
        for name in left:
            column: Any = table[name]
            _check_left_out(column)
    if channels is None:
        channels, rest = rest, []
        if not channels:
            raise ValueError(
                f"no numeric columns are left to be channels; the columns are "
                f"{', '.join(f'{c} ({t})' for c, t in table.dtypes.items())}."
            )
    variables = rest if variables is None else variables
    both = set(channels) & {*variables, epochs, time}
    if both:
        raise ValueError(
            f"column {min(both, key=str)!r} is a channel and something else; a column can be one of "
            "channel, variable, epochs and time."
        )
    return Recording(
        table[list(channels)],
        table[list(variables)],
        epochs=None if epochs is None else table[epochs],
        time=None if time is None else table[time],
    )

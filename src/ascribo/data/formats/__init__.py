"""Formats, a module each, which register themselves with `ascribo.data.format_registry`.

To add one, write its module here and import it below (or write it elsewhere and import it there):

- a *file format* is a function from a path to a DataFrame, to a dict of arrays, or to a `Recording`, under
  `@file_format(".ending")`: see `table_files.py`, `array_files.py`, `nwb.py`;
- a *format with time stamps* is a `TimeSeriesFormat` given to `register_time_series`: see `pynapple.py`.
  `timed_series.py` makes recordings from events and from samples with time stamps, bins and all.
"""

from . import array_files, table_files, zarr_store
from .nwb import read_nwb
from .pynapple import annotate, from_pynapple, to_pynapple
from .pynapple_folder import read_pynapple_folder

__all__ = [
    "annotate",
    "array_files",
    "from_pynapple",
    "read_nwb",
    "read_pynapple_folder",
    "table_files",
    "to_pynapple",
    "zarr_store",
]

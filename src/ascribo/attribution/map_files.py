"""Labelled arrays to one netCDF file and back."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import H5NetCDFStore

from ..data.format_registry import FileContentError
from ..data.formats.hdf5_safety import check_hdf5, check_heaps
from ..support.files import write_atomically

__all__ = ["read_arrays", "write_arrays"]

FACTS = "ascribo_attribution_maps"
"""The attribute of the file that holds, as JSON, what is no array. Files without it are not ours."""
FORMAT = 1
"""Goes up by one whenever what is written changes; the facts of earlier files have none, and are read as well."""
OWNER = "space_of_dimension"
"""The space of each dimension, by its name in the file: `space` itself is an axis there."""

SEAL = b"ascribo sha256 "
"""Before the checksum of the file, at its end, where readers of netCDF do not look. Files that others wrote, or
wrote again, have none."""


def write_arrays(path: str | Path, arrays: Mapping[str, xr.DataArray | None], facts: Mapping[str, Any]) -> Path:
    """Write those arrays that are there, and facts that JSON can hold."""
    there = {name: value for name, value in arrays.items() if value is not None}
    # netCDF has no slash in a name: such coordinates are numbered, and their names are among the facts
    odd = sorted({str(c) for value in there.values() for c in value.coords if "/" in str(c) or not c})
    renamed = {name: f"coordinate_{k}" for k, name in enumerate(odd)}
    stored, some = {}, {}
    for name, value in there.items():
        spaces = there["by_space"]["space"].values
        if "space" in value.dims and not np.array_equal(value["space"].values, spaces):  # the file has one axis
            some[name] = value["space"].values.tolist()
            value = value.reindex(space=spaces)
        owner = {"space": OWNER} if value.coords["space"].dims == ("dimension",) else {}
        stored[name] = value.rename({c: renamed[str(c)] for c in value.coords if str(c) in renamed} | owner)
    data = xr.Dataset(stored)
    known = {"format": FORMAT, **facts, "names": renamed, "some_spaces": some}
    data.attrs = {"method": facts["method"], FACTS: json.dumps(known)}
    content = _netcdf(data)
    digest = hashlib.sha256(content).hexdigest()
    return write_atomically(path, lambda temporary: temporary.write_bytes(content + SEAL + digest.encode()))


def _netcdf(data: xr.Dataset) -> bytes:
    """The content of a netCDF file. It is made in memory: on a full disk HDF5 would end the whole process."""
    import h5netcdf

    content = io.BytesIO()
    with h5netcdf.File(content, "w") as file:
        data.dump_to_store(H5NetCDFStore(file, mode="w"))
    return content.getvalue()


def read_arrays(path: str | Path, names: Sequence[str]) -> tuple[dict[str, xr.DataArray | None], dict[str, Any]]:
    """The arrays of those names, None for those that are not there, and the facts."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: no such file.")
    try:
        return _read_arrays(path, names)
    except (ImportError, MemoryError, FileContentError):
        raise
    except Exception as error:  # the libraries that read it fail in their own ways
        raise ValueError(
            f"{path} is not a file of attribution maps, or is damaged ({type(error).__name__}: {error}): pass one "
            "that maps.to_netcdf(path) wrote."
        ) from error


def _read_arrays(path: str | Path, names: Sequence[str]) -> tuple[dict[str, xr.DataArray | None], dict[str, Any]]:
    content, seal, digest = Path(path).read_bytes().rpartition(SEAL)
    if seal and hashlib.sha256(content).hexdigest().encode() != digest:
        raise FileContentError(f"{path} was changed or damaged after it was written: its checksum differs.")
    del content
    check_hdf5(path)
    check_heaps(path)
    data = xr.load_dataset(path, engine="h5netcdf")
    if FACTS not in data.attrs:
        raise ValueError(f"it has no attribute {FACTS}")
    facts = json.loads(data.attrs[FACTS])
    if (form := facts.pop("format", FORMAT)) != FORMAT:
        raise FileContentError(
            f"{path} was written in format {form!r}, and this version of ascribo reads format {FORMAT}: read it "
            "with the version that wrote it, or make the maps again."
        )
    back = {there: name for name, there in facts.pop("names").items()} | {OWNER: "space"}
    some = facts.pop("some_spaces", {})
    arrays = {}
    for name in names:
        value = data[name] if name in data else None
        value = value.sel(space=some[name]) if value is not None and name in some else value
        arrays[name] = None if value is None else value.rename({c: back[str(c)] for c in value.coords if c in back})
    return arrays, facts

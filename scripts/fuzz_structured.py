"""Edits of files that keep their form, made by hypothesis: other values in JSON records, other headers and members
in .npy and .npz files, other cells and rows in tables. A part of `fuzz.py`; bytes of files are damaged there.

Where a file fails its reader, hypothesis looks for the smallest edit that still does, and shows it.
"""

from __future__ import annotations

import copy
import io
import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
from fuzz_damage import ODD
from fuzz_files import Case
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

__all__ = ["edited", "read_edited"]

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.sampled_from(ODD),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
SHAPES = st.lists(st.sampled_from([0, 1, 3, 4, 60, 61, -1, 2**31, 2**62]), max_size=3).map(tuple)
KINDS = st.sampled_from(["<f4", ">f8", "<i8", "|b1", "<U5", "|S3", "|O", "<c16", "<M8[s]", "|V8", "<f2", "", "x"])
CELLS = st.sampled_from(["", "nan", "inf", "-1e400", "1,5", '"', "'", "\0", "é", "left", "9" * 400, "=1+1", "\r"])


def edited(case: Case) -> st.SearchStrategy[bytes]:
    """The bytes of the file of a case, after an edit."""
    return EDITS[Path(case.name).suffix]((case.root / case.file if case.file else case.root).read_bytes())


@st.composite
def _json(draw: Callable[..., Any], content: bytes) -> bytes:
    """Another value somewhere, or none; with a good checksum, as somebody would who knows how it is made."""
    from ascribo.support.sealed_json import seal

    found: Any = json.loads(content)
    sealed, place = isinstance(found, dict) and "checksum" in found, copy.deepcopy(found)
    whole = place
    while isinstance(place, dict | list) and place:
        key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        inner = place[key]
        if isinstance(inner, dict | list) and inner and draw(st.booleans()):
            place = inner
            continue
        if draw(st.integers(0, 3)) == 0:
            del place[key]
        else:
            place[key] = draw(JSON_VALUES)
        break
    return json.dumps(seal(whole) if sealed else whole).encode()


@st.composite
def _npy(draw: Callable[..., Any], content: bytes) -> bytes:
    """Another header, or more or fewer numbers."""
    array = np.load(io.BytesIO(content), allow_pickle=False)
    header = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
    name = draw(st.sampled_from([*header, "more", "less"]))
    values = {"descr": KINDS, "fortran_order": st.booleans(), "shape": SHAPES}
    if name in values:
        header[name] = draw(values[name])
    data = array.tobytes()
    data = data[: draw(st.integers(0, len(data)))] if name == "less" else data
    text = f"{header!r}\n" if name != "more" else draw(st.text(max_size=40)) + "\n"
    packed = text.encode("latin1", "replace")
    return b"\x93NUMPY\1\0" + len(packed).to_bytes(2, "little") + packed + data


@st.composite
def _npz(draw: Callable[..., Any], content: bytes) -> bytes:
    """An array of the archive edited, left out, doubled or called otherwise."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    number = draw(st.integers(0, len(members) - 1))
    name, data = members[number]
    match draw(st.sampled_from(["edit", "leave out", "double", "rename"])):
        case "edit":
            members[number] = name, draw(_npy(data)) if not _of_objects(data) else data[:-1]
        case "leave out":
            del members[number]
        case "double":
            members.append((name, data))
        case "rename":
            other = draw(st.sampled_from(["../x.npy", "/x.npy", "X", ".npy", "x.npy", "é.npy", "a/b.npy"]))
            members[number] = other, data
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))) as archive:
        for own, value in members:
            archive.writestr(own, value)
    return out.getvalue()


def _of_objects(content: bytes) -> bool:
    return b"'|O'" in content[:200]


@st.composite
def _table(draw: Callable[..., Any], content: bytes) -> bytes:
    """A cell, a row, a column, the names or the encoding changed."""
    text = content.decode("utf-8", "replace")
    between = "\t" if "\t" in text else ","
    rows = [line.split(between) for line in text.split("\n")]
    number = draw(st.integers(0, len(rows) - 1))
    match draw(st.sampled_from(["cell", "row", "short", "long", "name", "between", "encoding", "nothing"])):
        case "cell":
            column = draw(st.integers(0, len(rows[number]) - 1))
            rows[number][column] = draw(CELLS | st.text(max_size=5))
        case "row":
            del rows[number]
        case "short":
            rows[number] = rows[number][:-1]
        case "long":
            rows[number] = rows[number] * draw(st.integers(2, 50))
        case "name":
            rows[0][0] = rows[0][-1]
        case "between":
            between = draw(st.sampled_from([";", " ", "|", ",,", "\t"]))
        case "encoding":
            encoding = draw(st.sampled_from(["utf-16", "utf-8-sig", "latin1", "utf-32"]))
            return "\n".join(between.join(row) for row in rows).encode(encoding, "replace")
        case "nothing":
            rows = rows[: draw(st.integers(0, 2))]
    return "\n".join(between.join(row) for row in rows).encode("utf-8", "replace")


EDITS: dict[str, Callable[[bytes], st.SearchStrategy[bytes]]] = {
    **{".json": _json, ".npy": _npy, ".npz": _npz, ".csv": _table, ".tsv": _table}
}


def read_edited(
    cases: Sequence[Case], read: Callable[[str, Path], None], examples: int, seed: int | None, folder: Path
) -> int:
    """Read so many files with edits, of all cases that can be edited; how many were read. Stops where one fails.

    read : raises nothing that is fine. seed : None: the same edits at every call.
    """
    known = [case for case in cases if Path(case.name).suffix in EDITS and case.damage == "bytes"]
    done = 0

    def check(data: st.DataObject) -> None:
        nonlocal done
        case = data.draw(st.sampled_from(known).map(lambda one: one.kind), "kind")
        case = next(one for one in known if one.kind == case)
        content, done = data.draw(edited(case), "content"), done + 1
        place = Path(tempfile.mkdtemp(dir=folder))
        try:
            root, file = case.copied(place)
            file.write_bytes(content)
            read(case.reader, root)
        finally:
            shutil.rmtree(place)

    options: Any = {"max_examples": examples, "deadline": None, "database": None, "derandomize": seed is None}
    options["report_multiple_bugs"] = False
    options["suppress_health_check"] = list(HealthCheck)
    options["phases"] = [Phase.generate, Phase.shrink]
    run = hypothesis.settings(**options)(hypothesis.given(st.data())(check))
    (run if seed is None else hypothesis.seed(seed)(run))()
    return done

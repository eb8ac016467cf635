"""JSON with a checksum: what is changed is noticed, and what cannot be one of our files is refused."""

import json
import os

import pytest

from ascribo.support import sealed_json
from ascribo.support.sealed_json import is_whole, read_json, seal, write_sealed


def test_a_change_is_noticed_and_a_new_order_is_none(tmp_path):
    file = tmp_path / "a.json"
    write_sealed(file, {"b": [1, 2.5, None], "a": {"c": "d"}})
    found = read_json(file)
    assert is_whole(found) and is_whole(dict(reversed(found.items()))) and not is_whole({**found, "b": [1]})
    rest = {key: value for key, value in found.items() if key != "checksum"}
    assert rest == {"b": [1, 2.5, None], "a": {"c": "d"}}
    assert not is_whole(rest) and is_whole(rest, needed=False) and not is_whole({**found, "b": 1}, needed=False)
    assert seal(found) == found


def test_what_is_no_file_of_ours_is_refused(tmp_path, monkeypatch):
    file = tmp_path / "a.json"
    for content, said in (("[1]", "holds a list"), ("[" * 50_000, "too deep"), ("{", "Expecting")):
        file.write_text(content)
        with pytest.raises(ValueError, match=said):
            read_json(file)
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none.json")
    file.write_text(json.dumps({"a": "b" * 100}))
    monkeypatch.setattr(sealed_json, "LARGEST", 50)
    with pytest.raises(ValueError, match=r"expected .* at most"):
        read_json(file)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="not an ordinary file"):
        read_json(tmp_path / "pipe")

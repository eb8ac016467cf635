"""Parameters as JSON: what comes back is what was written, and what could not come back is refused."""

import json
from dataclasses import InitVar, dataclass, field
from pathlib import Path

import numpy as np
import pytest

import ascribo as asc
from ascribo.support import stored_parameters as records
from ascribo.support.stored_parameters import decode, encode, storable


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    monkeypatch.setattr(records, "REGISTERED", dict(records.REGISTERED))


def there_and_back(value):
    return decode(json.loads(json.dumps(encode(value))))


def test_plain_values_come_back():
    given = {"a": (1, 2.5, None, True), "b": {"c": "text", 3: (np.float32(0.5), np.str_("d"))}, "e": Path("x/y")}
    assert there_and_back(given) == {"a": (1, 2.5, None, True), "b": {"c": "text", 3: (0.5, "d")}, "e": "x/y"}


def test_our_own_classes_come_back():
    given = asc.Follow(["x", "y"], 2, circular="y", similarity=asc.Lp(3), temperature="learn")
    assert there_and_back({"s": given, "e": asc.MLP((8, 4))}) == {"s": given, "e": asc.MLP((8, 4))}


@dataclass(frozen=True)
class MLP:
    """A stranger that is called like one of ours."""

    widths: tuple[int, ...] = (180, 180, 60)
    limit: str = "hard"
    scale: float = 5.0


def test_a_class_is_not_known_by_its_name():
    with pytest.raises(ValueError, match=r"cannot be saved: .*test_stored_parameters\.MLP is not registered"):
        encode(MLP(), "encoder")
    storable(MLP)
    assert encode(MLP())["type"] == f"{__name__}:MLP"
    assert type(there_and_back(MLP())) is MLP and type(there_and_back(asc.MLP())) is asc.MLP


def test_a_child_of_a_registered_class_is_a_class_of_its_own():
    @dataclass(frozen=True)
    class Faster(asc.Ramp):
        pass

    with pytest.raises(ValueError, match="Faster is not registered"):
        encode(Faster(0.1))


def test_what_stands_deep_inside_is_named():
    class Mine:
        pairwise = None

    space = asc.Time(1, similarity=Mine())
    with pytest.raises(ValueError, match=r"spaces\['rest'\]\.similarity cannot be saved: .*is not a dataclass"):
        encode({"rest": space}, "spaces")
    for odd in (np.zeros(3), {1, 2}, lambda: None):
        with pytest.raises(ValueError, match=r"thing\[1\] cannot be saved"):
            encode([0, odd], "thing")


def test_the_module_to_import_is_named_and_nothing_is_imported(tmp_path, monkeypatch):
    (tmp_path / "my_lab_ideas.py").write_text("raise RuntimeError('this was imported')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"class Cosine of the module my_lab_ideas: import my_lab_ideas"):
        decode({"type": "my_lab_ideas:Cosine"})
    with pytest.raises(ValueError, match=r"'os\.system' is unknown to this version of ascribo"):
        decode({"type": "os.system", "command": "true"})


def test_a_class_may_be_defined_again_with_the_same_name():
    """As when the cell of a notebook is run twice."""
    for _ in range(2):

        @storable
        @dataclass
        class Wave:
            height: float

    assert type(there_and_back(Wave(1.0))) is Wave


def test_what_cannot_be_registered():
    with pytest.raises(TypeError, match="not a dataclass"):
        storable(object)
    with pytest.raises(TypeError, match="not a dataclass"):
        storable(asc.MLP())

    @dataclass
    class Typed:
        type: str

    with pytest.raises(TypeError, match="rename the field"):
        storable(Typed)


def test_what_its_fields_do_not_make_again_is_refused():
    @storable
    @dataclass
    class Secret:
        seed: InitVar[int]
        value: int = field(init=False)

        def __post_init__(self, seed):
            self.value = seed

    with pytest.raises(ValueError, match="cannot be made again from its fields"):
        encode(Secret(3))


def test_a_class_that_changed_its_fields_is_said_to_have():
    text = encode(asc.Lp(3))
    with pytest.raises(ValueError, match="Lp has other fields than when the model was saved"):
        decode({**text, "q": 2})

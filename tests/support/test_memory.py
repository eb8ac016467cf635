"""The budget of memory, and the sizes that follow from it."""

import numpy as np
import pytest

from ascribo.support import memory
from ascribo.support.memory import memory_budget, parse_memory, require_memory, said


@pytest.mark.parametrize(
    ("given", "bytes_"),
    [("2GB", 2e9), ("500MB", 5e8), ("1.5 gb", 1.5e9), ("64KiB", 2**16), ("7", 7), (12, 12), (np.int64(12), 12)],
)
def test_sizes_are_read(given, bytes_):
    assert parse_memory(given) == bytes_


@pytest.mark.parametrize("given", ["", "2 elephants", "GB", "-1GB", "0", 0, -5, 2.5e9, True, ["2GB"]])
def test_what_is_no_size_is_refused(given):
    with pytest.raises(ValueError, match="expected a size such as '2GB'"):
        parse_memory(given)


@pytest.mark.parametrize("size", [1, 999_999, 10**6, 123_456_789, 2 * 10**9, 12_345_678_901])
def test_what_is_said_is_enough(size):
    assert size <= parse_memory(said(size)) <= 1.1 * size + 10**6


def test_the_innermost_budget_holds_until_its_end():
    whole = memory.bytes_mapped(), memory.bytes_read_ahead()
    with memory_budget("80MB"):
        with memory_budget("8MB"):
            assert (memory.bytes_mapped(), memory.bytes_read_ahead()) == (250_000, 10**6)
        with memory_budget(None):
            assert memory.bytes_read_ahead() == 10**7
        with pytest.raises(RuntimeError), memory_budget(9):
            raise RuntimeError
        assert memory.bytes_read_ahead() == 10**7 and memory.limited()
    assert (memory.bytes_mapped(), memory.bytes_read_ahead()) == whole and not memory.limited()


def test_what_does_not_fit_is_refused_with_what_would_do():
    require_memory(10**12, "anything", "nothing")  # without a budget nothing is refused
    with memory_budget("100MB"):
        require_memory(10**8, "a block", "less")
        with pytest.raises(
            ValueError, match=r"memory='100MB' is too little: a block takes .* memory='101MB', or a smaller one"
        ):
            require_memory(10**8 + 1, "a block", "a smaller one")

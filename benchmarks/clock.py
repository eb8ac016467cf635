"""What both sides of the comparison measure time with. Standard library only: two environments import it."""

from __future__ import annotations

import time
from collections.abc import Callable


def clock(work: Callable[[], object], number: int = 1) -> dict[str, float]:
    """Milliseconds of wall and of processor time for one of `number` pieces of work done together.

    Both sides run one thread, so on an idle machine the two agree; on a busy one processor time leaves out the
    waiting for a core, which is no property of the program.

    >>> sorted(clock(lambda: sum(range(1000))))
    ['processor_ms', 'wall_ms']
    """
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return {
        "wall_ms": 1e3 * (time.perf_counter() - wall) / number,
        "processor_ms": 1e3 * (time.process_time() - processor) / number,
    }

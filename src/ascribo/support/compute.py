"""Where to compute: the device, one thread per process, other processes, and how much memory there is."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import torch
from joblib import Parallel, cpu_count, delayed
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController

from .memory import limited

__all__ = [
    "available_memory",
    "check_memory",
    "device_memory",
    "in_processes",
    "in_threads",
    "one_blas_thread",
    "one_thread",
    "physical_memory",
    "resolve_device",
    "side_by_side",
    "worker_pool",
]


Result = TypeVar("Result")


@contextmanager
def one_thread() -> Iterator[None]:
    """One CPU thread inside the block: small products lose more to barriers than they gain from threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Inside the block a product of numpy or scipy takes one thread: the threads of `in_threads` are enough.

    Threads of a BLAS library wait for each other at work; on two cores with other work on them, threads within
    threads took ten times longer than one.
    """
    with _libraries().limit(limits=1, user_api="blas"):
        yield


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


_mine = threading.local()  # .crew: the threads of which this one is, if it is one of `in_threads`


def in_threads(
    function: Callable[[Any], Result], arguments: Iterable[Any], threads: int | None = None
) -> list[Result]:
    """function(each) for all arguments, in threads, in their order: for work that numpy does without Python's lock.

    `function` may use `in_threads` in its turn: threads that have nothing left to do help wherever there is work.

    threads : None: as many as cores, or as OMP_NUM_THREADS allows; joblib sets that for its processes. Within
    threads there are no more than these. With a budget of memory there is one: each has its own part of the work in
    memory.

    >>> in_threads(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    every = list(arguments)
    if hasattr(_mine, "crew"):
        return _share(function, every, _mine.crew)
    several = 1 if limited() else threads or _allowed()
    if several <= 1 or not every:
        return [function(each) for each in every]
    with _Crew(several) as crew:
        return _share(function, every, crew)


class _Crew:
    """Threads that take part in what is offered, as long as the block lasts."""

    def __init__(self, number: int) -> None:
        self.number, self.over = number, False
        self.offers: deque[Callable[[], None]] = deque()
        self.changed = threading.Condition()
        self.threads = [threading.Thread(target=self._work) for _ in range(number)]

    def __enter__(self) -> _Crew:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self.changed:
            self.over = True
            self.changed.notify_all()
        for thread in self.threads:
            thread.join()

    def _work(self) -> None:
        _mine.crew = self
        self.help_while(lambda: not self.over)

    def help_while(self, wanted: Callable[[], bool]) -> None:
        """Take part in what is offered while that is wanted; where nothing is, wait."""
        with self.changed:
            while wanted():
                if not self.offers:
                    self.changed.wait()
                    continue
                offer = self.offers.popleft()
                self.changed.release()
                try:
                    offer()
                finally:
                    self.changed.acquire()


def _share(function: Callable[[Any], Result], every: list[Any], crew: _Crew) -> list[Result]:
    """The same, by the threads of the crew that are free. If this thread is one of them it works too, and helps
    elsewhere while it waits for others."""
    results: dict[int, Result] = {}
    errors: list[BaseException] = []
    left = iter(range(len(every)))  # each thread takes the next, one at a time
    mine = getattr(_mine, "crew", None) is crew
    others = min(len(every), crew.number) - mine  # offers that are not yet done with

    def work() -> None:
        try:
            for k in left:
                results[k] = function(every[k])
        except BaseException as error:
            errors.append(error)
            for _ in left:  # nothing more is begun
                pass

    def take_part() -> None:
        nonlocal others
        work()
        with crew.changed:
            others -= 1
            crew.changed.notify_all()

    with crew.changed:
        crew.offers.extend([take_part] * others)
        crew.changed.notify_all()
    if mine:
        work()
        with crew.changed:  # what nobody took
            others -= crew.offers.count(take_part)
            crew.offers = deque(each for each in crew.offers if each is not take_part)
        crew.help_while(lambda: others > 0)
    else:
        try:
            with crew.changed:
                crew.changed.wait_for(lambda: others == 0)
        except BaseException:  # such as Ctrl-C
            for _ in left:
                pass
            raise
    if errors:
        raise errors[0]
    return [results[k] for k in range(len(every))]


def side_by_side(*tasks: Callable[[], Any]) -> list[Any]:
    """What some functions without arguments return, each in a thread of `in_threads`.

    >>> side_by_side(lambda: 1, lambda: "a")
    [1, 'a']
    """
    return in_threads(lambda task: task(), tasks)


def _allowed() -> int:
    """Threads that are allowed, if nothing else is said."""
    cores = _cores()
    return min(cores, int(os.environ.get("OMP_NUM_THREADS") or cores))


@cache
def _cores() -> int:
    return cpu_count()  # which reads files


def resolve_device(name: str | torch.device) -> torch.device:
    """The device behind `device=`: "auto" is a GPU where there is one. Refuses what cannot be used here.

    >>> resolve_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device={name!r} cannot be used here ({error}): use 'auto' or 'cpu'.") from error
    return device


def physical_memory() -> int | None:
    """Bytes of memory of this machine; None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def device_memory(device: torch.device | str) -> int | None:
    """Bytes of memory of a GPU, or of this machine; None where the system does not tell."""
    where = torch.device(device)
    return torch.cuda.get_device_properties(where).total_memory if where.type == "cuda" else physical_memory()


def available_memory(device: torch.device | str = "cpu") -> int | None:
    """Bytes of memory of a device that nothing uses now; None where the system does not tell.

    On Linux this is what the kernel reckons can be had without swapping, elsewhere half of the physical memory. Of
    a GPU it is what no process holds, and what torch holds in this one without using it.

    >>> available_memory() is None or available_memory() > 0
    True
    """
    where = torch.device(device)
    if where.type == "cuda":
        free, _ = torch.cuda.mem_get_info(where)
        return free + torch.cuda.memory_reserved(where) - torch.cuda.memory_allocated(where)
    try:
        with open("/proc/meminfo") as lines:
            return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        memory = physical_memory()
        return None if memory is None else memory // 2


def check_memory(bytes_needed: int, device: torch.device | str, what: str, instead: str) -> None:
    """Refuse what would take more than nine tenths of the memory that a device has free, before it is begun.

    what, instead : named in the error: what does not fit, and what to use in its place.
    """
    free = available_memory(device)
    if free is not None and bytes_needed > 0.9 * free:
        raise ValueError(
            f"{what} would take {bytes_needed / 1e9:.1f} GB, and of the memory of {torch.device(device)} "
            f"{free / 1e9:.1f} GB are free: use {instead}."
        )


def in_processes(
    function: Callable[..., Result], arguments: Iterable[tuple[Any, ...]], processes: int
) -> list[Result]:
    """function(*each) for all arguments, spread over processes, in their order.

    >>> in_processes(divmod, [(7, 2), (9, 4)], 1)
    [(3, 1), (2, 1)]
    """
    return list(worker_pool(processes)(delayed(function)(*each) for each in arguments))  # type: ignore[arg-type]


def worker_pool(processes: int, **options: Any) -> Parallel:
    """joblib's `Parallel` whose processes end with this one, even if it is killed: they would have nobody to work
    for, and joblib's own wait five minutes for more. options : others of `Parallel`.

    Within one of these processes there is one: joblib would take threads there, all cores are at work already, and
    derivatives by torch's forward mode, which counts its levels once for a process, fail in threads.
    """
    if getattr(get_active_backend()[0], "nesting_level", None):
        processes = 1
    return Parallel(n_jobs=processes, initializer=_end_with, initargs=(os.getpid(),), **options)


def _end_with(parent: int) -> None:
    """End this process when the one that started it has ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()

"""Where to compute: the device, one thread per process, other processes, and how much memory there is."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import torch
from joblib import Parallel, cpu_count, delayed
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController

from .memory import limited

__all__ = [
    "check_memory",
    "in_processes",
    "in_threads",
    "one_blas_thread",
    "one_thread",
    "physical_memory",
    "resolve_device",
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


_mine = threading.local()  # .cores: what this thread may use, if it is one of `in_threads`


def in_threads(
    function: Callable[[Any], Result], arguments: Iterable[Any], threads: int | None = None
) -> list[Result]:
    """function(each) for all arguments, in threads, in their order: for work that numpy does without Python's lock.

    threads : None: as many as cores, or as OMP_NUM_THREADS allows; joblib sets that for its processes. Threads
    within threads share them. With a budget of memory there is one: each has its own part of the work in memory.

    >>> in_threads(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    every = list(arguments)
    cores = getattr(_mine, "cores", None) or threads or _allowed()
    several = 1 if limited() else min(cores, len(every))
    if several <= 1:
        return [function(each) for each in every]

    def work(each: Any) -> Result:
        _mine.cores = max(1, cores // several)
        return function(each)

    with ThreadPoolExecutor(several) as pool:
        return list(pool.map(work, every))


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


def check_memory(bytes_needed: int, device: torch.device | str, what: str, instead: str) -> None:
    """Refuse what would take more than half of the memory of a device, before it is begun.

    what, instead : named in the error: what does not fit, and what to use in its place.
    """
    where = torch.device(device)
    memory = torch.cuda.get_device_properties(where).total_memory if where.type == "cuda" else physical_memory()
    if memory is not None and bytes_needed > memory // 2:
        raise ValueError(
            f"{what} would take {bytes_needed / 1e9:.1f} GB, and {where} has {memory / 1e9:.1f} GB of memory: "
            f"use {instead}."
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

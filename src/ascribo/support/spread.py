"""The same function for many tasks: in this process, over processes, or on the machines of a Dask cluster.

Results come as they are done. A worker that is lost (killed, out of memory, its machine switched off) loses only
what it was at: its tasks are given to others.
"""

from __future__ import annotations

import pickle
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from joblib import delayed, effective_n_jobs, parallel_config
from joblib.externals.loky.process_executor import BrokenProcessPool

from .compute import worker_pool

__all__ = ["WorkersLost", "spread"]

ATTEMPTS = 5
"""Rounds in a row in which no task was done, after which the rest is given up."""
CONNECT_SECONDS = 60
"""How long a scheduler is waited for, at first and after it was lost."""

Result = TypeVar("Result")
Tasks = Mapping[str, tuple[Any, ...]]


class WorkersLost(RuntimeError):
    """Tasks that were never done, because the workers that had them were lost again and again."""

    def __init__(self, keys: list[str]):
        super().__init__(
            f"{len(keys)} of the tasks lost their worker {ATTEMPTS} times and were given up. Most often a worker "
            "is killed because it has too little memory: give each more, or run fewer at once."
        )
        self.keys = keys


def spread(
    function: Callable[..., Result], tasks: Tasks, *, n_jobs: int | None = None, scheduler: Any = None
) -> Iterator[tuple[str, Result]]:
    """function(*arguments) for each task by name: (name, result), in the order in which they are done.

    An exception of the function is raised here. n_jobs : processes (None: this one; -1: one for each core).
    scheduler : address of a Dask scheduler, such as "tcp://10.0.0.1:8786", or a Client of `distributed`.

    >>> sorted(spread(divmod, {"a": (7, 2), "b": (9, 4)}))
    [('a', (3, 1)), ('b', (2, 1))]
    """
    if scheduler is not None:
        yield from _in_rounds(lambda left: _on_dask(function, left, scheduler), tasks)
    elif n_jobs is None or (processes := min(effective_n_jobs(n_jobs), len(tasks))) <= 1:
        for key, arguments in tasks.items():
            yield key, function(*arguments)
    else:
        yield from _in_rounds(lambda left: _over_processes(function, left, processes), tasks)


def _in_rounds(once: Callable[[Tasks], Iterator[tuple[str, Result]]], tasks: Tasks) -> Iterator[tuple[str, Result]]:
    """Ask again for what was not done. once : yields what is done, without the rest if workers are lost."""
    left, fruitless = dict(tasks), 0
    while left:
        before = len(left)
        for key, result in once(left):
            del left[key]
            yield key, result
        fruitless = 0 if len(left) < before else fruitless + 1
        if left and fruitless == ATTEMPTS:
            raise WorkersLost(list(left))


def _over_processes(function: Callable[..., Result], tasks: Tasks, processes: int) -> Iterator[tuple[str, Result]]:
    work = (delayed(_named)(key, function, arguments) for key, arguments in list(tasks.items()))
    try:
        with parallel_config("loky", inner_max_num_threads=1):
            yield from worker_pool(processes, return_as="generator_unordered", pre_dispatch="n_jobs")(work)  # type: ignore[misc]
    except BrokenProcessPool:
        return


def _named(key: str, function: Callable[..., Result], arguments: tuple[Any, ...]) -> tuple[str, Result]:
    return key, function(*arguments)


def _on_dask(function: Callable[..., Result], tasks: Tasks, scheduler: Any) -> Iterator[tuple[str, Result]]:
    client, ours = _connect(scheduler)
    from distributed import KilledWorker, as_completed

    try:
        keys = {client.submit(_outcome, function, arguments, pure=False): key for key, arguments in tasks.items()}
        for future in as_completed(keys, loop=client.loop):
            try:
                result, error = future.result()
            except (CancelledError, KilledWorker, OSError, TimeoutError):  # worker or scheduler were lost
                continue
            if error is not None:
                raise error
            yield keys[future], result
    finally:
        if ours:
            client.close(timeout=2)


def _outcome(
    function: Callable[..., Result], arguments: tuple[Any, ...]
) -> tuple[Result, None] | tuple[None, Exception]:
    """What a function returns, or as a value the exception that it raises, which is then none of the connection."""
    try:
        return function(*arguments), None
    except Exception as error:
        error.add_note(f"On the worker:\n{traceback.format_exc()}")
        return None, _sendable(error)


def _sendable(error: Exception) -> Exception:
    """The exception, or what it says if it cannot be sent to another process."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _connect(scheduler: Any) -> tuple[Any, bool]:
    """A client of the scheduler, and whether it was made here."""
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError(
            "a Dask scheduler needs the package distributed: pip install 'ascribo[cluster]'"
        ) from error
    if isinstance(scheduler, Client):
        until = time.monotonic() + CONNECT_SECONDS
        while scheduler.status != "running" and time.monotonic() < until:
            time.sleep(0.1)
        return scheduler, False
    try:
        return Client(str(scheduler), timeout=CONNECT_SECONDS, set_as_default=False), True
    except (OSError, ValueError) as error:
        raise ValueError(
            f"no Dask scheduler answers at {scheduler} ({type(error).__name__}): start one with `dask scheduler`, "
            "and pass the address that it prints. What is finished is kept."
        ) from error

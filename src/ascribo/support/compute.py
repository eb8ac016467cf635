"""Where to compute: the device, one thread per process, and how much memory there is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["one_thread", "physical_memory", "resolve_device"]


@contextmanager
def one_thread() -> Iterator[None]:
    """One CPU thread inside the block: small products lose more to barriers than they gain from threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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

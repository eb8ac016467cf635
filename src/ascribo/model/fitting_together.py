"""Several estimators, each with a recording of its own, fitted as one stack: the way of a GPU.

A GPU takes hardly longer for the training steps of many models than for those of one. On a CPU each recording
trains on its own all the same (`ascribo.training.stack_packing`), and nothing is gained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..support.compute import one_thread
from ..training.dispatch import side_by_side, train_many
from ..training.penalty_weight import Constant
from ..training.settings import Settings
from .begun_fit import Begun
from .estimator import ContrastiveEmbedding
from .fitting import finish

__all__ = ["fit_together", "why_not_together"]


def why_not_together(model: ContrastiveEmbedding) -> str:
    """Why an estimator cannot be fitted with others, in words; empty if it can.

    Models of a stack take the same steps, so that none can decide for itself when it has learned enough.

    >>> why_not_together(ContrastiveEmbedding(steps=500, seeds=2))
    ''
    >>> why_not_together(ContrastiveEmbedding(steps=500))
    "seeds='auto'"
    """
    if model.memory is not None:
        return f"memory={model.memory!r}, which is for one fit at a time"
    return ", ".join(f"{name}='auto'" for name in ("steps", "seeds") if getattr(model, name) == "auto")


def fit_together(
    models: Sequence[ContrastiveEmbedding], begun: Sequence[Begun], *, n_jobs: int | None = None
) -> None:
    """Fit estimators to what was begun for each. They may differ in their recordings, seeds and penalties.

    All take the steps that were asked for: none stops early.

    n_jobs : processes on a CPU (None: 1; -1: one for each core).
    """
    for members in _alike(begun):
        own = [begun[k] for k in members]
        settings = replace(own[0].settings, early_stop=None)
        owner = [k for k, one in enumerate(own) for _ in one.seeds]
        with one_thread():
            each = train_many(
                [own[k].prepared.problem for k in owner],
                [seed for one in own for seed in one.seeds],
                settings,
                schedules=[own[k].settings.schedule for k in owner],
                n_jobs=n_jobs,
                progress=False,
            )
            trained = [
                side_by_side([one for one, whose in zip(each, owner, strict=True) if whose == k])
                for k in range(len(own))
            ]
            found = finish(
                [one.prepared for one in own],
                [one.parameters for one in trained],
                [one.seeds for one in own],
                batch_size=settings.batch_size,
                decoder_steps=settings.decoder_steps,
                device=settings.device,
                progress=False,
            )
        for k, one, (model, fit) in zip(members, trained, found, strict=True):
            models[k]._trained(begun[k], one, model, fit, f"{len(begun[k].seeds)} were asked for")


def _alike(begun: Sequence[Begun]) -> list[list[int]]:
    """Numbers of those that train in the same way but for λ. A recording shorter than a batch has smaller ones."""
    groups: dict[Settings, list[int]] = {}
    for k, one in enumerate(begun):
        groups.setdefault(replace(one.settings, schedule=Constant(0.0)), []).append(k)
    return list(groups.values())

"""The times of `navigation-timing` on a GPU (Schneider et al. 2025, tables 4 and 5, which are of an A5000).

Wall times: everything that is timed ends with its result on the host. Beside captum only; cebra on a GPU is in
`benchmarks.gpu`. A step of a single small model is mostly the launching of kernels, so stacks of models, which are
how tables are made here, take far less for each: see docs/performance.md.
"""

from __future__ import annotations

from experiments.regcl import navigation_models
from experiments.regcl.navigation_timing import FULL, PAPER, QUICK, cases, conclude, draw, tables, timed
from experiments.shared.runner import experiment

__all__ = ["FULL", "QUICK", "cases", "conclude", "draw", "run", "tables"]

run = experiment(
    *("navigation-timing-gpu", {**FULL, "timed": 200}, QUICK),
    cases=cases,
    rows=timed,
    conclude=conclude,
    draw=draw,
    protocol={**navigation_models.PROTOCOL, "paper": PAPER},
    in_one_process=True,
)

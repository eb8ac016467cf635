"""Many fits: every session with every choice of settings, in one folder, on one machine or many.

    sessions.py  which recordings there are, and a fingerprint of each
    cells.py     one session with one choice of settings: its name, its computation, what came of it
    stacks.py    several of them whose models train as one stack, for GPUs
    pages.py     a page that compares or summarises them
    sweep.py     all of them, and what came of them: `ascribo.sweep`

A sweep is a folder. Each cell is a run folder in it, named by a digest of its data and settings, and done when it
has a cell.json. Everything else, tables and reports, is read from there.
"""

from .sweep import Sweep, sweep

__all__ = ["Sweep", "sweep"]

"""Data of which the truth is known: simulated recordings, and generative processes with known latents.

box.py, mixed.py, navigation.py      recordings of which it is known which channels carry which variables
process.py                           a generative process: latents, positives around them, a mixing
process_distributions.py             its distributions, sampled for many means at once
process_mixing.py                    its mixings: invertible networks, and a check of others
"""

from .box import box
from .mixed import mixed
from .navigation import navigation
from .process import Process, process

__all__ = ["Process", "box", "mixed", "navigation", "process"]

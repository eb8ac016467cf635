"""Data of which the truth is known: simulated recordings, and generative processes with known latents.

box.py, mixed.py, navigation.py    recordings of which it is known which channels carry which variables
generative_process.py              a generative process: latents, positives around them, a mixing
generative_distributions.py        its distributions, sampled for many means at once
generative_mixing.py               its mixings: invertible networks, and a check of others
sprites.py                         images of a shape with five known factors, like dSprites
"""

from .box import box
from .generative_process import Process, process
from .mixed import mixed
from .navigation import navigation
from .sprites import Sprites, sprites

__all__ = ["Process", "Sprites", "box", "mixed", "navigation", "process", "sprites"]

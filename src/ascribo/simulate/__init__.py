"""Data of which the truth is known: simulated recordings, and generative processes with known latents.

box.py, mixed.py, navigation.py    recordings of which it is known which channels carry which variables
generative_process.py              a generative process: latents, positives around them, a mixing
generative_distributions.py        its distributions, sampled for many means at once
generative_mixing.py               its mixings: invertible networks, and a check of others
sprites.py                         images of a shape with five known factors, like dSprites
sprite_pairs.py                    which factors change between two sprites: at random, a little, or as measured
scenes.py                          rendered images of an object under a spotlight with ten known factors
natural_transitions.py             how natural objects move, from plain arrays: tracks and masks
"""

from .box import box
from .generative_process import Process, process
from .mixed import mixed
from .natural_transitions import MaskPairs, mask_pairs, read_arrays, track_transitions
from .navigation import navigation
from .scenes import SCENE_FACTORS, Scenes, read_scenes, render_scene, render_scenes, sample_scenes
from .sprite_pairs import laplace_pairs, to_grid, track_pairs, uniform_pairs
from .sprites import Sprites, sprites

__all__ = [
    "SCENE_FACTORS",
    "MaskPairs",
    "Process",
    "Scenes",
    "Sprites",
    "box",
    "laplace_pairs",
    "mask_pairs",
    "mixed",
    "navigation",
    "process",
    "read_arrays",
    "read_scenes",
    "render_scene",
    "render_scenes",
    "sample_scenes",
    "sprites",
    "to_grid",
    "track_pairs",
    "track_transitions",
    "uniform_pairs",
]

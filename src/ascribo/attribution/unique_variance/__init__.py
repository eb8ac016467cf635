"""The default method: what of a channel only one space explains, on held-out time."""

from .frame import Frame, frame_of
from .inputs import Question
from .unique import ask, unique_maps, unique_variance

__all__ = ["Frame", "Question", "ask", "frame_of", "unique_maps", "unique_variance"]

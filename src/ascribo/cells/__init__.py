"""The classical scores of cells in a navigating animal."""

from .grid_scores import autocorrelograms, score_grids
from .spatial_scores import (
    cell_scores,
    grid_score,
    head_direction_score,
    rate_maps,
    spatial_information,
    speed_score,
)

__all__ = [
    "autocorrelograms",
    "cell_scores",
    "grid_score",
    "head_direction_score",
    "rate_maps",
    "score_grids",
    "spatial_information",
    "speed_score",
]

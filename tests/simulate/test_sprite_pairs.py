"""Pairs of sprites: which factors change, how far, and images between the points of the grid."""

import math

import numpy as np
import pytest
import torch

import ascribo as asc
from ascribo.simulate.sprites import FACTORS
from ascribo.support import compute

GRID, SIZES = asc.simulate.sprites(), list(FACTORS.values())
COUNT = 40_000


def draws(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_uniform_pairs_change_one_to_four_factors_to_any_other_value():
    first, second = asc.simulate.uniform_pairs(GRID, (COUNT,), draws())
    changed = first != second
    number = torch.bincount(changed.sum(-1), minlength=6) / COUNT
    assert number[0] == 0 and number[5] == 0 and (number[1:5] - 0.25).abs().max() < 0.01
    assert (changed.float().mean(0) - 0.5).abs().max() < 0.01  # (1 + 2 + 3 + 4) / 4 of 5
    for k, size in enumerate(SIZES):
        step = (second - first)[:, k][changed[:, k]] % size
        share = torch.bincount(step, minlength=size)[1:] / len(step)
        assert (share * (size - 1) - 1).abs().max() < 0.3, (k, share)


def test_laplace_pairs_follow_their_probabilities_and_never_stay():
    first, second = asc.simulate.laplace_pairs(GRID, (COUNT, 2), draws())
    first, second = first.flatten(0, 1), second.flatten(0, 1)
    assert torch.equal(first[:, 0], second[:, 0]) and bool((first != second).any(-1).all())
    for k, size in enumerate(SIZES[1:], 1):
        value = np.arange(size)
        weight = np.exp(-np.abs(value[:, None] - value) / math.log(size))
        wanted = weight / weight.sum(1, keepdims=True)
        middle = size // 2
        own = second[first[:, k] == middle, k]
        share = torch.bincount(own, minlength=size).numpy() / len(own)
        assert np.abs(share - wanted[middle]).max() < 4 * np.sqrt(wanted.max() / len(own))
    with pytest.raises(ValueError, match="rate=0"):
        asc.simulate.laplace_pairs(GRID, (1,), draws(), rate=0)


def test_images_between_grid_points_equal_those_on_it():
    factors = GRID.sample(300, 1)
    apart = (GRID.draw_between(GRID.latents(factors)) != GRID.render(factors)).flatten(1).float().mean(1)
    assert apart.max() < 0.01  # of the pixels, where an edge goes through the middle of one
    latents = GRID.latents(factors)
    assert torch.equal(asc.simulate.to_grid(latents), factors)
    moved = GRID.draw_between(latents + torch.tensor([0.0, 0.0, 0.0, 1 / 62, 0.0]))
    assert not torch.equal(moved, GRID.draw_between(latents))


def test_pairs_from_tracks_move_place_and_scale_alone():
    transitions = torch.rand(50, 2, 3, generator=draws(3))
    first, second = asc.simulate.track_pairs(GRID, transitions, (500,), draws())
    assert torch.equal(first[:, [0, 2]], second[:, [0, 2]])
    seen = {
        tuple(row) for row in torch.cat([first[:, [1, 3, 4]], second[:, [1, 3, 4]]], 1).round(decimals=4).tolist()
    }
    scaled = transitions * torch.tensor([0.5, 1, 1]) + torch.tensor([0.5, 0, 0])
    assert seen == {tuple(row) for row in scaled.flatten(1).round(decimals=4).tolist()}
    with pytest.raises(ValueError, match=r"expected \(pair, 2, 3\)"):
        asc.simulate.track_pairs(GRID, torch.zeros(3, 2), (1,), draws())


def test_a_grid_that_does_not_fit_memory_is_refused(monkeypatch):
    monkeypatch.setattr(compute, "available_memory", lambda device: 2 * 10**9)
    with pytest.raises(ValueError, match=r"all 737,280 images would take 3\.0 GB.*`batches`"):
        GRID.all_images()
    with pytest.raises(ValueError, match=r"codes of all 737,280 images would take 2\.9 GB"):
        GRID.codes(lambda images: torch.zeros(len(images), 1000))

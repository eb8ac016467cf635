"""Packing: together what can be, apart what must be."""

import numpy as np
import pandas as pd
import torch

import ascribo as asc
from ascribo.networks.encoders import build_encoder
from ascribo.spaces.pairs import Pairs
from ascribo.training.objective import objectives_of
from ascribo.training.penalty import Constant
from ascribo.training.problem import Problem
from ascribo.training.settings import Settings
from ascribo.training.stacks import _bytes, pack, train_stack


def problem(spaces, seed=0, steps=400):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"x": rng.normal(size=steps).cumsum()})
    X = torch.from_numpy(rng.normal(size=(steps, 6)).astype(np.float32))
    epochs = np.zeros(steps, int)
    module = build_encoder(asc.MLP((8,)), 6, sum(s.dim for s in spaces.values()))
    return Problem(module, spaces, objectives_of(spaces, "whole"), X, epochs, Pairs(spaces, table, epochs), {})


HYBRID = {"a": asc.Follow("x", 1), "rest": asc.Time(2)}
LARGER = {"a": asc.Follow("x", 1), "rest": asc.Time(3)}
SUPERVISED = {"a": asc.Follow("x", 1)}


def test_models_of_one_shape_share_a_stack():
    kinds = [HYBRID, SUPERVISED, HYBRID, LARGER, SUPERVISED, HYBRID]
    problems = [problem(spaces, seed) for seed, spaces in enumerate(kinds)]
    assert pack(problems, 64, float("inf")) == [[0, 2, 5], [1, 4], [3]]


def test_a_stack_too_large_for_memory_is_split():
    problems = [problem(HYBRID, seed) for seed in range(5)]
    one = pack(problems, 64, 1.0)
    assert one == [[0], [1], [2], [3], [4]]
    assert pack(problems, 64, 2.5 * _bytes(problems[0], 64)) == [[0, 1], [2, 3], [4]]


def test_each_model_keeps_its_own_schedule():
    same = problem(HYBRID)
    settings = Settings(60, 64, 1e-3, Constant(0.0))
    schedules = [Constant(0.0), Constant(1.0)]
    trained = train_stack([same, same], [1, 1], schedules, settings, progress=False)
    np.testing.assert_array_equal(trained.history["lambda"][-1], [0.0, 1.0])
    assert trained.history["penalty"][-10:, 1].mean() < trained.history["penalty"][-10:, 0].mean()

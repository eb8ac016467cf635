"""Packing: together what can be, apart what must be."""

from dataclasses import replace

import numpy as np
import pandas as pd
import torch

import ascribo as asc
from ascribo.networks.encoders import build_encoder
from ascribo.spaces.pairs import Pairs
from ascribo.training.objective import contrastive_objectives
from ascribo.training.penalty_weight import Constant
from ascribo.training.stack_packing import MOST_ON_HOST, _bytes, pack, pack_on_host
from ascribo.training.training_problem import Problem


def problem(spaces, seed=0, steps=400):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"x": rng.normal(size=steps).cumsum()})
    X = torch.from_numpy(rng.normal(size=(steps, 6)).astype(np.float32))
    epochs = np.zeros(steps, int)
    module = build_encoder(asc.MLP((8,)), 6, sum(s.dim for s in spaces.values()))
    return Problem(
        module, spaces, contrastive_objectives(spaces, "whole"), X, epochs, Pairs(spaces, table, epochs), {}
    )


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


def test_a_cpu_stacks_what_has_one_recording_and_one_schedule():
    same, other = problem(HYBRID), problem(HYBRID, 1)
    one, two = Constant(0.0), Constant(1.0)
    assert pack_on_host([same, other, same, same], [one, one, one, two], 1) == [[0, 2], [1], [3]]
    copies = [replace(same, pairs=problem(HYBRID, k).pairs) for k in range(4)]  # one recording, other pairs
    assert pack_on_host(copies, [one] * 4, 1) == [[0, 1, 2, 3]]
    assert pack_on_host(copies, [one] * 4, 3) == [[0, 1], [2], [3]]  # work for every process
    many = pack_on_host([same] * (2 * MOST_ON_HOST + 1), [one] * (2 * MOST_ON_HOST + 1), 1)
    assert [len(stack) for stack in many] == [7, 7, 7]

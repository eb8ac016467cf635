"""Batches from a file are read while others are computed, in their order and to the same bits."""

import threading
import time

import numpy as np
import pytest
import torch

import ascribo as asc
from ascribo.data import standardised_channels
from ascribo.model.fitting import prepare
from ascribo.support.memory import memory_budget
from ascribo.training import read_ahead as module
from ascribo.training.dispatch import train
from ascribo.training.penalty_weight import Constant
from ascribo.training.read_ahead import Reading, read_ahead
from ascribo.training.recording_batches import RecordingSource
from ascribo.training.settings import Settings

BATCHES = torch.arange(60).reshape(20, 3).unbind()


def test_batches_come_in_their_order():
    def read(batch):
        time.sleep(0.001 * float(torch.rand(())))
        return 10 * batch

    found = [(one.index.tolist(), one.inputs().tolist()) for one in read_ahead(BATCHES, read, 8)]
    assert found == [(batch.tolist(), (10 * batch).tolist()) for batch in BATCHES]


@pytest.mark.parametrize(("size", "most"), [(1, module.MOST_AHEAD), (30_000, 3), (10**9, 1)])
def test_no_more_is_read_ahead_than_there_is_memory_for(size, most):
    """Beside the batch that is at work, so many are read or being read."""
    read = []
    with memory_budget(8 * 100_000):
        for k, one in enumerate(read_ahead(BATCHES, lambda batch: read.append(0) or batch, size)):
            one.inputs()
            time.sleep(0.005)
            assert len(read) <= min(len(BATCHES), k + 1 + most)
    assert len(read) == len(BATCHES)


def test_an_error_while_reading_is_raised_where_the_batch_is_used():
    def read(batch):
        if batch[0] == 6:
            raise OSError("the disk is gone")
        return batch

    batches = read_ahead(BATCHES, read, 8)
    for _ in range(2):
        next(batches).inputs()
    third = next(batches)
    with pytest.raises(OSError, match="the disk is gone"):
        third.inputs()
    batches.close()


def test_readers_end_when_nobody_asks_any_more():
    before = threading.active_count()
    batches = read_ahead(BATCHES, lambda batch: batch, 8)
    next(batches)
    assert threading.active_count() > before
    batches.close()
    assert threading.active_count() == before


def test_some_models_of_a_batch():
    one = Reading(torch.arange(6).reshape(3, 2), lambda: torch.arange(12).reshape(3, 4))
    assert one[1:].index.tolist() == [[2, 3], [4, 5]] and one[1:].inputs().tolist() == [
        [4, 5, 6, 7],
        [8, 9, 10, 11],
    ]


@pytest.mark.parametrize("encoder", ["mlp", asc.Convolution(window=5)])
@pytest.mark.parametrize("batch", [64, 1024])
def test_training_from_a_file_is_training_from_memory(tmp_path, monkeypatch, encoder, batch):
    """The same bits; a stack of three models at batch 1,024 is computed in parts."""
    data = asc.simulate.box(0, observed=1, hidden=1, channels=(4, 4), steps=3000)
    np.save(tmp_path / "x.npy", data.X)
    monkeypatch.setattr(standardised_channels, "LARGE_BYTES", 0)
    spaces = {"x": asc.Follow("x", dim=1), "rest": asc.Time(dim=1)}
    settings = Settings(steps=4, batch_size=batch, learning_rate=1e-3, schedule=Constant(0.1))
    found = []
    for X in (data.X, np.load(tmp_path / "x.npy", mmap_mode="r")):
        problem = prepare(asc.Recording(X, data.variables), spaces, encoder=encoder).problem
        source = RecordingSource([problem] * 3, [0, 1, 2])
        kinds = {type(one) for one in source.draw(0, 3, batch)}
        assert kinds == ({torch.Tensor} if X is data.X else {Reading})
        found.append(train(problem, [0, 1], settings, n_jobs=1, progress=False).parameters)
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])

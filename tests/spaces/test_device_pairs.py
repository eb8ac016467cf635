"""The device's sampler draws what the host's does."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from ascribo.spaces.device_pairs import DeviceSampler
from ascribo.spaces.kinds.discrete import Discrete
from ascribo.spaces.kinds.follow import Follow
from ascribo.spaces.kinds.time import Time
from ascribo.spaces.pairs import Pairs


def recording(seed, steps):
    rng = np.random.default_rng(seed)
    x = np.cumsum(rng.laplace(size=steps)) % 100
    table = pd.DataFrame(
        {
            "x": np.where(x > 50, 100 - x, x),
            "h": np.cumsum(0.2 * rng.standard_normal(steps)) % (2 * np.pi),
            "label": rng.choice(list("aab"), steps),
        }
    )
    return table, np.repeat(np.arange(4), steps // 4)


SPACES = {
    "x": Follow(["x"], 1),
    "h": Follow("h", 1, circular=True),
    "label": Discrete("label", 1),
    "rest": Time(1, offsets=(1, 3)),
}


@pytest.fixture(scope="module")
def drawn():
    data = [recording(0, 8000), recording(1, 4000)]
    pairs = [Pairs(SPACES, *part) for part in data]
    sampler = DeviceSampler(pairs, [8000, 4000], torch.tensor([0, 1, 0]))
    generator = torch.Generator().manual_seed(0)
    index = torch.stack([sampler.draw(500, generator) for _ in range(30)]).numpy()
    joint = pd.concat([part[0] for part in data], ignore_index=True)
    epochs = np.r_[data[0][1], data[1][1] + 10]
    return sampler, index, joint, epochs, pairs, data


def rows(drawn, name, model):
    sampler, index = drawn[:2]
    return [index[:, model, row].ravel() for row in sampler.rows[name]]


def test_models_stay_in_their_recording(drawn):
    index = drawn[1]
    assert index[:, [0, 2]].max() < 8000 <= index[:, 1].min() and index.max() < 12_000
    assert not np.array_equal(index[:, 0], index[:, 2]), "models of one recording draw differently"


def test_references_and_negatives_are_uniform(drawn):
    for row in (0, 2):
        draws = rows(drawn, "rest", 1)[row] - 8000
        pool = drawn[4][1].uniform[0]
        counts = np.bincount(draws, minlength=4000)
        assert counts.sum() == counts[pool].sum()
        assert (
            stats.chisquare(counts[pool].reshape(-1, 4).sum(1) if len(pool) % 4 == 0 else counts[pool]).pvalue
            > 1e-3
        )


def test_time_positives_stay_in_their_epoch(drawn):
    reference, positive, _ = rows(drawn, "rest", 0)
    assert set(positive - reference) == {1, 3}
    assert (drawn[3][positive] == drawn[3][reference]).all()
    assert stats.binomtest(int((positive - reference == 1).sum()), len(reference)).pvalue > 1e-3


def test_labels_agree_and_members_are_uniform(drawn):
    reference, positive, _ = rows(drawn, "label", 1)
    label = drawn[2]["label"].to_numpy()
    assert (label[reference] == label[positive]).all()
    members = np.flatnonzero(label[8000:] == "b") + 8000
    counts = np.bincount(positive, minlength=12_000)[members]
    assert stats.chisquare(counts[: len(counts) // 10 * 10].reshape(-1, 10).sum(1)).pvalue > 1e-3


@pytest.mark.parametrize("name, circular", [("x", False), ("h", True)])
def test_followed_changes_have_the_hosts_distribution(drawn, name, circular):
    table, _ = drawn[5][0]
    pairs = drawn[4][0]
    host = pairs.draw(np.random.default_rng(1), 30, 500)
    values = table[name].to_numpy()
    reference, positive, _ = rows(drawn, name, 0)
    wrap = (lambda d: (d + np.pi) % (2 * np.pi) - np.pi) if circular else (lambda d: d)
    device_change = wrap(values[positive] - values[reference])
    host_change = wrap(values[host[:, pairs.rows[name][1]]] - values[host[:, pairs.rows[name][0]]]).ravel()
    assert stats.ks_2samp(device_change, host_change).pvalue > 1e-3
    assert np.std(device_change) > 0


def test_recordings_of_one_stack_need_the_same_rows():
    a = Pairs({"x": Follow(["x"], 1), "rest": Time(1)}, recording(0, 400)[0], np.zeros(400, int))
    missing = recording(1, 400)[0]
    missing.loc[:50, "x"] = np.nan
    b = Pairs({"x": Follow(["x"], 1), "rest": Time(1)}, missing, np.zeros(400, int))
    with pytest.raises(ValueError, match="same spaces"):
        DeviceSampler([a, b], [400, 400], torch.tensor([0, 1]))

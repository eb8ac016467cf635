"""Calls: p-values that keep their promise, intervals that cover, and the whole way on data with known truth."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

import ascribo as asc
from ascribo.attribution.false_discovery_rate import CROSS_FITTED, call_channels
from ascribo.attribution.unique_variance import unique_variance_maps
from experiments.validation.established_methods import score_calls


def blocks(values, spaces=None):
    """values (seed, space, channel, block)."""
    values = np.asarray(values, dtype=float)
    coords = {
        "space": spaces or [f"s{k}" for k in range(values.shape[1])],
        "channel": [f"c{k}" for k in range(values.shape[2])],
    }
    return xr.DataArray(values, dims=("seed", "space", "channel", "block"), coords=coords)


def noise(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("count", [5, 40])
def test_p_is_uniform_where_there_is_nothing(count):
    p = call_channels(blocks(noise(1, 1, 4000, count)))["p"]
    assert stats.kstest(p, "uniform").pvalue > 0.01


def test_p_stays_conservative_with_seeds_and_with_a_loss():
    """Seeds share their blocks of time: their own spread comes on top. Useless inputs cost a little."""
    shared = noise(1, 1, 4000, 20)
    seeds = call_channels(blocks(shared + 0.5 * noise(4, 1, 4000, 20, seed=1)))["p"]
    costs = call_channels(blocks(shared - 0.1))["p"]
    for level in (0.01, 0.05, 0.2):
        allowed = level + 3 * np.sqrt(level / 4000)
        assert (seeds < level).mean() < allowed and (costs < level).mean() < 0.7 * level


def test_what_two_folds_share_by_chance_counts_twice():
    """Nothing is there, but each fold is judged by the slopes that the other has found: twice the same product."""
    x, y = noise(1500, 20, 30, 8), noise(1500, 20, 30, seed=1)  # (channel, block, step, input)
    products = np.einsum("cbsi,cbs->cbi", x, y) / 30
    slopes = np.stack([products[:, k::2].mean(1) for k in (1, 0)], 1)[:, np.arange(20) % 2]  # of the other fold
    gains = np.einsum("cbi,cbi->cb", slopes, products)  # zero on average; without the cost of useless inputs
    naive, right = (call_channels(blocks(gains[None, None]), dependence=d)["p"] for d in (1.0, CROSS_FITTED))
    assert (naive < 0.05).mean() > 0.09 and (naive < 0.01).mean() > 0.03
    assert (right < 0.05).mean() < 0.06 and (right < 0.01).mean() < 0.016


def test_intervals_cover():
    table = call_channels(blocks(0.3 + noise(1, 1, 4000, 12)))
    covered = ((table["ci_low"] < 0.3) & (0.3 < table["ci_high"])).mean()
    assert covered == pytest.approx(0.95, abs=0.012)
    np.testing.assert_allclose((table["ci_low"] + table["ci_high"]) / 2, table["score"])


def test_one_seed_is_a_t_test():
    values = 0.4 + noise(1, 2, 5, 9)
    table = call_channels(blocks(values))
    expected = stats.ttest_1samp(values[0], 0, axis=-1, alternative="greater")
    np.testing.assert_allclose(table["p"], expected.pvalue.ravel())
    np.testing.assert_allclose(table["score"], values[0].mean(-1).ravel())
    assert table["space"].tolist() == ["s0"] * 5 + ["s1"] * 5
    assert list(table) == ["channel", "space", "score", "p", "q", "ci_low", "ci_high", "called"]


def test_seeds_that_differ_widen_the_interval():
    values = 1 + 0.1 * noise(1, 1, 1, 16)
    offsets = np.array([-0.5, 0.0, 0.5])[:, None, None, None]
    alone, apart = (call_channels(blocks(v)).loc[0] for v in (values, values + offsets))
    assert apart["score"] == pytest.approx(alone["score"])
    parts = values.var(ddof=1) / 16, 0.25 / 3  # the seeds' means have a variance of 0.25
    error, freedom = np.sqrt(sum(parts)), sum(parts) ** 2 / (parts[0] ** 2 / 15 + parts[1] ** 2 / 2)
    assert 2 <= freedom < 2.1  # the three seeds decide
    assert (apart["ci_high"] - apart["ci_low"]) / 2 == pytest.approx(stats.t.ppf(0.975, freedom) * error)
    assert apart["p"] == pytest.approx(stats.t.sf(apart["score"] / error, freedom)) and apart["p"] > alone["p"]


def test_seeds_that_do_not_count_are_left_out():
    values = 1 + noise(3, 2, 4, 10)
    values[2, 1] = np.nan
    table = call_channels(blocks(values)).set_index("space").drop(columns="q")
    for space, own in (("s0", values[:, :1]), ("s1", values[:2, 1:])):
        expected = call_channels(blocks(own, [space])).set_index("space").drop(columns="q")
        np.testing.assert_allclose(
            table.loc[space].select_dtypes(float).to_numpy(), expected.select_dtypes(float).to_numpy()
        )


def test_q_is_that_of_benjamini_and_hochberg_within_each_space():
    """p = 0.01, 0.04, 0.03, 0.5 by hand: q = 0.04, 4/3 · 0.04, the same, 0.5."""
    wanted = np.array([[0.01, 0.04, 0.03, 0.5], [0.02, 0.02, 0.02, 0.02]])
    shape = noise(6)
    shape = (shape - shape.mean()) / (shape.std(ddof=1) / np.sqrt(6))  # standard error 1
    values = shape + stats.t.isf(wanted, 5)[..., None]
    table = call_channels(blocks(values[None]), q=0.045)
    np.testing.assert_allclose(table["p"], wanted.ravel())
    np.testing.assert_allclose(table["q"], [0.04, 0.16 / 3, 0.16 / 3, 0.5, 0.02, 0.02, 0.02, 0.02])
    assert table["called"].tolist() == [True, False, False, False, True, True, True, True]


def test_refused_spaces_are_not_called_and_do_not_matter():
    values = 5 + noise(2, 2, 3, 10)
    table = call_channels(blocks(values), refused=["s1"]).set_index("space")
    assert table.loc["s0", "called"].all() and not table.loc["s1", "called"].any()
    assert table.loc["s1", ["score", "ci_low", "ci_high", "p", "q"]].isna().all(axis=None)
    assert table.loc["s0"].equals(call_channels(blocks(values)).set_index("space").loc["s0"])


def test_what_never_varies_is_not_called():
    table = call_channels(blocks(np.zeros((1, 1, 2, 8))))
    assert (table["p"] == 1).all() and not table["called"].any()


@pytest.mark.parametrize("q", [0, 1, -0.1, 5])
def test_q_is_a_rate(q):
    with pytest.raises(ValueError, match=f"q={q}"):
        call_channels(blocks(noise(1, 1, 2, 5)), q)


def test_the_whole_way_keeps_its_rate_and_has_power():
    """Mixed selectivity with correlated variables and noise: a small model, its calls against the truth."""
    data = asc.simulate.mixed(3, {"a": 1, "b": 1}, hidden=1, channels=40, steps=6000, correlation=0.5, snr=4)
    spaces = {"a": asc.Follow("a0", 1), "b": asc.Follow("b0", 1), "rest": asc.Time(1)}
    model = asc.ContrastiveEmbedding(
        spaces, seeds=1, steps=250, batch_size=128, encoder=asc.MLP((48, 48)), penalty=0.0, random_state=0,
        learning_rate=3e-3, progress=False,
    ).fit(data)  # fmt: skip
    (maps,) = unique_variance_maps([model.model_], [data], steps=150)
    table = score_calls(maps.calls(0.1), data.truth).set_index("space")
    assert table.loc["all", "fdp"] <= 0.1 and table.loc["all", "power"] > 0.8
    assert (table.loc[["a", "b", "rest"], "power"] > 0.6).all()
    # half of the variables' variance is common: the channels of one follow the other as well
    follows = np.abs([np.corrcoef(x, data.variables["a0"])[0, 1] for x in data.X.T])
    only_b = data.truth.sel(space="b").values & ~data.truth.sel(space="a").values
    assert follows[only_b].max() > 0.2 and maps.by_space.sel(space="a").values[only_b].max() < 0.01


def test_the_limits_and_the_call_are_printed_in_80_columns(monkeypatch):
    """As in a terminal, where pandas leaves out the columns in the middle."""
    monkeypatch.setenv("COLUMNS", "80")
    names = {"space": ["position"], "channel": [f"channel{k}" for k in range(30)]}
    table = call_channels(blocks(0.4 + noise(1, 1, 30, 12)).assign_coords(names))
    with pd.option_context("display.max_columns", 0):
        printed = str(table)
    assert "..." in printed and {"score", "ci_low", "ci_high", "called"} <= set(printed.split("\n")[0].split())

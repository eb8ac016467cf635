"""ANOVA against arithmetic written out, Tukey's test against scipy."""

import sys

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from ascribo.evidence.analysis_of_variance import anova, tukey


def balanced():
    """Two methods x two penalties, two results each; column names as people write them."""
    rows = [
        ("inverted", "on", 9.0),
        ("inverted", "on", 11.0),
        ("inverted", "off", 4.0),
        ("inverted", "off", 6.0),
        ("plain", "on", 4.0),
        ("plain", "on", 4.0),
        ("plain", "off", 3.0),
        ("plain", "off", 7.0),
    ]
    return pd.DataFrame(rows, columns=["the method", "λ > 0?", "auROC (%)"])


def test_anova_by_hand():
    # Cell means: inverted on 10, inverted off 5, plain on 4, plain off 5; grand mean 6.
    # method:  inverted 7.5, plain 4.5      4 (1.5² + 1.5²)                          = 18
    # penalty: on 7, off 5                  4 (1² + 1²)                              = 8
    # both:    10 - 7.5 - 7 + 6 = 1.5 and, by symmetry, ±1.5 in every cell, 2 · 4 · 1.5² = 18
    # residual: (1 + 1) + (1 + 1) + (0 + 0) + (4 + 4)                                = 12, on 8 - 4 = 4 degrees
    # so the mean square of the residual is 3, and F = 6, 8/3, 6
    found = anova(balanced(), "auROC (%)", ["the method", "λ > 0?"])
    assert list(found.columns) == ["term", "sum_sq", "df", "F", "p"]
    assert list(found["term"]) == ["the method", "λ > 0?", "the method:λ > 0?", "residual"]
    np.testing.assert_allclose(found["sum_sq"], [18, 8, 18, 12])
    np.testing.assert_allclose(found["df"], [1, 1, 1, 4])
    np.testing.assert_allclose(found["F"], [6, 8 / 3, 6, np.nan])
    np.testing.assert_allclose(found["p"][:3], scipy.stats.f.sf([6, 8 / 3, 6], 1, 4))
    assert np.isnan(found["p"][3])


def test_anova_is_of_type_two_when_cells_differ_in_size():
    # Additive data without noise but for one pair of repeats: the method explains nothing beside the penalty,
    # though it goes along with it. A sequential (type I) table would credit it.
    rows = [("a", 0, 0.0), ("a", 1, 1.0), ("b", 0, 0.0)] + [("b", 1, 1.0)] * 4 + [("b", 1, 1.5), ("b", 1, 0.5)]
    found = anova(pd.DataFrame(rows, columns=["method", "penalty", "y"]), "y", ["method", "penalty"])
    assert found.set_index("term").loc["method", "sum_sq"] == pytest.approx(0, abs=1e-12)
    assert found.set_index("term").loc["penalty", "sum_sq"] > 1


def test_numbers_are_categories_and_all_interactions_are_there():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        [(a, b, c, rng.normal()) for a in (4, 6, 9) for b in "xy" for c in (True, False) for _ in range(2)],
        columns=["dim", "b", "c", "v"],
    )
    found = anova(table, "v", ["dim", "b", "c"]).set_index("term")
    assert list(found.index) == ["dim", "b", "c", "dim:b", "dim:c", "b:c", "dim:b:c", "residual"]
    assert list(found["df"]) == [2, 1, 1, 2, 2, 1, 2, 12]
    deviations = table["v"] - table.groupby(["dim", "b", "c"])["v"].transform("mean")
    assert found.loc["residual", "sum_sq"] == pytest.approx(float((deviations**2).sum()))


def test_tukey_agrees_with_scipy():
    rng = np.random.default_rng(1)
    groups = {("a", 1): 8, ("a", 2): 5, ("b", 1): 6, ("b", 2): 9}
    rows = [(*key, rng.normal(k)) for k, (key, count) in enumerate(groups.items()) for _ in range(count)]
    table = pd.DataFrame(rows, columns=["the method", "penalty", "auROC"]).sample(frac=1, random_state=0)
    found = tukey(table, "auROC", ["the method", "penalty"], level=0.9)
    names = ["a:1", "a:2", "b:1", "b:2"]
    samples = [table.loc[(table["the method"] == a) & (table["penalty"] == b), "auROC"] for a, b in groups]
    other = scipy.stats.tukey_hsd(*samples)
    interval = other.confidence_interval(0.9)
    pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    assert list(zip(found["group1"], found["group2"], strict=True)) == [(names[i], names[j]) for i, j in pairs]
    for row, (i, j) in zip(found.itertuples(), pairs, strict=True):
        expected = other.statistic[j, i], interval.low[j, i], interval.high[j, i], other.pvalue[j, i]
        np.testing.assert_allclose([row.difference, row.ci_low, row.ci_high, row.p], expected, rtol=1e-5)
        assert row.difference == pytest.approx(samples[j].mean() - samples[i].mean())


def test_unequal_variances_are_judged_pair_by_pair():
    """Two groups alone: Welch's t test. A wild third group does not change what is known of two quiet ones."""
    rng = np.random.default_rng(2)
    draws = {"a": rng.normal(0, 1, 30), "b": rng.normal(1.0, 1, 20), "c": rng.normal(0, 30, 25)}
    rows = [(name, value) for name, values in draws.items() for value in values]
    table = pd.DataFrame(rows, columns=["group", "v"])
    two = tukey(table[table["group"] != "c"], "v", "group", equal_variances=False)
    welch = scipy.stats.ttest_ind(draws["b"], draws["a"], equal_var=False)
    interval = welch.confidence_interval()
    got = two.loc[0, ["difference", "ci_low", "ci_high", "p"]].to_numpy(float)
    expected = [draws["b"].mean() - draws["a"].mean(), interval.low, interval.high, welch.pvalue]
    np.testing.assert_allclose(got, expected, rtol=1e-3)
    every = tukey(table, "v", "group", equal_variances=False)
    assert list(every["group1"] + every["group2"]) == ["ab", "ac", "bc"]
    reference = scipy.stats.tukey_hsd(*draws.values(), equal_var=False)
    limits = reference.confidence_interval()
    for row, pair in zip(every.itertuples(), [(1, 0), (2, 0), (2, 1)], strict=True):
        expected = [found[pair] for found in (reference.statistic, limits.low, limits.high, reference.pvalue)]
        np.testing.assert_allclose([row.difference, row.ci_low, row.ci_high, row.p], expected, rtol=1e-8)
    assert every.loc[0, "p"] < 0.05 < tukey(table, "v", "group").loc[0, "p"]
    with pytest.raises(ValueError, match="equal_variances=True"):
        tukey(table[24:51], "v", "group", equal_variances=False)


@pytest.mark.parametrize("equal", [True, False])
def test_one_group_against_the_others_is_part_of_all_pairs(equal):
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"group": list("abcd") * 6, "v": rng.normal(size=24)})
    every = tukey(table, "v", "group", equal_variances=equal)
    own = tukey(table, "v", "group", equal_variances=equal, against="b")
    wanted = every[(every["group1"] == "b") | (every["group2"] == "b")].reset_index(drop=True)
    pd.testing.assert_frame_equal(own, wanted)
    with pytest.raises(ValueError, match="no group is called that"):
        tukey(table, "v", "group", against="e")


@pytest.mark.parametrize(
    ("change", "factors", "message"),
    [
        (lambda t: t, ["the methd"], "did you mean 'the method'"),
        (lambda t: t, [], "no factors"),
        (lambda t: t.assign(**{"auROC (%)": t["auROC (%)"].where(t.index > 0)}), ["the method"], "1 of 8 rows"),
        (lambda t: t.assign(**{"λ > 0?": "on"}), ["the method", "λ > 0?"], "'λ > 0\\?' has one level, 'on'"),
        (lambda t: t[:6], ["the method", "λ > 0?"], "1 of the 4 combinations"),
        (lambda t: t[::2], ["the method", "λ > 0?"], "has one result"),
    ],
)
def test_what_an_anova_cannot_do(change, factors, message):
    with pytest.raises(ValueError, match=message):
        anova(change(balanced()), "auROC (%)", factors)


def test_what_the_others_cannot_do():
    with pytest.raises(ValueError, match="8 results in 8 groups"):
        tukey(balanced().assign(run=range(8)), "auROC (%)", "run")
    with pytest.raises(ValueError, match="level=95"):
        tukey(balanced(), "auROC (%)", "the method", level=95)


def test_without_statsmodels_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "statsmodels.formula.api", None)
    with pytest.raises(ImportError, match=r"ascribo\[stats\]"):
        anova(balanced(), "auROC (%)", "the method")

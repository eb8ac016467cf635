"""Tests for tables of results: which factors of an experiment matter, and which groups differ.

As in Schneider et al. (2023), appendix B.4: an analysis of variance (ANOVA) over all factors of an experiment and
their interactions, then Tukey's test on the combinations that matter. For intervals see
`ascribo.metrics.bootstrap_interval`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import studentized_range

from ..support.names import suggest

__all__ = ["anova", "tukey"]


def anova(table: pd.DataFrame, value: str, factors: str | Sequence[str]) -> pd.DataFrame:
    """Analysis of variance of an experiment's results: which factors, and which of their combinations, matter.

    Ordinary least squares on all factors (as categories) and all their interactions; sums of squares of type II:
    each term beside all those that do not contain it. Needs statsmodels: `pip install 'ascribo[stats]'`.

    Parameters
    ----------
    table : one row per result. value : the column with the result, a number.
    factors : columns that say how it was made. Every combination must occur, and some of them twice.

    Returns
    -------
    DataFrame with one row per term ("method", "penalty", "method:penalty", "residual"): term, sum_sq, df, F, p.

    Examples
    --------
    >>> table = pd.DataFrame({"auROC": [0.9, 0.8, 0.6, 0.5], "learning rate": ["low", "low", "high", "high"]})
    >>> anova(table, "auROC", "learning rate").round(3)
                term  sum_sq   df     F      p
    0  learning rate    0.09  1.0  18.0  0.051
    1       residual    0.01  2.0   NaN    NaN
    """
    factors = [factors] if isinstance(factors, str) else list(factors)
    numbers, labels = _columns(table, value, factors)
    levels = [len(set(labels[name])) for name in factors]
    for name, count in zip(factors, levels, strict=True):
        if count < 2:
            raise ValueError(f"factor {name!r} has one level, {labels[name].iloc[0]!r}: leave it out.")
    cells = math.prod(levels)
    if missing := cells - len(labels.drop_duplicates()):
        raise ValueError(
            f"{missing} of the {cells} combinations of {factors} have no result: an ANOVA with all interactions "
            "needs them all. Complete the experiment, or use fewer factors."
        )
    if len(numbers) == cells:
        raise ValueError(
            f"every combination of {factors} has one result: nothing is left to tell chance from effect. Repeat "
            "the experiment (seeds, data sets), or use fewer factors."
        )
    ols, anova_lm, _ = _statsmodels()
    # names of our own: a formula would read spaces and operators in the user's
    plain = {name: f"f{k}" for k, name in enumerate(factors)}
    data = labels.rename(columns=plain).assign(v=numbers)
    fit = ols("v ~ " + " * ".join(f"C({short})" for short in plain.values()), data).fit()
    found = anova_lm(fit, typ=2)
    spelled = {f"C({short})": name for name, short in plain.items()} | {"Residual": "residual"}
    terms = [":".join(spelled[part] for part in str(term).split(":")) for term in found.index]
    found = found.rename(columns={"PR(>F)": "p"}).reset_index(drop=True)
    return pd.concat([pd.DataFrame({"term": terms}), found[["sum_sq", "df", "F", "p"]]], axis=1)


def tukey(
    table: pd.DataFrame,
    value: str,
    group: str | Sequence[str],
    level: float = 0.95,
    *,
    equal_variances: bool = True,
    against: str | None = None,
) -> pd.DataFrame:
    """Tukey's honestly significant differences: which groups differ, over all pairs at once.

    Needs statsmodels: `pip install 'ascribo[stats]'`.

    Parameters
    ----------
    table : one row per result. value : the column with the result, a number.
    group : one column, or several that make a group together ("inverted:hybrid").
    level : of the intervals, for all pairs together.
    equal_variances : of all groups, as Tukey has it. False: each pair is judged by its own two (Games and Howell);
        every group then needs two results.
    against : a group; only its pairs are returned, with the p-values and intervals they have among all pairs.

    Returns
    -------
    DataFrame with one row per pair: group1, group2, difference (mean of group2 less that of group1), ci_low,
    ci_high, p.

    Examples
    --------
    >>> table = pd.DataFrame({"auROC": [0.9, 0.8, 0.6, 0.5], "penalty": ["on", "on", "off", "off"]})
    >>> tukey(table, "auROC", "penalty").round(3)
      group1 group2  difference  ci_low  ci_high      p
    0    off     on         0.3  -0.004    0.604  0.051
    """
    group = [group] if isinstance(group, str) else list(group)
    if not 0 < level < 1:
        raise ValueError(f"level={level!r}: expected a number between 0 and 1, such as 0.95.")
    numbers, labels = _columns(table, value, group)
    joined = [":".join(map(str, row)) for row in labels.itertuples(index=False)]
    if (distinct := len(set(joined))) < 2 or distinct == len(joined):
        raise ValueError(
            f"{len(joined)} results in {distinct} groups of {group}: expected two groups or more, and some with "
            "more than one result."
        )
    names = sorted(set(joined))
    if against is not None and against not in names:
        raise ValueError(f"against={against!r}: no group is called that{suggest(against, names)}")
    pairs = list(combinations(names, 2))
    wanted = [pair for pair in pairs if against is None or against in pair]
    if not equal_variances:
        return _games_howell(pd.Series(numbers).groupby(joined), wanted, level)
    _, _, pairwise_tukeyhsd = _statsmodels()
    found = pairwise_tukeyhsd(numbers, joined, alpha=1 - level)
    low, high = np.asarray(found.confint).T
    table = pd.DataFrame(pairs, columns=["group1", "group2"])
    table = table.assign(difference=found.meandiffs, ci_low=low, ci_high=high, p=found.pvalues)
    return table.set_index(["group1", "group2"]).loc[wanted].reset_index()


def _games_howell(groups: Any, pairs: Sequence[tuple[str, str]], level: float) -> pd.DataFrame:
    """`tukey` without a common variance: Welch's t of each pair, in the distribution of the range of all groups.

    The same as scipy's `tukey_hsd(equal_var=False)`, for the pairs that are asked for: scipy computes the limits of
    all pairs, which takes three minutes for 36 groups.
    """
    known = groups.agg(["mean", "var", "count"])
    if single := [name for name, count in known["count"].items() if count < 2]:
        raise ValueError(
            f"groups with one result have no variance of their own: {single}. Repeat them, or use "
            "equal_variances=True."
        )
    one, two = (known.loc[list(names)].reset_index(drop=True) for names in zip(*pairs, strict=True))
    of_mean = one["var"] / one["count"], two["var"] / two["count"]
    error = ((of_mean[0] + of_mean[1]) / 2) ** 0.5
    freedom = 4 * error**4 / (of_mean[0] ** 2 / (one["count"] - 1) + of_mean[1] ** 2 / (two["count"] - 1))
    difference = two["mean"] - one["mean"]
    p = studentized_range.sf(difference.abs() / error, len(known), freedom)
    half = studentized_range.ppf(level, len(known), freedom) * error
    table = pd.DataFrame(pairs, columns=["group1", "group2"])
    return table.assign(difference=difference, ci_low=difference - half, ci_high=difference + half, p=p)


def _columns(table: pd.DataFrame, value: str, factors: list[str]) -> tuple[np.ndarray, pd.DataFrame]:
    """The results as numbers and the factors as they are, both complete."""
    if not factors:
        raise ValueError("no factors were given: expected the names of one or more columns.")
    for name in [value, *factors]:
        if name not in table:
            raise ValueError(f"the table has no column {name!r}{suggest(name, table.columns)}")
    used = table.loc[:, [value, *factors]]
    if missing := len(used) - len(used.dropna()):
        raise ValueError(
            f"{missing} of {len(table)} rows have no value in {[value, *factors]}: drop them, or say what a "
            "missing result counts for (a collapsed space is at chance, auROC 0.5)."
        )
    return used[value].to_numpy(dtype=float), used.loc[:, factors].reset_index(drop=True)


def _statsmodels() -> tuple[Any, Any, Any]:
    try:
        from statsmodels.formula.api import ols
        from statsmodels.stats.anova import anova_lm
        from statsmodels.stats.multicomp import pairwise_tukeyhsd
    except ImportError as error:
        raise ImportError("ANOVA and Tukey's test need statsmodels: pip install 'ascribo[stats]'") from error
    return ols, anova_lm, pairwise_tukeyhsd

"""Which channels carry which space: from unique variances in blocks of time to calls with q-values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats

from ..spaces.base import Space, reported

__all__ = ["CROSS_FITTED", "call_by_p", "call_channels", "missing_variables", "reasons_without_test"]

CROSS_FITTED = 2.0
"""How much larger the variance of a mean may be because its blocks are judged by what was learned from the others:
a relation that two parts of time have in common by chance is found in both, and counts twice."""


def call_channels(
    blocks: xr.DataArray,
    q: float = 0.05,
    *,
    refused: Sequence[str] = (),
    undecided: Sequence[str] = (),
    dependence: float = 1.0,
) -> pd.DataFrame:
    """Test every channel and space: does the space save held-out loss?

    The mean over blocks is compared with its standard error, which has two parts: the spread over blocks of time
    and, with several seeds, the spread of the seeds' means. p is that of a one-sided t-test with Welch's degrees
    of freedom. Channels that carry the same latents err together, so false calls come in clumps: the
    rate holds over recordings, not within one.

    Parameters
    ----------
    blocks : DataArray (seed, space, channel, block), see `ascribo.attribution.unique_variance`. A seed
        whose space collapsed is NaN there.
    q : false discovery rate within each space (Benjamini and Hochberg 1995).
    refused : spaces that have no map: their numbers are NaN and nothing is called.
    undecided : spaces whose test would mean nothing: they have scores, but no p and q, and nothing is called.
    dependence : variance of the mean over that of independent blocks; `CROSS_FITTED` for unique variances.

    Other coordinates along the channels, such as their region, become columns beside theirs.

    Examples
    --------
    >>> noise = np.random.default_rng(0).normal(size=(1, 1, 3, 30))
    >>> blocks = xr.DataArray(noise + np.array([0, 0, 5.0])[:, None], dims=("seed", "space", "channel", "block"))
    >>> blocks = blocks.assign_coords(space=["a"], channel=["one", "two", "three"])
    >>> call_channels(blocks).called.tolist()
    [False, False, True]
    """
    if not 0 < q < 1:
        raise ValueError(f"q={q!r}: expected a false discovery rate between 0 and 1.")
    values = blocks.transpose("seed", "space", "channel", "block").values
    count = values.shape[-1]
    of_blocks, of_seeds = np.nanmean(values, 0), values.mean(-1)
    seeds = np.isfinite(of_seeds).sum(0)
    score = np.nanmean(of_seeds, 0)
    over_blocks = dependence * of_blocks.var(-1, ddof=1) / count
    over_seeds = np.nanvar(of_seeds, 0) / np.maximum(seeds - 1, 1)
    error = np.sqrt(over_blocks + over_seeds)
    with np.errstate(divide="ignore", invalid="ignore"):  # Welch and Satterthwaite's degrees of freedom
        freedom = error**4 / (over_blocks**2 / (count - 1) + over_seeds**2 / np.maximum(seeds - 1, 1))
        p = stats.t.sf(score / error, freedom)
    p = np.where(error > 0, p, 1.0)
    wide = np.where(error > 0, stats.t.ppf(0.975, freedom) * error, 0.0)
    tables = []
    for k, space in enumerate(blocks["space"].values.tolist()):
        own = blocks.sel(space=space, drop=True).isel(seed=0, block=0).copy(data=score[k])
        table = call_by_p(own, space, p[k], score[k] - wide[k], score[k] + wide[k], q)
        if space in undecided:
            table.loc[:, ["p", "q"]] = np.nan
        if space in refused:
            table.loc[:, ["score", "p", "q", "ci_low", "ci_high"]] = np.nan
        table["called"] = table["q"] <= q
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def call_by_p(
    score: xr.DataArray, space: str, p: np.ndarray, ci_low: np.ndarray, ci_high: np.ndarray, q: float
) -> pd.DataFrame:
    """A row for each channel of a space: its score, p, and whether it is called.

    score : DataArray (channel,); other coordinates along the channels, such as their region, become columns beside
    theirs. p, ci_low, ci_high : (channel,). Where p is not known for all channels, none is called.
    """
    if not 0 < q < 1:
        raise ValueError(f"q={q!r}: expected a false discovery rate between 0 and 1.")
    table = pd.DataFrame(
        {
            "channel": score["channel"].values,
            "space": space,
            "score": score.values,
            "p": p,  # what stands in the middle is left out first where a table is printed in 80 columns
            "q": stats.false_discovery_control(p) if np.isfinite(p).all() else np.nan,
            "ci_low": ci_low,
            "ci_high": ci_high,
        }
    )
    table["called"] = table["q"] <= q
    for name in score.coords:
        if name != "channel" and score[name].dims == ("channel",):
            table[name] = score[name].values
    return table


def missing_variables(spaces: Mapping[str, Space], variables: Collection[str]) -> str:
    """What to say if a recording lacks variables of some spaces; nothing if it has them all.

    spaces : those of a model. variables : names of the variables that the recording has.

    >>> from ascribo import Follow, Time
    >>> missing_variables({"place": Follow(["x", "y"], 2), "rest": Time(2)}, ["x"]).split(":")[0]
    "the recording has no y (of space 'place')"
    """
    missing = {name: [v for v in space.variables if v not in variables] for name, space in spaces.items()}
    named = [f"{', '.join(own)} (of space {name!r})" for name, own in missing.items() if own]
    what_to_do = "pass the variables (y=...), or a Recording that has them, to model.attribute"
    return f"the recording has no {', '.join(named)}: {what_to_do}" if named else ""


def reasons_without_test(spaces: Mapping[str, Space], variables: Collection[str]) -> dict[str, str]:
    """Spaces whose scores cannot be tested because a recording lacks variables, and why.

    Every space is tested for what it adds to all others, nuisances too. If a variable of any space is missing, what
    channels owe to it is found in those that go with it: with a correlation of 0.7 up to half of the calls were
    false. So no space has a test then.

    >>> from ascribo import Follow, Time
    >>> spaces = {"place": Follow(["x", "y"], 2), "speed": Follow("v", 1), "rest": Time(2)}
    >>> list(reasons_without_test(spaces, ["x", "v"])), list(reasons_without_test(spaces, ["x", "y", "v"]))
    (['place', 'speed', 'rest'], [])
    """
    why = missing_variables(spaces, variables)
    return dict.fromkeys(reported(spaces), why) if why else {}

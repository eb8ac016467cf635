"""The papers' statistics of table 1: ANOVA, Tukey's test, main effects (Schneider et al. 2023, appendix B.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from experiments.regcl.reporting import blank_missing, spell_out
from experiments.shared.rows import Row

__all__ = ["tables", "test_scores"]

FACTORS = ("method", "dim", "mode", "penalty")
FIRST = {"mode": "hybrid contrastive", "penalty": "regularized", "method": "inverted_neuron_gradient"}
"""The papers' method."""
GROUPINGS = (("mode", "method"), ("penalty", "method"), ("mode", "penalty", "method"))
PAPER_F = {
    **{"method": 6.14, "dim": 24.98, "mode": 28.60, "penalty": 597.37},
    **{"method:dim": 0.69, "method:mode": 33.24, "dim:mode": 1.03},
    **{"method:penalty": 50.62, "dim:penalty": 20.12, "mode:penalty": 53.46},
    **{"method:dim:mode": 0.35, "method:dim:penalty": 1.02, "method:mode:penalty": 0.68, "dim:mode:penalty": 0.90},
    **{"method:dim:mode:penalty": 0.71},
}
"""Schneider et al. (2023), table 3."""
PAPER_DIFFERENCES: dict[tuple[str, ...], dict[str, float]] = {
    ("mode", "method"): {
        **{"supervised contrastive:neuron_gradient": 9.41, "hybrid contrastive:neuron_gradient": 9.51},
        **{"supervised:neuron_gradient": 6.97, "supervised contrastive:inverted_neuron_gradient": 11.29},
        **{"hybrid contrastive:integrated_gradients": 7.67, "supervised:feature_ablation": 7.23},
        **{"hybrid contrastive:feature_ablation": 9.00, "supervised contrastive:feature_ablation": 8.74},
        **{"supervised:inverted_neuron_gradient": 8.14, "hybrid contrastive:shapley_zeros": 10.68},
        **{"hybrid contrastive:shapley_shuffled": 9.71, "supervised:shapley_shuffled": 7.48},
        **{"supervised contrastive:shapley_zeros": 10.90, "supervised:shapley_zeros": 10.09},
        **{"supervised contrastive:integrated_gradients": 10.96, "supervised:integrated_gradients": 10.14},
        **{"supervised contrastive:shapley_shuffled": 9.13},
    },
    ("penalty", "method"): {
        **{"regularized:neuron_gradient": 3.16, "regularized:shapley_zeros": 8.91},
        **{"none:inverted_neuron_gradient": 11.61, "regularized:feature_ablation": 6.25},
        **{"regularized:integrated_gradients": 8.02, "none:integrated_gradients": 10.38},
        **{"regularized:shapley_shuffled": 6.11, "none:shapley_shuffled": 10.10, "none:neuron_gradient": 12.75},
        **{"none:shapley_zeros": 10.86},
    },
}
"""Schneider et al. (2023), tables 4 and 5: by how many points of auROC their method is ahead of each other group.
The signs of the printed differences follow the order of the groups; here they are all those of being ahead. Feature
ablation without penalty is not legible in our copy."""
LEVEL = 0.05
SHOWN = 8
"""Groups shown beside the papers' method: those nearest to it."""


def test_scores(rows: Sequence[Row], paper: Mapping[tuple, Row]) -> dict[str, Any]:
    """Statistics of the scores by entries: anova, tukey, main_effects, and paired: Wilcoxon's test over data sets.

    anova and tukey are None where they cannot be computed, and `why` says why: statsmodels is missing, or there are
    too few cells.
    """
    table = _long(rows)
    out: dict[str, Any] = {"anova": None, "tukey": None, "why": None, "main_effects": _main_effects(table, paper)}
    out["paired"] = _paired(rows)
    try:
        own = [_tukey(table, group) for group in GROUPINGS] + [_tukey(table, GROUPINGS[-1], equal_variances=False)]
        return {**out, "anova": _anova(table), "tukey": own}
    except (ImportError, ValueError) as error:
        return {**out, "why": str(error)}


def tables(found: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table."""
    out = {}
    if found["anova"]:
        out["ANOVA"] = blank_missing(pd.DataFrame(found["anova"]))
    for part in found["tukey"] or []:
        against = part["against"]
        verdict = "ahead of all" if part["ahead_of_all"] else f"ahead of {part['ahead_of']} of {len(against)}"
        name = "Tukey" if part["equal_variances"] else "Games and Howell (unequal variances)"
        first = f"{name}, {' and '.join(part['by'])}: {spell_out(part['group'])}"
        title = f"{first} is {verdict} (p < {LEVEL}); the nearest:"
        out[title] = pd.DataFrame(
            [
                {
                    "group": spell_out(row["group"]),
                    "difference": row["difference"],
                    "in the paper": row["paper_difference"],
                    "95% interval": "{:.3f} to {:.3f}".format(*row["ci95"]),
                    "p": row["p"],
                }
                for row in (against if tuple(part["by"]) in PAPER_DIFFERENCES else against[:SHOWN])
            ]
        ).pipe(blank_missing)
    if found["paired"]:
        worst = max(found["paired"], key=lambda row: row["p"])
        title = f"Paired over data sets: the papers' method is ahead of all others with p ≤ {worst['p']:.2g}"
        out[f"{title} (Wilcoxon); the nearest:"] = pd.DataFrame(
            [{**row, "group": spell_out(row["group"])} for row in found["paired"][:SHOWN]]
        )
    effects = [
        {
            "factor": factor,
            "measured, best first": " > ".join(
                spell_out(f"{k} {100 * v:.1f}") for k, v in effect["measured"].items()
            ),
            "paper": " > ".join(spell_out(f"{k} {100 * v:.1f}") for k, v in effect["paper"].items()),
            "same order": "yes" if effect["same_order"] else "no",
        }
        for factor, effect in found["main_effects"].items()
    ]
    out["Main effects" + (f" (no tests: {found['why']})" if found["why"] else "")] = pd.DataFrame(effects)
    return out


def _long(rows: Sequence[Row]) -> pd.DataFrame:
    """One row for each auROC by entries, with its factors."""
    return pd.DataFrame(
        [
            {"method": method, "auroc": value, **{key: row[key] for key in FACTORS[1:]}}
            for row in rows
            for method, value in row["entries"].items()
        ]
    )


def _anova(table: Any) -> list[Row]:
    from ascribo.evidence.analysis_of_variance import anova

    factors = [factor for factor in FACTORS if table[factor].nunique() > 1]
    if len(table) == np.prod([table[factor].nunique() for factor in factors]):  # one data set for each dimension
        factors = [factor for factor in factors if factor != "dim"]
    found = anova(table, "auroc", factors)
    return [{**row, "paper_F": PAPER_F.get(row["term"])} for row in _records(found)]


def _tukey(table: Any, group: Sequence[str], equal_variances: bool = True) -> dict[str, Any]:
    """The papers' method against all others; differences are group - other."""
    from ascribo.evidence.analysis_of_variance import tukey

    first = ":".join(FIRST[key] for key in group)
    printed = PAPER_DIFFERENCES.get(tuple(group), {})
    against = []
    for row in _records(tukey(table, "auroc", group, equal_variances=equal_variances, against=first)):
        turned = row["group1"] == first  # the difference is that of group2 - group1
        sign, low, high = (-1, "ci_high", "ci_low") if turned else (1, "ci_low", "ci_high")
        other = row["group2" if turned else "group1"]
        theirs = printed.get(other)
        against.append(
            {
                "group": other,
                "paper_difference": None if theirs is None else round(theirs / 100, 4),
                "difference": round(sign * row["difference"], 6),
                "ci95": [round(sign * row[low], 6), round(sign * row[high], 6)],
                "p": row["p"],
            }
        )
    ahead = sum(row["difference"] > 0 and row["p"] < LEVEL for row in against)
    return {
        "by": list(group),
        "equal_variances": equal_variances,
        "group": first,
        "against": sorted(against, key=lambda row: row["difference"]),
        "ahead_of": ahead,
        "ahead_of_all": bool(against) and ahead == len(against),
    }


def _paired(rows: Sequence[Row]) -> list[Row]:
    """The papers' method against every other cell on the same data sets: differences, wins, one-sided p."""
    scores: dict[tuple, dict[tuple, float]] = {}
    for row in rows:
        for method, value in row["entries"].items():
            scores.setdefault((row["mode"], row["penalty"], method), {})[row["dim"], row["data_seed"]] = value
    own = scores.pop(tuple(FIRST.values()), {})
    out = []
    for cell, other in scores.items():
        difference = np.array([own[data] - other[data] for data in own.keys() & other.keys()])
        if not difference.any():
            continue
        found: Any = stats.wilcoxon(difference, alternative="greater")
        out.append(
            {
                "group": ":".join(cell),
                "difference": round(float(difference.mean()), 6),
                "better": int((difference > 0).sum()),
                "worse": int((difference < 0).sum()),
                "p": float(found.pvalue),
            }
        )
    return sorted(out, key=lambda row: row["difference"])


def _main_effects(table: Any, paper: Mapping[tuple, Row]) -> dict[str, Any]:
    """For each factor the means of its levels, best first, measured and in the paper (the levels that are here)."""
    printed: Any = pd.DataFrame(
        [
            {"mode": mode, "penalty": penalty, "method": method, "auroc": value["mean"]}
            for (mode, penalty, method), value in paper.items()
        ]
    )
    out = {}
    for factor in FIRST:
        measured, theirs = (
            part.groupby(factor)["auroc"].mean().sort_values(ascending=False).round(4) for part in (table, printed)
        )
        theirs = theirs[theirs.index.isin(measured.index)]
        same = list(measured.index) == list(theirs.index)
        out[factor] = {"measured": measured.to_dict(), "paper": theirs.to_dict(), "same_order": same}
    return out


def _records(frame: Any) -> list[Row]:
    """Rows as dicts fit for JSON: NaN becomes None."""
    plain = frame.astype(object)
    return plain.where(plain.notna(), None).to_dict("records")

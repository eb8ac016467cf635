"""Rows of the papers' tables: a generative process, a model of it, and the printed scores.

A row is trained as one stack: an encoder for each of five mixings, two more for the first, whose agreement is
diagnosed as it would be for a recording, and the same supervised. The scores are on new samples; the affine map
behind R² is fitted to other samples than it is scored on (the published code takes the same).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ascribo import figures
from ascribo.evidence import identifiability
from ascribo.evidence.identifiability import verdict
from ascribo.model.generative_process_inversion import Inversion, invert_process
from ascribo.simulate.generative_process import Process, process
from ascribo.spaces.similarities import Lp, as_similarity
from ascribo.training.generative_process_batches import best_temperature
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, combinations, experiment, one_by_one

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "CONDITIONALS",
    "SHORT",
    "TRAINING",
    "Setting",
    "by_mixing",
    "cases",
    "draw_scores",
    "judged_again",
    "make_process",
    "score_tables",
    "table_experiment",
]

CONDITIONALS: dict[str, dict[str, Any]] = {
    "vMF(1)": {"conditional": "von_mises_fisher", "concentration": 1.0},
    "vMF(10)": {"conditional": "von_mises_fisher", "concentration": 10.0},
    "Laplace(0.05)": {"conditional": "laplace", "scale": 0.05},
    "Normal(0.05)": {"conditional": "normal", "scale": 0.05},
    "GenNorm(3; 0.05)": {"conditional": "generalized_normal", "exponent": 3.0, "scale": 0.05},
    "Normal(1)": {"conditional": "normal", "scale": 1.0},
}
MARGINALS = {"Uniform": {}, "Normal(1)": {"marginal": "normal"}, "Laplace(1)": {"marginal": "laplace"}}
SIMILARITIES: dict[str, Any] = {"vMF": "dot", "Normal": "squared_l2", "Laplace": Lp(1), "GenNorm(3)": Lp(3)}
TRAINING = {
    **{"dim": 10, "mixings": 5, "unidentified_mixings": 5, "encoders": 3, "width": 30},
    **{"steps": 4_000, "batch_size": 2048, "learning_rate": 1e-2, "supervised_steps": 600},
    **{"last_steps": 1_000, "last_batch_size": 6_144, "last_learning_rate": 3e-4, "last_negatives": "references"},
    "largest_batch": 24_576,
}
"""What cases share: latents; mixings, and those of rows that should not be identified, whose MCC is a matter of
luck (0.73 ± 0.06 for random rotations of five latents) and needs more of them to be known; encoders of the first
mixing; training steps, references in each, learning rate, hidden units for each latent in each of three layers; the
same of the last steps; training steps of the supervised encoder (0: none); and the largest batch. Rows that ask for
a larger one have as many pairs in more steps instead.

All rows are trained alike: first at the temperature at which InfoNCE is least (`best_temperature`), in batches of
2,048; then at the model's own, in the papers' batches of 6,144 and at a small rate, with the negatives that
`last_negatives` says. On a sphere the model's own is 1, which is far too wide for close pairs: from random weights
it takes the papers' 300,000 steps, and from a solution at another temperature a thousand. The papers: 300,000 steps
of 6,144 references, six hidden layers of up to 50 units a latent, a constant learning rate of 1e-4."""
SHORT = {
    **{"dim": 5, "width": 20, "steps": 800, "batch_size": 512, "largest_batch": 2_048},
    **{"last_steps": 150, "last_batch_size": 1_024, "last_learning_rate": 1e-3, "last_negatives": "independent"},
}
"""What the short forms of both tables train otherwise.

The last steps have independent negatives, and the temperature that goes with them: with that of references, which
is wider than the pairs, bent coordinates have a lower loss than the latents (docs/identifiability.md). In ten
dimensions no independent negative of a batch is near enough to learn from. Their rate was chosen by the loss on new
samples. On a CPU a step takes as long as its batch is large, and more steps learn more than larger ones."""


@dataclass(frozen=True)
class Setting:
    """One row of a table. The names are the papers'; conditional and model are keys of the tables above.

    printed : the papers' score in percent, by number of layers of the mixing.
    matched : whether the theorem's assumptions hold.
    identified : whether theory, or the paper's own experiment, says that latents are found.
    larger, longer : times the batch and the training steps of other rows, where pairs tell little: vMF(1) in ten
        dimensions has 0.05 nats. Larger batches have no more references as negatives than others, and those of the
        last steps are not smaller.
    last, last_larger : times the last steps of other rows, and times their batch, where large batches matter most:
        with references as negatives the pair of each with itself bends coordinates, and the more the fewer others
        there are.
    decorrelate : whether outputs are decorrelated in all but the last steps, where an encoder may lose a latent for
        good otherwise.
    homogeneous : the encoder has no biases, as the mixing has none (`invert_process`); the papers' encoders have.
    otherwise : what of `TRAINING` is otherwise for this row, unless the plan itself has other values.
    said : what else is to be said of the row.
    judged : False for a row that is shown beside the judged ones.
    """

    space: str
    marginal: str
    conditional: str
    output: str
    model: str
    printed: Mapping[int, float]
    matched: bool = False
    identified: bool = True
    larger: int = 1
    longer: int = 1
    last: int = 1
    last_larger: int = 1
    decorrelate: bool = False
    homogeneous: bool = False
    otherwise: Mapping[str, Any] = field(default_factory=dict)
    judged: bool = True
    said: str = ""

    @property
    def name(self) -> str:
        """Process and model in one line."""
        without = ", without offsets" if self.homogeneous else ""
        return f"{self.space}, {self.marginal}, {self.conditional} → {self.output}, {self.model}{without}"

    def training(self, case: Mapping[str, Any]) -> dict[str, Any]:
        """The case, with what is otherwise for this row."""
        own = {name: value for name, value in self.otherwise.items() if case[name] == TRAINING[name]}
        return {**case, **own}


def make_process(setting: Setting, dim: int, layers: int, seed: int) -> Process:
    """The generative process of a row."""
    given = {**MARGINALS[setting.marginal], **CONDITIONALS[setting.conditional]}
    return process(setting.space, dim=dim, layers=layers, seed=seed, **given)


def table_experiment(
    name: str,
    full: Mapping[str, Any],
    quick: Mapping[str, Any],
    settings: Sequence[Setting],
    *,
    conclude: Callable[[dict[str, Any]], dict[str, Any]],
    draw: Callable[[dict[str, Any]], Any],
) -> Callable[..., dict[str, Any]]:
    """The `run` of a table: every row with every depth of the mixing, see `experiments.shared.runner`."""
    return experiment(
        *(name, full, quick),
        cases=cases,
        rows=one_by_one(partial(_fit_row, settings), _describe),
        conclude=conclude,
        draw=draw,
        protocol={"negatives": "references of the batch, each with itself too; the positive is counted"},
    )


def cases(plan: Plan) -> list[Case]:
    return combinations(plan, (*TRAINING, "device"), layers="layers", setting_number="settings")


@lru_cache(64)
def _supervised(space: str, marginal: str, output: str, homogeneous: bool, **case: Any) -> Row:
    """How well the same encoder finds the latents when it is trained with them. The conditional plays no part."""
    first = make_process(Setting(space, marginal, "Normal(0.05)", output, "", {}), case["dim"], case["layers"], 0)
    best = invert_process(
        [first.with_seed(seed) for seed in range(case["mixings"])],
        similarity="dot" if output == "sphere" else "squared_l2",
        output=output,
        steps=case["supervised_steps"],
        batch_size=case["batch_size"],
        learning_rate=3e-3,
        widths=(case["width"] * case["dim"],) * 3,
        homogeneous=homogeneous,
        supervised=True,
        device=case["device"],
        progress=False,
    )
    return {name: best.scores[name].tolist() for name in ("r2", "mcc")}


def _fit_row(settings: Sequence[Setting], **case: Any) -> Row:
    """Train the models of a row, and the supervised ones beside them; the scores of each model."""
    began, setting = time.monotonic(), settings[case["setting_number"]]
    case = setting.training(case)
    first = make_process(setting, case["dim"], case["layers"], 0)
    mixings = case["mixings" if setting.identified else "unidentified_mixings"]
    processes = [first, *[first.with_seed(seed) for seed in range(1, mixings)], *[first] * (case["encoders"] - 1)]
    similarity = as_similarity(SIMILARITIES[setting.model])
    common: dict[str, Any] = {
        **{"similarity": similarity, "output": setting.output, "device": case["device"], "progress": False},
        **{"widths": (case["width"] * case["dim"],) * 3, "homogeneous": setting.homogeneous},
    }
    wanted = setting.larger * case["batch_size"]
    batch = min(wanted, case["largest_batch"])
    found = invert_process(
        processes,
        steps=setting.longer * case["steps"] * wanted // batch,
        batch_size=batch,
        learning_rate=case["learning_rate"],
        temperature=best_temperature(first, similarity),
        negatives="references" if setting.larger == 1 else case["batch_size"],
        decorrelate=setting.decorrelate,
        **common,
    )
    early, negatives = found, case["last_negatives"]
    if case["last_steps"]:
        references = negatives == "references"
        last = max(batch, case["last_batch_size"] * (setting.last_larger if references else 1))
        few = references and setting.larger > 1
        found = invert_process(
            processes,
            steps=setting.last * case["last_steps"],
            batch_size=last,
            learning_rate=case["last_learning_rate"],
            temperature=1.0 if similarity.on_sphere else best_temperature(first, similarity, negatives=negatives),
            negatives=case["last_batch_size"] if few else negatives,
            start=early,
            **common,
        )
    trained = time.monotonic()
    row = {**case, "setting": setting.name, "printed": setting.printed.get(case["layers"])}
    row |= {"matched": setting.matched, "identified": setting.identified, "judged": setting.judged}
    row |= {"said": setting.said, **_scores(found)}
    row["before_the_last_steps"] = {name: early.scores[name].tolist() for name in ("r2", "mcc")}
    row["temperatures"] = [early.temperature, found.temperature]
    if case["encoders"] > 1:
        row["diagnosis"] = identifiability(found).summary()
    if case["supervised_steps"]:
        shared = {key: value for key, value in case.items() if key != "setting_number"}
        kind = setting.space, setting.marginal, setting.output, setting.homogeneous
        row["supervised"] = _supervised(*kind, **shared)
    row["seconds"] = {"training": round(trained - began, 1), "all": round(time.monotonic() - began, 1)}
    return row


def _scores(found: Inversion) -> Row:
    names = ("seed", "r2", "mcc", "mcc_spearman", "identity_r2", "alignment", "uniformity")
    last = found.history[-100:].mean(0)
    scores = {name.replace("seed", "mixing"): found.scores[name].tolist() for name in names}
    return {**scores, "loss": [float(value) for value in last]}


def judged_again(rows: Sequence[Row]) -> list[Row]:
    """Rows with the verdict that the present rule gives of the numbers they hold: some are older than the rule.

    >>> seen = {"shape": "unbounded", "r2": 0.998, "mcc": 0.911, "chance": 0.005, "pair_exponent": 1.7}
    >>> judged_again([{"diagnosis": {**seen, "coordinates": "one by one"}}])[0]["diagnosis"]["coordinates"]
    'up to a linear map'
    """
    return [{**row, "diagnosis": _judged(row["diagnosis"])} if "diagnosis" in row else row for row in rows]


def _judged(seen: Mapping[str, Any]) -> dict[str, Any]:
    names = ("shape", "r2", "mcc", "chance", "pair_exponent")
    return {**seen, "coordinates": verdict(**{name: seen[name] for name in names})}


def by_mixing(row: Mapping[str, Any], measure: str) -> np.ndarray:
    """The score of each mixing of a row: the first has several encoders, whose mean it is, and counts once.

    >>> by_mixing({"mixing": [0, 1, 0], "r2": [0.9, 0.5, 0.7]}, "r2")
    array([0.8, 0.5])
    """
    which = np.asarray(row["mixing"])
    return np.array([np.mean(np.asarray(row[measure])[which == own]) for own in np.unique(which)])


def score_tables(result: Mapping[str, Any], measure: str, name: str, said: str) -> dict[str, pd.DataFrame]:
    """Title -> table: a line for each row, ours beside the printed score, in percent.

    measure : "r2" or "mcc". name : its name. said : what the rows that are counted as reached do.
    """
    lines = []
    for row in result["rows"]:
        ours = 100 * by_mixing(row, measure)
        lines.append(
            {
                "process → model": row["setting"],
                "layers": row["layers"],
                "matched": "yes" if row["matched"] else "",
                "identity R²": f"{100 * np.mean(row['identity_r2']):.1f}",
                "supervised": f"{100 * np.mean(row['supervised'][measure]):.2f}" if "supervised" in row else "",
                "ours": f"{ours.mean():.2f} ± {ours.std():.2f}",
                "printed": "" if row["printed"] is None else f"{row['printed']:.2f}",
                "seconds": row["seconds"]["all"],
            }
        )
    found = result["summary"]
    title = (
        f"{name} in percent, {result['protocol']['dim']} latents; {found['reached']} of {found['judged']} {said}"
    )
    return {title: pd.DataFrame(lines)}


def draw_scores(rows: Sequence[Row], measure: str, label: str, ax: Axes | None = None) -> Axes:
    """Every model as a dot, the printed score as a line, row by row."""
    names = [f"{row['setting']} ({row['layers']} layers)" for row in rows]
    series: dict[str, dict[str, Any]] = {}
    for k, (kind, identified) in enumerate((("identified", True), ("not identified", False))):
        own = [
            (n, 100 * v)
            for n, r in zip(names, rows, strict=True)
            if r["identified"] == identified
            for v in r[measure]
        ]
        if own:
            groups, values = zip(*own, strict=True)
            series[kind] = {"group": groups, "value": values, "color": figures.PALETTE[k], "lane": 0}
    printed = [(n, row["printed"]) for n, row in zip(names, rows, strict=True) if row["printed"] is not None]
    if printed:
        groups, values = zip(*printed, strict=True)
        series["printed"] = {"group": groups, "value": values, "marker": "|", "color": figures.INK, "lane": 0}
    return figures.dots(series, names, ax, label=f"{label}, in percent", size=(7.5, 1.2 + 0.27 * len(rows)))


def _describe(row: Row) -> str:
    """One line about a finished row."""
    return (
        f"{row['setting']} ({row['layers']} layers): R² {np.mean(row['r2']):.4f}, MCC {np.mean(row['mcc']):.4f} "
        f"({row['seconds']['all']} s)"
    )

"""What the theorems say, in numbers: limits of the contrastive loss, and what a trained model makes of its latents.

- Sphere (Zimmermann et al. 2021, theorem 1): for pairs of a von Mises-Fisher distribution and the optimal model,
  L - log M tends to the cross-entropy less log|Z| as the number M of negatives grows, whether the positive is in
  the denominator or not. The limit is minus the information between latent and positive (Schneider et al. 2025,
  proposition 1: L tends to log N - KL); without the positive it is reached from below, at a distance of
  Var(w) / 2M, where w is the density ratio. With independent pairs (concentration 0) L is log M for every M.
- Box (theorem 3): the same for distances in a box, where log|Z| = 0.
- Radius (proposition 1): among spheres the loss is least on the one of radius √(τκ).
- Trained: a model with a learned radius on a sphere finds that radius; it keeps dot products (isometry), is an
  orthogonal map (theorem 2), and sends the uniform distribution to the uniform one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, ive
from scipy.stats import kstest

from ascribo import figures
from ascribo.kernels.log_sum_exp_blocked import log_sum_exp
from ascribo.model.generative_process_inversion import invert_process
from ascribo.networks.outputs import Sphere
from ascribo.simulate.generative_distributions import VonMisesFisher
from ascribo.simulate.generative_process import Process, process
from ascribo.spaces.similarities import Dot, Lp
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, experiment, one_by_one

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "FULL",
    "QUICK",
    "best_radius",
    "box_limit",
    "cases",
    "conclude",
    "contrastive_loss",
    "draw",
    "log_area",
    "measure",
    "rate",
    "run",
    "sphere_limit",
    "tables",
]

PRINTED = {"log_area_10": 3.2387, "limit_10_1": -0.0494, "limit_10_10": -2.4845}
FULL = {
    **{"dim": 10, "concentrations": (0.0, 1.0, 10.0), "exponents": (1.0, 2.0, 3.0), "box_dim": 2, "scale": 0.1},
    **{"negatives": (16, 64, 256, 1024, 4096, 16_384), "references": 4096, "repeats": 16},
    **{"trained": {"dim": 3, "concentration": 6.0, "temperature": 0.5, "steps": 3000, "batch_size": 1024}},
}
QUICK = {
    **{"negatives": (16, 256, 4096), "references": 2048, "repeats": 4},
    **{"trained": {"dim": 3, "concentration": 6.0, "temperature": 0.5, "steps": 600, "batch_size": 512}},
}


def log_area(dim: int) -> float:
    """log|Z| of the unit sphere in `dim` dimensions.

    >>> round(log_area(10), 4), round(float(np.exp(log_area(3)) / np.pi), 4)
    (3.2387, 4.0)
    """
    return float(np.log(2) + dim / 2 * np.log(np.pi) - gammaln(dim / 2))


def _log_mean_exp(dim: int, kappa: float) -> float:
    """log E exp(κ u·z) of z uniform on the sphere and a unit vector u."""
    if kappa == 0:
        return 0.0
    order = dim / 2 - 1
    return float(gammaln(dim / 2) + order * np.log(2 / kappa) + np.log(ive(order, kappa)) + kappa)


def sphere_limit(dim: int, kappa: float, radius_squared: float | None = None) -> float:
    """The limit of L - log M on a sphere, for pairs of concentration κ and outputs h = r z at temperature 1.

    radius_squared : r² of the model; None: κ, the best one. Then minus the limit is the information of the pairs,
        in nats.

    >>> round(sphere_limit(10, 1.0), 4), round(sphere_limit(10, 10.0), 4)
    (-0.0494, -2.4845)
    """
    own = kappa if radius_squared is None else radius_squared
    return -own * VonMisesFisher(dim, kappa).mean_cosine + _log_mean_exp(dim, own)


def rate(dim: int, kappa: float) -> float:
    """How far L - log M is below its limit, times M, for many negatives without the positive: Var(w) / 2.

    >>> rate(10, 0.0)
    0.0
    """
    return float(np.expm1(_log_mean_exp(dim, 2 * kappa) - 2 * _log_mean_exp(dim, kappa)) / 2)


def best_radius(dim: int, kappa: float, temperature: float) -> float:
    """The radius at which the limit of the loss is least, found numerically.

    >>> round(best_radius(5, 4.0, 0.25), 4)
    1.0
    """
    found = minimize_scalar(
        lambda r: sphere_limit(dim, kappa, r**2 / temperature), bounds=(1e-3, 20), method="bounded",
        options={"xatol": 1e-10},
    )  # fmt: skip
    return float(found.x)  # type: ignore[attr-defined]


def box_limit(dim: int, exponent: float, scale: float) -> float:
    """The limit of L - log M in the box [0, 1]^dim for generalized normal pairs and the optimal model.

    It is the mean entropy of the truncated conditional, since log|Z| is 0.

    >>> abs(box_limit(1, 2.0, 100.0)) < 1e-4  # so wide that the conditional is uniform
    True
    """
    power = lambda x, z: (np.abs(x - z) / scale) ** exponent  # noqa: E731

    def entropy(z: float) -> float:
        inside = {"points": [z], "limit": 200}
        total = quad(lambda x: np.exp(-power(x, z)), 0, 1, **inside)[0]
        return float(np.log(total) + quad(lambda x: power(x, z) * np.exp(-power(x, z)), 0, 1, **inside)[0] / total)

    return dim * quad(entropy, 0, 1, limit=200)[0]


def contrastive_loss(
    made: Process, similarity: Any, factor: float, negatives: int, references: int, seed: int
) -> tuple[float, float]:
    """L of the model h(z) = factor · z on a process: with the positive in the denominator, and without."""
    rng = torch.Generator().manual_seed(seed)
    z, near = (factor * part for part in made.sample_pairs((1, references), rng))
    far = factor * made.sample((1, negatives), rng)
    aligned = similarity.rowwise(z, near)
    uniform = log_sum_exp(z, far, ((similarity, slice(0, made.dim)),))
    return float((torch.logaddexp(uniform, aligned) - aligned).mean()), float((uniform - aligned).mean())


def cases(plan: Plan) -> list[Case]:
    """Limits for every distribution and number of negatives, and the trained model."""
    shared = {"references": plan["references"], "repeats": plan["repeats"]}
    sphere = [{"kind": "sphere", "dim": plan["dim"], "concentration": k} for k in plan["concentrations"]]
    box = [
        {"kind": "box", "dim": plan["box_dim"], "exponent": p, "scale": plan["scale"]} for p in plan["exponents"]
    ]
    limits = [{**own, "negatives": m, **shared} for own in (*sphere, *box) for m in plan["negatives"]]
    return [*limits, {"kind": "trained", **plan["trained"]}]


def measure(kind: str, **case: Any) -> Row:
    """The numbers of one case."""
    return _trained(**case) if kind == "trained" else _limit(kind, **case)


def _limit(kind: str, dim: int, negatives: int, references: int, repeats: int, **given: float) -> Row:
    if kind == "sphere":
        kappa = given["concentration"]
        made, similarity, factor = process("sphere", dim=dim, layers=1, concentration=kappa), Dot(), np.sqrt(kappa)
        limit, below = sphere_limit(dim, kappa), rate(dim, kappa) / negatives
    else:
        exponent, scale = given["exponent"], given["scale"]
        how = {"conditional": "generalized_normal", "exponent": exponent, "scale": scale}
        made, similarity, factor = process("box", dim=dim, layers=1, **how), Lp(exponent), 1 / scale
        limit, below = box_limit(dim, exponent, scale), None
    drawn = [contrastive_loss(made, similarity, factor, negatives, references, seed) for seed in range(repeats)]
    counted, without = np.array(drawn).T - np.log(negatives)
    error = lambda values: float(values.std(ddof=1) / np.sqrt(len(values)))  # noqa: E731
    return {
        **{"kind": kind, "dim": dim, "negatives": negatives, **given, "limit": limit, "predicted_below": below},
        **{"with_positive": float(counted.mean()), "with_positive_error": error(counted)},
        **{"without_positive": float(without.mean()), "without_positive_error": error(without)},
    }


def _trained(dim: int, concentration: float, temperature: float, steps: int, batch_size: int) -> Row:
    made = process("sphere", dim=dim, concentration=concentration, layers=2, seed=1)
    found = invert_process(
        made, similarity="dot", output=Sphere(1.0, learned=True), temperature=temperature, steps=steps,
        batch_size=batch_size, negatives="independent", device="cpu", progress=False,
    )  # fmt: skip
    z, near = (part.double() for part in made.sample_pairs(2000, 5))
    h, h_near = (found.embed(part)[0].double() for part in (z, near))
    radius = float(found.parameters["radius"])
    linear = torch.linalg.lstsq(z, h).solution / radius
    dots, wanted = (h * h_near).sum(-1) / temperature, concentration * (z * near).sum(-1)
    return {
        **{"kind": "trained", "dim": dim, "concentration": concentration, "temperature": temperature},
        **{"radius": radius, "best_radius": float(np.sqrt(temperature * concentration))},
        "r2": found.scores["r2"].tolist()[0],
        # how far the linear part is from orthogonal, and dot products from those of the latents (1 would be all)
        "orthogonality_error": float((linear.T @ linear - torch.eye(dim)).abs().max()),
        "isometry_error": float((dots - wanted).square().mean().sqrt() / wanted.std()),
        # on a sphere in three dimensions a coordinate of a uniform point is uniform
        "uniformity_ks": float(max(kstest(column / radius, "uniform", (-1, 2)).statistic for column in h.numpy().T))
        if dim == 3
        else None,
        "limit": sphere_limit(dim, concentration),
        "loss": float(found.scores[["alignment", "uniformity"]].to_numpy().sum()),
    }


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """Add the closed forms, and how far the largest numbers of negatives are from their limits."""
    most = max(result["protocol"]["negatives"])
    last = [row for row in result["rows"] if row["kind"] != "trained" and row["negatives"] == most]
    far = {_name(row): abs(row["with_positive"] - row["limit"]) for row in last}
    limits = {f"limit_10_{kappa:g}": sphere_limit(10, kappa) for kappa in (1.0, 10.0)}
    closed = {"log_area_10": log_area(10), **limits}
    radii = [
        {"kappa": kappa, "tau": tau, "found": best_radius(10, kappa, tau), "said": float(np.sqrt(kappa * tau))}
        for kappa in (1.0, 10.0)
        for tau in (0.5, 1.0, 2.0)
    ]
    return {**result, "closed_forms": closed, "expected": PRINTED, "radii": radii, "distance_from_limit": far}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: losses beside their limits, radii, and the trained model."""
    limits = [row for row in result["rows"] if row["kind"] != "trained"]
    shown = [
        {
            "pairs": _name(row),
            "negatives": row["negatives"],
            "L - log M, positive counted": f"{row['with_positive']:.4f} ± {row['with_positive_error']:.4f}",
            "not counted": f"{row['without_positive']:.4f} ± {row['without_positive_error']:.4f}",
            "limit": f"{row['limit']:.4f}",
            "limit - Var(w) / 2M": ""
            if row["predicted_below"] is None
            else f"{row['limit'] - row['predicted_below']:.4f}",
        }
        for row in limits
    ]
    expected = result["expected"]
    closed = [
        {"what": name, "ours": round(value, 4), "expected": expected[name]}
        for name, value in result["closed_forms"].items()
    ]
    trained = next(row for row in result["rows"] if row["kind"] == "trained")
    return {
        "Closed forms": pd.DataFrame(closed),
        "Limits of the contrastive loss": pd.DataFrame(shown),
        "Radius of least loss beside √(τκ)": pd.DataFrame(result["radii"]).round(4),
        "A trained model on a sphere": pd.DataFrame(
            [{"what": k, "value": v} for k, v in trained.items() if k != "kind" and v is not None]
        ),
    }


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """L - log M - limit against the number of negatives, with the positive (lines) and without it (dots)."""
    limits = [row for row in result["rows"] if row["kind"] != "trained"]
    series: dict[str, dict[str, Any]] = {}
    for k, name in enumerate(dict.fromkeys(_name(row) for row in limits)):
        own = [row for row in limits if _name(row) == name]
        colour, x = figures.PALETTE[k % len(figures.PALETTE)], [row["negatives"] for row in own]
        for key, look in (("with_positive", {"marker": ""}), ("without_positive", {"linestyle": ""})):
            y = [row[key] - row["limit"] for row in own]
            shown = name if key == "with_positive" else f"_{name}"  # one name for both in the legend
            series[shown] = {"x": x, "y": y, "color": colour, **look}
    ax = figures.curves(series, ax, xlabel="negatives M", ylabel="L - log M, less its limit (nats)")
    ax.axhline(0, color=figures.FAINT, linewidth=1)
    ax.set_xscale("log")
    return ax


def _name(row: Mapping[str, Any]) -> str:
    if row["kind"] == "sphere":
        return f"sphere, {row['dim']} dimensions, κ = {row['concentration']:g}"
    return f"box, {row['dim']} dimensions, β = {row['exponent']:g}, scale {row['scale']:g}"


def _line(row: Row) -> str:
    if row["kind"] == "trained":
        return f"trained: radius {row['radius']:.3f} (said {row['best_radius']:.3f}), R² {row['r2']:.4f}"
    return f"{_name(row)}, {row['negatives']} negatives: {row['with_positive']:.4f}, limit {row['limit']:.4f}"


run = experiment(
    *("theory", FULL, QUICK),
    cases=cases,
    rows=one_by_one(measure, _line),
    conclude=conclude,
    draw=draw,
    protocol={"loss": "of the optimal model on samples; repeats with new samples give the error"},
    cpu_only=True,
)

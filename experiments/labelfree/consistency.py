"""Do label-free explanations point at what matters? (Crabbé & van der Schaar 2022, figures 2 and 3.)

Features: the most important are masked, and the representation should move more than for random ones. Examples: the
most important should share the test example's label more often than the least. A denoising autoencoder of MNIST, an
LSTM autoencoder of heartbeats, and SimCLR on a stand-in for CIFAR-10.

Differences from the paper's public code, where the paper is followed: noise of variance 1/3 (code: standard
deviation 0.3), heartbeat encoders of width 64 and 32 (code: 16), 1,000 examples (code: 200), signed gradients
(code: absolute ones), pixels from 0 to 1 in training and in explaining, evaluation mode. Influence takes the
Gauss-Newton curvature with damping instead of 100 undamped recursions, and SimplEx is solved to optimality.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import affine_grid, conv2d, grid_sample

from ascribo import explain, figures
from ascribo.support.compute import resolve_device
from ascribo.support.progress import say
from experiments.shared.pictures import pack, unpack
from experiments.shared.rows import Case, Row
from experiments.shared.runner import Plan, experiment, one_by_one
from experiments.shared.stack_training import Run, train

from .data import Images, coloured_shapes, heartbeats, images
from .networks import Reconstruction, SequenceAutoencoder, SimCLR
from .tasks import NOISE, interval, pretext_models

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "QUICK", "cases", "draw", "run", "tables"]

FULL = {
    "parts": ("mnist", "ecg-features", "ecg-examples", "simclr"),
    "train": 60_000,
    "test": 10_000,
    "explained": 1_000,
    "epochs": 100,
    "beat_epochs": 150,
    "widths": (64, 32),
    "shapes": 20_000,
    "shape_epochs": 20,
    "resnet": 64,
    "points": 50,
    "budget": 86_400,
}
"""`budget` bounds the seconds of each training."""
QUICK = {
    "parts": ("mnist", "ecg-examples"),
    "train": 1_500,
    "test": 200,
    "explained": 80,
    "epochs": 4,
    "beat_epochs": 2,
    "widths": (8, 4),
    "shapes": 256,
    "shape_epochs": 1,
    "resnet": 4,
    "points": 10,
}
PIXELS, TIMES, TOPS = (5, 10, 20, 50, 100, 200), (5, 10, 20, 50, 70), (5, 10, 20, 50)
ENDS = ("top", "bottom")
SHOWN, TOP_SHOWN = 6, 3
"""Test images in the figure, and training images that each method puts first for them."""


def cases(plan: Plan) -> list[Case]:
    """One case for each part."""
    shared = {key: value for key, value in plan.items() if key != "parts"}
    return [{"part": part, **shared} for part in plan["parts"]]


def _part(part: str, device: str, **plan: Any) -> Row:
    work = {"mnist": _mnist, "ecg-features": _ecg_features, "ecg-examples": _ecg_examples, "simclr": _simclr}[part]
    began = time.monotonic()
    return {"part": part, **work(resolve_device(device), **plan), "seconds": round(time.monotonic() - began, 1)}


def _line(row: Row) -> str:
    return f"{row['part']}: {row['data']}, {row['seconds']:.0f} s"


def _mnist(device: torch.device, **plan: Any) -> Row:
    data = images(plan["train"], plan["test"])
    tell = partial(say, enabled=True)
    options = {"epochs": plan["epochs"], "batch_size": 200, "device": device, "budget": plan["budget"]}
    done = pretext_models(["denoising"], data, [0], **options, progress=lambda text: tell(f"mnist {text}"))
    model: Any = done.models[0]
    test = torch.from_numpy(data.test).to(device)
    row = {"data": data.name, "epochs": len(done.test_losses), "test_loss": min(v[0] for v in done.test_losses)}
    methods = ("integrated_gradients", "gradient_shap", "saliency", "deeplift")
    row["shifts"], maps = _shifts(model.encoder, test, 0.0, methods, PIXELS, plan["points"])
    train, test, labels, test_labels = _some(data, plan["explained"], device)
    noise = NOISE * torch.randn(1, *train.shape[1:], generator=torch.Generator().manual_seed(0)).to(device)
    based = {"loss": Reconstruction(model.decoder), "views": lambda x: (x + noise)[:, None]}
    checkpoints = []
    for state in done.checkpoints or [model.state_dict()]:
        kept: Any = type(model)().to(device)
        kept.load_state_dict(state)
        checkpoints.append((1e-3, kept.encoder, Reconstruction(kept.decoder)))
    jobs = {
        "influence": based,
        "tracin": {**based, "checkpoints": checkpoints},
        "nearest_neighbours": {},
        "simplex": {},
    }
    row["rates"], row["seconds_of"], top = _rates(model.encoder, train, test, labels, test_labels, jobs)
    row["maps"] = {"images": pack(data.test[:SHOWN, 0]), **{m: pack(v[:, 0]) for m, v in maps.items()}}
    shown = test[:SHOWN, 0].cpu().numpy()
    of = train[:, 0].cpu().numpy()
    row["top"] = {"images": pack(shown), **{m: pack(of[index]) for m, index in top.items()}}
    return row


def _ecg(device: torch.device, x: Tensor, held: Tensor, width: int, plan: dict[str, Any]) -> Run:
    """The LSTM autoencoder: Adam, rate 1e-3, no weight decay, up to 150 epochs."""
    torch.manual_seed(0)
    return train(
        [SequenceAutoencoder(width)],
        len(x),
        lambda index, draws: (x[index],),
        lambda draws: [(held[None],)],
        epochs=plan["beat_epochs"],
        batch_size=128,
        device=device,
        budget=plan["budget"],
        progress=lambda text: say(f"ecg, width {width}, {text}"),
    )


def _ecg_features(device: torch.device, **plan: Any) -> Row:
    name, beats, abnormal = heartbeats()
    few = plan["train"]
    x = torch.from_numpy(beats[abnormal == 0][:few]).to(device)
    test = torch.from_numpy(beats[abnormal == 1][: plan["test"]]).to(device)
    done = _ecg(device, x, test, plan["widths"][0], plan)
    row = {"data": name, "epochs": len(done.test_losses), "test_loss": min(v[0] for v in done.test_losses)}
    methods = ("integrated_gradients", "gradient_shap", "saliency")
    row["shifts"], _ = _shifts(done.models[0].encoder, test, x.mean(0), methods, TIMES, plan["points"])
    return row


def _ecg_examples(device: torch.device, **plan: Any) -> Row:
    name, beats, abnormal = heartbeats()
    order = np.random.default_rng(0).permutation(len(beats))[: 5 * plan["train"] // 4]
    split = len(order) * 4 // 5
    x, held = (torch.from_numpy(beats[part]).to(device) for part in (order[:split], order[split:]))
    done = _ecg(device, x, held, plan["widths"][1], plan)
    model: Any = done.models[0]
    count = plan["explained"]
    row = {"data": name, "epochs": len(done.test_losses), "test_loss": min(v[0] for v in done.test_losses)}
    loss = Reconstruction(model.decoder, power=1)
    checkpoints = []
    for state in done.checkpoints or [model.state_dict()]:
        kept = SequenceAutoencoder(plan["widths"][1]).to(device)
        kept.load_state_dict(state)
        checkpoints.append((1e-3, kept.encoder, Reconstruction(kept.decoder, power=1)))
    jobs = {
        "influence": {"loss": loss, "batch_size": 16},  # the curvature of an LSTM takes memory
        "tracin": {"loss": loss, "checkpoints": checkpoints},
        "nearest_neighbours": {},
        "simplex": {},
    }
    labels, test_labels = abnormal[order[:split]][:count], abnormal[order[split:]][:count]
    row["rates"], row["seconds_of"], _ = _rates(model.encoder, x[:count], held[:count], labels, test_labels, jobs)
    return row


def _simclr(device: torch.device, **plan: Any) -> Row:
    count = max(plan["explained"], 100)
    data = coloured_shapes(plan["shapes"], count)
    x, test = torch.from_numpy(data.train).to(device), torch.from_numpy(data.test).to(device)
    torch.manual_seed(0)
    done = train(
        [SimCLR(plan["resnet"])],
        len(x),
        lambda index, draws: (_augmented(x[index[0]], draws)[None], _augmented(x[index[0]], draws)[None]),
        lambda draws: [(_augmented(test, draws)[None], _augmented(test, draws)[None])],
        epochs=plan["shape_epochs"],
        batch_size=min(256, len(x) // 2),
        patience=plan["shape_epochs"],
        rate=0.6,
        weight_decay=1e-6,
        device=device,
        budget=plan["budget"],
        optimizer=partial(torch.optim.SGD, momentum=0.9),
        progress=lambda text: say(f"simclr {text}"),
    )
    encoder = done.models[0].encoder
    row = {"data": data.name, "epochs": len(done.test_losses), "test_loss": min(v[0] for v in done.test_losses)}
    methods = ("integrated_gradients", "gradient_shap", "saliency")
    sizes = tuple(3 * size for size in PIXELS)
    row["shifts"], _ = _shifts(encoder, test, _blurred(test), methods, sizes, plan["points"])
    jobs: dict[str, dict[str, Any]] = {"nearest_neighbours": {}, "simplex": {}}
    labels = data.train_labels[:count], data.test_labels
    row["rates"], row["seconds_of"], _ = _rates(encoder, x[:count], test, *labels, jobs)
    return row


def _shifts(encoder: Any, x: Tensor, baseline: Any, methods: tuple[str, ...], sizes: tuple[int, ...], points: int):
    """Latent shift by method, by the scores as they are and by their size: {method: {size: interval}}; and the
    scores of the first few examples."""
    found: dict[str, Any] = {}
    maps: dict[str, np.ndarray] = {}
    options: dict[str, dict[str, Any]] = {
        "integrated_gradients": {"points": points},
        "gradient_shap": {"samples": points},
    }
    chunk = 2048 if x.is_cuda and x.ndim < 4 else 256  # steps of a recurrent encoder are many and small
    for method in methods:
        scores: Any = explain.features(
            encoder, x, method=method, baseline=baseline, batch_size=chunk, **options.get(method, {})
        )
        maps[method] = scores[:SHOWN].cpu().numpy()
        for name, ranked in ((method, scores), (f"{method}, absolute", scores.abs())):
            found[name] = _means(explain.latent_shift(encoder, x, ranked, sizes, baseline=baseline))
    chance = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)).to(x)
    found["random"] = _means(explain.latent_shift(encoder, x, chance, sizes, baseline=baseline))
    return found, maps


def _means(shifts: Any) -> dict[str, Any]:
    return {str(int(size)): interval(shifts.sel(size=size).values) for size in shifts["size"].values}


def _rates(
    encoder: Any, train: Tensor, test: Tensor, labels: Any, test_labels: Any, jobs: dict[str, dict[str, Any]]
):
    """Similarity rates by method, {method: {end: {size: interval}}}, the seconds each took, and the training
    examples that it puts first for the first few test examples."""
    found, seconds, top = {}, {}, {}
    for method, options in jobs.items():
        began = time.monotonic()
        scores = explain.examples(encoder, train, test, method=method, **options)
        seconds[method] = round(time.monotonic() - began, 2)
        say(f"{method}: {seconds[method]:.1f} s")
        top[method] = np.argsort(-scores.values[:SHOWN], 1)[:, :TOP_SHOWN]
        rates = explain.similarity_rates(scores, labels, test_labels, TOPS)
        found[method] = {e: {str(m): interval(rates.sel(end=e, size=m).values) for m in TOPS} for e in ENDS}
        apart = rates.sel(end="top") - rates.sel(end="bottom")
        found[method]["difference"] = {str(m): interval(apart.sel(size=m).values) for m in TOPS}
    return found, seconds, top


def _some(data: Images, count: int, device: torch.device):
    """Training and test images and their labels, drawn without replacement."""
    rng = np.random.default_rng(0)
    own, held = (rng.permutation(len(x))[:count] for x in (data.train, data.test))
    train, test = torch.from_numpy(data.train[own]).to(device), torch.from_numpy(data.test[held]).to(device)
    return train, test, data.train_labels[own], data.test_labels[held]


def _augmented(x: Tensor, draws: torch.Generator) -> Tensor:
    """A random crop, flip and change of colours of each image (Chen et al. 2020, appendix A, without blur)."""

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(len(x), *shape, generator=draws, device=x.device)

    scale = uniform(0.3, 1.0).sqrt()
    flip = torch.where(uniform(0, 1) < 0.5, -1.0, 1.0)
    zero = torch.zeros_like(scale)
    shift = (1 - scale)[:, None] * uniform(-1, 1, 2)
    rows = torch.stack([scale * flip, zero, shift[:, 0], zero, scale, shift[:, 1]], 1).view(-1, 2, 3)
    x = grid_sample(x, affine_grid(rows, list(x.shape), align_corners=False), align_corners=False)
    x = x * uniform(0.6, 1.4, 1, 1, 1) * uniform(0.8, 1.2, 3, 1, 1)
    grey = x.mean(1, keepdim=True)
    return torch.where(uniform(0, 1, 1, 1, 1) < 0.2, grey.expand_as(x), x).clamp(0, 1)


def _blurred(x: Tensor, width: float = 5.0, size: int = 21) -> Tensor:
    """Images through a Gaussian of 21 pixels and width 5: the paper's baseline for photographs."""
    at = torch.arange(size, device=x.device) - size // 2
    kernel = (-(at**2) / (2 * width**2)).exp()
    kernel = (kernel / kernel.sum()).view(1, 1, 1, -1).expand(x.shape[1], 1, 1, -1)
    x = torch.nn.functional.pad(x, [size // 2] * 4, mode="reflect")
    return conv2d(conv2d(x, kernel, groups=x.shape[1]), kernel.mT, groups=x.shape[1])


def tables(result: dict[str, Any]) -> dict[str, pd.DataFrame]:
    """Figures 2 and 3 in numbers, by title."""
    shown = {}
    for row in result["rows"]:
        if "shifts" in row:
            shown[f"{row['part']} ({row['data']}): latent shift by features masked"] = pd.DataFrame(
                [
                    {"method": method, **{size: round(value["mean"], 3) for size, value in values.items()}}
                    for method, values in row["shifts"].items()
                ]
            )
        if "rates" in row:
            lines = []
            for method, ends in row["rates"].items():
                both = {m: f"{ends['top'][m]['mean']:.2f} / {ends['bottom'][m]['mean']:.2f}" for m in ends["top"]}
                least = min(value["low"] for value in ends["difference"].values())
                lines.append({"method": method, **both, "difference at least": f"{least:+.2f}"})
            title = f"{row['part']} ({row['data']}): same label, top / bottom examples"
            shown[title] = pd.DataFrame(lines)
    return shown


def draw(result: dict[str, Any], ax: Axes | None = None) -> Axes:
    """Latent shifts of the first model; without axes, of all, with similarity rates and images, in a figure."""
    rows = result["rows"]
    if ax is not None:
        return _shift_panel(rows[0], ax)
    shown = next((row for row in rows if "maps" in row), None)
    figure = figures.new_figure((3.6 * len(rows), 7 if shown is None else 10.5))
    grid = figure.add_gridspec(2 if shown is None else 3, 2 * len(rows))
    for j, row in enumerate(rows):
        for k, panel in enumerate((_shift_panel, _rate_panel)):
            if ("shifts", "rates")[k] in row:
                ax = panel(row, figure.add_subplot(grid[k, 2 * j : 2 * j + 2]))
    if shown is not None:
        half = len(rows)
        _grids(shown, figure.add_subplot(grid[2, :half]), figure.add_subplot(grid[2, half:]))
    assert ax is not None
    return ax


def _shift_panel(row: Row, ax: Axes) -> Axes:
    series = {}
    for method, values in row["shifts"].items():
        if "absolute" not in method:
            look = {"linestyle": "--", "color": figures.INK} if method == "random" else {}
            series[method.replace("_", " ")] = {**_band(values), **look}
    ax = figures.curves(series, ax, xlabel="features masked", ylabel="latent shift", title=row["part"])
    ax.legend(fontsize=6.5, frameon=False)
    return ax


def _rate_panel(row: Row, ax: Axes) -> Axes:
    series = {}
    for k, (method, ends) in enumerate(row["rates"].items()):
        for end, style in zip(ENDS, ("-", ":"), strict=True):
            look = {"linestyle": style, "color": figures.PALETTE[k % len(figures.PALETTE)]}
            series[f"{method.replace('_', ' ')}, {end}"] = {**_band(ends[end]), **look}
    ax = figures.curves(series, ax, xlabel="examples", ylabel="share with the same label", title=row["part"])
    ax.set_ylim(0, 1)
    ax.legend(fontsize=6, frameon=False, ncols=2)
    return ax


def _grids(row: Row, left: Any, right: Any) -> None:
    """Scores of a few images by each method, and the training images that each method puts first for a few."""
    maps = {name: unpack(packed) for name, packed in row["maps"].items()}
    del maps["images"]
    figures.image_grid(
        np.stack(list(maps.values())), left, rows=list(maps), signed=True, title="label-free scores of pixels"
    )
    top = {name: unpack(packed) for name, packed in row["top"].items()}
    tested = top.pop("images")
    figures.image_grid(
        np.stack([tested, *(first[:, 0] for first in top.values())]),
        right,
        rows=["test image", *top],
        title="the training image that each method puts first",
    )


def _band(values: dict[str, Any]) -> dict[str, Any]:
    """Means and intervals by size, as a series."""
    numbers = {
        key: [v[name] for v in values.values()] for key, name in (("y", "mean"), ("low", "low"), ("high", "high"))
    }
    return {"x": [int(size) for size in values], **numbers}


run = experiment(
    *("labelfree-consistency", FULL, QUICK),
    cases=cases,
    rows=one_by_one(_part, _line),
    draw=draw,
    protocol={"noise": NOISE},
)

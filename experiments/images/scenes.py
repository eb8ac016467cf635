"""Scenes: the ten latents of rendered images, from pairs of images alone (Zimmermann et al. 2021, table 4).

Images are 3DIdent-like (`ascribo.simulate.scenes`): an object above a floor under a spotlight. The latents of a
positive are drawn around those of an image, and the nearest other image is taken: never the same. An encoder is
trained with InfoNCE; in a box, latents should be found one by one, without bounds up to a rotation only.

Models that are to be compared start from an encoder that was trained on the same pairs with the same loss, first
with many outputs without bounds, then with ten: the rotations of the object are not in an untrained network, and
InfoNCE pulls on a latent in proportion to what the output already has of it, so ten outputs wait long for them. A
box that starts small then turns the axes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from ascribo import figures, metrics, simulate
from ascribo.networks.outputs import Box, Output, Sphere, Unbounded
from ascribo.spaces.similarities import Dot, SquaredL2
from ascribo.support.compute import resolve_device
from ascribo.support.progress import say
from experiments.images.augmentations import augment
from experiments.images.pair_source import ImageSource, train_within, with_statistics
from experiments.shared.image_networks import four_convolutions, resnet18
from experiments.shared.pictures import pack_colours, unpack_colours
from experiments.shared.rows import Case, Row, read_row, row_files, start_over, write_row
from experiments.shared.runner import Plan, experiment

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FULL", "QUICK", "SETTINGS", "cases", "conclude", "draw", "nearest_others", "run", "tables"]

DIM = len(simulate.SCENE_FACTORS)


@dataclass(frozen=True)
class Setting:
    """A row of the table: the conditional of positives, where outputs lie, and the printed R² and MCC."""

    name: str
    conditional: str
    output: Output
    printed: tuple[float, float]
    compared: bool = True


SETTINGS = (
    Setting("Normal → box", "normal", Box(), (96.73, 98.31)),
    Setting("Normal → unbounded", "normal", Unbounded(), (96.43, 54.94)),
    Setting("Laplace → box", "laplace", Box(), (96.87, 98.38)),
    Setting("Normal → sphere", "normal", Sphere(learned=True), (65.74, 42.44), compared=False),
    Setting("augmentations → sphere", "augmentations", Sphere(learned=True), (45.51, 46.34), compared=False),
    Setting("supervised", "supervised", Unbounded(), (98.67, 99.33), compared=False),
)
"""The rows. Those that are compared have all seeds and all stages of training, others the first seed and the last
stage."""
IDENTITY = 5.25
"""Printed R² of the pixels themselves."""
FULL = {
    **{"settings": range(len(SETTINGS)), "seeds": range(1), "images": 62_000, "test": 2_000, "side": 64, "rays": 4},
    **{"scale": 0.35, "encoder": "four convolutions", "width": 16, "batch_size": 256, "learning_rate": 3e-3},
    **{"wide": 128, "steps": (2_000, 600, 1_600), "half": True},
    **{"workers": 2, "render_seconds": None, "folder": "runs/scenes"},
}
"""scale : standard deviation of positives before the nearest image is taken. rays : through a pixel. encoder : a
name of `ENCODERS`; width : its channels. steps : of training with `wide` outputs, with ten, both without bounds,
and as the row says. half : layers compute in bfloat16. workers, render_seconds : processes that render, and for how
long at most. folder : where images are kept; None: they are not."""
TAKES = (
    "64,000 images to render at about 15 ms of a core each, kept in runs/scenes; then about 10 minutes of a core "
    "for each of three rows, and 4 for each of the others"
)
QUICK = {
    **{"settings": (0, 4, 5), "seeds": range(1), "images": 60, "test": 40, "side": 16, "rays": 1},
    **{"steps": (2, 2, 2), "batch_size": 16, "wide": 16, "width": 8, "workers": 1, "folder": None},
}
DISTANCES_AT_ONCE = 2**20
"""Of points in search of the nearest: more leave the cache of a CPU."""
IMAGES_AT_ONCE, STATISTICS = 2_000, 16
"""Images that are embedded together, and how many such batches the means and variances of layers are taken from."""
SAMPLES_SHOWN = 8


def _resnet(width: int, side: int) -> nn.Module:
    """ResNet-18 that keeps its last places, and a hidden layer."""
    body = resnet18(width, quarter=True)
    features = body(torch.zeros(2, 3, side, side)).shape[1]
    return nn.Sequential(body, nn.Linear(features, 10 * DIM), nn.LeakyReLU())


ENCODERS: dict[str, Callable[[int, int], nn.Module]] = {
    "four convolutions": four_convolutions,
    "resnet18": _resnet,
}
"""Channels of the first layer and side of images -> the encoder before its last layer."""


def cases(plan: Plan) -> list[Case]:
    """One case for each row."""
    if plan["encoder"] not in ENCODERS:
        raise ValueError(f"encoder={plan['encoder']!r}: expected one of {', '.join(map(repr, ENCODERS))}.")
    shared = {key: value for key, value in plan.items() if key not in ("settings", "images")}
    found = []
    for k in plan["settings"]:
        own = {"seeds": plan["seeds"], "steps": plan["steps"]}
        if not SETTINGS[k].compared:
            own = {"seeds": plan["seeds"][:1], "steps": plan["steps"][-1:]}
        found.append({**shared, "count": plan["images"], "setting": k, **own})
    return found


def nearest_others(latents: Tensor, wanted: Tensor, own: Tensor) -> Tensor:
    """The number of the point (n, dim) that is nearest to each `wanted` (..., dim), but is not its `own` (...).

    >>> points = torch.tensor([[0.0], [1.0], [3.0]])
    >>> nearest_others(points, torch.tensor([[0.1], [0.1]]), torch.tensor([1, 0])).tolist()
    [0, 1]
    """
    some = max(1, DISTANCES_AT_ONCE // len(latents)) if latents.device.type == "cpu" else own.numel()
    length, found = latents.square().sum(1), []
    for part, same in zip(wanted.flatten(0, -2).split(some), own.reshape(-1, 1).split(some), strict=True):
        away = length - 2 * part @ latents.mT  # less the same number in each row
        found.append(away.scatter(1, same, torch.inf).argmin(1))
    return torch.cat(found).view(own.shape)


class Pairs:
    """Draws pairs of images on the device of the images.

    images : (n, 3, side, side) uint8. latents : (n, 10). setting : what a positive is. scale : see `FULL`.
    """

    def __init__(self, images: Tensor, latents: Tensor, setting: Setting, scale: float):
        self.images, self.latents, self.setting = images, latents, setting
        kind = setting.conditional if setting.conditional in ("normal", "laplace") else "normal"
        width = scale / np.sqrt(2) if kind == "laplace" else scale
        self.process = simulate.process(
            "box", dim=DIM, conditional=kind, scale=float(width), bounds=(-1.0, 1.0), layers=1
        )

    def __call__(self, shape: tuple[int, ...], rng: torch.Generator) -> tuple[Tensor, ...]:
        """See `pair_source.Draw`."""
        where = self.images.device
        index = torch.randint(len(self.images), shape, generator=rng, device=where)
        x = self.show(index)
        if self.setting.conditional == "supervised":
            return x, np.sqrt(3) * self.latents[index]  # of variance 1
        if self.setting.conditional == "augmentations":
            return augment(x, rng), augment(x, rng)
        return x, self.show(self.positives(index, rng))

    def positives(self, index: Tensor, rng: torch.Generator) -> Tensor:
        """Numbers of the images that are nearest to what is drawn around the latents of images `index`."""
        return nearest_others(self.latents, self.process.sample_positives(self.latents[index], rng), index)

    def show(self, index: Tensor) -> Tensor:
        """Images as a network takes them, (..., 3, side, side) from -1 to 1."""
        return self.images[index].float() / 127.5 - 1

    def temperature(self) -> float:
        """The temperature at which a matching model of normal pairs has outputs of variance 1."""
        if self.setting.conditional not in ("normal", "laplace"):
            return 1.0
        index = torch.arange(min(2000, len(self.images)), device=self.images.device)
        other = self.positives(index, torch.Generator(self.images.device).manual_seed(0))
        step = (self.latents[index] - self.latents[other]) / self.latents.std(0)
        return float(2 * step.square().mean())


def _rows(
    wanted: Sequence[Case], state: Path, /, *, jobs: int, fresh: bool, progress: bool, device: str
) -> tuple[list[Row], int]:
    """Render what is missing, then train row after row."""
    plan, where = wanted[0], resolve_device(device)
    folder = Path(plan["folder"]) if plan["folder"] else state / "images"
    count = plan["count"] + plan["test"]
    began = time.monotonic()
    rendered = {"side": plan["side"], "samples": plan["rays"], "n_jobs": plan["workers"], "progress": progress}
    every = simulate.render_scenes(
        simulate.sample_scenes(count), folder, seconds=plan["render_seconds"], shard=min(250, count), **rendered
    )
    spent = round(time.monotonic() - began, 1)
    say(f"{len(every.images)} images, {spent:.0f} s", enabled=progress)
    images, latents = torch.from_numpy(every.images).to(where), torch.from_numpy(every.latents).to(where)
    split = len(images) - plan["test"]
    held, rows, there = (images[split:], latents[split:]), [], 0
    identity = pixels_r2(*held)
    if fresh:
        start_over(state)
    for case, file in zip(wanted, row_files(wanted, state), strict=True):
        if (row := read_row(file)) is not None:
            there += 1
        else:
            row = _train(images[:split], latents[:split], *held, progress=progress, **case)
            row = write_row(file, {**row, "identity_r2": identity, "images": split, "render_seconds": spent})
        rows.append(row)
        say(f"{row['name']}: R² {row['r2']}, MCC {row['mcc']}, {row['steps']} steps", enabled=progress)
    rows[0]["shown"] = pack_colours(every.images[:SAMPLES_SHOWN].transpose(0, 2, 3, 1))
    return rows, there


def _train(images: Tensor, latents: Tensor, held: Tensor, truth: Tensor, *, progress: bool, **case: Any) -> Row:
    """A row of the table: one model for each seed, scored on images that were held out."""
    began, setting = time.monotonic(), SETTINGS[case["setting"]]
    pairs = Pairs(images, latents, setting, case["scale"])
    sphere = isinstance(setting.output, Sphere)
    stages = [(case["wide"], Unbounded()), (DIM, Unbounded()), (DIM, setting.output)][-len(case["steps"]) :]
    parameters: dict[str, Tensor] = {}
    curves: list[np.ndarray] = []
    for (dim, output), steps in zip(stages, case["steps"], strict=True):
        last = len(curves) == len(stages) - 1
        source = ImageSource(
            partial(_encoder, case["encoder"], case["width"], case["side"], dim),
            case["seeds"],
            pairs,
            similarity=Dot() if sphere else SquaredL2(),
            output=output,
            temperature=1.0 if sphere else pairs.temperature(),
            independent=True,
            supervised=setting.conditional == "supervised",
            start=parameters,
            half=case["half"],
            together=False,
            device=images.device,
        )
        training = {"batch_size": case["batch_size"], "learning_rate": case["learning_rate"], "steps": steps}
        trained, _ = train_within(source, constant_rate=not last, progress=progress, **training)
        parameters = trained.parameters
        curves.append(trained.history["mse" if source.supervised else "infonce"].sum(-1))
    order = torch.randperm(len(images), generator=torch.Generator(held.device).manual_seed(0), device=held.device)
    known = [pairs.show(part) for part in order[: STATISTICS * IMAGES_AT_ONCE].split(IMAGES_AT_ONCE)]
    embed = with_statistics(source, parameters, known)
    scored = {"r2": [], "mcc": [], "mcc_spearman": [], "by_latent": []}
    for k in range(len(case["seeds"])):
        parts = [embed(part.float() / 127.5 - 1, k) for part in held.split(IMAGES_AT_ONCE)]
        own = torch.cat(parts).cpu().numpy()
        scored["r2"].append(round(metrics.held_out_r2(own, truth.cpu().numpy()), 5))
        matched = metrics.match_latents(own, truth.cpu().numpy())
        scored["mcc"].append(round(float(np.abs(matched.correlation).mean()), 5))
        scored["by_latent"].append(np.abs(matched.correlation).round(4).tolist())
        scored["mcc_spearman"].append(
            round(metrics.mean_correlation_coefficient(own, truth.cpu().numpy(), "spearman"), 5)
        )
    return {
        **{"name": setting.name, "printed": setting.printed, "seeds": case["seeds"], "steps": sum(case["steps"])},
        **{
            "loss": [curve[-100:].mean(0).tolist() for curve in curves],
            **scored,
            "seconds": round(time.monotonic() - began, 1),
        },
    }


def _encoder(name: str, width: int, side: int, dim: int) -> nn.Module:
    """An encoder with `dim` outputs."""
    body = ENCODERS[name](width, side)
    last = nn.Linear(body(torch.zeros(2, 3, side, side)).shape[1], dim)
    nn.init.orthogonal_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(body, last)


def pixels_r2(images: Tensor, latents: Tensor) -> float:
    """R² of the latents by an affine map of the pixels, averaged over squares so that there are at most 8 x 8."""
    size = min(8, images.shape[-1], int(np.sqrt(len(images) / 12)))
    small = torch.nn.functional.adaptive_avg_pool2d(images.float(), size).flatten(1)
    return metrics.held_out_r2(small.cpu().numpy(), latents.cpu().numpy())


def conclude(result: dict[str, Any]) -> dict[str, Any]:
    """Add means over seeds, and the bars: in a box R² and MCC of at least 0.95, without bounds clearly less MCC."""
    means = {
        row["name"]: {"r2": float(np.mean(row["r2"])), "mcc": float(np.mean(row["mcc"]))} for row in result["rows"]
    }
    bars: dict[str, Any] = {"images of 64 x 64 (20,000)": result["rows"][0]["images"]}
    if "Normal → box" in means:
        bars |= {f"{name} in a box (0.95)": value for name, value in means["Normal → box"].items()}
    if "Normal → unbounded" in means:
        bars["mcc without bounds (lower)"] = means["Normal → unbounded"]["mcc"]
    return {**result, "summary": means, "bars": bars}


def tables(result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Title -> table: R² and MCC of held-out images beside the printed ones, in percent."""
    lines = [
        {
            "pairs → model": row["name"],
            "R²": _shown(row["r2"]),
            "R² printed": row["printed"][0],
            "MCC": _shown(row["mcc"]),
            "MCC printed": row["printed"][1],
            "steps": row["steps"],
            "seconds": row["seconds"],
        }
        for row in result["rows"]
    ]
    first = result["rows"][0]
    pixels = {
        "pairs → model": "identity (pixels)",
        "R²": f"{100 * first['identity_r2']:.1f}",
        "R² printed": IDENTITY,
    }
    title = f"scenes: ten latents of held-out images in percent, {first['images']} images to train on"
    return {title: pd.DataFrame([*lines, pixels]).astype(object).fillna("")}


def _shown(values: Sequence[float]) -> str:
    return f"{100 * np.mean(values):.2f} ± {100 * np.std(values):.2f}"


def draw(result: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """R² and MCC of every model beside the printed ones; without axes, with some images above, as a figure."""
    rows = result["rows"]
    if ax is None:
        figure = figures.new_figure((8, 2.6 + 0.4 * len(rows)))
        grid = figure.add_gridspec(2, 1, height_ratios=(1, 0.3 * len(rows)))
        figures.image_grid(unpack_colours(rows[0]["shown"])[None] / 255, figure.add_subplot(grid[0]))
        ax = figure.add_subplot(grid[1])
    names = [row["name"] for row in rows]
    series: dict[str, dict[str, Any]] = {}
    for k, (score, name) in enumerate((("r2", "R²"), ("mcc", "MCC"))):
        own = [(row["name"], 100 * value) for row in rows for value in row[score]]
        series[name] = {"group": [g for g, _ in own], "value": [v for _, v in own], "lane": k}
        printed = [row["printed"][k] for row in rows]
        series[f"{name}, printed"] = {"group": names, "value": printed, "lane": k, "marker": "|"}
    return figures.dots(series, names, ax, label="percent")


run = experiment(
    *("scenes", FULL, QUICK),
    cases=cases,
    rows=_rows,
    conclude=conclude,
    draw=draw,
    protocol={
        "images": "3DIdent-like (ascribo.simulate.scenes), rendered by mitsuba",
        "stages": "many outputs without bounds, ten without bounds, as the row says; the same pairs and loss",
        "negatives": "the positives of the other pairs",
        "positives": "the image nearest to latents drawn around those of an image, never the same",
    },
    in_one_process=True,
)

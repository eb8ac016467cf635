"""Rendered scenes with ten known factors: an object above a floor under a coloured spotlight.

Like 3DIdent (Zimmermann et al. 2021), with a scene of our own: it is called 3DIdent-like. Images are rendered by
mitsuba (`pip install ascribo[scenes]`), without a window, on the CPU. Rendering is slow, about 20 ms an image on
one core, so images are kept in files, a *shard* of some hundred in each; an interrupted rendering goes on with the
shards that are missing.

Latents (n, 10) lie between -1 and 1:

    x, y, z                         place of the object, in steps of 1.1 units: right, back, up
    roll, pitch, yaw                its rotation about x, y and z, 1 is 45 degrees, so that every image
                                    has one rotation only
    spotlight                       where the spotlight hangs on an arc above, 1 is 60 degrees
    hue, light hue, floor hue       of object, spotlight and floor: 1 is 0.4 turns of the colour circle, which
                                    therefore does not close
"""

from __future__ import annotations

import colorsys
import hashlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..support.array_shapes import Array, Float, UInt8, shaped
from ..support.compute import in_processes
from ..support.files import write_atomically
from ..support.progress import bar

__all__ = ["SCENE_FACTORS", "Scenes", "read_scenes", "render_scene", "render_scenes", "sample_scenes"]

SCENE_FACTORS = ("x", "y", "z", "roll", "pitch", "yaw", "spotlight", "hue", "light hue", "floor hue")
"""The factors, in the order of the last axis of latents."""
VARIANT = "scalar_rgb"
"""Of mitsuba: it needs no other library, and processes need not share it."""
REACH, TURN, ARC, HUES = 1.1, np.pi / 4, np.pi / 3, 0.4
"""What 1 stands for in latents of place, rotation, spotlight and hue."""
HEIGHT = 2.1
"""Of the object's middle above the floor, where z is 0."""
EXPOSURE = 0.8
PARTS = (
    ("cube", (0.0, 0.0, 0.0), (1.0, 0.58, 0.42)),
    ("cube", (0.86, 0.0, 0.7), (0.22, 0.42, 0.7)),
    ("sphere", (-1.0, 0.0, 0.4), (0.5, 0.5, 0.5)),
    ("cube", (-0.14, 0.86, 0.07), (0.34, 0.42, 0.18)),
)
"""The object: kind, middle and half size of each part, in units; no rotation maps it onto itself."""


class Scenes(NamedTuple):
    """Rendered images and what they show.

    images : (n, 3, side, side) uint8. latents : (n, 10) float32 from -1 to 1.

    >>> scenes = Scenes(images=np.zeros((2, 3, 64, 64), np.uint8), latents=sample_scenes(2))
    >>> scenes.images.shape, scenes.latents.shape
    ((2, 3, 64, 64), (2, 10))
    """

    images: np.ndarray
    latents: np.ndarray


@shaped
def sample_scenes(count: int, seed: int = 0) -> Float[Array, "{count} 10"]:
    """Latents of scenes, uniform in the box from -1 to 1: (count, 10) float32.

    The first ones do not depend on how many are drawn.

    >>> sample_scenes(3).shape, bool((sample_scenes(5)[:3] == sample_scenes(3)).all())
    ((3, 10), True)
    """
    draws = np.random.default_rng(seed).uniform(-1, 1, (count, len(SCENE_FACTORS)))
    return draws.astype(np.float32)


@shaped
def render_scene(
    latents: npt.ArrayLike, *, side: int = 64, samples: int = 4, seed: int = 0
) -> UInt8[Array, "3 {side} {side}"]:
    """One image (3, side, side), uint8, of latents (10,).

    samples : rays through each pixel. seed : of their places in the pixel.

    >>> from importlib.util import find_spec
    >>> if find_spec("mitsuba"):  # pip install ascribo[scenes]
    ...     assert render_scene(sample_scenes(1)[0], side=16, samples=1).shape == (3, 16, 16)
    """
    values, mi = _check(latents, 1)[0], _mitsuba()
    shown = np.array(mi.render(mi.load_dict(_scene(mi, values, side, samples)), seed=seed))
    visible = np.clip(EXPOSURE * shown, 0, 1) ** (1 / 2.2)
    return np.round(255 * visible).astype(np.uint8).transpose(2, 0, 1)


def render_scenes(
    latents: npt.ArrayLike,
    folder: str | Path,
    *,
    side: int = 64,
    samples: int = 4,
    shard: int = 250,
    n_jobs: int = 1,
    seconds: float | None = None,
    progress: bool = True,
) -> Scenes:
    """Render images of latents (n, 10) into a folder, and return all of them.

    Each shard is one file, complete or absent. Those that are there for the same latents and settings are kept, so
    that an interrupted rendering goes on; one that was damaged is rendered again.

    shard : images in a file. n_jobs : processes. side, samples : see `render_scene`.
    seconds : after which no further shards are begun, but for the first ones; what is there by then is returned,
        and a later call goes on.

    >>> import tempfile
    >>> from importlib.util import find_spec
    >>> if find_spec("mitsuba"):  # pip install ascribo[scenes]
    ...     with tempfile.TemporaryDirectory() as folder:
    ...         scenes = render_scenes(sample_scenes(3), folder, side=16, samples=1, shard=2, progress=False)
    ...     assert scenes.images.shape == (3, 3, 16, 16)
    """
    values, where = _check(latents, None), Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    files = list(_shards(values, where, side, samples, shard))
    missing = [(file, own, side, samples) for file, own in files if _read(file) is None]
    with bar("shards", len(files), progress) as shown:
        shown.advance(len(files) - len(missing))
        each, began = max(1, n_jobs) * 2, time.monotonic()
        for first in range(0, len(missing), each):
            if first and seconds is not None and time.monotonic() - began > seconds:
                break
            some = missing[first : first + each]
            in_processes(_render_shard, some, n_jobs)
            shown.advance(len(some))
    found = [_read(file) for file, _ in files]
    return _join([part for part in found if part is not None])


def read_scenes(folder: str | Path) -> Scenes:
    """All images that are in a folder of `render_scenes`, also while it is still being filled.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/scenes-00000-example.npz", images=np.zeros((2, 3, 8, 8)), latents=sample_scenes(2))
    ...     read_scenes(folder).latents.shape
    (2, 10)
    """
    parts = [_read(file) for file in sorted(Path(folder).glob("scenes-*.npz"))]
    found = [part for part in parts if part is not None]
    if not found:
        raise FileNotFoundError(f"{folder}: no rendered scenes are there; `render_scenes` makes them.")
    return _join(found)


def _mitsuba() -> Any:
    try:
        import mitsuba as mi  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError("scenes are rendered by mitsuba: pip install 'ascribo[scenes]'.") from error
    if mi.variant() != VARIANT:
        mi.set_variant(VARIANT)
        # many threads gain little on small images, and in many processes they wait for each other
        import drjit  # pyright: ignore[reportMissingImports]

        drjit.set_thread_count(1)
    return mi


def _scene(mi: Any, latents: np.ndarray, side: int, samples: int) -> dict[str, Any]:
    """The scene as mitsuba takes it."""
    to, z = mi.ScalarTransform4f, [float(value) for value in latents]
    place = to().translate([REACH * z[0], REACH * z[1], HEIGHT + REACH * z[2]])
    for axis, angle in (([0, 0, 1], z[5]), ([0, 1, 0], z[4]), ([1, 0, 0], z[3])):
        place = place @ to().rotate(axis, float(np.rad2deg(TURN * angle)))
    across = float(ARC * z[6])
    lamp = [6.0 * np.sin(across), -1.5, 1.5 + 6.0 * np.cos(across)]
    scene: dict[str, Any] = {
        "type": "scene",
        "integrator": {"type": "direct", "bsdf_samples": 0, "emitter_samples": 2},
        "sensor": {
            "type": "perspective",
            "fov": 40,
            "to_world": to().look_at([0, -8.0, 6.5], [0, 0, 1.5], [0, 0, 1]),
            "sampler": {"type": "multijitter", "sample_count": samples},
            "film": {
                **{"type": "hdrfilm", "width": side, "height": side, "pixel_format": "rgb"},
                **{"component_format": "float32", "rfilter": {"type": "box"}},
            },
        },
        "floor": {"type": "rectangle", "to_world": to().scale(40), "bsdf": _paint(z[9], 0.5)},
        "spotlight": {
            "type": "spot",
            "to_world": to().look_at(lamp, [0, 0, 1.5], [0, 1, 0]),
            "intensity": {"type": "rgb", "value": [80 * part for part in _colour(z[8], 0.6)]},
            "cutoff_angle": 36,
            "beam_width": 28,
        },
        "daylight": {"type": "point", "position": [-2, -8, 9], "intensity": {"type": "rgb", "value": 60.0}},
    }
    for k, (kind, middle, half) in enumerate(PARTS):
        own = place @ to().translate(list(middle)) @ to().scale(list(half))
        scene[f"part{k}"] = {"type": kind, "to_world": own, "bsdf": _paint(z[7], 0.75)}
    return scene


def _colour(latent: float, saturation: float) -> list[float]:
    return list(colorsys.hsv_to_rgb((0.5 + HUES * latent) % 1, saturation, 1.0))


def _paint(latent: float, saturation: float) -> dict[str, Any]:
    value = [0.8 * part for part in _colour(latent, saturation)]
    return {"type": "twosided", "bsdf": {"type": "diffuse", "reflectance": {"type": "rgb", "value": value}}}


def _check(latents: npt.ArrayLike, rows: int | None) -> np.ndarray:
    values = np.atleast_2d(np.asarray(latents, dtype=np.float32))
    good = values.ndim == 2 and values.shape[1] == len(SCENE_FACTORS) and (rows is None or len(values) == rows)
    if not good or not len(values) or not (np.abs(values) <= 1).all():
        expected = "(10,)" if rows else "(n, 10)"
        raise ValueError(f"latents have shape {np.shape(latents)}: expected {expected}, all from -1 to 1.")
    return values


def _shards(
    latents: np.ndarray, folder: Path, side: int, samples: int, shard: int
) -> Iterator[tuple[Path, np.ndarray]]:
    """File and latents of each shard; the name says what is in it."""
    for number, first in enumerate(range(0, len(latents), shard)):
        own = np.ascontiguousarray(latents[first : first + shard])
        said = hashlib.sha256(own.tobytes() + repr((side, samples, PARTS)).encode()).hexdigest()[:12]
        yield folder / f"scenes-{number:05d}-{said}.npz", own


def _render_shard(file: Path, latents: np.ndarray, side: int, samples: int) -> None:
    images = np.stack(
        [render_scene(row, side=side, samples=samples, seed=number) for number, row in enumerate(latents)]
    )

    def write(temporary: Path) -> None:
        with temporary.open("wb") as out:
            np.savez(out, images=images, latents=latents)

    write_atomically(file, write)


def _read(file: Path) -> Scenes | None:
    """What is in a shard; None where there is none, or a damaged one."""
    try:
        with np.load(file, allow_pickle=False) as content:
            return Scenes(content["images"], content["latents"])
    except (OSError, ValueError, KeyError, EOFError):
        return None
    except Exception as error:  # zipfile.BadZipFile and zlib.error are no ValueErrors
        if type(error).__module__ in ("zipfile", "zlib"):
            return None
        raise


def _join(parts: list[Scenes]) -> Scenes:
    return Scenes(*(np.concatenate([part[k] for part in parts]) for k in range(2)))

"""Data of the experiments: MNIST and ECG5000 where they are at hand, named stand-ins where not.

`mnist.npz` and `ecg5000.npz` are looked for in the folder of real recordings, see `experiments.shared.environment`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import ndimage
from sklearn.datasets import load_digits

from experiments.shared.environment import data_folder

__all__ = ["Images", "coloured_shapes", "heartbeats", "images"]


@dataclass(frozen=True)
class Images:
    """Training and test examples, float32 from 0 to 1, (example, channel, height, width), with labels."""

    name: str
    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray


def images(train: int | None = None, test: int | None = None) -> Images:
    """MNIST, or scikit-learn's digits enlarged to its size; the first so many of each."""
    path = data_folder() / "mnist.npz"
    if path.exists():
        with np.load(path, allow_pickle=False) as file:
            parts = [file[key] for key in ("x_train", "y_train", "x_test", "y_test")]
        x, y, x_test, y_test = parts[0][:train], parts[1][:train], parts[2][:test], parts[3][:test]
        name, largest = "MNIST", 255
    else:
        digits: Any = load_digits()
        large = np.repeat(np.repeat(digits.images, 3, 1), 3, 2)  # 8 x 8 to 24 x 24, then a frame
        large = np.pad(large, ((0, 0), (2, 2), (2, 2)))
        x, y, x_test, y_test = (
            large[:1400][:train],
            digits.target[:1400][:train],
            large[1400:],
            digits.target[1400:],
        )
        x_test, y_test = x_test[:test], y_test[:test]
        name, largest = "scikit-learn's digits enlarged to 28 x 28 (stand-in for MNIST)", 16
    return Images(
        name,
        (x[:, None] / largest).astype(np.float32),
        y.astype(np.int64),
        (x_test[:, None] / largest).astype(np.float32),
        y_test.astype(np.int64),
    )


def heartbeats() -> tuple[str, np.ndarray, np.ndarray]:
    """Name, heartbeats (beat, 140) float32 and whether each is abnormal: ECG5000, or drawn beats."""
    path = data_folder() / "ecg5000.npz"
    if path.exists():
        with np.load(path, allow_pickle=False) as file:
            return "ECG5000", file["X"].astype(np.float32), file["abnormal"].astype(np.int64)
    rng, t = np.random.default_rng(0), np.arange(140)
    abnormal = (rng.random(5000) < 0.42).astype(np.int64)
    beats = np.zeros((5000, 140))
    for centre, width, height, change in (
        (10, 4, -3.0, 0.3),
        (40, 9, 1.0, -0.8),
        (100, 14, 1.5, -1.5),
        (130, 5, -2, 0.5),
    ):
        moved = centre + rng.normal(0, 2, (5000, 1)) + 6 * abnormal[:, None]
        size = height + change * abnormal[:, None] + rng.normal(0, 0.2, (5000, 1))
        beats += size * np.exp(-((t - moved) ** 2) / (2 * width**2))
    beats += rng.normal(0, 0.1, beats.shape)
    return "drawn heartbeats (stand-in for ECG5000)", beats.astype(np.float32), abnormal


def coloured_shapes(train: int, test: int, seed: int = 0, side: int = 32) -> Images:
    """Ten classes of coloured 32 x 32 images, five outlines with two fillings each, on blurred noise.

    A stand-in for CIFAR-10, which is not at hand: far easier, and no photographs.
    """
    rng = np.random.default_rng(seed)
    count = train + test
    labels = rng.integers(0, 10, count)
    noise = rng.normal(size=(count, 3, side, side)).astype(np.float32)
    back = ndimage.gaussian_filter(noise, (0, 0, 3, 3)) * 1.5 + rng.uniform(0.2, 0.8, (count, 3, 1, 1))
    v, u = np.meshgrid(np.arange(side), np.arange(side), indexing="ij")
    out = np.empty((count, 3, side, side), np.float32)
    for k, label in enumerate(labels):
        centre, size, turn = (
            rng.uniform(0.35, 0.65, 2) * side,
            rng.uniform(0.2, 0.32) * side,
            rng.uniform(0, 2 * np.pi),
        )
        x, y = (u - centre[0]) / size, (v - centre[1]) / size
        a, b = np.cos(turn) * x + np.sin(turn) * y, np.cos(turn) * y - np.sin(turn) * x
        outline = [
            np.maximum(abs(a), abs(b)) < 0.9,
            a**2 + b**2 < 1,
            (abs(a) < 0.35) & (abs(b) < 1.1) | (abs(b) < 0.35) & (abs(a) < 1.1),
            (b > -0.7) & (b < 1.2 - 2 * abs(a)),
            (a**2 + b**2 < 1.1) & (a**2 + b**2 > 0.4),
        ][label % 5]
        colour = rng.uniform(0, 1, (3, 1, 1))
        stripes = 0.5 + 0.5 * np.sign(np.sin(6 * a)) if label >= 5 else np.ones_like(a)
        out[k] = np.where(outline, colour * stripes, back[k])
    out = np.clip(out, 0, 1)
    parts = out[:train], labels[:train].astype(np.int64), out[train:], labels[train:].astype(np.int64)
    return Images("coloured shapes (stand-in for CIFAR-10)", *parts)

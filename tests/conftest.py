"""What all tests share."""

import os
from importlib.util import find_spec
from pathlib import Path

import hypothesis
import pytest
import torch

if find_spec("jaxtyping") and find_spec("beartype"):
    os.environ.setdefault("ASCRIBO_CHECK_SHAPES", "1")  # read when ascribo is imported

from ascribo.attribution.unique_variance import score
from experiments.shared.environment import data_folder

# The machine's cores are for the test processes; threads inside one would fight over them.
torch.set_num_threads(1)

# The same examples on every run, and no failures because a machine is busy.
hypothesis.settings.register_profile("ascribo", deadline=None, derandomize=True)
hypothesis.settings.load_profile("ascribo")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data, which the repository does not contain."""
    folder = data_folder()
    if not folder.is_dir():
        pytest.skip(f"real data not found at {folder}; set ASCRIBO_DATA to the folder that has it")
    return folder


@pytest.fixture(scope="module")
def quick_unique_variance():
    """Few training steps for the decoders of the unique variance, for tests of what is made of it."""
    yield from _with_steps(25)


@pytest.fixture(scope="module")
def fair_unique_variance():
    """Enough training steps for the decoders of the unique variance to tell who carries what."""
    yield from _with_steps(120)


def _with_steps(steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(score, "MOST_TRAINING_STEPS", steps)
        yield

"""What all tests share."""

import os
import signal
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

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as of a command that a script started with &
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests press Ctrl-C


HERE = Path(__file__).parent


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Doctests that need packages which are not here are passed over; tests that cannot be imported fail."""
    report = yield
    if report.skipped and "unable to import module" in str(report.longrepr) and HERE in collector.path.parents:
        report.outcome = "failed"
    return report


THOROUGH = (
    "attribution/test_false_discovery_rate.py",
    "attribution/unique_variance",
    "cli/test_analyse.py",
    "cli/test_demo.py",
    "cli/test_main.py",
    "cli/test_resume.py",
    "cli/test_screen.py",
    "data/test_epoch_edges.py",
    "data/test_large.py",
    "data/test_standardised_channels.py",
    "evidence",
    "experiments",
    "explain",
    "extending",
    "kernels/test_log_sum_exp_triton.py",
    "metrics/test_disentanglement.py",
    "model/sessions/test_shared_embedding.py",
    "model/test_estimator.py",
    "model/test_generative_process_inversion.py",
    "model/test_nuisance.py",
    "model/test_sklearn.py",
    "report",
    "screening",
    "scripts/test_chaos.py",
    "scripts/test_strange_recordings.py",
    "simulate/test_navigation.py",
    "simulate/test_generative_process.py",
    "support/test_faults.py",
    "support/test_spread.py",
    "sweeps",
    "test_benchmarks.py",
    "test_fresh_process.py",
    "test_tutorials.py",
    "test_types.py",
    "training",
)
"""Folders and files below `tests` that take more than a few seconds each: `make quick` leaves them out."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest --quick` runs what `make quick` does."""
    parser.addoption("--quick", action="store_true", help="leave out the tests that take long")


def pytest_configure(config: pytest.Config) -> None:
    """A list that names what is gone would leave out nothing, and say nothing."""
    if missing := [name for name in THOROUGH if not (HERE / name).exists()]:
        raise pytest.UsageError(f"tests/conftest.py: THOROUGH names files that are gone: {', '.join(missing)}")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where only the quick tests are asked for, what takes long is not even imported."""
    return True if config.getoption("--quick") and collection_path in {HERE / name for name in THOROUGH} else None


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

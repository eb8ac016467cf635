"""What is true of a process that has just started: these tests share one, which takes seconds."""

import json
import os
import subprocess
import sys

import pytest

CODE = """
import json, sys
from ascribo import *

found = {"names": [repr(Follow), simulate.box.__name__, __version__]}

import numpy as np
import ascribo as asc

model = asc.ContrastiveEmbedding({"rest": asc.Time(dim=1)}, steps=3, seeds=1, batch_size=16, penalty=0.1)
model.fit(np.random.default_rng(0).normal(size=(300, 4)))
found["compiler"] = "torch._dynamo" in sys.modules

from ascribo import figures

figures.embedding(np.eye(3))
found["pyplot"] = "matplotlib.pyplot" in sys.modules

from ascribo.networks.infonce_loss import infonce

found["checked"] = hasattr(infonce, "__wrapped__")
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found():
    plain = {name: value for name, value in os.environ.items() if name != "ASCRIBO_CHECK_SHAPES"}
    plain["PYTHONPATH"] = ":".join(sys.path)
    command = [sys.executable, "-W", "ignore", "-c", CODE]
    done = subprocess.run(command, capture_output=True, text=True, env=plain, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_all_names_can_be_imported_at_once(found):
    kind, box, version = found["names"]
    assert kind.endswith(".Follow'>") and box == "box" and version


def test_fitting_does_not_import_the_compiler(found):
    """It would take a second or more of every process."""
    assert found["compiler"] is False


def test_figures_leave_pyplot_alone(found):
    assert found["pyplot"] is False


def test_shapes_are_not_checked_where_it_is_not_asked_for(found):
    pytest.importorskip("jaxtyping", reason="shapes are checked with jaxtyping, which is not installed")
    assert found["checked"] is False

"""The state of an interrupted fit, as each format had it: it is read, whatever was added since."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

import ascribo as asc
from ascribo.training import checkpoints
from ascribo.training.adam import Adam
from ascribo.training.checkpoints import read_checkpoint, remembered

GOLDEN = Path(__file__).parent / "golden"
FORMATS = pytest.mark.parametrize("form", [{}, {"format": 1}], ids=["format-0", "format-1"])


def state(form):
    """The state in a format; the first had no number."""
    return GOLDEN / f"format-{form.get('format', 0)}"


def test_the_format_that_is_written_has_a_golden_file():
    assert (GOLDEN / f"format-{checkpoints.FORMAT}").is_dir()


@FORMATS
def test_what_was_decided_is_read(form):
    assert remembered(state(form)) == {"ascribo": "checkpoint", **form, "1 seeds": [1473434116]}


@FORMATS
def test_the_state_is_read(form):
    """Into parameters of the same shapes, with the data's own fingerprint: that of a machine is its own."""
    (file,) = state(form).glob("*.safetensors")
    with safe_open(file, "pt") as content:
        facts = content.metadata()
    assert facts.get("format") == (str(form["format"]) if form else None)
    stored, before = load_file(file), file.read_bytes()
    names = [name.removeprefix("parameter.") for name in stored if name.startswith("parameter.")]
    parameters = {name: torch.zeros_like(stored[f"parameter.{name}"]).requires_grad_() for name in names}
    optimizer = Adam(parameters.values(), torch.tensor(1e-3))
    curves = ("infonce", "mse", "penalty", "lambda")
    done, found = read_checkpoint(file, facts["fingerprint"], parameters, optimizer, curves, 50)
    assert done == int(facts["done"]) == 60 and [len(part) for part in found["infonce"]] == [50, 10]
    for name, value in parameters.items():
        assert torch.equal(value, stored[f"parameter.{name}"]) and bool(value.any())
        assert all(torch.equal(state, stored[f"adam.{name}.{k}"]) for k, state in optimizer.state[value].items())
    assert np.isfinite(found["infonce"][0]).all() and file.read_bytes() == before


@FORMATS
def test_a_fit_of_that_folder_knows_whose_it_is(form, tmp_path):
    """Other data are refused, with what to do."""
    shutil.copytree(state(form), tmp_path / "state")
    model = asc.ContrastiveEmbedding(
        {"x": asc.Follow("x", 1)}, seeds=1, steps=60, batch_size=32, penalty=0.0, encoder=asc.MLP((4,)),
        checkpoint=tmp_path / "state", progress=False,
    )  # fmt: skip
    data = asc.Recording(np.random.default_rng(1).normal(size=(300, 4)), {"x": np.arange(300.0)})
    with pytest.raises(ValueError, match="belongs to another model or other data"):
        model.fit(data)

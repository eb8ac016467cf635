"""The papers' second table: roles exchanged."""

import json

import numpy as np
import pytest

from experiments.regcl import box_models, table2

TINY = {"dims": [4], "data_seeds": [0], "length": 600, "steps": 10, "batch": 32, "samples": 60, "costly": 20}
CASE = {"dim": 5, "data_seed": 1, "length": 300, "penalty": "none"}


def test_roles_are_exchanged():
    data, before = table2.recording(CASE), box_models.recording(CASE)
    np.testing.assert_array_equal(data.X, before.X)
    assert list(data.variables) == ["c0", "c1", "c2"]
    np.testing.assert_array_equal(data.variables.to_numpy(), before.latents[:, :3])
    # what was observed is what only the second group carries, and is now hidden
    np.testing.assert_array_equal(before.variables.to_numpy(), before.latents[:, 3:])
    assert data.truth.sel(space="position").all()
    np.testing.assert_array_equal(data.truth.sel(space="rest"), before.truth.sel(space="position"))
    J = before.jacobian(np.arange(20))[:, :, 3:]
    np.testing.assert_array_equal((J != 0).any((0, 2)), data.truth.sel(space="rest").values)
    spaces = table2.spaces(CASE)
    assert spaces["position"].variables == ("c0", "c1", "c2") and spaces["position"].dim == 3
    assert spaces["rest"].dim == 2


def test_the_table(tmp_path):
    result = table2.run(tmp_path, device="cpu", progress=False, **TINY)
    assert json.loads((tmp_path / "table2.json").read_text()) == json.loads(json.dumps(result))
    assert (tmp_path / "table2.png").exists() and len(result["rows"]) == 2
    row = result["rows"][0]
    data = table2.recording({**CASE, **row})
    assert set(row["r2"]) == {"position", "rest"} and len(data) == 600
    cells = {(c["penalty"], c["method"]): c for c in result["cells"] if c["kind"] == "entries"}
    assert cells["regularized", "inverted_neuron_gradient"]["paper"] == {"mean": 0.992, "ci95": [0.984, 0.998]}
    assert cells["none", "inverted_neuron_gradient"]["paper"]["mean"] == 0.842
    assert cells["none", "neuron_gradient"]["mean"] == pytest.approx(row["entries"]["neuron_gradient"])
    assert {"Models", "auROC by channels in percent"} <= set(table2.tables(result))

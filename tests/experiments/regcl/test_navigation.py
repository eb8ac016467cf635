"""The experiments on navigation with tiny protocols: every row is there, and conclusions follow from them."""

import json

import numpy as np
import pytest

pytest.importorskip("ratinabox")

from ascribo.attribution import METHODS
from experiments.regcl import navigation, navigation_models, navigation_noise, navigation_timing
from experiments.regcl.box_models import MODES, OURS, PAPERS
from experiments.shared.runner import make_plan

TINY = {"length": 1500, "steps": 5, "batch": 32, "samples": 20, "costly": 3, "data_seeds": [0]}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("results")
    plan = {**TINY, "simulations": [0], "modes": MODES[2:], "penalties": ["none"], "mixed": 0}
    return out, navigation.run(out, device="cpu", progress=False, **plan)


def test_every_model_has_its_row(done):
    _, result = done
    every = [row for row in result["rows"] if row["mode"] == navigation_models.ALL]
    assert [r.get("spikes", False) for r in every] == [False, True]
    for row in every:
        assert list(row["auroc"]) == list(navigation_models.SPACES)
        for space, calls in row["calls"].items():
            assert calls["fdp"] == pytest.approx(calls["false"] / max(1, calls["called"]), abs=1e-4)
            # 100 cells of each type; position has two of them
            right = calls["called"] - calls["false"]
            assert calls["power"] == pytest.approx(right / (200 if space == "position" else 100), abs=1e-2)
            assert row["decoding"][space]["median_error"] < row["decoding"][space]["constant_error"]
    (position,) = [row for row in result["rows"] if row["mode"] != navigation_models.ALL]
    assert list(position["entries"]) == list(PAPERS) and set(position["channels"]) == {*PAPERS, *OURS}
    assert set(position["bits"]) == {"position", "rest"}


def test_even_five_steps_see_speed_and_heading(done):
    """Speed cells follow speed so closely that random features tell them; position takes more training."""
    rates, spikes = (row for row in done[1]["rows"] if row["mode"] == navigation_models.ALL)
    assert rates["auroc"]["speed"]["unique_variance"] > 0.8 < rates["auroc"]["head_direction"]["unique_variance"]
    assert rates["calls"]["speed"]["called"] > 20 and rates["calls"]["speed"]["fdp"] < 0.05
    assert spikes["auroc"]["speed"]["unique_variance"] > 0.75
    assert rates["types"]["cross_validated"] > 0.5 and spikes["types"]["cross_validated"] > 0.4  # by chance 0.25
    assert rates["decoding"]["speed"]["r2"] > 0.7


def test_cells_are_rates_of_every_simulation_spikes_mixed_cells_and_the_papers_modes():
    plan = make_plan(navigation.FULL)
    found = navigation.cases(plan)
    every = [c for c in found if c["mode"] == navigation_models.ALL]
    kinds = [(c["simulation"], c.get("spikes", False), c.get("mixed", 0)) for c in every]
    assert kinds == [*((k, False, 0) for k in range(5)), (0, True, 0), (0, False, 60)]
    assert len(found) - len(every) == 3 * 2 * 3 and {c["simulation"] for c in found[len(every) :]} == {0}
    some = navigation_models.recording({"simulation": 0, "length": 300, "mixed": 9})
    assert some.X.shape == (300, 409)


def test_what_is_concluded_follows_from_the_rows(done):
    _, result = done
    first = result["rows"][0]
    assert result["summary"]["simulations"] == 1  # spikes are not counted among the rates
    for space in navigation_models.SPACES:
        assert result["summary"]["auroc"][space] == first["auroc"][space]["unique_variance"]
        assert result["summary"]["fdr"][space] == first["calls"][space]["fdp"]
        assert result["summary"]["power"][space] == first["calls"][space]["power"]
    met = result["summary"]["met"]
    assert len(met) == 10
    good = {"auroc": dict.fromkeys(navigation_models.SPACES, 1.0), "types": {"cross_validated": 0.96}}
    good |= {
        "fdr": dict.fromkeys(navigation_models.SPACES, 0.04),
        "power": dict.fromkeys(navigation_models.SPACES, 0.96),
    }
    assert all(navigation._met(good).values())
    for key, worse in (("fdr", 0.06), ("power", 0.94), ("auroc", 0.998)):
        assert sum(not v for v in navigation._met({**good, key: {**good[key], "speed": worse}}).values()) == 1


def test_what_is_written(done):
    out, result = done
    assert sorted(p.name for p in out.iterdir()) == ["navigation.json", "navigation.png"]
    assert json.loads((out / "navigation.json").read_text()) == json.loads(json.dumps(result))
    shown = navigation.tables(result)
    assert len(shown) == 6 and all(len(table) for table in shown.values())


def test_spaces_of_the_papers_modes():
    hybrid = navigation_models.spaces({"mode": "hybrid contrastive"})
    assert (hybrid["position"].dim, hybrid["rest"].dim) == (4, 10)
    assert hybrid["rest"].offsets == tuple(range(1, 11)) and hybrid["position"].offset == 10
    assert list(navigation_models.spaces({"mode": "supervised contrastive"})) == ["position"]


def test_types_are_told_apart_by_maps_that_show_them():
    """Maps made by hand: each cell scores in its own space, grids in a lattice, places in one field."""
    data = navigation_models.recording({"simulation": 0, "length": 2_500})
    place = data.variables[["x", "y"]].to_numpy()
    types, rng = data.types, np.random.default_rng(0)
    assert data.truth is not None
    local = 0.01 * rng.normal(size=(2_500, 400))
    carries = np.isin(types, ("place", "grid"))
    local[:, carries] += np.maximum(data.rates[:, carries], 0)

    class Maps:
        by_space = data.truth * 0.2 + 0.001 * rng.normal(size=(400, 3))

        def over_time(self):
            return data.truth.expand_dims(time=2_500).astype(float) * 0 + local[:, :, None]

        def calls(self, q):
            table = data.truth.to_series().rename("called").reset_index()
            return table

    found = navigation_models._type_accuracy(data, Maps())  # type: ignore[arg-type]
    assert place.shape == (2_500, 2) and found["rule"] > 0.95 and found["cross_validated"] > 0.97
    assert found["grid_score"]["grid"] > 0.5 > 0.3 > found["grid_score"]["place"]


def test_noise(tmp_path):
    plan = {**TINY, "noises": [3.0], "simulations": [0]}
    result = navigation_noise.run(tmp_path, device="cpu", progress=False, **plan)
    assert [row["noise"] for row in result["rows"]] == [3.0]
    assert {cell["method"] for cell in result["cells"]} == set(METHODS)
    assert len(result["cells"]) == 3 * len(METHODS)
    assert list(result["met"]) == ["auROC position ≥ 0.99 at noise 3", "auROC head_direction ≥ 0.99 at noise 3"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["navigation-noise.json", "navigation-noise.png"]
    assert len(navigation_noise.tables(result)) == 5


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_timing_without_cebra(tmp_path, monkeypatch):
    pytest.importorskip("captum")
    monkeypatch.setattr(navigation_timing, "unique_variance_maps", lambda *given: None)
    monkeypatch.setattr(navigation_timing, "cebra_python", lambda: None)
    whole = navigation_models.recording
    monkeypatch.setattr(  # captum takes each channel of each output on its own: every twentieth will do
        navigation_models, "recording", lambda case: (d := whole(case)).take_channels(d.channel_names[::20])
    )
    plan = {"length": 600, "batch": 16, "rounds": 1, "timed": 2, "fitted": 3, "samples": 4}
    result = navigation_timing.run(tmp_path, progress=False, **plan)
    assert result["cebra"] is None and len(result["training"]) == 6
    names = list(result["attribution"])
    assert sum(n.startswith("captum") for n in names) == 5 and sum(n.startswith("ascribo") for n in names) == 8
    for own in (*result["training"].values(), *result["attribution"].values()):
        assert len(own["rounds"]) == 1 and own["median_wall_ms"] == own["rounds"][0]["wall_ms"] > 0
    assert (tmp_path / "navigation-timing.png").exists() and len(navigation_timing.tables(result)) == 2
    with pytest.raises(ValueError, match="'cuda'"):
        navigation_timing.run(tmp_path, device="cuda")

"""The box experiment with a tiny protocol, and the grid that all experiments share."""

import json

import pytest

import ascribo as asc
from ascribo.cli import main
from experiments.regcl import box
from experiments.shared.results import write_json

TINY = dict(
    dims=[3, 4],
    data_seeds=[0, 1],
    steps=2000,
    samples=60,
    model={"steps": 100, "batch_size": 64},
    progress=False,
)


@pytest.fixture(scope="module")
def done(tmp_path_factory, fair_unique_variance):
    out = tmp_path_factory.mktemp("results")
    return out, box.run(out, jobs=1, **TINY)


def test_every_data_set_has_its_row(done):
    _, result = done
    assert [(row["dim"], row["data_seed"]) for row in result["rows"]] == [(3, 0), (3, 1), (4, 0), (4, 1)]
    for row in result["rows"]:
        assert set(row["auroc"]) == set(box.METHODS) and row["training_steps"] == 100
        assert set(row["bits"]) == {"position", "rest"} and row["seconds"] >= row["seconds_fit"] > 0


def test_even_short_training_finds_the_carriers(done):
    """The truth is known: half of the channels carry the observed latents."""
    for row in done[1]["rows"]:
        assert row["auroc"]["unique_variance"] > 0.88 and row["auroc"]["neuron_gradient"] > 0.85
        assert min(row["bits"].values()) > 1 and row["collapsed"] == []
    of_dim = [row for row in done[1]["rows"] if row["dim"] == 3]
    assert min(row["auroc"]["generative_gradient"] for row in of_dim) > 0.9
    for row in of_dim:  # each block holds its own latents
        assert row["r2"]["x, y from position"] > 0.9 and row["r2"]["hidden from rest"] > 0.85


def test_a_row_is_what_the_library_says(done):
    data = asc.simulate.box(1, observed=2, hidden=1, steps=2000)
    spaces = {"position": asc.Follow(["x", "y"], dim=2), "rest": asc.Time(dim=1)}
    model = asc.ContrastiveEmbedding(spaces, seeds=1, steps=100, batch_size=64, random_state=0, progress=False)
    maps = model.fit(data).attribute(data, method="generative_gradient", samples=60)
    row = done[1]["rows"][1]
    assert row["auroc"]["generative_gradient"] == maps.auroc(data, "position")
    assert row["bits"] == pytest.approx(model.goodness_of_fit_.set_index("space")["bits"].to_dict(), rel=1e-4)
    assert row["lambda"] == pytest.approx(model.history_.attrs["lambda"])


def test_what_is_written(done):
    out, result = done
    assert sorted(path.name for path in out.iterdir()) == ["box.json", "box.png"]
    assert json.loads((out / "box.json").read_text()) == json.loads(json.dumps(result))
    assert (out / "box.png").read_bytes().startswith(b"\x89PNG")
    assert result["protocol"]["dims"] == [3, 4] and result["protocol"]["model"]["penalty"] == "auto"
    assert {"cpu", "cores", "python", "torch"} <= set(result["machine"])
    for of_method in result["summary"].values():
        assert of_method["n"] == 4 and of_method["min"] <= of_method["mean"]
        assert of_method["ci95"][0] <= of_method["mean"] <= of_method["ci95"][1]
    assert result["summary"]["inverted_neuron_gradient"]["paper"] == 0.982


def test_the_table_says_how_many_samples_the_inverted_map_leaves_out(done):
    rows = [
        {**row, "rank_deficient": share}
        for row, share in zip(done[1]["rows"], (0.925, 0.0, None, 1.0), strict=True)
    ]
    table = next(iter(box.tables({**done[1], "rows": rows}).values()))
    assert list(table["left out"]) == ["92%", "0%", "all", "100%"]


def test_targets_can_be_missed(done):
    row = done[1]["rows"][0]
    for value, met in ((1.0, True), (0.5, False)):
        auroc = dict.fromkeys(box.METHODS, value)
        found = box.conclude({"rows": [{**row, "auroc": auroc}]})["summary"]
        assert found["generative_gradient"]["met"] is met
        assert found["neuron_gradient"]["met"] is None


def test_a_collapsed_space_counts_as_chance():
    model = {"steps": 1, "batch_size": 64, "learning_rate": 1e-9}
    row = box.data_set(dim=3, data_seed=0, steps=500, samples=50, model=model)
    assert "position" in row["collapsed"]
    assert set(row["auroc"].values()) == {0.5} and row["rank_deficient"] is None
    json.dumps(row, allow_nan=False)


def test_the_command(done, tmp_path, capsys, monkeypatch):
    asked = {}

    def run(out, **options):
        asked.update(options)
        write_json(tmp_path / "box.json", {})
        return done[1]

    monkeypatch.setattr(box, "run", run)
    assert main(["reproduce", "box", "--quick", "--jobs", "3", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert asked == {"quick": True, "jobs": 3, "scheduler": None, "fresh": False, "progress": True}
    assert "0.982" in said and "inverted neuron" in said and str(tmp_path / "box.json") in said

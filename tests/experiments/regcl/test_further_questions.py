"""Quick forms of the experiments on single questions of the papers: they run, and say what they claim to."""

import numpy as np
import pytest

from experiments.regcl import (
    map_choices,
    more_samples,
    navigation_timing_gpu,
    navigation_training,
    table1_statistics,
)


def test_auroc_and_r2_of_position_across_training(tmp_path):
    result = navigation_training.run(tmp_path, quick=True, length=800, progress=False)
    found = {(cell["what"], cell["steps"]): cell["mean"] for cell in result["cells"]}
    assert found["R² of position", 40] > found["R² of position", 2] + 0.2
    assert found["neuron_gradient, by entries", 40] > 0.6
    assert (tmp_path / "navigation-training.png").exists()
    (table,) = navigation_training.tables(result).values()
    assert list(table.columns) == ["what", "2 steps", "40 steps"] and len(table) == 4


def test_aggregates_cut_and_hybrid_are_compared_on_the_same_models(tmp_path):
    result = map_choices.run(tmp_path, quick=True, progress=False)
    assert {cell["hybrid"] for cell in result["cells"]} == {"whole", "separate"}
    rows = {row["hybrid"]: row["maps"]["neuron_gradient, mean"]["entries"]["auroc"] for row in result["rows"]}
    assert rows["whole"] != rows["separate"]  # another loss, another model
    maps = result["rows"][0]["maps"]
    assert len({maps[f"neuron_gradient, {how}"]["entries"]["auroc"] for how in map_choices.AGGREGATES}) > 1
    assert [len(table) for table in map_choices.tables(result).values()] == [6, 6, 6]
    assert (tmp_path / "map-choices.png").exists()


def test_the_cut_is_at_the_mean():
    found = map_choices.above_mean(np.array([0.0, 0.0, 0.0, 4.0]), np.array([False, False, True, True]))
    assert found == {"accuracy": 0.75, "precision": 1.0, "recall": 0.5}


def test_longer_recordings_are_compared_for_each_number_of_latents(tmp_path):
    result = more_samples.run(tmp_path, quick=True, progress=False)
    assert [(row["dim"], row["length"]) for row in result["rows"]] == [(9, 1_000), (9, 2_000)]
    assert all(set(row["r2"]) == {"position", "rest"} for row in result["rows"])
    assert len(more_samples.tables(result)) == 3 and (tmp_path / "more-samples.png").exists()


@pytest.mark.parametrize("device, kind", [("cpu", "median_processor_ms"), ("cuda", "median_wall_ms")])
def test_times_on_a_gpu_are_wall_times(device, kind):
    times = {"supervised, none": {"median_processor_ms": 2.0, "median_wall_ms": 3.0}}
    times["hybrid contrastive, none"] = {"median_processor_ms": 4.0, "median_wall_ms": 9.0}
    attribution = {"ascribo, neuron gradient": times["supervised, none"]}
    protocol = {"device": device, "batch": 512, "samples": 2000}
    result = {"protocol": protocol, "training": times, "attribution": attribution}
    table = next(iter(navigation_timing_gpu.tables(result).values()))
    assert table["ms a step"].tolist() == [own[kind] for own in times.values()]
    first = navigation_timing_gpu.draw(result).collections[0].get_offsets()[0]
    assert first[0] == times["supervised, none"][kind] / 1e3


def test_printed_differences_are_those_of_groups_that_there_are():
    modes = {"supervised", "supervised contrastive", "hybrid contrastive"}
    for (first, _), printed in table1_statistics.PAPER_DIFFERENCES.items():
        levels = modes if first == "mode" else {"none", "regularized"}
        assert {group.partition(":")[0] for group in printed} <= levels
    # feature ablation without penalty is not legible
    assert [len(printed) for printed in table1_statistics.PAPER_DIFFERENCES.values()] == [17, 10]
    assert min(table1_statistics.PAPER_DIFFERENCES["mode", "method"].values()) == pytest.approx(6.97)

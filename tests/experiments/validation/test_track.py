"""The rat on its track: laps as they are in the file, and the whole way with hardly any training."""

import itertools
import json

import numpy as np
import pytest

from ascribo.attribution.unique_variance import score
from ascribo.cli import main
from experiments.validation import track

TINY = {"steps": 20, "seeds": 1, "shift_steps": 10, "shifts": 2, "folds": [0], "decoy_shifts": 1, "walks": 1}


@pytest.fixture(scope="module")
def folder(data_dir):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASCRIBO_DATA", str(data_dir))
        yield data_dir


@pytest.fixture(scope="module")
def done(folder, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(score, "MOST_TRAINING_STEPS", 25)
        out = tmp_path_factory.mktemp("results")
        return out, track.run(out, device="cpu", progress=False, **TINY)


def test_laps_run_along_the_track(folder):
    laps = track.laps()
    position, direction = laps.variables["position"].to_numpy(), laps.variables["direction"].to_numpy()
    edges = np.r_[0, np.flatnonzero(np.diff(laps.epochs)) + 1, len(laps)]
    assert len(edges) - 1 > 40
    for start, stop in itertools.pairwise(edges):
        assert len(set(direction[start:stop])) == 1 and np.ptp(position[start:stop]) > track.LENGTH
        assert (position[stop - 1] > position[start]) == (direction[start] == "out")
        np.testing.assert_allclose(np.diff(laps.time[start:stop]), 0.025, atol=1e-6)
    assert 380 < np.ptp(position) < 460  # pixels: the length of the track
    assert (laps.X == np.round(laps.X)).all() and laps.X.any(0).all()


def test_the_whole_way(done):
    out, result = done
    assert json.loads((out / "track.json").read_text()) == result and (out / "track.png").exists()
    assert [row["part"] for row in result["rows"]] == ["shifts", "calls", "screen", "decoding"]
    units = result["rows"][1]["units"]
    assert len(units) == result["data"]["units"] and set(track.spaces()) < set(next(iter(units.values())))
    assert 0.05 < result["decoding"]["counts, Euclidean"]["of_constant"] < 0.2  # whatever the embedding
    assert result["decoding"]["constant"]["of_constant"] == 1
    assert [len(table) for table in track.tables(result).values()] == [2, 4, len(units), 2, 4]


def unit(called, information, chance=0.1, p=0.01, spikes=100):
    space = {"called": called, "score": information * spikes / 1000, "q": 0.01}
    return {
        "position": space,
        "information": information,
        "information_chance": chance,
        "information_p": p,
        "spikes": spikes,
    }


def test_agreement_with_spatial_information():
    units = {f"a{k}": unit(True, 2 + k / 10) for k in range(6)}
    units |= {f"b{k}": unit(False, 0.5 + k / 10, p=0.2) for k in range(6)}
    units["few"] = unit(False, 3.0, chance=2.9, spikes=2)
    found = track._agreement(units, seconds=50.0)
    assert (found["called"], found["not_called"]) == (6, 7)
    assert found["bits_per_spike_above_chance"]["p"] < 0.002 < found["bits_per_spike"]["p"]
    assert found["bits_per_second"]["p"] < 0.002 and found["bits_per_second"]["medians"] == [4.5, 1.4]
    assert found["bits_per_spike"]["p_of_significant"] < found["bits_per_spike"]["p"]  # "few" is significant
    assert found["bits_per_second"]["rank_correlation"] == 1 > found["bits_per_spike"]["rank_correlation"] > 0.5
    assert found["bits_per_spike"]["p_given_spikes"] < 0.001 < found["bits_per_spike"]["p"]  # "few" has few
    assert found["information_without_call"] == ["few"] and found["called_without_information"] == []
    assert found["bits_per_second_above_chance"]["medians"] == [4.3, 1.2]
    nothing = track._agreement({name: unit(False, 1.0) for name in "ab"}, 50.0)["bits_per_spike"]
    assert nothing["p"] is nothing["rank_correlation"] is nothing["medians"][0] is None


def test_information_given_spikes():
    """Called for their spikes alone, units have more information per second; not with the spikes held fixed."""
    rng = np.random.default_rng(0)
    spikes, tuned = rng.integers(10, 1000, 60), np.arange(60) % 2 == 0
    each = np.where(tuned, 1.0, 0.2) * rng.uniform(0.8, 1.2, 60)
    many = spikes > np.median(spikes)
    assert track._more(each * spikes, many) < 1e-3
    assert 0.1 < track._more_given(each * spikes, many, spikes)
    assert track._more_given(each * spikes, tuned, spikes) < 1e-3
    assert track._more_given(-each * spikes, tuned, spikes) > 0.99
    assert track._more_given(each, tuned & ~tuned, spikes) is None


def test_the_file_must_be_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ASCRIBO_DATA", str(tmp_path))
    assert main(["reproduce", "track", "--quick", "--out", str(tmp_path)]) != 0
    assert "ASCRIBO_DATA" in capsys.readouterr().err

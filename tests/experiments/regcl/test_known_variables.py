"""The test of known variables, run again on the recordings of published results."""

from experiments.regcl.known_variables import measure


def test_a_long_recording_is_answered_without_a_model():
    found = measure({"mode": "hybrid contrastive", "dim": 4, "data_seed": 3, "length": 3_000, "snr": 5.0})
    assert found["auroc"] > 0.97 and found["calls"]["carried"] == 25 and found["calls"]["channels"] == 50
    assert found["calls"]["0.05"]["called"] > 20 and found["calls"]["0.05"]["wrong"] <= 3

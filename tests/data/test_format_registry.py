"""A format from outside of the package: one function or one record, registered, and everything takes it."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

import ascribo as asc
from ascribo.data import format_registry
from ascribo.data.binning import check_intervals
from ascribo.data.format_registry import FileContentError, TimeSeriesFormat, file_format, register_time_series
from ascribo.data.formats.timed_series import samples_recording
from ascribo.data.preprocessing import Treatment

VALUES = np.random.default_rng(0).normal(size=(50, 3))


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    """What is registered here is not for other tests."""
    for name in ("_LOADERS", "_TIME_SERIES"):
        monkeypatch.setattr(format_registry, name, dict(getattr(format_registry, name)))


def test_a_file_of_arrays(tmp_path):
    @file_format(".txt")
    def load(path, *, scale=1.0):
        return {"X": np.loadtxt(path) * scale, "speed": np.arange(50.0)}

    np.savetxt(tmp_path / "a.txt", VALUES)
    recording = asc.read(tmp_path / "a.txt", transform="zscore")
    assert list(recording.variables) == ["speed"] and str(recording.treatment) == "z-score"
    doubled = asc.read(tmp_path / "a.txt", scale=2.0)
    np.testing.assert_allclose(doubled.X, 2 * VALUES, rtol=1e-6)
    with pytest.raises(TypeError, match=r"scale is for files ending in \.txt"):
        (tmp_path / "b.npz").touch()
        asc.read(tmp_path / "b.npz", scale=2.0)


def test_a_table(tmp_path):
    @file_format(".json")
    def load(path):
        return pd.read_json(path)

    pd.DataFrame(VALUES, columns=["cell1", "cell2", "speed"]).to_json(tmp_path / "a.json")
    recording = asc.read(tmp_path / "a.json", channels="cell*")
    assert recording.channel_names == ["cell1", "cell2"] and list(recording.variables) == ["speed"]


def test_a_format_that_chooses_for_itself(tmp_path):
    @file_format(".raw")
    def load(path, *, channels=None, bin_size=None):
        if channels is None:
            raise ValueError("give channels, their number.")
        values = np.fromfile(path, dtype=np.float32).reshape(-1, channels)
        time = np.arange(len(values)) / 10
        return samples_recording(values, time, None, np.array([[0.0, 5.0]]), Treatment(bin_size=bin_size))

    VALUES.astype(np.float32).tofile(tmp_path / "a.raw")
    assert asc.read(tmp_path / "a.raw", channels=3, bin_size=0.5).X.shape == (10, 3)
    with pytest.raises(ValueError, match=r"a\.raw: give channels"):
        asc.read(tmp_path / "a.raw")
    with pytest.raises(TypeError, match="there is no option 'variables' for such files"):
        asc.read(tmp_path / "a.raw", channels=3, variables="x")


def test_a_loader_that_knows_what_is_wrong_says_so(tmp_path):
    @file_format(".odd")
    def load(path):
        raise FileContentError("the file has no channels.")

    (tmp_path / "a.odd").touch()
    with pytest.raises(ValueError, match=r"a\.odd: the file has no channels\.$"):
        asc.read(tmp_path / "a.odd")


@dataclass
class Signal:
    """Objects of a library that this package does not know."""

    t: np.ndarray
    values: np.ndarray


def register_signals():
    def to_recording(data, variables, treatment):
        ends = check_intervals([[data.t[0], data.t[-1]]])
        return samples_recording(data.values, data.t, None, ends, treatment or Treatment(), variables=variables)

    register_time_series(
        TimeSeriesFormat(
            library="signals",
            recognises=lambda data: isinstance(data, Signal),
            advice="pass it to fit.",
            to_recording=to_recording,
            samples=lambda data: (data.t, data.values, None),
            from_embedding=lambda values, data, recording, names, spaces: Signal(recording.time, values),
        )
    )


def test_objects_with_time_stamps_go_in_and_come_out():
    register_signals()
    time = np.arange(400) / 10
    place = np.cumsum(np.random.default_rng(0).normal(size=400))
    X = Signal(time, place[:, None] * [1.0, -1.0, 2.0])
    behaviour = Signal(np.arange(800) / 20, np.interp(np.arange(800) / 20, time, place))
    small = {"seeds": 1, "steps": 20, "batch_size": 32, "penalty": 0.0, "progress": False}
    model = asc.ContrastiveEmbedding({"place": asc.Follow("place", 1)}, encoder=asc.MLP((4,)), **small)
    z = model.fit(X, {"place": behaviour}).transform(X)
    assert isinstance(z, Signal) and z.values.shape == (400, 1)
    np.testing.assert_array_equal(z.t, time)
    aligned = asc.align_variables({"place": behaviour}, time)
    np.testing.assert_allclose(aligned["place"], place, atol=1e-9)
    with pytest.raises(TypeError, match=r"X is a signals Signal; pass it to fit\."):
        asc.Recording(X)

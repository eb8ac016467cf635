"""Folders of files that pynapple saved: what is what in them, and that nothing is unpickled."""

import shutil

import numpy as np
import pytest

import ascribo as asc
from ascribo.cli.main import main

nap = pytest.importorskip("pynapple")


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    here = tmp_path / "session"
    here.mkdir()
    support = nap.IntervalSet([0, 60], [50, 120])
    time = np.arange(0, 120, 0.05)
    place = np.abs((np.cumsum(rng.normal(0, 0.05, len(time))) + 0.5) % 2 - 1)
    rates = [20 * np.exp(-((place - k / 4) ** 2) / 0.03) for k in range(5)]
    spikes = {k + 3: nap.Ts(time[rng.random(len(time)) < 0.05 * rate]) for k, rate in enumerate(rates)}
    group = nap.TsGroup(spikes, time_support=support, metadata={"region": ["CA1"] * 5})
    group.save(str(here / "units.npz"))
    nap.TsdFrame(t=time, d=np.stack([place, 1 - place], 1), columns=["x", "y"]).save(str(here / "head.npz"))
    nap.Tsd(t=time, d=place).save(str(here / "place.npz"))
    nap.IntervalSet([10, 70], [40, 110]).save(str(here / "running.npz"))
    np.savez(here / "not_pynapple.npz", a=np.ones(3))
    return here, group, nap.Tsd(t=time, d=place)


def test_a_folder_is_what_its_objects_are(folder):
    here, group, place = folder
    read = asc.read(here, bin_size=0.1, variables=["place"])
    same = asc.from_pynapple(group, {"place": place}, bin_size=0.1)
    np.testing.assert_array_equal(read.X, same.X)
    np.testing.assert_allclose(read.variables["place"], same.variables["place"])
    assert read.channel_names == same.channel_names == ["3", "4", "5", "6", "7"] and read.epochs[-1] == 1
    every = asc.read(here, bin_size=0.1)
    assert list(every.variables) == ["head0", "head1", "place"]
    assert len(asc.read(here, bin_size=0.1, epochs="running")) == 700


def test_what_is_not_clear_is_said(folder, tmp_path):
    here, group, _ = folder
    with pytest.raises(ValueError, match="channels='place2'"):
        asc.read(here, channels="place2", bin_size=0.1)
    with pytest.raises(TypeError, match="time is for tables"):
        asc.read(here, time="t", bin_size=0.1)
    group.save(str(here / "more.npz"))
    with pytest.raises(ValueError, match=r"more \(TsGroup\).*expected one TsGroup, or channels="):
        asc.read(here, bin_size=0.1)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no file that pynapple saved"):
        asc.read(tmp_path / "empty")


def test_analyse_takes_a_folder(folder, tmp_path, capsys):
    quick = ["--seeds", "1", "--steps", "20", "--jobs", "1", "--quiet"]
    out = str(tmp_path / "run")
    assert main(["analyse", str(folder[0]), "--follow", "place", "--bin-size", "0.1", "--out", out, *quick]) == 0
    assert "'place' is a number" in capsys.readouterr().out
    assert main(["report", out, "--quiet"]) == 0  # the run knows its folder


def test_a_damaged_file_is_named(folder, tmp_path):
    shutil.copy(folder[0] / "units.npz", tmp_path / "units.npz")
    content = (tmp_path / "units.npz").read_bytes()
    # the table at the end of the file says that it begins before the file does
    (tmp_path / "units.npz").write_bytes(content[:-6] + b"\xff\xff\xff\x7f" + content[-2:])
    with pytest.raises(ValueError, match=r"units\.npz cannot be read; it may be damaged"):
        asc.read(tmp_path, bin_size=0.1)
    with np.load(folder[0] / "units.npz", allow_pickle=False) as found:
        whole = {name: found[name] for name in ("t", "index", "start", "end", "type")}
    np.savez(tmp_path / "units.npz", **{**whole, "index": whole["index"][:5]})
    with pytest.raises(ValueError, match=r"units\.npz cannot be read; it may be damaged"):
        asc.read(tmp_path, bin_size=0.1)
    np.savez(tmp_path / "units.npz", **{**whole, "t": whole["t"].view("V8")})
    with pytest.raises(ValueError, match=r"units\.npz: t holds no numbers \(\|V8\)"):
        asc.read(tmp_path, bin_size=0.1)

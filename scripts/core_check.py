"""Does the installed package work with its core dependencies alone? For `make wheel-check`, `newest` and `lowest`.

    python scripts/core_check.py

From a recording in a file to a saved model, its map, a screening, a report and the command line, in a folder of its
own. Extras must not be there: an import of one that the core needs would show here. The exit status is 0 only if
all of it works.
"""

import subprocess
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

EXTRAS = ("matplotlib", "statsmodels", "pyarrow", "zarr", "pynapple", "pynwb", "distributed", "captum")
CORE = ("numpy", "scipy", "scikit-learn", "torch", "xarray", "pandas", "safetensors", "h5netcdf", "h5py", "jinja2")


def main() -> int:
    """Use it."""
    there = [name for name in EXTRAS if find_spec(name)]
    if there:
        print(f"this environment is not empty: it has {', '.join(there)}")
        return 1
    import numpy as np

    import ascribo as asc

    if "site-packages" not in str(Path(asc.__file__)):
        print(f"this is not the installed package: {asc.__file__}")
        return 1
    print(", ".join(f"{name} {version(name)}" for name in ("ascribo", *CORE)))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        data = asc.simulate.box(0, observed=2, hidden=1, channels=(4, 4), steps=1000)
        np.savez(folder / "data.npz", X=data.X, **{name: data.variables[name] for name in ("x", "y")})
        recording = asc.read(folder / "data.npz")
        spaces = {"position": asc.Follow(["x", "y"], dim=2), "rest": asc.Time(dim=1)}
        model = asc.ContrastiveEmbedding(spaces, seeds=2, steps=100, batch_size=64, random_state=0, progress=False)
        model.fit(recording).save(folder / "run")
        again = asc.load(folder / "run")
        assert np.array_equal(again.transform(recording), model.transform(recording)), "loading changed the model"
        maps = again.attribute(recording)
        maps.to_netcdf(folder / "map.nc")
        loaded = asc.attribution.AttributionMaps.load(folder / "map.nc").calls()
        scores = loaded["score"], maps.calls()["score"]
        assert np.allclose(*scores, rtol=1e-9, equal_nan=True), "loading changed the map"
        assert list(loaded["called"]) == list(maps.calls()["called"]), "loading changed the calls"
        assert len(asc.screen(recording, spaces).calls) >= 8
        assert again.report(recording, folder / "report.html", maps=maps).stat().st_size > 10_000
        swept = asc.sweep([folder / "data.npz"], model, folder / "sweep", progress=False)
        assert set(swept.table()["state"]) == {"done"}
        for words in (["--version"], ["info", "run"], ["screen", "data.npz", "--follow", "position=x,y"]):
            subprocess.run([sys.executable, "-m", "ascribo", *words], cwd=folder, check=True, capture_output=True)
    print("the core works")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Make a folder of simulated sessions, and a sweep.toml that analyses them.

    python scripts/simulate_sessions.py sessions --number 500 --format nwb
    ascribo sweep sessions/sweep.toml --jobs -1

Channels of each session are driven by a position (x, y) and by something hidden; half of them carry the position.
"""

import argparse
import datetime
import sys
from pathlib import Path

import numpy as np

import ascribo as asc

CONFIG = """sessions = "*.{ending}"
out = "swept"
{reading}
[spaces]
follow = ["position=x,y"]
time = ["rest:2"]
{settings}"""
SETTINGS = """
[settings]
seeds = 1
steps = {steps}
batch_size = 128
"""
READING = """
[read]
channels = "channels"
variables = ["x", "y"]
bin_size = 0.02
"""


def write_npz(path: Path, data: asc.Recording) -> None:
    """Channels as X, the variables under their names."""
    np.savez(path, X=data.X, **{name: data.variables[name].to_numpy() for name in ("x", "y")})


def write_nwb(path: Path, data: asc.Recording) -> None:
    """Channels and position as time series of 50 samples a second."""
    from pynwb import NWBHDF5IO, NWBFile, TimeSeries

    started = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    file = NWBFile(session_description="simulated", identifier=path.stem, session_start_time=started)
    file.add_acquisition(TimeSeries(name="channels", data=data.X, unit="a.u.", rate=50.0, starting_time=0.0))
    for name in ("x", "y"):
        values = data.variables[name].to_numpy()
        file.add_acquisition(TimeSeries(name=name, data=values, unit="m", rate=50.0, starting_time=0.0))
    with NWBHDF5IO(str(path), "w") as out:
        out.write(file)


def main() -> int:
    """Simulate and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--number", type=int, default=500, help="of sessions (%(default)s)")
    parser.add_argument("--steps", type=int, default=5000, help="time steps of each (%(default)s)")
    parser.add_argument(
        "--channels", type=int, nargs=2, default=(10, 10), help="with the position, and without it (10 10)"
    )
    parser.add_argument(
        "--training", type=int, metavar="STEPS", help="a small fit of so many steps (the default fit)"
    )
    parser.add_argument("--format", choices=("npz", "nwb"), default="npz", help="(%(default)s)")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    write = {"npz": write_npz, "nwb": write_nwb}[given.format]
    for k in range(given.number):
        data = asc.simulate.box(k, observed=2, hidden=2, channels=tuple(given.channels), steps=given.steps)
        write(given.folder / f"rat{k:03d}.{given.format}", data)
    reading = READING if given.format == "nwb" else ""
    settings = "" if given.training is None else SETTINGS.format(steps=given.training)
    text = CONFIG.format(ending=given.format, reading=reading, settings=settings)
    (given.folder / "sweep.toml").write_text(text)
    print(f"{given.number} sessions and {given.folder / 'sweep.toml'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

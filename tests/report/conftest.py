"""A small fitted model and its report, made once; and one whose every name is hostile."""

import re

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import ascribo as asc
from ascribo.attribution.maps import AttributionMaps

SCRIPT = "<script>window.hacked=1</script>"
HOSTILE = [
    SCRIPT,
    "x" * 10_000,
    "שלום עולם",
    "",
    "🧠👩‍🔬 neuron",
    "</script><img src=x onerror=window.hacked=1>",
    "a\u202eb & 'c' \"d\", e",
    "{{ 7*7 }} <!-- -->",
    "line\nbreak\u2028",
    "=1+1",
]


def fit(recording, spaces, **options):
    given = {
        "seeds": 2,
        "steps": 60,
        "batch_size": 64,
        "encoder": asc.MLP((16,)),
        "random_state": 0,
        "penalty": 0.01,
    }
    return asc.ContrastiveEmbedding(spaces, progress=False, **{**given, **options}).fit(recording)


def made_up_maps(model, carries, seed=0, blocks=20):
    """Maps whose scores are known: `carries` (space, channel) booleans, a fifth of the variance where true."""
    channels, spaces = list(model.model_.channels), asc.spaces.base.reported(model.model_.spaces)
    noise = np.random.default_rng(seed).normal(0, 0.01, (model.model_.seeds, len(spaces), len(channels), blocks))
    values = xr.DataArray(
        noise + 0.2 * np.asarray(carries)[None, :, :, None],
        dims=("seed", "space", "channel", "block"),
        coords={"space": spaces, "channel": channels},
    )
    scores = values.mean(("seed", "block")).transpose("channel", "space")
    return AttributionMaps(None, scores, "unique_variance", blocks=values)


@pytest.fixture(scope="session")
def recording():
    """Twelve channels in two regions; position, a heading, a side and a speed that is missing for a while."""
    data = asc.simulate.box(observed=2, hidden=1, channels=(6, 6), steps=3000)
    table = data.variables.copy()
    table["heading"] = np.rad2deg(np.arctan2(table["x"], table["y"])) % 360
    table["side"] = np.where(np.sin(np.arange(3000) / 90) > 0, "left", "right")
    table["speed"] = np.random.default_rng(0).normal(size=3000)
    table.loc[500:700, "speed"] = np.nan
    units = pd.DataFrame({"region": ["CA1"] * 6 + ["MEC"] * 6})
    units.index = data.channel_names
    X = pd.DataFrame(data.X, columns=data.channel_names)
    return asc.Recording(X, table, time=np.arange(3000) / 50, units=units, truth=data.truth)


@pytest.fixture(scope="session")
def model(recording):
    return fit(
        recording, {"position": asc.Follow(["x", "y"], dim=3), "side": asc.Discrete("side", 1), "rest": asc.Time(1)}
    )


@pytest.fixture(scope="session")
def carries():
    """The first six channels carry position, every third the side, all the rest."""
    return np.array([np.arange(12) < 6, np.arange(12) % 3 == 0, np.ones(12, bool)])


@pytest.fixture(scope="session")
def maps(model, carries):
    return made_up_maps(model, carries)


@pytest.fixture(scope="session")
def shift():
    """What a shift test might have found."""
    row = {
        "statistic": "embedding",
        "score": 2.0,
        "score_low": 1.8,
        "score_high": 2.2,
        "r2": np.nan,
        "null_mean": 0.1,
        "null_high": 0.4,
        "shifts": 19,
        "p": 0.05,
    }
    decoders = {
        "statistic": "decoders",
        "score": 0.2,
        "score_low": np.nan,
        "score_high": np.nan,
        "r2": 0.1,
        "p": 0.4,
    }
    table = pd.DataFrame([{"space": "position", **row}, {"space": "side", **row, **decoders}])
    table.attrs["copies"] = {"position": [0.05 * k for k in range(19)], "side": [0.02 * k for k in range(19)]}
    return table


@pytest.fixture(scope="session")
def written(model, recording, maps, shift, tmp_path_factory):
    """A report as a file."""
    return model.report(recording, tmp_path_factory.mktemp("report") / "report.html", maps=maps, shift=shift)


@pytest.fixture(scope="session")
def hostile(tmp_path_factory):
    """A report in which channels, variables, spaces, labels, units and the title have hostile names."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(600, len(HOSTILE))), columns=HOSTILE)
    variables = {name: np.cumsum(rng.normal(size=600)) for name in HOSTILE[:4]}
    variables["label"] = pd.Series(rng.choice(np.array(HOSTILE, dtype=object), 600))
    variables[HOSTILE[5]] = rng.normal(size=600)
    units = pd.DataFrame({SCRIPT: HOSTILE[::-1], "region": HOSTILE}, index=HOSTILE)
    recording = asc.Recording(X, variables, units=units)
    spaces = {name: asc.Follow(name, 1) for name in HOSTILE[:4]} | {
        HOSTILE[5]: asc.Discrete("label", 1),
        "rest": asc.Time(1),
    }
    model = fit(recording, spaces, seeds=1, steps=5)
    maps = made_up_maps(model, rng.random((6, len(HOSTILE))) < 0.5)
    path = tmp_path_factory.mktemp("hostile") / "report.html"
    return model.report(recording, path, maps=maps, title=SCRIPT + HOSTILE[2])


def visible_text(page):
    """The text of a page without its scripts, styles and tags."""
    page = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))

"""The report as a file: what it says, that it stands alone, and that names in it are only ever text."""

import html
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import ascribo as asc
from ascribo.report.blobs import unpack
from ascribo.report.contents import gather
from ascribo.report.stretches import scores_in_blocks
from ascribo.report.write import page
from tests.report.conftest import HOSTILE, SCRIPT, fit, made_up_maps, visible_text


class Outline(HTMLParser):
    """Elements of a page, their attributes, and the JSON that it carries."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.scripts, self._script = [], [], {}, None

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        self._script = dict(attributes).get("id", "main") if tag == "script" else None

    def handle_data(self, data):
        if self._script is not None:
            self.scripts[self._script] = self.scripts.get(self._script, "") + data

    def handle_endtag(self, tag):
        self._script = None if tag == "script" else self._script


def outline(text):
    parser = Outline()
    parser.feed(text)
    return parser


def test_the_first_screen_answers_in_words(written):
    said = html.unescape(visible_text(written.read_text()))
    first = said[: said.index("Problems found")]
    assert "Which channels carry position and side?" in first
    assert "6 of 12 channels carry it; at most about 5% of such calls are wrong." in first
    assert "4 of 12 channels carry it" in first and "All 12 channels carry it." in first
    assert re.search(r"Strongest: channel\d+ *: 2\d% of its variance \(q < 0.0001\)", first.replace(" %", "%"))
    assert any(
        verdict in first for verdict in ("You can trust this.", "Trust this with care.", "Do not trust this yet.")
    )


def test_everything_that_was_promised_is_there(written, recording):
    said = html.unescape(visible_text(written.read_text()))
    promised = [
        "Goodness of fit",
        "Bits above chance",
        "Stability",
        "Embeddings agree",
        "Shifted variables",
        "Calls",
    ]
    promised += ["Methods, ready to paste", "How to get the same again", "Benjamini", "Schneider", "Zimmermann"]
    for part in promised:
        assert part in said
    assert asc.report.fingerprint(recording) in said and asc.__version__ in said and "random state 0" in said
    assert "No more than the copies: not shown to be related." in said  # the shift test of `side`
    assert "asc.Follow(variables=('x', 'y'), dim=3)" in said and "seeds=2" in said


def test_the_file_stands_alone_and_forbids_itself_the_network(written):
    parsed = outline(written.read_text())
    links = [value for name, value in parsed.attributes if name in ("src", "href", "data", "action")]
    assert all(link.startswith("#") for link in links)
    policy = next(v for n, v in parsed.attributes if n == "content" and "default-src" in v)
    assert policy.startswith("default-src 'none'; script-src 'unsafe-inline'; img-src data: blob:; style-src")
    assert not re.search(r"https?:|//cdn|\bfetch\(|XMLHttpRequest|innerHTML|insertAdjacent|document\.write",
                         parsed.scripts["main"])  # fmt: skip


def test_the_arrays_are_those_of_the_recording_and_the_maps(written, recording, maps, model):
    parsed = outline(written.read_text())
    facts = json.loads(parsed.scripts["facts"])
    arrays = {k.removeprefix("array-"): unpack(json.loads(v)) for k, v in parsed.scripts.items() if "array-" in k}
    table = maps.calls()
    for k, space in enumerate(["position", "side", "rest"]):
        own = table[table.space == space]
        for c, column in enumerate(facts["columns"]):
            if column in own:
                np.testing.assert_allclose(arrays["table"][c, k], own[column], rtol=1e-6)
        assert (arrays["called"][k] == own.called).all()
    bins, low, high = facts["bins"], *arrays["envelope_range"].T
    step = ((high - low) / 254)[:, None]
    shown = low[:, None] + arrays["envelope"] * step
    edges = np.arange(bins) * 3000 // bins
    for part, extreme in ((shown[:, :bins], np.minimum), (shown[:, bins:], np.maximum)):
        truth = extreme.reduceat(recording.X, edges, axis=0).T
        assert (np.abs(part - truth) <= 0.51 * step).all()
    rows = arrays["point_step"]
    np.testing.assert_allclose(arrays["points"].T, model.transform(recording)[rows], atol=1e-5)
    assert [v["kind"] for v in facts["variables"]] == ["number", "number", "label", "number", "number"]


def test_every_copy_of_the_shift_test_is_there_to_be_drawn(written, shift, model, recording, maps):
    tests = json.loads(outline(written.read_text()).scripts["facts"])["shift"]
    assert [test["copies"] for test in tests] == list(shift.attrs["copies"].values())
    without = shift.copy()
    without.attrs = {}  # as read from a file that has none
    assert gather(model, recording, maps, shift=without).facts["shift"][0]["copies"] == []


def test_stretches_of_a_saved_map_are_those_of_the_map(tmp_path):
    data = asc.simulate.box(seed=0, observed=1, hidden=1, channels=(4, 4), steps=1500)
    small = {"steps": 20, "batch_size": 64, "encoder": asc.MLP((8,)), "penalty": 0, "progress": False}
    model = asc.ContrastiveEmbedding({"x": asc.Follow("x", dim=1)}, **small).fit(data)
    maps = model.attribute(data)
    saved = asc.attribution.AttributionMaps.load(maps.to_netcdf(tmp_path / "map.nc"))
    (fresh, edges), (again, same) = (scores_in_blocks(m, model, data) for m in (maps, saved))
    assert edges == same and len(edges) == 40 and np.isfinite(fresh).all()
    np.testing.assert_allclose(again, fresh, atol=1e-12)


def test_hostile_names_are_text_wherever_they_stand(hostile):
    text = hostile.read_text()
    parsed = outline(text)
    assert "img" not in parsed.tags and not [n for n, _ in parsed.attributes if n.startswith("on")]
    assert parsed.tags.count("script") == len(parsed.scripts)  # ours, and no other
    assert SCRIPT not in text and SCRIPT in html.unescape(visible_text(text))
    facts = json.loads(parsed.scripts["facts"])
    assert facts["channels"] == HOSTILE and facts["units"][1]["values"] == HOSTILE
    assert [s["name"] for s in facts["spaces"]] == [*HOSTILE[:4], HOSTILE[5], "rest"]
    assert "49" not in re.findall(r"<bdi>(.*?)</bdi>", text)  # a template in a name is not one
    longest = max(len(part) for part in re.findall(r"<bdi>(.*?)</bdi>", text, flags=re.DOTALL))
    assert longest < 600  # ten thousand letters are cut in sentences
    assert "(empty name)" in text


def test_a_lone_surrogate_in_a_name_does_not_break_the_file(model, recording, maps, tmp_path):
    path = model.report(recording, tmp_path / "r.html", maps=maps, title="broken \udc80 name")
    assert "broken" in path.read_bytes().decode("utf-8")


def test_the_same_report_twice_is_the_same(model, recording, maps):
    import datetime

    when = datetime.datetime(2026, 1, 1)
    one, two = (page(gather(model, recording, maps, when=when)) for _ in range(2))
    assert one == two


def test_a_map_without_a_test_is_reported_as_such(model, recording, tmp_path):
    maps = model.attribute(recording, method="generative_gradient", samples=200)
    said = visible_text(model.report(recording, tmp_path / "r.html", maps=maps).read_text())
    assert "Nothing here was tested" in said and "Scores only" in said


def test_a_recording_without_variables_and_with_one_seed(tmp_path):
    data = asc.Recording(asc.simulate.box(observed=2, hidden=1, channels=(4, 4), steps=800).X)
    model = asc.ContrastiveEmbedding(
        {"rest": asc.Time(2)}, seeds=1, steps=5, batch_size=64, encoder=asc.MLP((8,)), penalty=0.0, progress=False,
        random_state=0,
    ).fit(data)  # fmt: skip
    maps = made_up_maps(model, np.ones((1, 8), bool))
    said = visible_text(model.report(data, tmp_path / "r.html", maps=maps).read_text())
    assert "One model was trained" in said and "All 8 channels carry it." in said


def test_a_variable_may_be_missing_for_a_long_stretch(tmp_path, quick_unique_variance):
    rng = np.random.default_rng(0)
    x = np.cumsum(rng.normal(size=800)) % 10
    X = np.stack([np.sin(x), np.cos(x), rng.normal(size=800)], 1) + 0.3 * rng.normal(size=(800, 3))
    recording = asc.Recording(X, {"x": np.where((np.arange(800) >= 100) & (np.arange(800) < 400), np.nan, x)})
    model = fit(recording, {"x": asc.Follow("x", 1), "rest": asc.Time(1)}, seeds=1)
    maps = model.attribute(recording)
    scores, edges = scores_in_blocks(maps, model, recording)
    missing = [150 <= edge < 350 for edge in edges]
    assert np.isnan(scores[0][:, missing]).all() and np.isfinite(scores[0][:, -5:]).all()
    assert model.report(recording, tmp_path / "report.html", maps=maps).stat().st_size > 50_000


def test_constant_channels_that_were_dropped_are_named(recording, carries, tmp_path):
    import pandas as pd

    X = pd.DataFrame(recording.X, columns=recording.channel_names).assign(dead=1.0)
    data = asc.Recording(X, recording.variables)
    model = asc.ContrastiveEmbedding(
        {"position": asc.Follow(["x", "y"], 2)}, seeds=1, steps=5, batch_size=64, encoder=asc.MLP((8,)),
        drop_constant=True, progress=False, random_state=0, penalty=0.0,
    ).fit(data)  # fmt: skip
    said = visible_text(model.report(data, tmp_path / "r.html", maps=made_up_maps(model, carries[:1])).read_text())
    assert "1 constant channel left out" in said


def test_maps_of_other_channels_are_refused(model, recording, maps, tmp_path):
    other = made_up_maps(model, np.ones((3, 12), bool))
    other.by_space["channel"] = [f"other{k}" for k in range(12)]
    with pytest.raises(ValueError, match="other channels"):
        model.report(recording, tmp_path / "r.html", maps=other)
    assert not (tmp_path / "r.html").exists()


def test_stretches_of_time_are_scored_again_where_the_maps_know_their_recording(
    model, recording, quick_unique_variance
):
    maps = model.attribute(recording)
    scores, edges = scores_in_blocks(maps, model, recording)
    assert scores.shape == (3, 12, 40) and edges[0] == 0 and edges[1] == 75
    np.testing.assert_allclose(np.nanmean(scores[0], 1), maps.by_space.sel(space="position"), atol=0.02)
    contents = gather(model, recording, maps)
    assert "sign" in contents.words["methods"] and contents.words["spaces"][0]["tested"]
    from_file, _ = scores_in_blocks(
        asc.attribution.AttributionMaps(**{**vars(maps), "parts": None}), model, recording
    )
    assert from_file.shape[2] == maps.blocks.sizes["block"] and np.isfinite(from_file[[0, 2]]).all()
    np.testing.assert_allclose(from_file[0].mean(1), scores[0].mean(1), atol=0.02)

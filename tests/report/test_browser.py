"""The report in a real browser: it draws, answers to mouse and keyboard, asks for nothing, and is accessible.

Needs playwright and Debian's chromium (or the browser that ASCRIBO_CHROMIUM names); skipped where they are missing.
Screenshots are written to the folder that ASCRIBO_SCREENSHOTS names, if it is set.
"""

import csv
import io
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

import ascribo as asc
from ascribo.report import Run, write_comparison
from ascribo.report.contents import gather
from ascribo.report.write import write_page
from tests.report.conftest import HOSTILE, SCRIPT, fit, made_up_maps

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
CHROMIUM = os.environ.get("ASCRIBO_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here (Debian: apt install chromium)")

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        try:
            launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        except sync_api.Error as error:
            pytest.skip(f"chromium does not start here: {str(error)[:200]}")
        yield launched
        launched.close()


class Opened:
    """A page, and all that went wrong on it."""

    def __init__(self, browser, file, viewport=DESKTOP, scheme="light"):
        self.context = browser.new_context(
            viewport=viewport, color_scheme=scheme, offline=True, accept_downloads=True
        )
        self.page, self.trouble = self.context.new_page(), []
        self.page.on("console", lambda said: said.type in ("error", "warning") and self.trouble.append(said.text))
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on(
            "request",
            lambda request: request.url.startswith(("file:", "blob:")) or self.trouble.append(request.url),
        )
        self.page.on("dialog", lambda dialog: self.trouble.append(dialog.message))
        self.page.goto(Path(file).as_uri())
        self.page.wait_for_selector("html[data-whole=yes]", state="attached", timeout=20_000)


@pytest.fixture(scope="module")
def opened(browser, written):
    """The report on a desktop, shared by tests that leave it usable."""
    opened = Opened(browser, written)
    yield opened
    opened.context.close()


def names(page):
    return page.locator("#channel-table tbody tr td:first-child").all_inner_texts()


def pixels(page, canvas):
    """Everything on a canvas, as text."""
    return page.evaluate(f"document.getElementById('{canvas}').toDataURL()")


def test_nothing_goes_wrong_and_nothing_is_asked_for(opened):
    assert opened.trouble == []
    for canvas in ("map", "intervals", "activity", "cloud", "training", "null"):
        blank = opened.page.evaluate(
            f"""() => {{ const c = document.getElementById('{canvas}');
            return !c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((v) => v) }}"""
        )
        assert not blank, canvas


def test_sorting_and_searching(opened):
    page = opened.page
    assert len(names(page)) == 12
    page.get_by_role("button", name="channel", exact=True).click()
    assert names(page) == [f"channel{k}" for k in range(12)]  # numbers in names count as numbers
    page.get_by_role("button", name="side", exact=True).click()
    assert {*names(page)[:4]} == {"channel0", "channel3", "channel6", "channel9"}
    assert page.locator("#channel-table th[aria-sort=descending]").count() == 1
    page.get_by_role("button", name="side", exact=True).click()
    assert {*names(page)[-4:]} == {"channel0", "channel3", "channel6", "channel9"}
    page.fill("#search", "HANNEL1")
    assert {*names(page)} == {"channel1", "channel10", "channel11"}
    page.fill("#search", "mec")  # a region
    assert len(names(page)) == 6 and "6 of 12" in page.inner_text("#table-count")
    page.fill("#search", "")


def test_a_chosen_channel_is_shown_everywhere(opened):
    page = opened.page
    page.select_option("#colour", "channel")
    before = {canvas: pixels(page, canvas) for canvas in ("map", "intervals", "activity", "cloud")}
    page.locator("#channel-table").get_by_role("button", name="channel7").click()
    page.wait_for_timeout(200)
    assert page.inner_text("#channel-name") == "channel7" and "MEC" in page.inner_text("#channel-units")
    rows = page.locator("#channel-scores tbody tr").all_inner_texts()
    assert [row.split("\t")[-1] for row in rows] == ["no", "no", "yes"]
    assert all(before[canvas] != pixels(page, canvas) for canvas in before)
    assert page.locator("#tuning canvas").count() == 6  # five variables and the map of x and y
    assert page.locator("tr[aria-selected=true]").count() == 1


def test_dragging_over_time_gives_the_map_of_that_stretch(opened):
    page = opened.page
    assert page.locator("#stretch-map").is_hidden()
    canvas = page.locator("#activity")
    canvas.scroll_into_view_if_needed()
    box, cloud = canvas.bounding_box(), pixels(page, "cloud")
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 40, steps=4)
    page.mouse.up()
    assert page.inner_text("#stretch").startswith("time ") and page.locator("#stretch-map").is_visible()
    assert 4 <= int(page.get_attribute("#stretch-map", "data-blocks")) <= 8  # of twenty
    assert pixels(page, "cloud") != cloud  # points outside are faint
    page.get_by_role("button", name="Whole recording").click()
    assert page.inner_text("#stretch") == "whole recording" and page.locator("#stretch-map").is_hidden()


def test_the_embedding_turns_and_changes_its_colour(opened):
    page = opened.page
    seen = {pixels(page, "cloud")}
    page.locator("#cloud").scroll_into_view_if_needed()
    box = page.locator("#cloud").bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 150, steps=3)
    page.mouse.up()
    seen.add(pixels(page, "cloud"))
    for colour in ("v0", "v2", "time"):
        page.select_option("#colour", colour)
        page.wait_for_timeout(50)
        seen.add(pixels(page, "cloud"))
    page.select_option("#colour", "v2")
    assert page.locator("#legend bdi").all_inner_texts() == ["side", "left", "right"]
    page.select_option("#which-space", "2")
    seen.add(pixels(page, "cloud"))
    assert len(seen) == 6
    page.select_option("#which-space", "0")


def test_the_calls_can_be_downloaded(opened, maps):
    with opened.page.expect_download() as caught:
        opened.page.get_by_role("button", name="Download all as CSV").click()
    rows = list(csv.DictReader(io.StringIO(Path(caught.value.path()).read_text())))
    table = maps.calls().set_index(["space", "channel"])
    assert len(rows) == len(table) == 36
    for row in rows:
        own = table.loc[(row["space"], row["channel"])]
        assert row["called"] == str(bool(own.called)).lower() and float(row["score"]) == pytest.approx(
            own.score, rel=1e-5
        )
        assert row["region"] in ("CA1", "MEC")


def test_everything_works_by_keyboard_alone(browser, written):
    opened = Opened(browser, written)
    page = opened.page
    reached = set()
    for _ in range(120):
        page.keyboard.press("Tab")
        here = page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()")
        reached.add(here)
        if here == "map":
            first = page.inner_text("#channel-name")
            page.keyboard.press("ArrowDown")
            page.wait_for_timeout(50)
            assert page.inner_text("#channel-name") != first
        elif here == "search":
            page.keyboard.type("channel5")
            assert names(page) == ["channel5"]
        elif here == "channel5":
            page.keyboard.press("Enter")
            assert page.inner_text("#channel-name") == "channel5"
        elif here == "from":
            for _ in range(3):
                page.keyboard.press("PageUp")
            assert page.inner_text("#stretch").startswith("time ")
        elif here == "cloud":
            before = pixels(page, "cloud")
            page.keyboard.press("ArrowLeft")
            assert pixels(page, "cloud") != before
        elif here == "copy":
            break
    wanted = {
        "map",
        "search",
        "channel5",
        "from",
        "to",
        "whole",
        "which-space",
        "colour",
        "cloud",
        "download",
        "copy",
    }
    assert wanted <= reached and opened.trouble == []
    opened.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_it_is_accessible_and_fits(browser, written, viewport, scheme):
    opened = Opened(browser, written, viewport, scheme)
    page = opened.page
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if viewport == DESKTOP:  # all three spaces of the table are in sight
        assert page.evaluate("(t => t.scrollWidth <= t.clientWidth)(document.querySelector('#channels .scroll'))")
    found = axe.Axe().run(page)
    serious = [v for v in found.response["violations"] if v["impact"] in ("serious", "critical")]
    assert not serious, [(v["id"], v["help"], v["nodes"][0]["html"]) for v in serious]
    if folder := os.environ.get("ASCRIBO_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"report-{viewport['width']}-{scheme}.png", full_page=True)
    assert opened.trouble == []
    opened.context.close()


def test_it_prints(browser, written):
    opened = Opened(browser, written)
    opened.page.emulate_media(media="print")
    assert opened.page.locator("nav").is_hidden() and opened.page.locator("#map").is_visible()
    assert opened.page.locator("#channel-table tbody button").first.is_visible()  # the names of the channels
    shape = "c => c.width / c.height - c.getBoundingClientRect().width / c.getBoundingClientRect().height"
    assert abs(opened.page.locator("#map").evaluate(shape)) < 0.05  # not stretched
    assert len(opened.page.pdf()) > 20_000
    opened.context.close()


def test_hostile_names_are_shown_as_text_everywhere(browser, hostile):
    opened = Opened(browser, hostile, PHONE)
    page = opened.page
    assert page.evaluate("window.hacked === undefined") and page.evaluate(
        "document.documentElement.scrollWidth <= innerWidth"
    )
    assert len(names(page)) == len(HOSTILE) and SCRIPT in names(page) and "(empty name)" in names(page)
    for k in range(len(HOSTILE)):
        page.locator("#channel-table tbody button").nth(k).click()
    page.locator("#channel-table tbody button").filter(has_text="xxxxxx").click()
    assert page.text_content("#channel-name") == "x" * 10_000  # the whole name, where there is room for it
    for value in page.locator("#colour option").evaluate_all("all => all.map((one) => one.value)"):
        page.select_option("#colour", value)
    for value in range(6):
        page.select_option("#which-space", str(value))
    with page.expect_download() as caught:
        page.get_by_role("button", name="Download all as CSV").click()
    rows = list(csv.DictReader(io.StringIO(Path(caught.value.path()).read_bytes().decode(), newline="")))
    assert {row["channel"] for row in rows} == set(HOSTILE)
    assert page.evaluate("window.hacked === undefined") and opened.trouble == []
    opened.context.close()


def test_channels_of_the_same_name_are_kept_apart(browser, model, recording, maps, tmp_path):
    contents = gather(model, recording, maps)
    contents.facts["channels"] = ["twin"] * 12
    contents.facts["variables"] = [{**variable, "name": "twin"} for variable in contents.facts["variables"]]
    opened = Opened(browser, write_page(contents, tmp_path / "twins.html"))
    buttons = opened.page.locator("#channel-table tbody button")
    seen = set()
    for k in range(12):
        buttons.nth(k).click()
        seen.add(opened.page.get_attribute("tr[aria-selected=true]", "data-channel"))
    assert len(seen) == 12 and opened.trouble == []
    opened.context.close()


def test_a_comparison_is_accessible_and_needs_no_script(browser, model, carries, tmp_path):
    runs = {
        name: Run(model, made_up_maps(model, carries, seed)) for seed, name in enumerate(("monday", SCRIPT, ""))
    }
    file = write_comparison(runs, tmp_path / "compare.html")
    context = browser.new_context(viewport=PHONE, color_scheme="dark", java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert (
        page.locator("table").count() == 4
        and SCRIPT in page.inner_text("body")
        and "(empty name)" in page.inner_text("body")
    )
    context.close()
    context = browser.new_context(viewport=PHONE, color_scheme="dark")
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth && window.hacked === undefined")
    found = axe.Axe().run(page)
    serious = [v for v in found.response["violations"] if v["impact"] in ("serious", "critical")]
    assert not serious, [(v["id"], v["help"], v["nodes"][0]["html"]) for v in serious]
    if folder := os.environ.get("ASCRIBO_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / "compare-390-dark.png", full_page=True)
    context.close()


@pytest.mark.slow
def test_a_large_report_is_small_and_quick(browser, tmp_path, monkeypatch):
    """500 channels over 100,000 time steps, from the fitted model on two quiet cores: the maps made and tested, and
    the page written, in 30 s; 8 MB; usable within 2 s of being opened."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)  # `make` sets it to 1: one of the cores would be idle
    rng = np.random.default_rng(0)
    steps = np.arange(100_000)
    walks = {f"v{k}": np.cumsum(rng.normal(size=len(steps))) % 100 for k in range(4)}
    hidden = np.cumsum(rng.normal(size=len(steps))) % 100
    fields = rng.uniform(0, 100, 500)
    X = rng.normal(size=(len(steps), 500)).astype(np.float32)
    for k, field in enumerate(fields):  # every channel has a field of one variable, or of what is hidden
        apart = ([*walks.values(), hidden][k % 5] - field + 50) % 100 - 50
        X[:, k] += 2 * np.exp(-np.square(apart / 12) / 2)
    recording = asc.Recording(X, walks)
    spaces = {"place": asc.Follow(["v0", "v1"], 3), "speed": asc.Follow("v2", 1), "rest": asc.Time(2)}
    model = fit(recording, spaces, steps=200)
    began = time.monotonic()
    file = model.report(recording, tmp_path / "large.html")
    written, size = time.monotonic() - began, file.stat().st_size / 1e6
    context = browser.new_context(viewport=DESKTOP)
    page = context.new_page()
    began = time.monotonic()
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-ready=yes]", state="attached")
    page.locator("#channel-table tbody button").first.click()
    page.fill("#search", "channel499")
    assert names(page) == ["channel499"]
    usable = time.monotonic() - began
    context.close()
    print(f"written in {written:.1f} s, {size:.2f} MB, usable after {usable:.2f} s")
    assert written < 30 and size < 8 and usable < 2

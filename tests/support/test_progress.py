"""What is shown while work is done: in a terminal, in a notebook, in a log file."""

import io
import re

import pytest

from ascribo.support import progress
from ascribo.support.progress import bar, say


class Stream(io.StringIO):
    """A terminal, or a log file."""

    encoding = "utf-8"

    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


class Notebook(Stream):
    """The standard error of a notebook, by the module of its class."""


Notebook.__module__ = "ipykernel.iostream"


@pytest.fixture
def clock(monkeypatch):
    """A clock that runs when it is told to."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.delenv("TERM", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    return now


def work(monkeypatch, clock, stream, steps=100, seconds=0.5, enabled=True, lines=()):
    """What is on the stream before and after the bar is closed."""
    monkeypatch.setattr(progress.sys, "stderr", stream)
    with bar("fitting", steps, enabled) as shown:
        for k in range(steps):
            clock[0] += seconds
            if k in lines:
                shown.line(f"row {k}")
            shown.advance(note=f"loss {k}")
        before = stream.getvalue()
    return before, stream.getvalue()


def screen(text, width=80):
    """What a terminal shows of a text with carriage returns."""
    rows = []
    for line in text.split("\n"):
        cells = []
        for part in line.split("\r"):
            assert len(part) < width, "a longer line would wrap, and could not be written over"
            cells[: len(part)] = part
        rows.append("".join(cells).rstrip())
    return rows


def test_a_terminal_shows_one_line_that_is_gone_in_the_end(monkeypatch, clock):
    before, after = work(monkeypatch, clock, Stream(True), steps=100, lines=(30,))
    assert screen(before) == ["row 30", "fitting  " + "━" * 20 + "  100 of 100  loss 99"]
    assert screen(after) == ["row 30", ""]
    halfway = screen(before[: before.index("50 of 100") + 40])
    assert halfway[-1].startswith("fitting  " + "━" * 10 + "─" * 10 + "  50 of 100  loss 49  25 s left")


def test_a_long_note_does_not_break_the_line(monkeypatch, clock):
    stream = Stream(True)
    monkeypatch.setattr(progress.sys, "stderr", stream)
    with bar("fitting", 10) as shown:
        for note in ("n" * 200, "short"):
            clock[0] += 5
            shown.advance(note=note)
            last = screen(stream.getvalue())
    assert last[0].endswith("short") or "short  " in last[0]
    assert "nn" not in last[0]


def test_a_notebook_is_written_over_too_without_escapes(monkeypatch, clock):
    before, after = work(monkeypatch, clock, Notebook(False))
    assert screen(before)[0].startswith("fitting") and screen(after) == [""] and "\x1b" not in after


def test_a_log_file_has_a_line_every_ten_seconds_and_nothing_else(monkeypatch, clock):
    _, after = work(monkeypatch, clock, Stream(False), steps=100, seconds=0.5, lines=(30,))
    assert all(c.isprintable() or c == "\n" for c in after)
    lines = after.splitlines()
    assert all(lines) and len(lines) == 5 + 1 and "row 30" in lines
    assert lines[0] == "fitting: 20 of 100, loss 19, 40 s left"


@pytest.mark.parametrize("terminal", [True, False])
def test_short_work_and_disabled_bars_show_nothing(monkeypatch, clock, terminal):
    assert work(monkeypatch, clock, Stream(terminal), seconds=0.01)[1] == ""
    assert work(monkeypatch, clock, Stream(terminal), enabled=False, lines=(3,))[1] == ""


def test_a_dumb_terminal_is_like_a_log_file(monkeypatch, clock):
    monkeypatch.setenv("TERM", "dumb")
    assert "\r" not in work(monkeypatch, clock, Stream(True))[1]


def test_a_terminal_without_unicode_has_a_bar(monkeypatch, clock):
    stream = Stream(True)
    monkeypatch.setattr(Stream, "encoding", "ascii")
    assert "#" * 20 in work(monkeypatch, clock, stream)[0]


def test_time_left_is_that_of_the_work_of_this_run(monkeypatch, clock):
    stream = Stream(False)
    monkeypatch.setattr(progress.sys, "stderr", stream)
    with bar("fitting", 1000) as shown:
        shown.advance(900)  # of an earlier run
        for _ in range(20):
            clock[0] += 1
            shown.advance()
    assert re.findall(r"(\d+) of 1,000, (\d+) s left", stream.getvalue()) == [("910", "90"), ("920", "80")]


def test_what_is_said_is_text(capsys):
    say("channel \x1b[31mred\nsecond line")
    say("nothing", enabled=False)
    assert capsys.readouterr() == ("", "channel \\x1b[31mred\nsecond line\n")


def test_a_note_is_made_only_when_it_is_shown_and_later_rounds_count_for_the_time_left(monkeypatch, clock):
    stream, made = Stream(True), []
    monkeypatch.setattr(progress.sys, "stderr", stream)
    with bar("fitting, round 1 of 3", 10, rounds=3) as shown:
        shown.advance(0)
        for _ in range(6):
            clock[0] += 1.0
            shown.advance(note=lambda: made.append(clock[0]) or "bits 2")
    assert len(made) == 5  # nothing is shown in the first two seconds
    assert "6 of 10  bits 2  24 s left" in stream.getvalue()

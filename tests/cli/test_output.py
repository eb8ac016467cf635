"""What is printed: names as they are, and no column left out."""

import numpy as np
import pandas as pd
import pytest

from ascribo.cli import output
from ascribo.cli.output import print_goodness, print_line, print_table


@pytest.fixture
def printed(capsys, monkeypatch):
    """The lines that a function prints, to a file or to a terminal of some width."""

    def lines(function, *given, columns=None):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(output.sys.stdout, "isatty", lambda: columns is not None, raising=False)
        function(*given)
        return capsys.readouterr().out.splitlines()

    return lines


ODD = ["ROI[left]", "ROI[right]", "a[/b]", "red\x1b[31m", "[bold]", "tab\there", "脳波"]


@pytest.mark.parametrize("columns", [None, 80])
def test_names_are_text(printed, columns):
    table = pd.DataFrame({"channel": ODD, "score": np.linspace(0, 1, len(ODD))})
    rows = printed(print_table, table, "Who carries [x]?", columns=columns)
    assert rows[1] == "Who carries [x]?"
    shown = [row.split()[0] for row in rows[3:]]
    assert shown == ["ROI[left]", "ROI[right]", "a[/b]", "red\\x1b[31m", "[bold]", "tab\\there", "脳波"]
    assert printed(print_line, "a[/b]\x1b]0;title\x07") == ["a[/b]\\x1b]0;title\\x07"]


def goodness(spaces):
    n = len(spaces)
    numbers = {name: np.full(n, value) for name, value in (("bits", 2.1), ("bits_low", 1.9), ("bits_high", 2.3))}
    flags = {"collapsed": np.arange(n) % 2 == 1, "left_out": np.arange(n) * 1000, "held_out": True}
    return pd.DataFrame({"space": spaces, **numbers, **flags})


@pytest.mark.parametrize("columns", [None, 80])
def test_bits_limits_and_collapse_are_there_at_80_columns(printed, columns):
    rows = printed(
        print_goodness, goodness(["position", "the speed of the animal in its box", "x"]), columns=columns
    )
    assert rows[2].split() == ["space", "bits", "low", "high", "left", "out"]
    for row, verdict in zip(
        [r for r in rows if "2.100" in r], ("above chance", "at chance", "above chance"), strict=True
    ):
        assert {"2.100", "1.900", "2.300"} <= set(row.split()) and verdict in row
    assert "Which channels carry known variables is tested without it." in rows  # "no map" was not true of them
    if columns:
        assert max(map(len, rows)) <= columns


def calls(names):
    n = len(names)
    columns = {"channel": names, "score": np.linspace(0, 1, n), "ci_low": -0.5, "ci_high": 1.5}
    return pd.DataFrame({**columns, "q": ["1.2e-10"] * n, "called": ["yes"] * n, "truth": ["carries it"] * n})


def test_long_names_are_broken_and_nothing_is_lost(printed):
    names = [f"probe 1, shank {k}, hippocampus CA1 stratum pyramidale, unit {k}" for k in range(3)]
    rows = printed(print_table, calls(names), "Who carries position?", columns=80)
    assert max(map(len, rows)) <= 80
    assert sum("-0.500" in row and "1.500" in row and "1.2e-10" in row and "carries it" in row for row in rows) == 3
    at = rows[2].index("score") - 2
    first = "".join(row[:at].ljust(at) for row in rows[3:])
    for name in names:
        assert name.replace(" ", "") in first.replace(" ", "")


def test_a_file_has_a_row_in_a_line(printed):
    names = ["n" * 200, "m"]
    rows = printed(print_table, calls(names), "Who carries position?")
    assert len(rows) == 5 and rows[3].startswith("n" * 200 + "  0.000")


def test_a_table_of_many_numbers_goes_on_below(printed):
    table = pd.DataFrame({"method": ["a", "b"], **{f"number{k}": [1.0, 2.0] for k in range(20)}})
    rows = printed(print_table, table, "Wide", columns=80)
    assert max(map(len, rows)) <= 80
    heads = [row.split() for row in rows if row.startswith("method")]
    assert len(heads) > 1 and [name for head in heads for name in head if name != "method"] == list(table)[1:]


def test_columns_stand_below_each_other_whatever_the_alphabet(printed):
    rows = printed(print_table, pd.DataFrame({"channel": ["脳波", "é́a", "abcd"], "n": [1, 2, 3]}), "Wide letters")
    assert rows[3:] == ["脳波     1", "é́a       2", "abcd     3"]


def test_numbers_that_are_missing(printed):
    assert printed(print_table, pd.DataFrame({"a": [np.nan, 1.0]}), "Some")[3:] == ["    -", "1.000"]

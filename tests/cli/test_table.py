"""Tables and lines that fit the terminal, with wide characters."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest
from gunicorn_bridge import ROOT, clean_environment

from bridge.cli import progress_bar
from bridge.cli.table import format_table
from bridge.cli.text_width import display_width, hanging, wrapped

WIDE = [("name", "owner", "7"), ("日本語", "研究所", "10"), ("e\u0301t\u00e9", "🚀", "1,000")]


@pytest.fixture
def terminal(monkeypatch):
    """The output goes to a terminal of so many columns."""

    def set_columns(columns: int) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", str(columns))

    return set_columns


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("abc", 3),
        ("日本", 4),
        ("e\u0301", 1),
        ("🚀", 2),
        ("\uff21", 2),  # a full-width letter
        ("\u200b", 0),
        ("", 0),
    ],
)
def test_the_width_of_a_text_is_that_of_its_columns(text, columns):
    assert display_width(text) == columns


def test_columns_of_wide_characters_are_aligned():
    lines = format_table(WIDE, right_from=2)
    assert lines == [
        "name    owner       7",
        "日本語  研究所     10",
        "e\u0301t\u00e9     🚀      1,000",
    ]
    assert {display_width(line) for line in lines} == {21}


ROWS = [
    ("key", "models", "requests"),
    ("alice", "gemini-3.6-flash, gemini-3.8-flash, 日本語モデル名前", "12"),
]


@pytest.mark.parametrize("columns", [30, 40, 50, 70])
def test_a_table_fits_the_terminal_and_loses_nothing(terminal, columns):
    terminal(columns)
    lines = format_table(ROWS, right_from=2)
    assert max(map(display_width, lines)) <= columns
    shown = "".join("".join(lines).split())
    for cell in ROWS[1]:
        assert sorted(shown) == sorted("".join("".join(map("".join, ROWS)).split())), cell


def test_a_table_for_a_program_is_never_wrapped(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    assert len(format_table(ROWS)) == len(ROWS)


def test_numbers_are_not_broken_even_if_the_terminal_is_too_narrow(terminal):
    terminal(10)
    assert any(line.endswith("1,234,567") for line in format_table([("a", "1,234,567")], right_from=1))


def test_text_breaks_after_blanks_and_within_words_that_are_too_long():
    assert wrapped("one two three", 8) == ["one two", "three"]
    assert wrapped("abcdefghij", 4) == ["abcd", "efgh", "ij"]
    assert wrapped("日本語", 4) == ["日本", "語"]
    assert wrapped("", 4) == [""]


def test_a_long_line_hangs_below_its_beginning(terminal):
    text = "ok    check   the text of the finding is long"
    assert hanging(text, 14) == text
    terminal(34)
    assert hanging(text, 14).splitlines() == [
        "ok    check   the text of the",
        f"{'':14}finding is long",
    ]


def test_settings_fit_a_real_terminal(tmp_path):
    """In a terminal of 60 columns no line is longer, although paths and texts are."""
    code = "import sys; from bridge.cli import main; sys.exit(main(['settings']))"
    ours, theirs = pty.openpty()
    os.set_inheritable(theirs, True)
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=clean_environment() | {"COLUMNS": "60", "BRIDGE_STATE_DIR": str(tmp_path)},
        stdout=theirs,
    ) as running:
        os.close(theirs)
        shown = read_all(ours)
        assert running.wait(timeout=60) == 0
    lines = shown.splitlines()
    assert max(map(display_width, lines)) <= 60
    assert "server.port" in shown


def read_all(terminal: int) -> str:
    pieces = []
    try:
        while piece := os.read(terminal, 65536):
            pieces.append(piece)
    except OSError:  # Linux reports the end of a terminal as an error
        pass
    os.close(terminal)
    return b"".join(pieces).decode()


def test_a_progress_bar_takes_one_line_of_a_narrow_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "24")
    progress_bar.show_progress("a table with a long name", 1_000, 2_000)
    progress_bar.clear_progress()
    shown = capsys.readouterr().err
    assert shown == "\r[###############.......\x1b[K\r\x1b[K"

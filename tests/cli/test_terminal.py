"""Text for people: measured, wrapped, cut, escaped, coloured."""

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.infrastructure.cli.render import aligned, cut, display_width, escaped, one_line, paint, wrapped
from tests.domain.strategies import PROPERTY, TEXT

PROSE = st.lists(TEXT | st.sampled_from(["word", "a longer word", "漢字漢字", "e\u0301", " "]), max_size=8).map(
    " ".join
)


@pytest.mark.parametrize(
    ("text", "width"),
    [("", 0), ("abc", 3), ("漢字", 4), ("e\u0301", 1), ("\U0001f600", 2), ("ｆ", 2), ("a\u200db", 2)],
)
def test_characters_have_widths(text: str, width: int) -> None:
    """Wide ones take two columns, combining ones none."""
    assert display_width(text) == width


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [("abcdef", 6, "abcdef"), ("abcdef", 5, "abcd…"), ("ab cdef", 4, "ab…"), ("漢字漢", 5, "漢字…"), ("ab", 1, "…")],
)
def test_text_is_cut_to_a_width(text: str, width: int, short: str) -> None:
    """An ellipsis says that something is missing."""
    assert cut(text, width) == short


@PROPERTY
@given(text=PROSE, width=st.integers(2, 30))
def test_wrapped_text_fits_and_is_all_there(text: str, width: int) -> None:
    """No line is wider than it may be, and nothing but blanks is lost."""
    lines = wrapped(text, width)

    assert max(map(display_width, lines)) <= width
    assert "".join("".join(lines).split()) == "".join(escaped(text).split())


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("one two three", ["one two", "three"]),
        ("one two\nthree", ["one two", "three"]),
        ("onetwothree", ["onetwoth", "ree"]),
        ("  one two three", ["  one", "two", "three"]),
        ("a\n\nb", ["a", "", "b"]),
        ("a\tb", ["a    b"]),
        ("漢字漢字漢字", ["漢字漢字", "漢字"]),
        ("one four five", ["one four", "five"]),
    ],
)
def test_lines_break_at_blanks(text: str, lines: list[str]) -> None:
    """Where there are some; line breaks and indents of the text stay."""
    assert wrapped(text, 8) == lines


@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        ("a\nb\tc", "a\nb    c"),
        ("a\r\nb\rc", "a\nb\\x0dc"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\x00\x7f\x9b", "\\x00\\x7f\\x9b"),
        ("\u202eabc", "\\u202eabc"),
        ("\U000e0041", "\\U000e0041"),
        ("\ud800", "\\ud800"),
        ("naïve 漢字 \U0001f600 a\u200db", "naïve 漢字 \U0001f600 a\u200db"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_by_number(text: str, harmless: str) -> None:
    """Line breaks stay, and everything that is merely written."""
    assert escaped(text) == harmless


def test_one_line_is_one_line() -> None:
    """Blanks and breaks become one blank."""
    assert one_line("  a\n\n b\t\rc\x0b\u2028d ") == "a b c\\x0b\\u2028d"


def test_columns_stand_below_each_other() -> None:
    """Wide characters and numbers too."""
    rows = [["ab", "1", "x"], ["漢字", "100", "y"]]

    assert aligned(rows, right=(1,)) == ["ab      1  x", "漢字  100  y"]
    assert aligned([]) == []


class _Terminal:
    """A stdout that is, or is not, a terminal."""

    def __init__(self, answer: bool) -> None:
        self._answer = answer

    def isatty(self) -> bool:
        """Say which."""
        return self._answer


@pytest.mark.parametrize(
    ("is_terminal", "settings", "is_painted"),
    [
        (True, {}, True),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
        (False, {}, False),
    ],
)
def test_colours_are_for_terminals(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, settings: dict[str, str], is_painted: bool
) -> None:
    """And for those who want them (no-color.org)."""
    monkeypatch.setenv("TERM", "xterm")
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    terminal: Any = _Terminal(is_terminal)
    monkeypatch.setattr(sys, "stdout", terminal)

    assert paint("x", "red") == ("\x1b[31mx\x1b[0m" if is_painted else "x")

"""
Text for people: harmless, measured, wrapped, and coloured where that is wanted.

What comes out of a log is not to be trusted: an escape sequence in a message could rewrite the screen. All
text passes through `escaped` or `one_line`, which show such characters by their number.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterator, Sequence

# Controls, line and paragraph separators, surrogates, and format characters that reorder or hide text; of the
# latter, joiners stay, which belong to the spelling of words and of emoji.
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
DEFAULT_WIDTH = 100
WIDTH_MIN = 40
# Beside the longest names, text is still to be read.
TEXT_WIDTH_MIN = 16
STYLES = {"dim": "2", "bold": "1", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


def escaped(text: str) -> str:
    """Return `text` with nothing in it that a terminal would obey; line breaks stay, tabs become blanks."""
    return UNSAFE.sub(_number, text.replace("\r\n", "\n").replace("\t", "    "))


def _number(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def one_line(text: str) -> str:
    """Return `text` as one harmless line: runs of blanks and line breaks become one blank."""
    return escaped(re.sub(r"[ \t\r\n]+", " ", text).strip())


def display_width(text: str) -> int:
    """Return how many columns `text` takes: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def cut(text: str, width: int) -> str:
    """Return the beginning of `text` that fits into `width` columns, with an ellipsis where something is missing."""
    if display_width(text) <= width:
        return text
    return _beginning(text, max(width - 1, 0)).rstrip() + "…"


def _beginning(text: str, width: int) -> str:
    beginning = text[:width]
    if beginning.isascii():
        return beginning
    used = 0
    for index, char in enumerate(text):
        used += _columns(char)
        if used > width:
            return text[:index]
    return text


def wrapped(text: str, width: int) -> list[str]:
    """Return `text` in lines of at most `width` columns, broken at blanks where there are some."""
    return [part for line in escaped(text).split("\n") for part in _broken(line.rstrip(), width)]


def _broken(line: str, width: int) -> Iterator[str]:
    while display_width(line) > width:
        beginning = _beginning(line, width) or line[:1]
        indent = len(line) - len(line.lstrip())
        blank = beginning.rfind(" ", indent)
        # A blank right behind the last column is as good a place.
        end = len(beginning) if line[len(beginning)] == " " else blank if blank > 0 else len(beginning)
        yield line[:end].rstrip()
        line = line[end:].lstrip()
    yield line


def aligned(rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> list[str]:
    """Return rows as lines of columns, two blanks apart; `right` names the columns that end together."""
    if not rows:
        return []
    widths = [max(display_width(row[index]) for row in rows) for index in range(len(rows[0]))]
    return ["  ".join(_padded(row, widths, right)).rstrip() for row in rows]


def _padded(row: Sequence[str], widths: Sequence[int], right: Sequence[int]) -> Iterator[str]:
    for index, (cell, width) in enumerate(zip(row, widths, strict=True)):
        blanks = " " * (width - display_width(cell))
        yield blanks + cell if index in right else cell + blanks


def terminal_width() -> int:
    """Return the columns there are: those of the terminal, or COLUMNS, or 100."""
    return max(shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns, WIDTH_MIN)


def is_cut_short() -> bool:
    """
    Return whether lines end at the terminal's edge; in a pipe they are as long as they are, if COLUMNS is not set.
    """
    return sys.stdout.isatty() or "COLUMNS" in os.environ


def paint(text: str, style: str) -> str:
    """Return `text` in a style, if stdout is a terminal and NO_COLOR is not set."""
    if not text or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stdout.isatty():
        return text
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m"

"""Output for people and for programs: names, times, tables and colours, JSON, and a pager for what is long."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from itertools import accumulate
from typing import Any, TypeVar

import click

from ...domain.clock import time_of
from ...domain.redaction import redacted, redacted_text

# The exit code of a command that failed, or that found a fault.
FAILED = 1
Command = TypeVar("Command", bound=Callable[..., Any])
UNITS = (("year", 31_557_600), ("month", 2_629_800), ("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))
LENGTHS = (("h", 3_600), ("min", 60), ("s", 1))
JUST_NOW_SECONDS = 5
FEW_SECONDS = 10
# Controls but tabs and line breaks, line and paragraph separators, surrogates, and format characters that reorder or
# hide text. Joiners are allowed, because the spelling of some words and emoji needs them.
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
DEFAULT_WIDTH = 100
WIDTH_MIN = 40
# Columns of text stay at least this wide beside the longest names.
TEXT_WIDTH_MIN = 16
STYLES = {
    "dim": "2",
    "bold": "1",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "cyan": "36",
    "magenta": "35",
}
INDENT = 2
# As Git has it: less ends where all fits, passes colours through, and leaves the text on the screen.
LESS = "FRX"
# A pager that would only pass the text on.
NONE = ("", "cat")
# The prefix of options that `args` keeps in the context of click, so that commands need not pass them on.
NOTED = "refold."
JSON, JSON_LINES = f"{NOTED}json", f"{NOTED}jsonl"
NOT_ASCII = re.compile("[^\x00-\x7e]")
SIZES = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def absolute(microseconds: int) -> str:
    """Return a time like 2026-11-21T10:00:03Z."""
    return f"{day(microseconds)}T{clock(microseconds)}"


def day(microseconds: int) -> str:
    """Return the day of a time, like 2026-11-21."""
    # Not `strftime`, which may write the year 999 with three digits.
    return time_of(microseconds).date().isoformat()


def clock(microseconds: int) -> str:
    """Return a time within its day, like 10:00:03Z."""
    return time_of(microseconds).strftime("%H:%M:%SZ")


def relative(microseconds: int, now: float) -> str:
    """Return how long ago a time was, in the largest unit that fits; `now` is in seconds since 1970."""
    seconds = now - microseconds / 1_000_000
    if abs(seconds) < JUST_NOW_SECONDS:
        return "just now"
    unit, length = next((name, size) for name, size in UNITS if abs(seconds) >= size)
    count = int(abs(seconds) // length)
    plural = "" if count == 1 else "s"
    return f"{count} {unit}{plural} ago" if seconds > 0 else f"in {count} {unit}{plural}"


def duration(seconds: float) -> str:
    """Return a duration in the largest unit that it has at least two of; less than ten seconds with tenths."""
    if seconds < FEW_SECONDS:
        return f"{seconds:.1f} s"
    return next(f"{seconds / length:.0f} {name}" for name, length in LENGTHS if seconds >= 2 * length)


def date_and_age(microseconds: int, now: float) -> str:
    """Return a time as a date, and relative to `now`."""
    return f"{absolute(microseconds)} ({relative(microseconds, now)})"


def escaped(text: str) -> str:
    """
    Return `text` as it may be shown, without characters that control a terminal; line breaks stay, tabs become blanks.
    """
    return UNSAFE.sub(_number, redacted_text(text).replace("\r\n", "\n").replace("\t", "    "))


def _number(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def one_line(text: str) -> str:
    """Return `text` as one line that is safe to print: runs of blanks and line breaks become one blank."""
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
    """Return the beginning of `text` that fits into `width` columns, with an ellipsis if the rest is cut off."""
    if display_width(text) <= width:
        return text
    return _beginning(text, max(width - 1, 0)).rstrip() + "…"


def _beginning(text: str, width: int) -> str:
    beginning = text[:width]
    if beginning.isascii():
        return beginning
    # Callers call this only if the whole text does not fit.
    ends = accumulate(map(_columns, text))
    return text[: next(index for index, end in enumerate(ends) if end > width)]


def wrapped(text: str, width: int) -> list[str]:
    """Return `text` in lines of at most `width` columns, broken at blanks if possible."""
    return [part for line in escaped(text).split("\n") for part in _broken(line.rstrip(), width)]


def _broken(line: str, width: int) -> Iterator[str]:
    while display_width(line) > width:
        beginning = _beginning(line, width) or line[:1]
        indent = len(line) - len(line.lstrip())
        blank = beginning.rfind(" ", indent)
        # The line can also be broken at a blank right after the last column.
        end = len(beginning) if line[len(beginning)] == " " else blank if blank > 0 else len(beginning)
        yield line[:end].rstrip()
        line = line[end:].lstrip()
    yield line


def aligned(rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> list[str]:
    """Return rows as lines of columns, two blanks apart; `right` has the numbers of right-aligned columns."""
    if not rows:
        return []
    widths = [max(display_width(row[index]) for row in rows) for index in range(len(rows[0]))]
    return ["  ".join(_padded(row, widths, right)).rstrip() for row in rows]


def print_table(rows: Sequence[Sequence[str]], *, right: Sequence[int] = (), is_cut: bool = True) -> None:
    """Print rows as `aligned`, the first as the heading; with `is_cut` no line is wider than a terminal."""
    heading, *lines = map(fitted, aligned(rows, right=right)) if is_cut else aligned(rows, right=right)
    click.echo(paint(heading, "dim"))
    for line in lines:
        click.echo(line)


def fitted(line: str, *, beside: int = 0) -> str:
    """Return a line, cut if it is wider than the terminal less the columns of what stands beside it."""
    return cut(line, max(terminal_width() - beside, 1)) if is_cut_short() else line


def is_too_wide(lines: Iterable[str]) -> bool:
    """Return whether one of some lines would be cut."""
    return is_cut_short() and max(map(display_width, lines)) > terminal_width()


def _padded(row: Sequence[str], widths: Sequence[int], right: Sequence[int]) -> Iterator[str]:
    for index, (cell, width) in enumerate(zip(row, widths, strict=True)):
        blanks = " " * (width - display_width(cell))
        yield blanks + cell if index in right else cell + blanks


def terminal_width() -> int:
    """Return the number of columns: that of COLUMNS or of the terminal, or else 100."""
    return max(shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns, WIDTH_MIN)


def is_cut_short() -> bool:
    """Return whether lines are cut to the width of the terminal. In a pipe they are not, unless COLUMNS is set."""
    return sys.stdout.isatty() or "COLUMNS" in os.environ


def paint(text: str, style: str) -> str:
    """Return `text` in a style, if stdout is a terminal and NO_COLOR is not set."""
    if not text or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stdout.isatty():
        return text
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m"


def json_text(value: Any, *, indent: int = 0) -> str:
    """Return `value` as JSON that is safe for a terminal: characters that control it are written as escapes."""
    return safe_json(json.dumps(redacted(value), ensure_ascii=False, indent=indent or None))


def safe_json(text: str) -> str:
    """Return JSON with escapes for the characters that control a terminal, or that it cannot show."""
    is_unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return (UNSAFE if is_unicode else NOT_ASCII).sub(_numbered, text)


def _numbered(found: re.Match[str]) -> str:
    units = found.group().encode("utf-16-be")
    return "".join(f"\\u{units[index]:02x}{units[index + 1]:02x}" for index in range(0, len(units), 2))


def prints_json() -> bool:
    """Return whether the running command prints JSON instead of text for people."""
    return _is_noted(JSON) or _is_noted(JSON_LINES)


def _is_noted(option: str) -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and option in context.meta


def note(text: str) -> None:
    """Print a note on stderr about a result that the user may not expect."""
    click.echo(f"note: {one_line(text)}", err=True)


def print_json(value: Any) -> None:
    """Print one value over several lines; with `--jsonl` on one."""
    click.echo(json_text(value, indent=0 if _is_noted(JSON_LINES) else INDENT))


def print_json_list(values: Iterable[Any]) -> None:
    """Print an array, one entry a line, each entry as soon as it is available; with `--jsonl` the entries alone."""
    if _is_noted(JSON_LINES):
        for value in values:
            click.echo(json_text(value))
        return
    opening = "["
    for value in values:
        click.echo(f"{opening}\n{json_text(value)}", nl=False)
        opening = ","
    click.echo("[]" if opening == "[" else "\n]")


def paged(command: Command) -> Command:
    """
    Let a command print through a pager, if stdout is a terminal; what follows the log is never paged.

    The pager is started only when the screen is full, so that short answers are printed as they are.
    """

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        program = None if options.get("follow") or not sys.stdout.isatty() else _program()
        if program is None:
            return command(*arguments, **options)
        with _paging(program):
            return command(*arguments, **options)

    return run  # type: ignore[return-value]


def _program() -> list[str] | None:
    """Return the program that pages; None if there is none, or if the user wants none."""
    import shlex

    wanted = os.environ.get("PAGER", "less")
    try:
        words = shlex.split(wanted)
    except ValueError:
        # A quotation mark is missing: it is no program.
        return None
    return None if wanted.strip() in NONE or shutil.which(words[0]) is None else words


@contextmanager
def _paging(program: list[str]) -> Iterator[None]:
    screen = sys.stdout
    pipe = _Pipe(program, screen)
    text = _Text(io.BufferedWriter(pipe), encoding=screen.encoding, errors="backslashreplace", write_through=True)
    sys.stdout = text
    try:
        yield
    finally:
        sys.stdout = screen
        # The reader may have left before the end.
        with suppress(BrokenPipeError):
            text.close()
        pipe.wait()


class _Text(io.TextIOWrapper):
    """The output to a terminal through a pager, with the colours and the width of the terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


class _Pipe(io.RawIOBase):
    """Keeps what fits on the screen, and starts the pager with the first line that does not."""

    def __init__(self, program: list[str], screen: Any) -> None:
        self._program, self._screen = program, screen
        self._kept = bytearray()
        self._process: Any = None

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, given: Any) -> int:
        """Take bytes; raises BrokenPipeError if the reader has left."""
        data = bytes(given)
        if self._process is None:
            self._kept += data
            if not self._is_full():
                return len(data)
            # Imported here, because it is slow to import, and most output is short or no terminal's.
            import subprocess

            settings = {**os.environ, "LESS": os.environ.get("LESS", LESS)}
            self._process = subprocess.Popen(self._program, stdin=subprocess.PIPE, env=settings)
            data, self._kept = bytes(self._kept), bytearray()
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        self._process.stdin.flush()
        return len(given)

    def _is_full(self) -> bool:
        width, height = terminal_width(), shutil.get_terminal_size().lines
        return sum(1 + len(line) // width for line in self._kept.split(b"\n")) > height

    def wait(self) -> None:
        """Print what fits on the screen, or wait until the reader leaves the pager."""
        if self._process is None:
            self._screen.flush()
            self._screen.buffer.write(self._kept)
            self._screen.flush()
            return
        import signal

        # Ctrl-C belongs to the pager as long as it runs.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        with suppress(BrokenPipeError):
            self._process.communicate()
        signal.signal(signal.SIGINT, before)


def size_of(count: int) -> str:
    """Return a number of bytes in the unit that suits it."""
    for unit, length in SIZES:
        if count >= length:
            return f"{count / length:.1f} {unit}"
    return f"{count} bytes"

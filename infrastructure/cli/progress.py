"""
Long-running commands: their progress on stderr, and how they stop on request.

A terminal gets a bar, a file gets a line every few seconds. rich is imported only if a bar is drawn.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import click

from ...domain.clock import REAL_SYSTEM, Stopwatch
from ..projecting.shadow import Progress as Report
from ..projecting.shadow import RebuildProgress
from ..store import Store
from .args import argument, checked_text
from .render import duration, json_text

# Shorter work prints no line, because it is done before anybody could read it.
LINES_EVERY_SECONDS = 5.0
OBJECTS_EVERY_SECONDS = 1.0
FORMS = ("auto", "bar", "plain", "json", "none")
ASKING = (signal.SIGINT, signal.SIGTERM)
# The longest time for which a server or a worker waits for the database after such a signal.
STOPPING_SECONDS_MAX = 10.0


progress_form = click.option(
    "--progress",
    "form",
    type=click.Choice(FORMS),
    default="auto",
    show_default=True,
    help="How progress is shown on stderr: a bar, a line every few seconds, a JSON object a second, or not at all; "
    "auto is a bar on a terminal, and lines elsewhere.",
)


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a function to call with the amount done and the whole amount; None if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def projection_progress(doing: str, form: str = "auto") -> Iterator[Report]:
    """Yield a function to call with the progress of a rebuild; `doing` names it in the output, `form` is of FORMS."""
    if form == "auto":
        form = "bar" if sys.stderr.isatty() else "plain"
    if form != "bar":
        reports: dict[str, Report] = {
            "plain": _Lines(doing, REAL_SYSTEM),
            "json": _JsonLines(doing, REAL_SYSTEM),
        }
        yield reports.get(form, lambda progress: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    said, pace = TextColumn("{task.description}"), TextColumn("{task.fields[pace]}")
    bar = Progress(said, BarColumn(), pace, console=Console(stderr=True), transient=True)
    with bar:
        task = bar.add_task(doing, total=None, pace="")

        def tell(progress: RebuildProgress) -> None:
            about = f"{doing} {progress.projection}"
            bar.update(task, description=about, completed=progress.done, total=progress.total, pace=_pace(progress))

        yield tell


class _Lines:
    """A line every few seconds, for a file."""

    def __init__(self, doing: str, watch: Stopwatch) -> None:
        self._doing, self._watch = doing, watch
        self._printed_at = watch.monotonic()

    def __call__(self, progress: RebuildProgress) -> None:
        now = self._watch.monotonic()
        if now - self._printed_at < LINES_EVERY_SECONDS:
            return
        self._printed_at = now
        events = f"{progress.done:,} of {progress.total:,} events"
        click.echo(f"{self._doing} {progress.projection}: {events}, {_pace(progress)}", err=True)


class _JsonLines:
    """Objects for another program: the first and the last of each projection, and one a second between them."""

    def __init__(self, doing: str, watch: Stopwatch) -> None:
        self._doing, self._watch = doing, watch
        self._printed_at, self._about = 0.0, ""

    def __call__(self, progress: RebuildProgress) -> None:
        now = self._watch.monotonic()
        is_first, is_last = progress.projection != self._about, progress.done >= progress.total
        if not (is_first or is_last or now - self._printed_at >= OBJECTS_EVERY_SECONDS):
            return
        self._printed_at, self._about = now, progress.projection
        click.echo(json_text({"doing": self._doing, **progress._asdict()}), err=True)


def _pace(progress: RebuildProgress) -> str:
    share = 100 * progress.done // progress.total if progress.total else 100
    return f"{share}%, {progress.rate:,.0f}/s, {duration(progress.seconds_left)} left"


@contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """Yield an event that is set by the first signal to stop; the second signal stops the program at once."""
    stop = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, before[number])

    before = {int(number): signal.signal(number, ask) for number in ASKING}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def set_at_end() -> Iterator[threading.Event]:
    """Yield an event that is set at the end of the block."""
    over = threading.Event()
    try:
        yield over
    finally:
        over.set()


def end_in_time(
    stop: threading.Event, over: threading.Event, say: Callable[[str], None], code: Callable[[], int] = lambda: 0
) -> None:
    """
    End the process STOPPING_SECONDS_MAX after `stop` is set, unless `over` is set before: a silent database may hold it
    up. `code` returns the exit code of the process, which is that of a normal end.
    """
    stop.wait()
    if not over.wait(STOPPING_SECONDS_MAX):
        say("stopped without waiting any longer for what it had begun: the database is slow, or does not answer")
        # As after a kill, each transaction is whole or not there.
        os._exit(code())


def _names(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(checked_text, values)))


names = argument("names", help="The projections.", metavar="[NAME...]", nargs=-1, callback=_names)


def known_names(store: Store, names: Sequence[str]) -> list[str]:
    """
    Return the names of projections, by default all of them; they are checked before any of them is used.

    Raises:
        NotFoundError: there is no such projection.
    """
    runner = store._runner
    return [runner.named(name).name for name in names] or list(runner.projections)

"""
How far something is, on stderr: a bar where somebody can see it, lines now and then where nobody does.

rich is imported only where a bar is drawn.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from ...domain.clock import REAL_SYSTEM, Stopwatch
from ..projecting.building import Progress as RebuildTold
from ..projecting.building import RebuildProgress
from .render import duration

# What takes no longer than this is done before a line about it is read.
LINES_EVERY_SECONDS = 5.0


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a function that is told how much of how much is done; None where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def projection_progress(doing: str) -> Iterator[RebuildTold]:
    """Yield a function that is told how far the making of a projection is, which is called `doing`."""
    if not sys.stderr.isatty():
        yield _Lines(doing, REAL_SYSTEM)
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
    """A line every few seconds, for a file or another program."""

    def __init__(self, doing: str, watch: Stopwatch) -> None:
        self._doing, self._watch = doing, watch
        self._said_at = watch.monotonic()

    def __call__(self, progress: RebuildProgress) -> None:
        now = self._watch.monotonic()
        if now - self._said_at < LINES_EVERY_SECONDS:
            return
        self._said_at = now
        events = f"{progress.done:,} of {progress.total:,} events"
        click.echo(f"{self._doing} {progress.projection}: {events}, {_pace(progress)}", err=True)


def _pace(progress: RebuildProgress) -> str:
    share = 100 * progress.done // progress.total if progress.total else 100
    return f"{share}%, {progress.rate:,.0f}/s, {duration(progress.seconds_left)} left"

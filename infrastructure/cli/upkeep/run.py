"""`refold run`: projections kept up to date beside the programs that write."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

from ....domain.clock import REAL_SYSTEM
from ....domain.errors import StorageError
from ..naming import counted
from ..options import database, keeping, shown
from ..terminal import one_line
from ..times import clock, duration
from .diary import Diary
from .naming import known_names, names
from .stopping import asked_to_stop

SAID_EVERY_SECONDS = 10.0


@click.command("run")
@names
@database
def command(names: tuple[str, ...], location: str) -> None:
    """
    Keep projections up to date, all or those named, until Ctrl-C or SIGTERM.

    Answers then have little to catch up with. It may run beside any number of programs that write; of several that run,
    one works on each projection, and another takes over within seconds where that one was killed. What it does is said
    on stderr.
    """
    began = REAL_SYSTEM.monotonic()
    with keeping(location) as store, asked_to_stop() as stop, _warnings_said():
        chosen = known_names(store, names)
        diary = Diary(store, chosen)
        _say(f"keeping {counted(len(chosen), 'projection')} of {shown(location)} up to date; Ctrl-C ends it")
        for line in diary.beginning():
            _say(line)
        teller = threading.Thread(target=_tell, args=(diary, stop), name="refold-run", daemon=True)
        teller.start()
        try:
            store.run_projections(stop, chosen)
        finally:
            stop.set()
            teller.join()
        _say(f"stopped after {duration(REAL_SYSTEM.monotonic() - began)}: {diary.sums()}")


def _tell(diary: Diary, stop: threading.Event) -> None:
    while not stop.wait(SAID_EVERY_SECONDS):
        # The worker meets it as well, and goes on.
        with suppress(StorageError):
            said = diary.news()
            if said:
                _say(said)


class _Said(logging.Handler):
    """Says what a worker warns of."""

    def emit(self, record: logging.LogRecord) -> None:
        """Say a warning."""
        _say(record.getMessage())


@contextmanager
def _warnings_said() -> Iterator[None]:
    logger, handler = logging.getLogger("refold"), _Said(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _say(text: str) -> None:
    click.echo(f"{clock(int(REAL_SYSTEM.now() * 1_000_000))}  {one_line(text)}", err=True)

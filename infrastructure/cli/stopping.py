"""Being asked to stop by Ctrl-C or by the system, and finishing first what is being done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import click

from ...domain.errors import NotFoundError
from ..store import Store
from .options import checked_text

ASKING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """Yield an event that is set when somebody asks to stop; who asks a second time is obeyed at once."""
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


def _names(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(checked_text, values)))


names = click.argument("names", metavar="[NAME...]", nargs=-1, callback=_names)


def known_names(store: Store, names: Sequence[str]) -> list[str]:
    """
    Return the names of projections, all where none is given, before any of them is touched.

    Raises:
        NotFoundError: there is no such projection.
    """
    known = [status.name for status in store.projections()]
    for name in names:
        if name not in known:
            raise NotFoundError(f"there is no projection {name!r}: there are {', '.join(known)}")
    return list(names) or known

"""Which extra of Refold an adapter needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs_extra(name: str) -> Iterator[None]:
    """
    Import an adapter in this block.

    Raises:
        ModuleNotFoundError: its framework is not installed; the message names the extra that installs it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "refold":
            raise
        message = f'{error.name} is not installed, and this adapter needs it: pip install "refold[{name}]"'
        raise ModuleNotFoundError(message, name=error.name) from error

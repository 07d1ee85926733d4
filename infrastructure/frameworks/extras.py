"""Which extra of Refold an adapter, or the page, needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

PAGE_MISSING = 'the page needs two more packages: pip install "refold[ui]"'


def is_own(error: ModuleNotFoundError) -> bool:
    """Return whether a module of Refold itself is missing, which no extra installs."""
    return (error.name or "").partition(".")[0] == "refold"


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
        if is_own(error):
            raise
        message = f'{error.name} is not installed, and this adapter needs it: pip install "refold[{name}]"'
        raise ModuleNotFoundError(message, name=error.name) from error

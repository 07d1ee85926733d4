"""
What commands have in common: which database, `--json`, and the stores they open.

A reading command opens the database for reading, so it can neither make one nor be stopped by a writer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import click

from ...domain.errors import StorageError, StorageUnavailableError
from ...domain.log.acting import acting
from ..open import open_store
from ..store import Store
from .render import counted, one_line

T = TypeVar("T")
DEFAULT_DATABASE = "refold.db"
DEFAULT_ACTOR = "cli"
PASSWORD = re.compile(r"(://[^/?#:]*:)[^/?#]*(?=@)|([?&]password=)[^&#]*")
DATABASE_HELP = "The database: a file, or postgresql://...  [default: REFOLD_DB, else ./refold.db]"


def checked_text(value: str) -> str:
    """Return a text from the command line: bytes that are no Unicode cannot be stored, nor looked for."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise click.BadParameter("it is not UTF-8 text") from error
    if not value:
        raise click.BadParameter("it is empty")
    return value


def required_text(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Check an argument or an option that is some text."""
    return checked_text(value)


def optional_text(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Check an option that is some text, if it is given."""
    return None if value is None else checked_text(value)


def _location(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    return optional_text(ctx, param, value) or ctx.find_root().params.get("db") or DEFAULT_DATABASE


database = click.option("--db", "location", metavar="FILE|URL", callback=_location, help=DATABASE_HELP)
actor = click.option(
    "--actor", metavar="A", callback=optional_text, default=DEFAULT_ACTOR, show_default=True, help="Who does it."
)
reason = click.option("--reason", metavar="TEXT", callback=optional_text, help="Why; it is kept in the log.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def shown(location: str) -> str:
    """Return a location as it may be printed: on one line, and without a password."""
    return one_line(PASSWORD.sub(r"\1\2***", location))


@contextmanager
def reading(location: str) -> Iterator[Store]:
    """Open a database that is there, for reading only."""
    try:
        store = open_store(location, create=False, read_only=True)
    except StorageUnavailableError as error:
        if location != DEFAULT_DATABASE:
            raise
        raise StorageUnavailableError(f"{error} (--db or REFOLD_DB names another)") from error
    with store:
        yield store
        _tell_missed(store)


@contextmanager
def keeping(location: str) -> Iterator[Store]:
    """
    Open a database that is there together with what is kept of its projections, which one for reading does without.
    """
    with reading(location):
        # Whatever is wrong with the file is found before it is opened for writing.
        pass
    with open_store(location, create=False) as store:
        yield store
        _tell_missed(store)


def _tell_missed(store: Store) -> None:
    """Say on stderr where what was printed was made without events that could not be folded."""
    missed = store.events_missed()
    if missed:
        text = f"note: {counted(missed, 'event')} set aside, and this was made without: `refold projections` says why"
        click.echo(text, err=True)


@contextmanager
def changing(location: str, actor: str) -> Iterator[Store]:
    """Open a database that is there, for changes to its contexts by `actor`."""
    with keeping(location) as store, acting(actor=actor):
        yield store


def summed_up(location: str, read: Callable[[Store], T]) -> T:
    """Return what `read` finds in the projections, which are brought up to date and kept where that is allowed."""
    try:
        with keeping(location) as store:
            return read(store)
    except StorageError:
        # Read-only, locked or full: then the rows are made in memory, from the whole log.
        with reading(location) as store:
            return read(store)


@contextmanager
def writing(location: str) -> Iterator[Store]:
    """Open a database, or make it."""
    with open_store(location) as store:
        yield store

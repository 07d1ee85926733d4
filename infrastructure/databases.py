"""Opens the parts of a store, given a path or a URL: a log, and the rows of its projections."""

from __future__ import annotations

import re
from pathlib import Path

from ..domain.canonical import require_unicode
from ..domain.clock import REAL_SYSTEM, System
from ..domain.errors import InvalidInputError
from ..domain.log.memory_log import MemoryLog
from ..domain.log.ports import LiveLog
from .log.codec import CODEC, Codec
from .projecting.store import MemoryProjectionStore, ProjectionStore

Database = tuple[LiveLog, ProjectionStore]
# SQLAlchemy writes the name of a driver behind a plus sign.
POSTGRES = re.compile(r"postgres(ql)?(\+\w+)?://", re.IGNORECASE)
SCHEME = re.compile(r"([A-Za-z][\w+.-]*)://|(postgres(?:ql)?|sqlite|file)(?:\+\w+)?:", re.IGNORECASE)
# A connection string of libpq, which is a list of key=value; and a name and a password before a host.
KEYWORDS = re.compile(r"\s*(host|hostaddr|port|dbname|user|password|service|sslmode|options|passfile)\s*=")
LOGIN = re.compile(r":[^/@]*@")
FORMS = "give a path, postgresql://user:password@host:port/name or :memory:"


def location_of(given: object) -> str:
    """
    Return the location of a database as text: ":memory:", a URL that begins with "postgresql://", or a path.

    A text that is neither is refused, because it would become the name of a new file; a `Path` is always a path. No
    message repeats a text that may hold a password.

    Raises:
        InvalidInputError: it is no location.
    """
    if isinstance(given, Path):
        return require_unicode(str(given), "the location")
    if not isinstance(given, str):
        raise InvalidInputError(f"the location is {given!r}: {FORMS}")
    text = require_unicode(given, "the location")
    if not text.strip():
        raise InvalidInputError(f"the location is empty: {FORMS}")
    if POSTGRES.match(text):
        return "postgresql://" + text.partition("://")[2]
    found = SCHEME.match(text)
    if found:
        raise InvalidInputError(f"a location that begins with {(found[1] or found[2])!r} is none of Refold's: {FORMS}")
    if KEYWORDS.match(text) or LOGIN.search(text):
        raise InvalidInputError(
            f"the location looks like a connection string, and is no URL: {FORMS}; for a file of this name give a Path"
        )
    return text


def open_database(
    location: str,
    *,
    create: bool = True,
    read_only: bool = False,
    synchronous: str = "FULL",
    codec: Codec = CODEC,
    system: System = REAL_SYSTEM,
) -> Database:
    """
    Open the database at a location, as `location_of` returns it: a path (SQLite), a URL "postgresql://...", or
    ":memory:". A log takes the times of its events from `system`; one in a database decodes them by `codec`.

    Raises:
        InvalidInputError: the location is invalid.
        StorageUnavailableError: the database is missing, cannot be reached, or is not one of Refold's.
    """
    if location == ":memory:":
        return MemoryLog(system), MemoryProjectionStore()
    if location.startswith("postgresql://"):
        from .log.postgres.log import PostgresLog
        from .projecting.rows.postgres import PostgresProjectionStore

        shared = PostgresLog(location, create=create, codec=codec, system=system)
        return shared, PostgresProjectionStore(shared)
    from .log.sqlite.log import SqliteLog
    from .projecting.rows.sqlite import SqliteProjectionStore
    from .projecting.store import ReadOnlyProjectionStore

    log = SqliteLog(location, create=create, read_only=read_only, synchronous=synchronous, codec=codec, system=system)
    kept = SqliteProjectionStore(log)
    return log, ReadOnlyProjectionStore(kept) if read_only else kept

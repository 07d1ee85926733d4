"""Opens the parts of a store, given a path or a URL: a log, and the rows of its projections."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..domain.arguments import require_instance, require_methods, require_path
from ..domain.canonical import require_unicode
from ..domain.clock import REAL_SYSTEM, System
from ..domain.erasure import forgetting
from ..domain.errors import (
    DamagedError,
    InvalidInputError,
    KeyMissingError,
    StorageReadOnlyError,
    StorageUnavailableError,
)
from ..domain.log.memory_log import MemoryLog
from ..domain.log.ports import LiveLog
from ..domain.positions import BEGINNING
from .files import BESIDE_SQLITE, OWNER, PRIVATE, is_private
from .log.codec import CODEC, Codec
from .projecting.store import MemoryProjectionStore, ProjectionStore, ReadOnlyProjectionStore, kept_by
from .trust.tables import (
    BOTH,
    CHAIN,
    KEY,
    REQUIRE_OPEN,
    STORE,
    KeyRow,
    MemoryTables,
    PostgresTables,
    SqliteTables,
    Tables,
    key_row,
    keys_in,
)

if TYPE_CHECKING:
    from .trust.key_ring import KeyRing
    from .trust.keys import Keys

Database = tuple[LiveLog, ProjectionStore]
OTHERS = 0o077
# SQLAlchemy writes the name of a driver behind a plus sign.
POSTGRES = re.compile(r"postgres(ql)?(\+\w+)?://", re.IGNORECASE)
SCHEME = re.compile(r"([A-Za-z][\w+.-]*)://|(postgres(?:ql)?|sqlite|file)(?:\+\w+)?:", re.IGNORECASE)
# A connection string of libpq, which is a list of key=value in any order; and a name and a password before a host.
KEYWORDS = re.compile(r"(?<!\S)(host|hostaddr|port|dbname|user|password|service|sslmode|options|passfile)\s*=")
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
        path = require_unicode(str(require_path(given, "the location")), "the location")
        return f"./{path}" if path == ":memory:" else path
    if not isinstance(given, str):
        raise InvalidInputError(f"the location is of the type {type(given).__name__}: {FORMS}")
    text = require_unicode(given, "the location")
    if not text.strip():
        raise InvalidInputError(f"the location is empty: {FORMS}")
    if POSTGRES.match(text):
        return "postgresql://" + text.partition("://")[2]
    found = SCHEME.match(text)
    if found:
        raise InvalidInputError(f"a location that begins with {(found[1] or found[2])!r} is none of Refold's: {FORMS}")
    if KEYWORDS.search(text) or LOGIN.search(text):
        raise InvalidInputError(
            f"the location looks like a connection string, and is no URL: {FORMS}; for a file of this name give a Path"
        )
    require_path(text, "the location")
    return text


def is_on_server(location: str) -> bool:
    """Return whether a location, as `location_of` returns it, is that of a PostgreSQL server."""
    return location.startswith("postgresql://")


def open_database(
    location: str,
    *,
    create: bool = True,
    read_only: bool = False,
    synchronous: str = "FULL",
    codec: Codec = CODEC,
    system: System = REAL_SYSTEM,
    keys: Keys | None = None,
    encrypt: bool | None = None,
    is_raw: bool = False,
    chain_key: bytes = b"",
    private: bool | None = None,
) -> Database:
    """
    Open the database at a location, as `location_of` returns it: a path (SQLite), a URL "postgresql://...", or
    ":memory:". A log takes the times of its events from `system`; one in a database decodes them by `codec`. With
    `keys` a new one is encrypted, or with `encrypt=False` only its digests are keyed; one that has events is opened as
    it was made, which `encrypt` must say unless it is None. With `is_raw` it gives its events as they are stored;
    `chain_key` is then the key of its digests, which another process found. With `private` nobody but the owner may
    read the files of SQLite; None stands for what REFOLD_PRIVATE says.

    Raises:
        InvalidInputError: the location is invalid, or is no file and is to be private; or `keys` and `encrypt` are not
            as the store was made.
        StorageUnavailableError: the database is missing, cannot be reached, or is not one of Refold's.
        KeyUnavailableError: the database needs keys, and these were not given.
    """
    is_file = location != ":memory:" and not is_on_server(location)
    if private and not is_file:
        raise InvalidInputError("private=True is for files of SQLite: on a server, roles say who may read")
    if is_file and (private or PRIVATE in os.environ) and is_private(private):
        _keep_private(Path(location), may_create=create and not read_only)
    if encrypt is not None:
        require_instance(encrypt, bool, "encrypt", "take True, False or None")
    if keys is not None:
        open_below = partial(_open_below, location, create, read_only, synchronous)
        return _open_with_keys(location, keys, codec, open_below, system, encrypt=encrypt, is_raw=is_raw)
    if encrypt is False:
        raise InvalidInputError("encrypt=False keys the digests of a store, and there are no keys: give keys, too")
    found = _open_below(location, create, read_only, synchronous, codec, system)
    if chain_key:
        stored_log(found[0]).chain.use(chain_key)
    elif not is_raw:
        try:
            _require_no_keys(found[0], location)
        except BaseException:
            found[0].close()
            raise
    return found


def _open_with_keys(
    location: str,
    keys: Keys,
    codec: Codec,
    open_below: Callable[[Codec, System], Database],
    system: System,
    *,
    encrypt: bool | None,
    is_raw: bool,
) -> Database:
    """Open a database that has keys, or make one of a new database; with `is_raw` as it is stored."""
    require_methods(
        keys, "keys", "give a KeyFile, a KeyEnvironment, or an object with wrap and unwrap", "wrap", "unwrap"
    )
    try:
        from .trust.key_ring import KeyRing
        from .trust.sealed_log import SEALED_CODEC, SealedLog
    except ImportError as error:
        raise StorageUnavailableError('a store with keys needs another package: pip install "refold[keys]"') from error
    from .trust.sealed_rows import SealedProjectionStore

    below, notes = open_below(codec if is_raw or encrypt is False else SEALED_CODEC, system)
    try:
        tables = tables_of(below)
        try:
            _make_tables(tables, below, location)
            ring = KeyRing(tables, keys, system, encrypt=encrypt is not False)
        except StorageReadOnlyError as error:
            if _has_own_key(tables):
                raise
            missing = "it has no key of its own yet: `refold init` with the keys makes one"
            raise StorageReadOnlyError(f"{error}, and {missing}") from error
        if encrypt not in (None, ring.encrypts):
            made, remedy = ("is encrypted", "without") if ring.encrypts else ("has keyed digests alone", "with")
            raise InvalidInputError(f"{_place_of(below, location)} {made}: open it {remedy} encrypt=False")
        if ring.encrypts and below.has_slices:
            stored_log(below).require_open_keys(REQUIRE_OPEN)
        # Before the first event is read: nobody without the keys makes a digest of this store.
        stored_log(below).chain.use(ring.chain_key(), ring)
        if is_raw or encrypt is False:
            return below, notes
        if not ring.encrypts:
            below.close()
            return _open_with_keys(location, keys, codec, open_below, system, encrypt=False, is_raw=False)
        rows = SealedProjectionStore(below, tables, ring, kept_by(notes))
        is_kept = notes is kept_by(notes)
        return SealedLog(below, ring, codec), rows if is_kept else _read_only(below, rows)
    except BaseException:
        below.close()
        raise


def _make_tables(tables: Tables, below: LiveLog, location: str) -> None:
    """Make the tables of a new database that is to have keys, or a table that somebody dropped."""
    if _has_own_key(tables):
        if len(tables.names()) < len(BOTH):
            # `sealed_page` is missing: its rows are made again from events, as for every projection.
            with suppress(StorageReadOnlyError):
                tables.make()
        return
    # Another process may make the key, and record events, at the same moment.
    if below.now() != BEGINNING and not _has_own_key(tables):
        where = _place_of(below, location)
        if tables.names():
            raise _own_key_missing(where, ", or open it without keys if it was made without")
        raise InvalidInputError(
            f"{where} has events that are not encrypted, and whose digests are not keyed:"
            " open it without keys, or bring its events into a new store that has keys"
        )
    tables.make()


def _require_no_keys(log: LiveLog, location: str) -> None:
    """
    Require that a database is neither encrypted nor has keyed digests.

    Raises:
        KeyMissingError: it is encrypted or has them; the error names the master key that is needed.
    """
    if isinstance(log, MemoryLog):
        return
    tables = tables_of(log)
    if not tables.names():
        return
    if rows := tables.ask(KEY, STORE):
        raise missing_keys(key_row(rows[0]), _place_of(log, location))
    try:
        # The process that was to make the key may have been killed before: then no event needs it.
        log.read_all(after=BEGINNING, limit=1)
        is_keyed = any(True for _ in keys_in(tables))
    except DamagedError:
        is_keyed = True
    if is_keyed:
        raise _own_key_missing(_place_of(log, location))


def _has_own_key(tables: Tables) -> bool:
    """Return whether a store has a key of its own, which it gets before its first event."""
    return bool(tables.names() and tables.ask(KEY, STORE))


def _own_key_missing(where: str, instead: str = "") -> KeyMissingError:
    reason = f"{where} has events, and its own key is not in its table data_key"
    return KeyMissingError(STORE, where, reason=reason, remedy=f"restore the database from a copy{instead}")


def missing_keys(store: KeyRow, where: str) -> KeyMissingError:
    """Return the error for a store or a backup that is opened without the master key that it needs."""
    is_keyed = store.subject == CHAIN
    made = f"the digests of {where} are keyed" if is_keyed else f"{where} is encrypted"
    reason = f"{made} with the master key {store.master!r}, and no keys were given"
    return KeyMissingError(store.master, where, reason=reason)


def stored_log(log: Any) -> Any:
    """Return the log as it is stored: below an encrypted one, else the log itself."""
    return getattr(log, "below", log)


def ring_of(log: Any) -> KeyRing:
    """
    Return the data keys of a log.

    Raises:
        InvalidInputError: it has none.
    """
    ring: KeyRing | None = stored_log(log).chain.ring
    if ring is None:
        raise InvalidInputError(f"{_place_of(log, 'the store')} was made without keys: open a new store with keys")
    return ring


def tables_of(log: Any) -> Tables:
    """Return the tables of a store with keys, which exist if it is one, given the log as it is stored."""
    if isinstance(log, MemoryLog):
        return MemoryTables(log)
    return PostgresTables(log) if log.has_slices else SqliteTables(log)


def _place_of(log: Any, location: str) -> str:
    return str(log.database.where) if hasattr(log, "database") else location


def _open_below(
    location: str, create: bool, read_only: bool, synchronous: str, codec: Codec, system: System
) -> Database:
    log: Any
    rows: ProjectionStore
    if location == ":memory:":
        log, rows = MemoryLog(system, read_only=read_only), MemoryProjectionStore()
    elif is_on_server(location):
        from .log.postgres.log import PostgresLog
        from .projecting.rows.postgres import PostgresProjectionStore

        log = PostgresLog(location, create=create, read_only=read_only, codec=codec, system=system)
        rows = PostgresProjectionStore(log)
    else:
        from .log.sqlite.log import SqliteLog
        from .projecting.rows.sqlite import SqliteProjectionStore

        log = SqliteLog(
            location, create=create, read_only=read_only, synchronous=synchronous, codec=codec, system=system
        )
        rows = SqliteProjectionStore(log)
    return log, _read_only(log, rows) if read_only else rows


def _read_only(log: LiveLog, kept: ProjectionStore) -> ProjectionStore:
    rows = ReadOnlyProjectionStore(kept)
    forgetting.watch(log, rows)
    return rows


def _keep_private(path: Path, *, may_create: bool) -> None:
    """
    Make the file, if it is missing, with rights that never let others open it; require these rights of an existing one.

    Raises:
        StorageUnavailableError: others may read or write the file, or one beside it.
    """
    if may_create and path.parent.is_dir():
        with suppress(FileExistsError):
            # SQLite takes an empty file for a new database.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OWNER))
    # SQLite gives the files beside the database the rights that the database has.
    for name in (f"{path}{ending}" for ending in ("", *BESIDE_SQLITE)):
        with suppress(FileNotFoundError):
            rights = os.stat(name).st_mode
            if rights & OTHERS:
                raise StorageUnavailableError(
                    f"others may open {name} (its rights are {rights & 0o777:o}), and the store is to be private: "
                    "make it yours alone by `chmod 600`"
                )

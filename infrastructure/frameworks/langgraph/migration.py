"""
Threads of LangGraph's own savers, on SQLite or PostgreSQL, become threads of a store.

Their savers read the checkpoints, so that all their formats are understood; their tables say which there are. Nothing
is written there. Each thread is saved into an empty store in memory first: where something in it cannot be kept, the
whole thread is left out.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ....domain.errors import InvalidInputError, RefusedError, StorageUnavailableError
from ...databases import is_on_server, location_of
from ...exchange.event_files import Progress
from ...open import open_store
from ...store import Store
from .checkpoint import Put, Write
from .saver import RefoldSaver
from .values import Values, refusing_blocked

THREADS = "SELECT DISTINCT thread_id, checkpoint_ns FROM checkpoints"
CHECKPOINTS = (
    "SELECT checkpoint_id FROM checkpoints WHERE thread_id = {0} AND checkpoint_ns = {0} ORDER BY checkpoint_id"
)
# Files of older savers have no path of a task.
WRITES = "SELECT * FROM {1} WHERE thread_id = {0} AND checkpoint_ns = {0} AND checkpoint_id = {0} ORDER BY task_id, idx"

CURE = "give --allow module:Name for {}, where it can be imported"

T = TypeVar("T")
Namespaces = Mapping[str, Sequence[str]]


class ThreadReport(msgspec.Struct, frozen=True):
    """The outcome for a thread: `added`, `extended`, `unchanged` or `refused`, with the checkpoints saved or why."""

    thread: str
    outcome: str
    checkpoints: int = 0
    reason: str = ""


class Source(NamedTuple):
    """
    A database of another saver: that saver, a function that runs a query, and what differs in the SQL.

    `fault` is what the function raises, and `away` what it raises where the database may answer later.
    """

    saver: BaseCheckpointSaver[Any]
    query: Callable[[str, Sequence[str]], list[dict[str, Any]]]
    fault: type[Exception]
    away: type[Exception]
    mark: str
    table: str

    def threads(self) -> dict[str, list[str]]:
        """Return the threads, each with its namespaces."""
        found: dict[str, list[str]] = defaultdict(list)
        for row in self.query(THREADS, ()):
            found[row["thread_id"]].append(row["checkpoint_ns"])
        return {thread: sorted(found[thread]) for thread in sorted(found)}

    def checkpoints(self, thread: str, namespace: str) -> list[str]:
        """Return the ids of the checkpoints of a namespace, the oldest first."""
        return [row["checkpoint_id"] for row in self.query(CHECKPOINTS.format(self.mark), (thread, namespace))]

    def load(self, thread: str, namespace: str, checkpoint: str) -> CheckpointTuple:
        """
        Return a checkpoint.

        Raises:
            InvalidInputError: it has a type that may not be loaded, or is gone.
        """
        named = {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint}
        what = f"the checkpoint {checkpoint} of the thread {thread!r}"
        found = _read(what, lambda: self.saver.get_tuple({"configurable": named}))
        if found is None:
            raise InvalidInputError(f"{what} is gone: stop the programs that write there, and import again")
        return found

    def writes(self, thread: str, namespace: str, checkpoint: str, values: Values) -> list[Write]:
        """
        Return the writes on a checkpoint, with packed values.

        Raises:
            InvalidInputError: one has a type that may not be loaded, or cannot be read.
        """
        rows = self.query(WRITES.format(self.mark, self.table), (thread, namespace, checkpoint))
        what = f"a write on the checkpoint {checkpoint} of the thread {thread!r}"
        return [self._write(row, values, what) for row in rows]

    def _write(self, row: Mapping[str, Any], values: Values, what: str) -> Write:
        data = row.get("blob", row.get("value"))
        value = _read(what, lambda: self.saver.serde.loads_typed((row["type"], bytes(data or b""))))
        packed = values.pack(value, f"{row['channel']!r}")
        return Write(row["task_id"], row.get("task_path") or "", row["idx"], row["channel"], packed)


def _read(what: str, read: Callable[[], T]) -> T:
    """
    Return what another saver reads; `what` names it in errors.

    Raises:
        InvalidInputError: it has a type that may not be loaded, or cannot be read.
    """
    with refusing_blocked(what, CURE):
        try:
            return read()
        except (TypeError, ValueError, NotImplementedError) as error:
            raise InvalidInputError(f"{what} cannot be read: {error}") from error


class Missing(NamedTuple):
    """A checkpoint that a target lacks, or that has writes there which it lacks, by task."""

    namespace: str
    checkpoint: str
    is_new: bool
    writes: Mapping[str, Sequence[Write]]


def import_threads(
    store: Store,
    location: str,
    *,
    prefix: str = "",
    allowed: Sequence[str] = (),
    dry_run: bool = False,
    progress: Progress | None = None,
) -> list[ThreadReport]:
    """
    Copy all threads of another saver; `prefix` comes before the ids of their chats.

    Types of the user's in their values are loaded if they are `allowed`, as `module:Name`. A thread that was imported
    before gets the checkpoints that were saved since. A `dry_run` saves none.

    Raises:
        InvalidInputError: there is no such database, it has no checkpoints or cannot be read, or a type cannot be
            imported.
        StorageUnavailableError: it did not answer meanwhile; another import goes on from there.
    """
    serde = _serializer(allowed)
    reports: list[ThreadReport] = []
    with _opened(location, serde) as source:
        threads = source.threads()
        for number, (thread, namespaces) in enumerate(threads.items(), 1):
            try:
                reports.append(_import(store, source, thread, namespaces, prefix, serde, dry_run))
            except RefusedError as error:
                reports.append(ThreadReport(thread, "refused", reason=str(error)))
            if progress:
                progress(number, len(threads))
    return reports


def require_threads(location: str, *, allowed: Sequence[str]) -> None:
    """
    Require that the threads of another saver can be read.

    Raises:
        InvalidInputError: there is no such database, it has no checkpoints, or a type cannot be imported.
    """
    with _opened(location, _serializer(allowed)):
        pass


def _serializer(allowed: Sequence[str]) -> JsonPlusSerializer:
    return JsonPlusSerializer(allowed_msgpack_modules=[_imported(name) for name in allowed] or None)


def _import(
    store: Store,
    source: Source,
    thread: str,
    namespaces: Sequence[str],
    prefix: str,
    serde: JsonPlusSerializer,
    dry_run: bool,
) -> ThreadReport:
    target = RefoldSaver(store, prefix=prefix, serde=serde)
    there = {name: source.checkpoints(thread, name) for name in namespaces}
    here = {name: {found.id for found in target._thread_named(thread, name).checkpoints()} for name in namespaces}
    new = sum(one not in here[name] for name in namespaces for one in there[name])
    if next(_changes(source, target, thread, there), None) is None:
        return ThreadReport(thread, "unchanged")
    if any(here[name] - set(there[name]) for name in namespaces):
        reason = "the thread went on in both places: import it with another prefix"
        return ThreadReport(thread, "refused", reason=reason)
    # A value that cannot be kept is found here, before anything is saved.
    with open_store(":memory:") as trial:
        _copy(source, RefoldSaver(trial, serde=serde), thread, there)
    if not dry_run:
        _copy(source, target, thread, there)
    return ThreadReport(thread, "extended" if any(here.values()) else "added", new)


def _copy(source: Source, target: RefoldSaver, thread: str, there: Namespaces) -> None:
    values = Values(target.serde)
    for namespace, checkpoint, is_new, tasks in _changes(source, target, thread, there):
        into = target._thread_named(thread, namespace)
        # A checkpoint is saved after its writes, so a checkpoint that was copied has all of them.
        for task, writes in tasks.items():
            into.put_writes(checkpoint, task, writes[0].path, writes)
        if is_new:
            into.put(_put_of(source.load(thread, namespace, checkpoint)), values)


def _changes(source: Source, target: RefoldSaver, thread: str, there: Namespaces) -> Iterator[Missing]:
    """Yield what a target lacks, the oldest first. A checkpoint that it has may have more writes than before."""
    values = Values(target.serde)
    for namespace, checkpoints in there.items():
        into = target._thread_named(thread, namespace)
        for checkpoint in checkpoints:
            found = into.find(checkpoint, with_hidden=True)
            known = {(one.task, one.number): one.value for one in into.writes(found, values)} if found else {}
            tasks: dict[str, list[Write]] = defaultdict(list)
            for one in source.writes(thread, namespace, checkpoint, values):
                # A special write, with a number below 0, may be replaced.
                if known.get((one.task, one.number)) != one.value and (
                    one.number < 0 or (one.task, one.number) not in known
                ):
                    tasks[one.task].append(one)
            if tasks or not found:
                yield Missing(namespace, checkpoint, not found, tasks)


def _put_of(found: CheckpointTuple) -> Put:
    checkpoint: dict[str, Any] = {**found.checkpoint}
    channels = checkpoint.pop("channel_values", {})
    parent = found.parent_config["configurable"]["checkpoint_id"] if found.parent_config else None
    # Which channels are new follows from the versions of the parent.
    return Put(checkpoint, channels, {**found.metadata}, {}, parent, may_fork=True)


def _imported(name: str) -> tuple[str, str]:
    module, _, kind = name.partition(":")
    try:
        getattr(import_module(module), kind)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInputError(
            f"{name!r} cannot be imported ({error}): give module:Name, of a type that is"
        ) from error
    return module, kind


@contextmanager
def _opened(location: str, serde: JsonPlusSerializer) -> Iterator[Source]:
    place = location_of(location.removeprefix("sqlite:///"))
    opened = _postgres if is_on_server(place) else _sqlite
    with opened(place, serde) as source:
        try:
            source.query(f"{THREADS} LIMIT 1", ())
            source.query(WRITES.format(source.mark, source.table), ("", "", ""))
        except source.fault as error:
            raise InvalidInputError(f"no checkpoints of LangGraph can be read there: {error}") from error
        try:
            yield source
        except source.away as error:
            raise StorageUnavailableError(
                f"the database of LangGraph's saver failed: {error}: import again when it answers, to go on from there"
            ) from error
        except source.fault as error:
            raise InvalidInputError(f"the database of LangGraph's saver cannot be read: {error}") from error


@contextmanager
def _sqlite(location: str, serde: JsonPlusSerializer) -> Iterator[Source]:
    path = Path(location)
    if not path.is_file():
        raise InvalidInputError(f"there is no file {path}: give the one that the SqliteSaver writes")
    saver = _saver("langgraph.checkpoint.sqlite", "SqliteSaver", "langgraph-checkpoint-sqlite")
    connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, check_same_thread=False)

    def query(text: str, values: Sequence[str]) -> list[dict[str, Any]]:
        cursor = connection.execute(text, values)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    try:
        yield Source(saver(connection, serde=serde), query, sqlite3.Error, sqlite3.OperationalError, "?", "writes")
    finally:
        connection.close()


@contextmanager
def _postgres(location: str, serde: JsonPlusSerializer) -> Iterator[Source]:
    saver = _saver("langgraph.checkpoint.postgres", "PostgresSaver", "langgraph-checkpoint-postgres")
    psycopg = import_module("psycopg")
    try:
        connection = psycopg.connect(location, autocommit=True, row_factory=psycopg.rows.dict_row)
    except psycopg.Error as error:
        raise InvalidInputError(f"the database cannot be opened: {error}") from error

    def query(text: str, values: Sequence[str]) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = connection.execute(text, values).fetchall()
        return rows

    try:
        # Not `connection.read_only`, which says nothing of statements outside a transaction.
        connection.execute("SET default_transaction_read_only = on")
        fault, away = psycopg.Error, psycopg.OperationalError
        yield Source(saver(connection, serde=serde), query, fault, away, "%s", "checkpoint_writes")
    finally:
        connection.close()


def _saver(module: str, name: str, package: str) -> Any:
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise InvalidInputError(f"its saver is needed to read it: pip install {package}") from error

"""
The long-term memory of LangGraph over a store: each namespace is a scope of the store's memory, with a past.

The namespace ("users", "mia") is the scope PREFIX + "users/mia". Its expiry times and vectors are in a second scope,
PREFIX + ".beside/users/mia", so that the records themselves have nothing but the values of the user. A tag of a record
says which of both it has.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from array import array
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from datetime import datetime
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

from langchain_core.embeddings import Embeddings
from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
    validate_op_namespace,
)
from langgraph.store.memory import InMemoryStore, _apply_operator, _compare_values

from ....domain.canonical import require_unicode
from ....domain.concurrency.locks import locked, renew_in_child, synchronized
from ....domain.concurrency.threads import in_thread
from ....domain.context.journal import retried
from ....domain.errors import InvalidInputError, LogWentBackError, NotFoundError, ReadOnlyError
from ....domain.ids import decoded_id, encoded_id
from ....domain.log.envelope import acting, current_meta
from ....domain.memory.memory import MemoryScope
from ....domain.memory.records import MemoryChange, MemoryRecord
from ....domain.positions import Moment
from ...store import Store
from ..open_chats import require_store
from .branch import FRAMEWORK

PREFIX = "langgraph/"
# No label of a namespace has a period.
BESIDE = ".beside/"
# Tags of records that have something beside them.
EXPIRES, INDEXED = "expires", "indexed"
COSINE = "cosine"
EXPIRED = "its time to live ended"
MINUTE = 60 * 1_000_000
# Ten thousand years.
MINUTES_MAX = 5_256_000_000
# A read that finds more than this share of the time to live left does not write.
FRESH = 0.9

Namespace = tuple[str, ...]
Vectors = dict[str, list[float]]
When = int | str | datetime | Moment


def is_erased(record: MemoryRecord) -> bool:
    """Return whether a record was erased: then its value is a text that says so, and LangGraph's are objects."""
    return not isinstance(record.value, dict)


class Collection(NamedTuple):
    """A namespace, the scope with its records, and the one with what is kept beside them."""

    namespace: Namespace
    values: MemoryScope
    beside: MemoryScope

    def item(self, record: MemoryRecord) -> Item:
        """Return a record as LangGraph has it."""
        return Item(
            value=record.value,
            key=record.key,
            namespace=self.namespace,
            created_at=record.timestamp,
            updated_at=record.updated_at,
        )

    def records(self) -> list[MemoryRecord]:
        """Return all records, the newest first."""
        return self.values.search(limit=sys.maxsize)

    def put(self, key: str, value: dict[str, Any], minutes: float | None, now: int, vectors: Vectors) -> None:
        """Remember a value; it expires after so many minutes."""
        tags = [EXPIRES] * (minutes is not None) + [INDEXED] * bool(vectors)
        self._forget_beside(key, [tag for tag in (EXPIRES, INDEXED) if tag not in tags])
        self.values.put(MemoryRecord(scope=self.values.scope, key=key, value=value, tags=tags))
        if minutes is not None:
            self.extend(key, minutes, now)
        if vectors:
            packed = {path: b64encode(array("f", vector).tobytes()).decode() for path, vector in vectors.items()}
            self._put_beside(INDEXED, key, packed)

    def forget(self, key: str, reason: str | None = None) -> None:
        """Forget a key; the log keeps it."""
        self._forget_beside(key, (EXPIRES, INDEXED))
        self.values.forget(key, reason=reason)

    def extend(self, key: str, minutes: float, now: int) -> None:
        """Let a record expire so many minutes from now."""
        self._put_beside(EXPIRES, key, {"minutes": minutes, "until": now + int(minutes * MINUTE)})

    def prolong(self, key: str, expiry: dict[str, Any], now: int) -> None:
        """Let a record that was read live on from now; others may have put or forgotten it meanwhile."""
        record = self.values.get(key)
        if record and self.expiry(record) == expiry:
            self.extend(key, expiry["minutes"], now)

    def expire(self, key: str, now: int, gone: set[tuple[Namespace, str]]) -> None:
        """Forget a key whose time is over, and note it in `gone`; others may have put or forgotten it meanwhile."""
        record = self.values.get(key)
        expiry = self.expiry(record) if record else None
        gone.discard((self.namespace, key))
        if expiry and expiry["until"] <= now:
            self.forget(key, EXPIRED)
            gone.add((self.namespace, key))
        for tag in (EXPIRES, INDEXED):
            is_stale = record is None or tag not in record.tags
            if is_stale and self.beside.get(f"{tag}/{key}"):
                self.beside.forget(f"{tag}/{key}")

    def expiry(self, record: MemoryRecord) -> dict[str, Any] | None:
        """Return the minutes that a record lives, and until when; None if it does not expire."""
        kept = self.beside.get(f"{EXPIRES}/{record.key}") if EXPIRES in record.tags else None
        return kept.value if kept and not is_erased(kept) else None

    def vectors(self, record: MemoryRecord) -> Vectors:
        """Return the vectors of the texts of a record, by path."""
        kept = self.beside.get(f"{INDEXED}/{record.key}") if INDEXED in record.tags else None
        packed = kept.value if kept and not is_erased(kept) else {}
        return {path: list(array("f", b64decode(vector))) for path, vector in packed.items()}

    def expiring(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the keys that expire, and when."""
        for kept in self.beside.search(key_prefix=f"{EXPIRES}/", limit=sys.maxsize):
            if not is_erased(kept):
                yield kept.key.removeprefix(f"{EXPIRES}/"), kept.value

    def _put_beside(self, what: str, key: str, value: dict[str, Any]) -> None:
        self.beside.put(MemoryRecord(scope=self.beside.scope, key=f"{what}/{key}", value=value))

    def _forget_beside(self, key: str, tags: Iterable[str]) -> None:
        old = self.values.get(key)
        for tag in tags:
            if old and tag in old.tags:
                self.beside.forget(f"{tag}/{key}")


class Change(NamedTuple):
    """A change of a namespace."""

    namespace: Namespace
    make: Callable[[Collection], None]


def with_tuple(op: Op) -> Op:
    """Return an operation whose namespace is a tuple; LangGraph's own stores on databases take a list, too."""
    match op:
        case GetOp() | PutOp():
            return op._replace(namespace=tuple(op.namespace))
        case SearchOp():
            return op._replace(namespace_prefix=tuple(op.namespace_prefix))
    return op


class Embedded(Embeddings):
    """Texts whose vectors are known."""

    def __init__(self, known: dict[str, list[float]]) -> None:
        self._known = known

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of texts."""
        return [self._known[text] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a text."""
        return self._known[text]


class RefoldStore(BaseStore):
    """
    Keeps the long-term memory of graphs in a store: `builder.compile(store=RefoldStore(store))`.

    The namespace ("users", "mia") is the scope "langgraph/users/mia" of `store.memory()`; `prefix` replaces
    "langgraph/". Nothing is lost: `history` has all changes, and `at` shows the past. With `index` the texts of values
    are found by their meaning, with `ttl` items expire, as in LangGraph's own stores.
    """

    supports_ttl = True

    def __init__(
        self, store: Store, *, prefix: str = PREFIX, index: IndexConfig | None = None, ttl: TTLConfig | None = None
    ) -> None:
        """
        Keep memories in `store`.

        Raises:
            InvalidInputError: the prefix ends with no slash, or `index` has another `distance_type` than cosine.
        """
        self.store = require_store(store)
        if not require_unicode(prefix, "the prefix").endswith("/"):
            raise InvalidInputError(f"the prefix is {prefix!r}: give one that ends with a slash, such as {PREFIX!r}")
        self._prefix = prefix
        self.ttl_config = ttl
        self.index_config = index
        self.embeddings = ensure_embeddings(index.get("embed")) if index else None
        # The documents of LangGraph name the first, its store on SQLite reads the second.
        given: Any = index or {}
        if (given.get("distance_type") or COSINE) != COSINE:
            raise InvalidInputError(
                f"distance_type is {given['distance_type']!r}: texts are compared by {COSINE!r}, leave it out"
            )
        fields = given.get("fields") or given.get("text_fields") or ["$"]
        self._fields = [fields] if isinstance(fields, str) else list(fields)
        self._memory = store.memory(durability="commit")
        self._moment: When | None = None
        # Threads of a process share the scopes of the memory.
        self._lock = threading.RLock()
        renew_in_child(self)

    def _after_fork(self) -> None:
        self._lock = threading.RLock()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """
        Answer all reads, and then make all changes, all or none; of several puts of a key the last one counts.

        Raises:
            InvalidNamespaceError: a label of a namespace is none.
            InvalidInputError: a key or value cannot be stored.
            ReadOnlyError: it changes the past.
        """
        wanted = list(map(with_tuple, ops))
        texts, queries = self._texts(wanted)
        known: dict[str, list[float]] = {}
        if self.embeddings and texts:
            known = dict(zip(texts, self.embeddings.embed_documents(texts), strict=True))
        asked = {query: self.embeddings.embed_query(query) for query in queries} if self.embeddings else {}
        return self._done(wanted, known, asked)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch` for a running event loop."""
        wanted = list(map(with_tuple, ops))
        texts, queries = self._texts(wanted)
        known: dict[str, list[float]] = {}
        asked: dict[str, list[float]] = {}
        if self.embeddings and texts:
            known = dict(zip(texts, await self.embeddings.aembed_documents(texts), strict=True))
        if self.embeddings and queries:
            found = await asyncio.gather(*map(self.embeddings.aembed_query, queries))
            asked = dict(zip(queries, found, strict=True))
        return await in_thread(self._done, wanted, known, asked)

    def history(self, namespace: Namespace, key: str | None = None) -> list[MemoryChange]:
        """Return the changes of a key, or of a namespace, the oldest first: who changed it when, from what, to what."""
        validate_op_namespace(GetOp(namespace, key or ""))
        return locked(self._lock, lambda: self._collection(namespace).values.history(key))

    def at(self, moment: When) -> RefoldStore:
        """Return the memory as it was at a time or a position of the log; items show up whether they expired or not."""
        past = copy(self)
        past._moment = moment
        renew_in_child(past)
        return past

    @synchronized
    def sweep_ttl(self) -> int:
        """Delete the items that expired, and return their number; the log keeps them. Nothing else deletes them."""
        now, gone = self._now(), set[tuple[Namespace, str]]()
        kept = [(one.namespace, key, expiry) for one in self._collections(()) for key, expiry in one.expiring()]
        over = [(namespace, key) for namespace, key, expiry in kept if expiry["until"] <= now]
        self._change(
            [Change(namespace, partial(Collection.expire, key=key, now=now, gone=gone)) for namespace, key in over]
        )
        return len(gone)

    # Answers

    @synchronized
    def _done(self, ops: Sequence[Op], known: dict[str, list[float]], asked: dict[str, list[float]]) -> list[Result]:
        read: list[tuple[Collection, str, dict[str, Any]]] = []
        results = [self._answer(op, asked, read) for op in ops]
        now = self._now()
        changes: list[Change] = []
        for one, key, expiry in read if self._moment is None else ():
            if expiry["until"] - now < FRESH * expiry["minutes"] * MINUTE:
                changes.append(Change(one.namespace, partial(Collection.prolong, key=key, expiry=expiry, now=now)))
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        changes += [Change(op.namespace, partial(self._put, op=op, known=known, now=now)) for op in puts.values()]
        self._change(changes)
        return results

    def _answer(
        self, op: Op, asked: dict[str, list[float]], read: list[tuple[Collection, str, dict[str, Any]]]
    ) -> Result:
        match op:
            case GetOp():
                one = self._collection(op.namespace)
                record = one.values.get(op.key)
                shown = [(one, record)] if record and self._is_shown(one, record) else []
                result: Result = one.item(record) if shown and record else None
            case SearchOp():
                shown = list(self._shown_records(op.namespace_prefix))
                items = self._items_found(op, shown, asked)
                kept = {(item.namespace, item.key) for item in items}
                shown = [(one, record) for one, record in shown if (one.namespace, record.key) in kept]
                result = items
            case ListNamespacesOp():
                return self._namespaces(op)
            case _:
                return None
        if op.refresh_ttl:
            read += [(one, record.key, expiry) for one, record in shown if (expiry := one.expiry(record))]
        return result

    def _items_found(
        self, op: SearchOp, shown: Sequence[tuple[Collection, MemoryRecord]], asked: dict[str, list[float]]
    ) -> list[SearchItem]:
        """Search with LangGraph's own store in memory, so that filters and scores are the same."""
        index: Any = {**self.index_config, "embed": Embedded(asked)} if self.index_config and asked else None
        reader = InMemoryStore(index=index)
        for wanted in (op.filter or {}).values():
            _check_filter(wanted)
        for one, record in shown:
            if not all(_fits(record.value.get(name), wanted) for name, wanted in (op.filter or {}).items()):
                continue
            reader._data[one.namespace][record.key] = one.item(record)
            if index and op.query and (vectors := one.vectors(record)):
                reader._vectors[one.namespace][record.key] = vectors
        is_asked = index is not None and op.query
        op_of_all = op._replace(filter=None)
        found: Any = reader.batch([op_of_all if is_asked else op_of_all._replace(offset=0, limit=len(shown))])[0]
        if not is_asked:
            found.sort(key=lambda item: item.updated_at, reverse=True)
            found = found[op.offset : op.offset + op.limit]
        items: list[SearchItem] = found
        return items

    def _namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        reader = InMemoryStore()
        beginnings = (one.path for one in op.match_conditions or () if one.match_type == "prefix")
        begun = tuple(takewhile(lambda label: label != "*", next(beginnings, ())))
        for one in self._collections(begun):
            if any(self._is_shown(one, record) for record in one.records()):
                reader._data[one.namespace] = {}
        namespaces: Any = reader.batch([op])[0]
        listed: list[Namespace] = namespaces
        return listed

    def _shown_records(self, prefix: Namespace) -> Iterator[tuple[Collection, MemoryRecord]]:
        for one in self._collections(tuple(prefix)):
            for record in one.records():
                if self._is_shown(one, record):
                    yield one, record

    def _is_shown(self, one: Collection, record: MemoryRecord) -> bool:
        if is_erased(record):
            return False
        if self._moment is not None or not (self.ttl_config or {}).get("omit_expired"):
            return True
        expiry = one.expiry(record)
        return expiry is None or expiry["until"] > self._now()

    # Changes

    def _put(self, one: Collection, op: PutOp, known: dict[str, list[float]], now: int) -> None:
        if op.value is None:
            one.forget(op.key)
            return
        if not require_unicode(op.key, "the key"):
            raise InvalidInputError(f"the key in {op.namespace} is empty: give it a name")
        # Later reads of the namespace calculate with it.
        if not (op.ttl is None or (isinstance(op.ttl, int | float) and abs(op.ttl) <= MINUTES_MAX)):
            raise InvalidInputError(f"ttl is {op.ttl!r}: give minutes, {MINUTES_MAX:,} at most, or None for ever")
        vectors = {path: known[text] for path, text in self._texts_of(op)} if known else {}
        one.put(op.key, dict(op.value), op.ttl, now, vectors)

    def _change(self, changes: Sequence[Change]) -> None:
        """Make changes in one transaction, and do so again as long as others write in between."""
        if changes and self._moment is not None:
            raise ReadOnlyError("this memory is a view of the past and cannot be changed: change the one it shows")
        actor = current_meta(default_actor=FRAMEWORK, idempotency_key=None).actor

        def attempt() -> None:
            opened = {change.namespace: self._collection(change.namespace) for change in changes}
            with acting(actor=actor), self.store.transaction():
                for change in changes:
                    change.make(opened[change.namespace])

        if changes:
            retried(attempt)

    def _texts(self, ops: Sequence[Op]) -> tuple[list[str], list[str]]:
        """Return the texts to embed, and the queries, each once."""
        for op in ops:
            if not isinstance(op, GetOp | SearchOp | PutOp | ListNamespacesOp):
                raise InvalidInputError(f"{op!r} is no operation of a store: give a GetOp, SearchOp, PutOp or so")
            validate_op_namespace(op)
        if not self.embeddings:
            return [], []
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        texts = dict.fromkeys(text for op in puts.values() for _, text in self._texts_of(op))
        queries = dict.fromkeys(op.query for op in ops if isinstance(op, SearchOp) and op.query)
        return list(texts), list(queries)

    def _texts_of(self, op: PutOp) -> Iterator[tuple[str, str]]:
        """Yield the paths in a value that are searched by their meaning, with their texts."""
        if op.value is None or op.index is False:
            return
        for path in self._fields if op.index is None else op.index:
            texts = get_text_at_path(op.value, path if path == "$" else tokenize_path(path))
            for number, text in enumerate(texts):
                yield (path if len(texts) == 1 else f"{path}.{number}"), text

    # Namespaces

    def _collection(self, namespace: Namespace) -> Collection:
        path = _path_of(namespace)
        return Collection(namespace, self._scope(self._prefix + path), self._scope(self._prefix + BESIDE + path))

    def _scope(self, name: str) -> MemoryScope:
        scope = self._memory.scope(name)
        if not scope.is_ahead:
            try:
                scope.refresh()
            except LogWentBackError:
                # An older copy of the database was put back: it is read as that has it.
                scope.cleanup()
        return scope if self._moment is None else scope.at(self._moment)

    def _collections(self, prefix: Namespace) -> Iterator[Collection]:
        """Yield the namespaces that begin with these labels, those that have had items once."""
        root = f"memory:{encoded_id(self._prefix, 'the prefix')}"
        try:
            begun = f"memory:{encoded_id(self._prefix + _path_of(prefix), 'the namespace')}"
        except InvalidInputError:
            # None can have such a name.
            return
        for stream in self.store.log.streams(begun):
            path = decoded_id(stream.removeprefix(root))
            namespace = tuple(label.replace("%2F", "/").replace("%25", "%") for label in path.split("/"))
            if namespace[: len(prefix)] == prefix and not path.startswith(BESIDE):
                # A version or a name of the past may not be there in each of them.
                with suppress(NotFoundError):
                    yield self._collection(namespace)

    def _now(self) -> int:
        return int(self.store._system.now() * 1_000_000)


def _fits(value: Any, wanted: Any) -> bool:
    """Return whether a value fits a filter, by LangGraph's comparison; one that cannot be compared does not."""
    try:
        return bool(_compare_values(value, wanted))
    except (TypeError, ValueError, OverflowError):
        return False


def _check_filter(wanted: Any) -> None:
    """Raise the error of LangGraph's comparison for a filter that is wrong whatever the items are."""
    if isinstance(wanted, dict):
        has_operators = any(name.startswith("$") for name in wanted)
        for name, value in wanted.items():
            if has_operators:
                _apply_operator(value, name, value)
            else:
                _check_filter(value)
    elif isinstance(wanted, list | tuple):
        for value in wanted:
            _check_filter(value)


def _path_of(namespace: Namespace) -> str:
    return "/".join(label.replace("%", "%25").replace("/", "%2F") for label in namespace)

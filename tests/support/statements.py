"""The statements that a store sends to its database, call by call: their texts, and how often each is sent."""

import asyncio
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import pytest

import refold
from refold.infrastructure.log.background import BackgroundWork
from refold.infrastructure.log.postgres.wire import Call, Wire

from .written_down import UNTIL

LARGE = "A large text. " * 900
# Ids, digests and compressed bytes, ids and digests as text, and times: they differ from run to run.
BYTES = re.compile(r"x'(?:[0-9a-f]{2})*'", re.IGNORECASE)
HEX = re.compile(r"\b[0-9a-f]{32,64}\b")
TIME = re.compile(r"\b1\d{9,18}(?:\.\d+)?\b")
VALUE = re.compile(r"'[^']*'|\d+")
LEASE = re.compile(r"\b\d+\.[0-9a-f]+\.\d+\b")
CHARACTERS_MAX = 180
# Begins the names of calls that are made while another handle writes.
BESIDE = "beside another: "
STATEMENTS_MAX = 30
SEALED_EVENTS = 720


class Heard:
    """The statements that were sent, by the name of their call."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[str]]] = []

    def note(self, statement: str) -> None:
        """Take a statement."""
        if self.calls:
            self.calls[-1][1].append(statement)

    def told(self) -> str:
        """Return all of it as text; of statements that differ in values alone, the first and the last."""
        return "\n".join(f"{name}\n" + "".join(_counted(sent)) for name, sent in self.calls)


def _counted(statements: Sequence[str]) -> Iterator[str]:
    alike: dict[str, list[str]] = {}
    # For a long call, all statements that are alike are written together; for a short one, only those that follow each
    # other.
    step = 0 if len(statements) > STATEMENTS_MAX else 1
    number = 0
    for template, group in groupby(statements, lambda text: VALUE.sub("?", text)):
        number += step
        alike.setdefault(f"{number} {template}", []).extend(group)
    for first, *others in alike.values():
        yield f"  {first}\n"
        if others:
            yield f"  {others[-1]}  [the last of {len(others) + 1} like this]\n"


def shortened(text: str) -> str:
    """Return a statement on one line, without what differs from run to run."""
    text = _masked(" ".join(text.split()))
    return text if len(text) <= CHARACTERS_MAX else f"{text[:CHARACTERS_MAX]}... {len(text.split())} words"


def _masked(text: str) -> str:
    for pattern, name in ((BYTES, "BYTES"), (HEX, "HEX"), (LEASE, "LEASE"), (TIME, "TIME")):
        text = pattern.sub(name, text)
    return text


@contextmanager
def heard_on_sqlite(patch: pytest.MonkeyPatch) -> Iterator[Heard]:
    """Record the statements to SQLite, on every connection."""
    heard, connect = Heard(), sqlite3.connect

    def note(statement: str) -> None:
        # SQLite itself sends the others, for its index of words.
        if not statement.startswith("--"):
            heard.note(shortened(statement))

    def listened(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **options)
        connection.set_trace_callback(note)
        heard.note("-- a connection")
        return connection

    patch.setattr(sqlite3, "connect", listened)
    yield heard


@contextmanager
def heard_on_postgres(patch: pytest.MonkeyPatch) -> Iterator[Heard]:
    """Record the statements to PostgreSQL, and the end of each round trip."""
    heard, hand_over, apart, arrive = Heard(), Wire._hand_over, Wire.run_apart, Wire._arrive

    def note(call: Call) -> None:
        heard.note(f"{shortened(call.sql)} <- {', '.join(map(_value, call.values))}".removesuffix(" <- "))

    def handed_over(wire: Wire, calls: Sequence[Call]) -> None:
        for call in calls:
            note(call)
        hand_over(wire, calls)

    def run_apart(wire: Wire, call: Call) -> Any:
        note(call)
        return apart(wire, call)

    def arrived(wire: Wire) -> Any:
        # Beside another writer, the machine decides whether a refusal arrives before the rows go out.
        if not heard.calls or not heard.calls[-1][0].startswith(BESIDE):
            heard.note("-- a trip")
        return arrive(wire)

    patch.setattr(Wire, "_hand_over", handed_over)
    patch.setattr(Wire, "run_apart", run_apart)
    patch.setattr(Wire, "_arrive", arrived)
    yield heard


def _value(value: bytes | None) -> str:
    if value is None:
        return "NULL"
    if len(value) in (2, 4, 8) and value[0] in (0, 255):
        return _masked(str(int.from_bytes(value, "big", signed=True)))
    if value.isascii() and len(value) <= 40 and value.decode().isprintable():
        # A number as a text is the id of a transaction.
        return "BYTES" if value.isdigit() else _masked(repr(value.decode()))
    return "BYTES"


Calls = Iterator[tuple[str, Callable[[], Any]]]


def tell(place: str, heard: Heard) -> None:
    """Make the calls of the whole life of a store, and note the statements of each call under its name."""
    tell_calls(_life(place), heard)


def tell_sealed(place: str, heard: Heard, seal: Callable[[refold.Store], object]) -> None:
    """The same for a store whose events are packed into blocks."""
    with refold.open(place) as store:
        tell_calls(_seal(store, seal), heard)
    with refold.open(place) as store:
        tell_calls(_read_sealed(store), heard)


def tell_calls(calls: Calls, heard: Heard) -> None:
    """Make calls, and note the statements of each call under its name."""
    for name, work in calls:
        heard.calls.append((name, []))
        work()


def _life(place: str) -> Calls:
    opened: list[refold.Store] = []
    yield "open a new store", lambda: opened.append(refold.open(place))
    [store] = opened
    for part in (_write, _write_at_length, _read, _ask, _keep):
        yield from part(store)
    yield from _share(store, place)
    yield "close", store.close
    yield "open it again", lambda: opened.append(refold.open(place))
    store = opened.pop()
    chat = store.chat("a", create=False)
    yield "a first message", lambda: chat.add_message("user", "Cold.")
    yield "a second one", lambda: chat.add_message("user", "Warm.")
    yield "a large text that is there", lambda: store.chat("b", create=False).add_message("user", LARGE)
    yield "verify", store.verify
    yield "close it again", store.close
    yield "open it for reading", lambda: opened.append(refold.open(place, read_only=True))
    store = opened.pop()
    yield "read a chat there", lambda: list(store.chat("a", create=False).items)
    yield "contexts there", store.contexts
    yield "close it at last", store.close


def _write(store: refold.Store) -> Calls:
    chat = store.chat("a", user="mia")
    yield "the first message", lambda: chat.add_message("user", "Hello.")
    yield "a message", lambda: chat.add_message("assistant", "Hello to you.")
    yield "three messages", lambda: chat.add_items([_said(f"one of three: {number}") for number in range(3)])
    yield "a large text", lambda: chat.add_message("user", LARGE)
    yield "the same text", lambda: chat.add_message("assistant", LARGE)
    yield "two large texts", lambda: chat.add_items([_said(LARGE), _said(LARGE + "b")])
    yield "under a key", lambda: chat.add_message("user", "once", idempotency_key="k")
    yield "under the same key", lambda: chat.add_message("user", "once", idempotency_key="k")
    yield "another chat", lambda: store.chat("b").add_message("user", "Hello.")
    yield "a message to the first", lambda: chat.add_message("user", "Hello again.")

    def together() -> None:
        with store.transaction():
            chat.add_message("user", "in both")
            store.chat("b").add_message("user", "in both")

    yield "a transaction over two chats", together
    yield "a fork", lambda: chat.fork("c")
    yield "a message in the fork", lambda: store.chat("c").add_message("user", "only here")
    yield "a name", lambda: chat.name_version("named")
    yield "evict", lambda: chat.evict([chat.items[1].id])


def _write_at_length(store: refold.Store) -> Calls:
    queue = store.queue("q", limit=2)
    yield "three appends to a queue", lambda: asyncio.run(queue.append(*map(refold.PoolItem, range(3))))
    record = refold.MemoryRecord(scope="user:mia", key="tea", value="green")
    yield "remember", lambda: asyncio.run(store.memory().put(record))

    def streamed() -> None:
        with store.chat("a").stream() as out:
            for word in ("Piece ", "by ", "piece."):
                out.write(word)

    yield "a streamed message", streamed

    def queued() -> None:
        chat = store.chat("b", durability="enqueue")
        for number in range(2):
            chat.add_message("user", f"queued {number}")
            store.flush()

    yield "two queued messages, each flushed", queued
    yield "twenty messages", lambda: store.chat("long").add_items([_said(str(number)) for number in range(20)])
    yield "a snapshot", lambda: store.log.keep_snapshot("chat:long", lambda: b"state")


def _read(store: refold.Store) -> Calls:
    chat = store.chat("a", create=False)
    yield "a chat that is open", lambda: list(chat.items)
    yield "a chat as it was", lambda: list(chat.at(4).items)
    yield "a chat at a name", lambda: list(chat.at("named").items)
    yield "its refresh", chat.refresh
    yield "a fork", lambda: list(store.chat("c", create=False).items)
    yield "the end", store.now
    yield "the end of a stream", lambda: store.log.head("chat:a")
    yield "streams", lambda: store.log.streams("chat:", limit=2)
    yield "the first events", lambda: store.log.read_all(after=refold.Moment(()), limit=5)
    yield "all events", lambda: store.log.read_all(after=refold.Moment(()), limit=500)
    yield "a snapshot", lambda: store.log.snapshot("chat:long")


def _ask(store: refold.Store) -> Calls:
    yield "the first contexts", store.contexts
    yield "contexts", store.contexts
    yield "contexts after a message", lambda: store.chat("a").add_message("user", "More.") and store.contexts()
    yield "a page of contexts", lambda: store.find_contexts(kind="chat", limit=2)
    yield "search", lambda: store.search("hello")
    yield "search for nothing", lambda: store.search("xyzzy", kind="chat", limit=1)
    yield "usage", lambda: store.usage(by=["model"])
    yield "lineage", store.lineage
    yield "validity", lambda: store.validity("chat:a")
    yield "audit", lambda: store.audit("queue:q")
    yield "pending approvals", store.pending_approvals


def _keep(store: refold.Store) -> Calls:
    yield "name a moment", lambda: store.name_moment("now")
    yield "contexts at a moment", lambda: store.at("now").contexts()
    yield "projections", store.projections
    yield "check rows", lambda: store.check("usage")
    yield "rebuild", lambda: store.rebuild("usage")


def _share(store: refold.Store, place: str) -> Calls:
    with refold.open(place) as other:
        ours, theirs = store.chat("a", create=False), other.chat("a", create=False)
        yield f"{BESIDE}another handle writes", lambda: theirs.add_message("user", "Theirs.")
        yield f"{BESIDE}this one writes", lambda: ours.add_message("user", "Ours.")
        yield f"{BESIDE}this one writes again", lambda: ours.add_message("user", "Ours again.")
        yield f"{BESIDE}the other one writes to another chat", lambda: other.chat("b").add_message("user", "Theirs.")
        yield f"{BESIDE}this one writes once more", lambda: ours.add_message("user", "Ours once more.")
        yield f"{BESIDE}the other one refreshes", theirs.refresh


def _seal(store: refold.Store, seal: Callable[[refold.Store], object]) -> Calls:
    chat, other = store.chat("a"), store.chat("b")
    for part in range(SEALED_EVENTS // 80):
        chat.add_items([_said(f"message {part} {number}") for number in range(60)])
        other.add_items([_said(f"another {part} {number}") for number in range(20)])
    chat.add_message("user", LARGE, idempotency_key="k")
    yield "seal", lambda: seal(store)
    yield "seal again", lambda: seal(store)
    yield "a message", lambda: chat.add_message("user", "after the blocks")
    yield "the chat that is open", lambda: list(chat.items)
    yield "a chat as it was", lambda: list(chat.at(70).items)


def _read_sealed(store: refold.Store) -> Calls:
    yield "a chat in blocks", lambda: list(store.chat("a", create=False).items)
    yield "a chat as it was at a time", lambda: list(store.chat("b", create=False).at(9).items)
    yield "its last events", lambda: store.chat("b", create=False).recorded_events(after=99)
    yield "the same key again", lambda: store.chat("a").add_message("user", LARGE, idempotency_key="k")
    yield "the first events", lambda: store.log.read_all(after=refold.Moment(()), limit=7)
    yield "contexts", store.contexts
    yield "verify", store.verify
    yield "a fork of what is in blocks", lambda: store.chat("a").at(65).fork("c")
    yield "an eviction in it", lambda: store.chat("c").evict([store.chat("c").items[3].id])


def _said(text: str) -> refold.ChatMessage:
    return refold.ChatMessage(role=refold.ChatRole.USER, content=text, created_at=UNTIL)


def without_background(patch: pytest.MonkeyPatch) -> None:
    """Keep background threads from sending statements."""
    patch.setattr(BackgroundWork, "wake", lambda _: None)

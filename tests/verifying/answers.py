"""Everything that can be asked of a store or done to it, by name: for tests of what comes of a database gone wrong."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from uuid import uuid4

import refold
from refold.domain.ids import split_stream_id
from refold.domain.positions import BEGINNING
from refold.infrastructure.exchange import export_events
from refold.projections.catalogue import CATALOGUE
from refold.projections.search import SEARCH
from tests.support.every_kind import SCOPE


def _read_all(store: refold.Store) -> None:
    moment = BEGINNING
    while (page := store.log.read_all(after=moment, limit=50)).events:
        moment = page.moment


def _heads(store: refold.Store) -> None:
    for stream in store.log.streams():
        split_stream_id(stream)
        for moment in (store.now(), 1 << 60):
            store.log.version_at(stream, moment)
        store.log.read(stream)


def _chats(store: refold.Store) -> None:
    for name in ("a", "side", "deep", "told"):
        chat = store.chat(name, create=False)
        for seen in (chat, chat.at(2)):
            assert seen.to_openai_messages() is not None


def _containers(store: refold.Store) -> None:
    for one in (store.queue("q2", create=False), store.pool("p2", create=False)):
        assert one.to_dict() is not None
    store.window("w", create=False).build()
    asyncio.run(store.memory().search(scope=SCOPE))


def _audit_nodes(store: refold.Store) -> None:
    for row in store.run_nodes("mia", "s1", node_type="Table"):
        store.audit_node(f"Table({row.label})", user_id="mia", session_id="s1")


def _acknowledge(store: refold.Store) -> None:
    subscription = store.subscribe(name="reader")
    # Behind the last event it would wait for more.
    if not subscription.moment.includes(store.now()):
        next(subscription)
        subscription.ack()


def _export(store: refold.Store) -> None:
    with tempfile.TemporaryDirectory() as folder:
        export_events(store.log, Path(folder, "all.jsonl"))


def _append(store: refold.Store) -> None:
    store.chat("a", create=False).add_message("user", "more " * 2_000)


def _append_again(store: refold.Store) -> None:
    store.chat("a", create=False).add_message("user", "question 0", idempotency_key="turn 0")


def _append_both(store: refold.Store) -> None:
    with store.transaction():
        store.chat("told").add_message("user", "one")
        store.chat("side").add_message("user", "other")


def _work(store: refold.Store) -> None:
    with store.start_projections([CATALOGUE.name]) as worker:
        worker.stop(0.05)


ANSWERS: dict[str, Callable[[refold.Store], object]] = {
    "heads": _heads,
    "read_all": _read_all,
    "chats": _chats,
    "containers": _containers,
    "contexts": lambda store: [row.id.upper() for row in store.contexts()],
    "find_contexts": lambda store: store.find_contexts(kind="chat", limit=2),
    "rollup": lambda store: sum(row.events for row in store.rollup()),
    "usage": lambda store: store.usage(since="2020-01-01"),
    "search": lambda store: store.search("question"),
    "search in": lambda store: store.search("answer", context="side"),
    "validity": lambda store: store.validity("side"),
    "entries": lambda store: store.entries("q2"),
    "lineage": lambda store: store.lineage("deep"),
    "audit": lambda store: store.audit("chat:a"),
    "audit nodes": _audit_nodes,
    "graph": lambda store: store.run_graph("mia", "s1"),
    "why_gone": lambda store: store.why_gone("side", "chat:a@5"),
    "moments": lambda store: store.moments(),
    "at": lambda store: store.at("2100-01-01T00:00:00Z").contexts(),
    "diff": lambda store: store.diff(BEGINNING, store.now()),
    "statuses": lambda store: store.projections(),
    "acknowledge": _acknowledge,
    "export": _export,
    "append": _append,
    "append again": _append_again,
    "append both": _append_both,
    "open new": lambda store: store.chat(f"new-{uuid4().hex}").add_message("user", "hello"),
    "work": _work,
    "verify": lambda store: store.verify(),
    "check": lambda store: store.check(CATALOGUE.name),
    "rebuild": lambda store: [store.rebuild(name) for name in (CATALOGUE.name, SEARCH.name)],
}


def wrong_answers(place: str, without: Collection[str] = ()) -> Iterator[tuple[str, Exception]]:
    """Ask a store everything but `without`; yield what fails, by the name of the answer."""
    try:
        with refold.open(place) as store:
            for name, answer in ANSWERS.items():
                if name in without:
                    continue
                try:
                    answer(store)
                except Exception as error:
                    yield name, error
    except Exception as error:
        yield "open", error

"""The graph of forks and merges: an edge for each, on every kind of store."""

from __future__ import annotations

import asyncio

import pytest

import refold
from refold.domain.errors import InvalidInputError, NotFoundError
from refold.domain.pool.items import ContextItem
from refold.projections.lineage import LineageRow


def edges(rows: list[LineageRow]) -> list[tuple[str, str, str, str]]:
    """Return of each edge what happened, how, from where and to where."""
    return [
        (row.kind, row.how, f"{row.source}@{row.source_version}", f"{row.target}@{row.target_version}") for row in rows
    ]


def test_what_an_edge_tells(store: refold.Store) -> None:
    """From where to where, how, when, who, and because of what."""
    chat = store.chat("a")
    chat.add_message("user", "hello")
    cause = chat.recorded_events()[-1]
    with refold.acting(actor="mia", correlation_id="t1", because=cause):
        child = chat.fork()

    [edge] = store.lineage()

    recorded = child.recorded_events()[0]
    assert edge == LineageRow(
        key=f"chat:{child.id}@0000000001/000000",
        kind="forked",
        how="full",
        source="chat:a",
        source_version=2,
        target=f"chat:{child.id}",
        target_version=1,
        lane=recorded.position.slice,
        number=recorded.position.number,
        recorded_at=recorded.recorded_at,
        actor="mia",
        cause="chat:a@2",
        correlation_id="t1",
    )


def test_chats(store: refold.Store) -> None:
    """Forks of every sort, and merges, oldest first; those of one context alone."""
    chat = store.chat("a")
    chat.add_message("user", "hello")
    part = chat.fork_filtered(recent_turns=1)
    part.add_message("assistant", "done")
    asyncio.run(chat.merge_result(part))
    asyncio.run(store.chat("b").merge(chat))

    into_a = [
        ("forked", "filtered", "chat:a@2", f"chat:{part.id}@1"),
        ("merged", "result", f"chat:{part.id}@2", "chat:a@3"),
    ]
    assert edges(store.lineage()) == [*into_a, ("merged", "full", "chat:a@3", "chat:b@2")]
    assert edges(store.lineage(part.id)) == into_a
    assert edges(store.lineage("chat:b")) == [("merged", "full", "chat:a@3", "chat:b@2")]


def test_what_was_adopted(store: refold.Store) -> None:
    """A detached context that is merged comes along as a context of its own; what was forked from it has an edge."""
    detached = refold.ChatContext()
    detached.add_message("user", "hello")
    chat = store.chat("a")
    asyncio.run(chat.merge(detached))
    child = refold.ChatContext().fork()
    store.adopt(child, "b")

    [merged, forked] = store.lineage()
    assert (merged.kind, merged.target, merged.source_version) == ("merged", "chat:a", detached.version)
    assert edges([forked]) == [("forked", "full", "chat:b~1@1", "chat:b@1")]


async def test_pools_and_queues(store: refold.Store) -> None:
    """Their branches and merges."""
    pool = store.pool("docs")
    branch = pool.branch()
    await branch.add(ContextItem("x", "an x", "x"))
    await pool.merge(branch)
    queue = store.queue("notes").branch()

    assert edges(await refold.to_async(store).lineage()) == [
        ("branched", "", "pool:docs@1", f"pool:{branch.id}@1"),
        ("merged", "", f"pool:{branch.id}@2", "pool:docs@2"),
        ("branched", "", "queue:notes@1", f"queue:{queue.id}@1"),
    ]


def test_rounds(store: refold.Store) -> None:
    """A run that goes back over earlier rounds has an edge from each of them."""
    for number in range(3):
        store.run("mia", "s1", number).register_query("?")

    assert edges(store.lineage("run:mia/s1/2/0")) == [
        ("restored", "", "run:mia/s1/0/0@2", "run:mia/s1/2/0@2"),
        ("restored", "", "run:mia/s1/1/0@3", "run:mia/s1/2/0@2"),
    ]


def test_which_context(store: refold.Store) -> None:
    """A name that nobody has, or several have, is told."""
    store.chat("a")
    store.queue("a")

    with pytest.raises(NotFoundError, match="there is no context 'nobody'"):
        store.lineage("nobody")
    with pytest.raises(InvalidInputError, match="'a' can mean chat:a or queue:a"):
        store.lineage("a")
    assert store.lineage("queue:a") == []

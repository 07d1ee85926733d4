"""The audit of contexts, items, nodes and configuration, on every kind of store."""

from __future__ import annotations

from typing import Any

import pytest

import refold
from refold.domain.chat.events import MessageAdded
from refold.domain.chat.state.sequence import Items
from refold.domain.errors import InvalidInputError, NotFoundError
from refold.domain.log.envelope import Meta
from refold.domain.log.ports import LiveLog, NewEvents
from refold.domain.pool.items import ContextItem
from refold.domain.window.items import ContextItem as WindowItem
from refold.infrastructure.queries import audit
from refold.infrastructure.queries.audit import Transition
from refold.infrastructure.queries.origins import CAUSES_MAX


def told(transitions: list[Transition]) -> list[tuple[Any, ...]]:
    """Return of each change the version, what was changed, and from what to what."""
    return [(int(one.reference.rpartition("@")[2]), one.item, one.attribute, one.old, one.new) for one in transitions]


def test_what_a_transition_tells(store: refold.Store) -> None:
    """Position, time, who, old, new, why, and because of what."""
    chat = store.chat("support", agent="triage")
    chat.add_message("user", "Where is it?", "m1")
    with refold.acting(actor="clerk", correlation_id="t1", because=chat.recorded_events()[-1]):
        chat.evict("m1", reason="old")

    gone = store.audit("support", item="m1")[-1]

    recorded = chat.recorded_events()[-1]
    assert gone.old["content"] == ["Where is it?"]
    assert gone == Transition(
        position=recorded.position,
        reference="chat:support@3",
        recorded_at=recorded.recorded_at,
        actor="clerk",
        correlation_id="t1",
        type="chat.items_evicted.v1",
        item="m1",
        birth="chat:support@2",
        attribute=None,
        old=gone.old,
        new=None,
        reason="old",
        causes=("chat:support@2",),
    )


def test_instructions_and_tools(store: refold.Store) -> None:
    """Whatever put others in force: a message, an update, an eviction, a restoration."""
    chat = store.chat("a")
    chat.add_message("system", "Be brief.", "m1")
    update = chat.add_config_update(instructions="Be kind.", tools=["look"])
    chat.evict(update.id)
    chat.restore(update.id)
    chat.add_message("system", "Be quick.", replace=True)
    chat.clear()
    child = chat.at(5).fork()

    assert told(store.audit("a", "instructions")) == [
        (2, None, "instructions", None, "Be brief."),
        (3, None, "instructions", "Be brief.", "Be kind."),
        (4, None, "instructions", "Be kind.", "Be brief."),
        (5, None, "instructions", "Be brief.", "Be kind."),
        (7, None, "instructions", "Be kind.", None),
    ]
    assert told(store.audit("a", "tools")) == [
        (3, None, "tools", None, ["look"]), (4, None, "tools", ["look"], None), (5, None, "tools", None, ["look"]),
        (7, None, "tools", ["look"], None),
    ]  # fmt: skip
    assert told(store.audit(child.id, "tools")) == [(1, None, "tools", None, ["look"])]


def test_settings_and_definitions_of_tools(store: refold.Store) -> None:
    """Each setting is an attribute by its name."""
    chat = store.chat("a")
    chat.add_config_update(tools=[{"name": "look"}], model="m1", settings={"temperature": 0})
    chat.add_config_update(settings={"temperature": 1, "model": None})

    assert told(store.audit("a", "model")) == [(2, None, "model", None, "m1"), (3, None, "model", "m1", None)]
    assert told(store.audit("a", "temperature")) == [
        (2, None, "temperature", None, 0), (3, None, "temperature", 0, 1),
    ]  # fmt: skip
    assert told(store.audit("a", "tool_schemas")) == [(2, None, "tool_schemas", None, [{"name": "look"}])]


def test_all_of_a_context(store: refold.Store) -> None:
    """Its items, its settings, its names, in the order of versions."""
    chat = store.chat("a")
    chat.add_message("system", "Be brief.", "m1")
    chat.pin("m1")
    chat.name_version("good")

    assert [(one.reference, one.item, one.attribute) for one in store.audit("chat:a")] == [
        ("chat:a@1", None, "opened"), ("chat:a@2", "m1", None), ("chat:a@2", None, "instructions"),
        ("chat:a@3", "m1", "pinned"), ("chat:a@4", None, "name good"),
    ]  # fmt: skip


async def test_pools_and_their_settings(store: refold.Store) -> None:
    """What took whose place, and what the limit was."""
    pool = store.pool("docs")
    await pool.add(ContextItem("one", "first", "readme"))
    await pool.add(ContextItem("two", "second", "readme"))
    await pool.change_settings(limit=2)
    await pool.remove("readme")

    assert [(one.type, one.old and one.old["content"], one.new and one.new["content"]) for one in
            store.audit("docs", item="readme")] == [
        ("pool.added.v1", None, "one"), ("pool.replaced.v1", "one", "two"), ("pool.removed.v1", "two", None),
    ]  # fmt: skip
    assert told(await refold.to_async(store).audit("docs", "limit")) == [(4, None, "limit", None, 2)]


async def test_items_without_ids(store: refold.Store) -> None:
    """Those of a queue are named by their births."""
    queue = store.queue("notes", limit=1)
    await queue.append(ContextItem("one"))
    await queue.append(ContextItem("two"))

    for name in ("@2", "queue:notes@2"):
        assert [(one.type, one.reason) for one in store.audit("notes", item=name)] == [
            ("queue.appended.v1", None), ("queue.evicted.v1", "limit"),
        ]  # fmt: skip


def test_windows_memories_and_runs(store: refold.Store) -> None:
    """Each kind tells what became of what it holds."""
    window = store.window("w", max_tokens=10)
    window.add(WindowItem("k", "short", "app"))
    window.max_tokens = 20
    run = store.run("mia", "s1")
    run.register_query("How many?")
    run.close()

    assert [(one.item, one.attribute) for one in store.audit("w")] == [
        (None, "opened"), ("k", None), (None, "max_tokens"),
    ]  # fmt: skip
    kinds = [one.type for one in store.audit(run.stream_id)]
    assert kinds[:2] == ["run.opened.v1", "run.query_registered.v1"]
    assert kinds[-1] == "run.closed.v1"


def test_nodes(store: refold.Store) -> None:
    """What `audit_node` tells, with the causes; user and session say which node is meant."""
    for session in ("s1", "s2"):
        run = store.run("mia", session)
        run.register_node("Table", "", [run.register_query("?")], "has", "orders", path=f"/{session}.csv")
        with refold.acting(because=run.recorded_events()[1]):
            run.modify_node("Table(orders)", {"path": "/p.csv"})
            run.remove_node("Table(orders)", reason="wrong")

    with pytest.raises(InvalidInputError, match="in 2 sessions"):
        store.audit("Table(orders)")
    path = store.audit("Table(orders)", "path", session_id="s2")

    assert told(path) == [
        (3, "Table(orders)", "path", None, "/s2.csv"), (4, "Table(orders)", "path", "/s2.csv", "/p.csv"),
        (5, "Table(orders)", "path", "/p.csv", None),
    ]  # fmt: skip
    assert [(one.reason, one.causes) for one in path[1:]] == [
        (None, ("run:mia/s2/0/0@2",)), ("wrong", ("run:mia/s2/0/0@2",)),
    ]  # fmt: skip


def test_the_chain_of_causes(store: refold.Store) -> None:
    """Back over contexts to the first one; what is no event of the log ends it."""
    chats = [store.chat(f"c{number}") for number in range(4)]
    because: Any = "chat:elsewhere@7"
    for chat in chats:
        with refold.acting(because=because):
            chat.add_message("user", "x")
        because = chat.recorded_events()[-1]

    assert store.audit("c3")[-1].causes == ("chat:c2@2", "chat:c1@2", "chat:c0@2", "chat:elsewhere@7")


@pytest.mark.parametrize("cause", ["chat:a@2", "chat:nobody@1", "chat:a@0", "@1", "chat:a@x", "a@2", "chat:a\0b@1"])
def test_causes_that_lead_nowhere(store: refold.Store, cause: str) -> None:
    """An event that names itself, or nothing that there is, has that one cause, as in a log of another program."""
    chat = store.chat("a")
    event = MessageAdded(id="m", created_at=1.0, role="user", content=("x",))
    meta = Meta(causation=cause)
    store.log.append([NewEvents(stream="chat:a", expected_version=chat.version, events=(event,), metas=(meta,))])

    [given] = store.audit("a")[-1].causes
    assert given.replace("\u2400", "\0") == cause


def test_causes_that_lie_together_are_read_together(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """One query for neighbours: an audit of a long context would ask for each of its causes else."""
    cause, chat = store.chat("cause"), store.chat("a")
    for number in range(5):
        cause.add_message("user", f"{number}")
        with refold.acting(because=cause.recorded_events()[-1]):
            chat.add_message("user", "x")
    read, streams = store.log.read, list[str]()

    def reading(stream: str, **span: Any) -> list[refold.RecordedEvent]:
        streams.append(stream)
        return read(stream, **span)

    monkeypatch.setattr(store.log, "read", reading)
    assert [one.causes for one in store.audit("a")[-5:]] == [(f"chat:cause@{version}",) for version in range(2, 7)]
    assert streams.count("chat:cause") == 1


def test_the_items_of_a_chat_are_read_once(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the events that are read anyway, unless an event names an item of another chat."""
    chat, folded = store.chat("a"), list[int]()
    for number in range(5):
        chat.add_message("user", f"{number}")
    chat.evict([chat.items[1].id])
    items = audit.chat_items

    def counted(log: LiveLog, stream: str, version: int) -> Items:
        folded.append(version)
        return items(log, stream, version)

    monkeypatch.setattr(audit, "chat_items", counted)
    assert [one.type for one in store.audit("a", item="@3")] == ["chat.message_added.v1", "chat.items_evicted.v1"]
    assert folded == [1], "what a fork began with"


def test_a_long_chain_is_cut(store: refold.Store) -> None:
    """It has a limit; who wants more goes on from its last event."""
    chat = store.chat("a")
    for number in range(CAUSES_MAX + 10):
        with refold.acting(because=f"chat:a@{number + 1}"):
            chat.add_message("user", "x")

    causes = store.audit("a")[-1].causes
    assert causes == tuple(f"chat:a@{version}" for version in range(CAUSES_MAX + 10, 10, -1))


def test_an_item_that_a_fork_began_with(store: refold.Store) -> None:
    """Nothing happened to it since; it is not said that the fork never had it."""
    chat = store.chat("a")
    chat.add_message("user", "x", "m1")
    child, pool = chat.fork("b"), store.pool("a").branch("b")

    for forked in (child, pool):
        before = f"since it was forked: `refold audit {forked.stream_kind}:a` lists those before"
        with pytest.raises(NotFoundError, match=f"{forked.stream_id} has no change of an item 'm1' {before}"):
            store.audit(forked.stream_id, item="m1")
    child.evict("m1")
    assert [one.item for one in store.audit("chat:b", item="m1")] == ["m1"]


def test_what_was_never_there(store: refold.Store) -> None:
    """It is said what is missing."""
    store.chat("a").add_message("user", "x", "m1")

    with pytest.raises(NotFoundError, match="there is no context 'nobody'"):
        store.audit("nobody")
    with pytest.raises(NotFoundError, match="chat:a never had an item 'm2'"):
        store.audit("a", item="m2")
    with pytest.raises(NotFoundError, match="chat:a never had an attribute 'tools' that was changed"):
        store.audit("a", "tools")
    with pytest.raises(InvalidInputError, match="Table\\(x\\) is a node, and items are in contexts"):
        store.audit("Table(x)", item="m1")
    with pytest.raises(InvalidInputError, match="a is a context"):
        store.audit("a", session_id="s1")

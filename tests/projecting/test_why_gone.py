"""Why is this item not in the context? On every kind of store, of every kind of context."""

from __future__ import annotations

import inspect
import sys

import pytest
from hypothesis.stateful import rule

import refold
from refold.domain.chat.items import ChatMessage
from refold.domain.chat.roles import ChatRole
from refold.domain.errors import InvalidInputError, NotFoundError
from refold.domain.memory.records import MemoryRecord
from refold.domain.pool.items import ContextItem
from refold.domain.window.items import ContextItem as WindowItem
from refold.infrastructure.queries.why_gone import WhyGone

from ..model.editing_life import NUMBER
from ..model.lives import live
from .test_validity import ValidityMachine

# More forks than the calls within each other that an answer may make.
DEEP = 120


def why(store: refold.Store, context: str, item: str) -> tuple[str, str | None, str | None, str | None]:
    """Return the state of an item, and with which event, how and why it left."""
    found = store.why_gone(context, item)
    return found.state, found.reference, found.how, found.reason


class WhyMachine(ValidityMachine):
    """A random life in which it is asked of every item that a context ever held."""

    @rule(number=NUMBER)
    def ask(self, number: int) -> None:
        """What is there is there, and what left did so as the context itself says."""
        chat = self.chats[self.pick(number)]
        shown = {item.id for item in chat.items}
        left = {one.item.id: (one.how, one.reason) for one in chat.evicted_items()}
        for item_id in [*shown, *left]:
            found = self.store.why_gone(f"chat:{chat.id}", item_id)
            assert found.state == ("there" if item_id in shown else "gone")
            assert item_id in shown or (found.how, found.reason) == left[item_id]


def test_any_history() -> None:
    """A context's own word agrees."""
    live(WhyMachine, examples=10, steps=30)


def test_what_it_tells(store: refold.Store) -> None:
    """The event: which, where, when, who, how, why, and because of what."""
    chat = store.chat("a")
    chat.add_message("user", "x", "m1")
    with refold.acting(actor="clerk", because=chat.recorded_events()[-1]):
        chat.evict("m1", reason="old")

    found = store.why_gone("a", "m1")

    event = chat.recorded_events()[-1]
    assert found == WhyGone(
        context="chat:a",
        item="m1",
        state="gone",
        how="evict",
        reason="old",
        reference="chat:a@3",
        position=event.position,
        recorded_at=event.recorded_at,
        actor="clerk",
        causes=("chat:a@2",),
    )


def test_a_call_id_names_a_call(store: refold.Store) -> None:
    """As an item's id does, also in an audit, and in a fork that did not carry the call."""
    chat = store.chat("a")
    chat.add_message("user", "Where?")
    chat.add_function_call("look_up", "{}", "c1")
    chat.add_function_output("look_up", "found", "c1")
    chat.add_message("user", "Thanks.")
    part = chat.fork_filtered(recent_turns=1)
    chat.evict("c1", reason="old")

    assert why(store, "a", "c1") == ("gone", "chat:a@6", "evict", "old")
    assert why(store, part.id, "c1") == ("gone", f"chat:{part.id}@1", "fork", "filtered")
    assert why(store, "a", "c2") == ("never", None, None, None)
    assert [one.birth for one in store.audit("a", item="c1")] == ["chat:a@3", "chat:a@4", "chat:a@3", "chat:a@4"]


def test_forks(store: refold.Store) -> None:
    """What left an ancestor left there; what was not carried along left with the fork."""
    chat = store.chat("a")
    chat.add_items([ChatMessage(id=f"m{number}", role=ChatRole.USER, content="x") for number in range(4)])
    chat.evict("m0", reason="old")
    part = chat.fork_filtered(recent_turns=1)
    whole = part.fork()
    chat.evict("m3")

    assert why(store, whole.id, "m0") == ("gone", "chat:a@6", "evict", "old")
    assert why(store, whole.id, "m1") == ("gone", f"chat:{part.id}@1", "fork", "filtered")
    assert why(store, whole.id, "m3") == ("there", None, None, None)
    assert why(store, whole.id, "nothing") == ("never", None, None, None)
    assert why(store, whole.id, "a@5") == ("there", None, None, None)


def test_a_chain_of_forks_longer_than_the_stack() -> None:
    """The question goes back over all of them, whatever Python allows."""
    with refold.open(":memory:") as store:
        first = last = store.chat("a")
        first.add_message("user", "x")
        first.evict(first.items[0].id, reason="old")
        with store.transaction():
            for number in range(DEEP):
                last = last.fork(f"f{number}")
        before = sys.getrecursionlimit()
        try:
            sys.setrecursionlimit(len(inspect.stack(0)) + DEEP)
            assert why(store, last.id, "chat:a@2") == ("gone", "chat:a@3", "evict", "old")
            assert why(store, last.id, "nothing") == ("never", None, None, None)
        finally:
            sys.setrecursionlimit(before)


async def test_containers(store: refold.Store) -> None:
    """Queues and pools, and what a branch did not take along."""
    queue = store.queue("notes", limit=3)
    for text in ("one", "two", "three", "four"):
        await queue.append(ContextItem(text))
    branch = queue.branch(limit=1)
    pool = store.pool("docs")
    await pool.add(ContextItem("one", "first", "readme"))
    await pool.add(ContextItem("two", "second", "readme"))
    await pool.add(ContextItem("three", "third", "faq"))
    copy = pool.branch()
    await pool.remove("faq", reason="too long")
    await pool.clear()

    assert why(store, "notes", "@2") == ("gone", "queue:notes@5", "evict", "limit")
    assert why(store, "notes", "@3")[0] == "there"
    assert why(store, branch.id, "queue:notes@2") == ("gone", "queue:notes@5", "evict", "limit")
    assert why(store, branch.id, "queue:notes@4") == ("gone", f"queue:{branch.id}@1", "branch", "limit")
    assert why(store, branch.id, "queue:notes@6")[0] == "there"
    assert why(store, "docs", "@2") == ("gone", "pool:docs@3", "replace", None)
    assert why(store, "docs", "faq") == ("gone", "pool:docs@5", "remove", "too long")
    assert why(store, "docs", "readme") == ("gone", "pool:docs@6", "clear", None)
    assert why(store, copy.id, "readme")[0] == "there"
    assert why(store, copy.id, "pool:docs@2") == ("gone", "pool:docs@3", "replace", None)

    await queue.append(ContextItem("five", "", "same"), ContextItem("six", "", "same"))
    await queue.evict(queue.births[1])
    assert why(store, "notes", queue.births[1])[0] == why(store, "notes", "same")[0] == "there"
    await queue.evict(queue.births[1], reason="read")
    assert why(store, "notes", "same") == ("gone", f"queue:notes@{queue.version}", "evict", "read")


def test_windows_and_memories(store: refold.Store) -> None:
    """What was not let in, evicted, forgotten, replaced."""
    window = store.window("w", max_tokens=10)
    window.add(WindowItem("a", "short", "app"))
    window.add(WindowItem("b", "word " * 100, "app"))
    window.put(WindowItem("a", "other", "app"))
    for value in ("one", "two"):
        store.window("twice").add(WindowItem("a", value, "app"))
    store.window("twice").evict("2")
    full = store.window("full", max_tokens=40, policy="evict_lower_priority")
    full.add(WindowItem("a", "word " * 20, "app"))
    full.add(WindowItem("b", "word " * 20, "app", priority=1))
    memory = store.memory().scope("mia")
    memory.put(MemoryRecord(scope="mia", key="tea", value="green"))
    memory.put(MemoryRecord(scope="mia", key="tea", value="black"))
    memory.put(MemoryRecord(scope="mia", key="cups", value=2))
    memory.forget("cups", reason="she stopped")

    assert why(store, "w", "a")[0] == "there"
    assert why(store, "w", "@2")[:3] == ("gone", "window:w@4", "replace")
    assert why(store, "w", "b")[:3] == ("gone", "window:w@3", "drop")
    assert why(store, "twice", "a")[0] == why(store, "twice", "@3")[0] == "there"
    [left] = full.evicted()
    assert why(store, "full", "a")[2:] == (left.how, left.reason) == ("room", None)
    assert why(store, "memory:mia", "tea")[0] == "there"
    assert why(store, "memory:mia", "memory:mia@1")[:3] == ("gone", "memory:mia@2", "replace")
    assert why(store, "memory:mia", "cups") == ("gone", "memory:mia@4", "forget", "she stopped")


def test_which_context(store: refold.Store) -> None:
    """A name that nobody has, or several have, is told; runs hold no items."""
    store.chat("a")
    store.pool("a")
    run = store.run("mia", "s1")

    with pytest.raises(NotFoundError, match="there is no context 'nobody'"):
        store.why_gone("nobody", "m1")
    with pytest.raises(InvalidInputError, match="'a' can mean chat:a or pool:a"):
        store.why_gone("a", "m1")
    with pytest.raises(InvalidInputError, match="run:mia/s1/0/0 holds no items"):
        store.why_gone(run.stream_id, "m1")


async def test_in_an_event_loop(store: refold.Store) -> None:
    """The async side answers the same."""
    store.chat("a")

    assert await refold.to_async(store).why_gone("a", "m1") == store.why_gone("a", "m1")

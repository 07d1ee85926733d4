"""Merging: the point at which two contexts were the same, and what a merge records."""

import asyncio
from contextlib import nullcontext
from typing import Any

import pytest

from refold.domain.chat.context import ChatContext
from refold.domain.chat.events import ConflictResolved, Merged, Placement
from refold.domain.chat.items import ChatMessage, FunctionCallOutput
from refold.domain.chat.roles import ChatRole
from refold.domain.chat.rules.commands import AddItems
from refold.domain.chat.rules.merging import fork_point
from refold.domain.context.transaction import transaction
from refold.domain.errors import DamagedError
from refold.domain.spans import Segment, Span

from .chat_events import OPENED, said
from .fakes import handle_on, record
from .test_forking import context, ids


def line(text: str) -> list[Segment]:
    """Return a lineage and its end: "a5 b3" is b at 3, forked from a at 5."""
    return [Segment(part[0], int(part[1:])) for part in text.split()]


@pytest.mark.parametrize(
    ("ours", "theirs", "point"),
    [
        ("a5", "a3 b2", "a3"),
        ("a3 b2", "a5", "a3"),
        ("a3 b2", "a4 c1", "a3"),
        ("a3 b2", "a3 b7", "a3 b2"),
        ("a3 b2 c1", "a3 b4 d1", "a3 b2"),
        ("a3 b2", "a3 c2", "a3"),
        ("a5", "a5", "a5"),
        ("a3 b1", "a4 b1", "a3"),
        ("a5", "b5", ""),
    ],
)
def test_the_fork_point(ours: str, theirs: str, point: str) -> None:
    """The last moment of which both are a continuation."""
    expected = line(point)[-1] if point else None

    assert fork_point(line(ours), line(theirs)) == expected
    assert fork_point(line(theirs), line(ours)) == expected


def test_what_the_other_side_evicted_is_told() -> None:
    """It stays here, and the event names it."""
    ours = context(said("a"), said("b"))
    theirs = ours.fork()
    theirs.evict("a")
    theirs.add_message("user", "new", "new", 9.0)
    asyncio.run(ours.merge(theirs))

    event = ours.history()[-1].event
    assert ids(ours) == "a b new"
    assert isinstance(event, Merged)
    assert event.evicted == (Span.of("", [2]),)


def test_both_sides_answered_the_same_call() -> None:
    """The view has both outputs, in the order of time; a request has the first of them."""
    ours = ChatContext()
    ours.add_message("user", "Where is it?")
    ours.add_function_call("lookup", "{}", call_id="c")
    theirs = ours.fork()
    theirs.add_function_output("lookup", "in Lyon", call_id="c")
    ours.add_function_output("lookup", "in Nice", call_id="c")
    asyncio.run(ours.merge(theirs))

    assert [item.output for item in ours.items if isinstance(item, FunctionCallOutput)] == ["in Lyon", "in Nice"]
    assert [one["content"] for one in ours.to_openai_messages() if one["role"] == "tool"] == ["in Lyon"]


@pytest.mark.parametrize("whose", ["parent", "sibling", "parent in a transaction", "sibling in a transaction"])
def test_the_base_lies_in_an_ancestor(whose: str) -> None:
    """What both sides changed is compared with the ancestor's items at the fork, not with those of this context."""
    parent = context(said("s", "Base.", role="system"))
    with transaction(parent._journal.log) if "transaction" in whose else nullcontext():
        parent.add_message("user", "hello", "a")
        ours = parent.fork()
        theirs = parent if "parent" in whose else parent.fork()
        ours.add_message("system", "Ours.", "o")
        ours.add_message("user", "new", "m")
        theirs.add_message("system", "Theirs.", "t")
        theirs.evict("a")
        asyncio.run(ours.merge(theirs, on_conflict="theirs"))

    merged, resolved = [one.event for one in ours.history()[-2:]]
    assert isinstance(merged, Merged)
    assert isinstance(resolved, ConflictResolved)
    assert (merged.base, merged.evicted) == (Segment("chat:a", 3), (Span.of("chat:a", [3]),))
    added = Span.of(theirs.stream_id, [2 if "sibling" in whose else 4])
    assert (resolved.ours, resolved.theirs, resolved.kept) == ((Span.of("", [2]),), (added,), "theirs")
    assert ids(ours) == "s a o m t"


def test_siblings_of_two_versions_in_a_transaction() -> None:
    """The base is the version of the elder one, though it is not in the log yet."""
    parent = context(said("s", "Base.", role="system"))
    with transaction(parent._journal.log):
        parent.add_message("user", "hello", "a")
        elder = parent.fork()
        parent.add_message("system", "Inherited.", "i")
        ours = parent.fork()
        elder.add_message("system", "Theirs.", "t")
        asyncio.run(ours.merge(elder))

    assert isinstance(ours.history()[-1].event, ConflictResolved)
    assert ours.active_config_at()[0] == "Inherited."


@pytest.mark.parametrize("first", ["ours", "theirs", "nobody"])
def test_instructions_that_the_other_side_has_seen_are_no_conflict(first: str) -> None:
    """Only what was set since the last merge is one: who sets instructions again and again is followed."""
    ours = context(said("a"))
    theirs = ours.fork()
    if first == "ours":
        ours.add_message("system", "Ours.", "o", 9.0)
        asyncio.run(theirs.merge(ours, instructions=True))
    elif first == "theirs":
        ours.add_message("system", "Ours.", "o")
        theirs.add_message("system", "Theirs.", "t")
        asyncio.run(ours.merge(theirs, on_conflict="theirs"))
    for number in (1, 2):
        theirs.add_message("system", f"Theirs {number}.", f"t{number}", 9.0 - number)
        asyncio.run(ours.merge(theirs, instructions=True))
        assert ours.active_config_at()[0] == f"Theirs {number}."
    version = ours.version
    theirs.add_message("system", "Not wanted.", "n")
    asyncio.run(ours.merge(theirs, on_conflict="theirs"))

    conflicts = [one for one in ours.history() if isinstance(one.event, ConflictResolved)]
    assert (len(conflicts), ours.version) == (first == "theirs", version)


def test_instructions_that_the_other_side_gave_up_for_ours() -> None:
    """They are added, ahead of ours, which stay in force on both sides."""
    ours = context(said("a"))
    theirs = ours.fork()
    ours.add_message("system", "Ours.", "o", 5.0)
    theirs.add_message("system", "Theirs.", "t", 7.0)
    asyncio.run(theirs.merge(ours, on_conflict="theirs"))

    asyncio.run(ours.merge(theirs, instructions=True))

    assert ids(ours) == "a t o"
    assert ours.active_config_at()[0] == theirs.active_config_at()[0] == "Ours."


def test_a_merge_changes_the_totals_as_it_says() -> None:
    """Its `change` is the difference it makes."""
    ours = context(said("a"))
    other = ChatContext([ChatMessage(role=ChatRole.USER, content=["x" * 40]) for _ in range(3)])
    before = ours.recorded_items().totals
    asyncio.run(ours.merge(other))

    event: Any = ours.history()[-1].event
    assert ours.recorded_items().totals == before + event.change
    assert (ours.turn_count(), ours.estimated_tokens()) == (4, 5 + 3 * 14)


def test_a_damaged_merge() -> None:
    """What it names and is not there is told."""
    log = context(said("a"))._journal.log
    record(log, Merged(source="chat:z", version=4, placed=(Placement(None, (Span.of("chat:z", [3]),)),)))

    with pytest.raises(DamagedError, match="chat:z@3 is damaged"):
        _ = handle_on(log).items


class GoingOn(ChatContext):
    """A context to which another thread adds a message as soon as somebody has asked for its version."""

    @property
    def version(self) -> int:
        """Return the version, and go on."""
        version = super().version
        self._writer.execute(AddItems(self.stream_id, (said(f"after{version}"),)))
        return version


def test_an_other_side_that_goes_on_meanwhile() -> None:
    """The event names the version that was merged: no item is taken that came behind it."""
    ours = context(said("a"))
    record(ours._journal.log, OPENED, said("b"), stream="chat:b")
    busy = GoingOn(journal=handle_on(ours._journal.log, "chat:b")._journal)
    asyncio.run(ours.merge(busy))

    event = ours.history()[-1].event
    assert isinstance(event, Merged)
    assert event.version == 1 + len(ours.items) - 1

"""
Any event that a log takes, hostile but of the right types, and any that an older version or another program left there.

Every projection folds it, or sets it aside and says so; whoever looks at its stream gets an answer, or an error that
says what is wrong; and answers about all others go on.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.domain.canonical import canonical_json
from refold.domain.chat.events import ITEM_EVENTS, Forked, FunctionReturned, ItemsEvicted, MessageAdded, Origin
from refold.domain.content import Content
from refold.domain.context.adopt import names_in
from refold.domain.errors import DamagedError, InvalidInputError, RefoldError
from refold.domain.log import admission, memory_log
from refold.domain.log.envelope import RecordedEvent, encode_payload
from refold.domain.memory.events import MemoryForgotten, MemoryRemembered
from refold.domain.moments import STREAM as MOMENTS
from refold.domain.pool.events import QueueBranched
from refold.domain.positions import BEGINNING
from refold.domain.spans import Ref, Segment, Span
from refold.domain.totals import Totals
from refold.domain.trajectory.events import EdgeAdded
from refold.domain.trajectory.nodes import NODE_TYPES, own_fields
from refold.domain.window.events import WindowEvicted, WindowOpened, WindowReplaced
from refold.infrastructure.exchange import export_events, take_in_events
from refold.infrastructure.log import records as drafting
from refold.infrastructure.log.codec import CODEC, tag_of
from refold.infrastructure.views.contexts import head_shape, view_at
from tests.contract.writing import append
from tests.domain.strategies import JSON, PROPERTY, TEXT
from tests.exchange.places import recorded
from tests.support.effort import IS_DEEP

from .histories import folded_rows, live_rows, projections_of, stored_rows

KINDS = ("chat", "queue", "pool", "window", "memory", "run")
STREAMS = [*(f"{kind}:a" for kind in KINDS if kind != "run"), "chat:b", "queue:b", "pool:b", "run:u/s/0/0", "run:x"]
# What stands where readers look for something, in other forms than they look for.
WORDS = """
id type role content name tool_calls additional_kwargs usage metrics response_metadata model input_tokens label query
description text refusal parts message whole anthropic texts missing json cuts continues call blocks places named
legacy custom system items arguments function tool_call_id
"""
KEYS = st.sampled_from(WORDS.split())
VALUES: list[Any] = [7, 10**30, -1, 0.5, True, "", [], {}, [7], ["user"], {"id": 7}, "user", "ToolMessage", "AIMessage"]
PARTS: list[Any] = [[{"id": 7}], [{"text": 7}], [{"type": "text", "text": "x"}], {"tool_calls": 5}, [[0, 1]], [[7]]]
HOSTILE = JSON | st.sampled_from([*VALUES, *PARTS, "a" * 3_000])
OBJECT = st.dictionaries(KEYS | TEXT, HOSTILE, max_size=4)
BYTES = {
    admission.JsonObject: OBJECT.map(lambda value: canonical_json(value, what="drawn")) | st.just(b""),
    admission.Json: HOSTILE.map(lambda value: canonical_json(value, what="drawn")) | st.just(b""),
}
NUMBERS = st.integers(-2, 5) | st.sampled_from([2**31 - 1, 2**62, 2**63 - 1, -(2**63)])
VERSIONS = st.integers(0, 5) | st.sampled_from([1, 2, 2**31 - 1])
TOTALS = st.integers(-3, 3) | st.sampled_from([admission.TOTAL_MAX, -admission.TOTAL_MAX])
FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.floats(0, 2e9)
SPANS = st.builds(
    Span.of,
    st.sampled_from(["", "", "", *STREAMS]),
    st.lists(st.integers(1, 6) | st.just(2**31 - 2), min_size=1, max_size=3, unique=True).map(sorted),
)
ADMITTED: dict[Any, Any] = {
    **BYTES,
    admission.StreamName: st.sampled_from(STREAMS),
    admission.VersionName: st.sampled_from(["a", "b", "über"]),
    admission.VersionNumber: VERSIONS,
    admission.Total: TOTALS,
    admission.Microseconds: st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999),
    admission.Priority: NUMBERS | FLOATS | st.just(float("inf")),
    str: TEXT | st.sampled_from(["a", "b", "assistant", "{}", "[7]", '{"a":7}', "data:,x", "https://x.y/z.png"]),
    int: NUMBERS,
    float: FLOATS,
    bool: st.booleans(),
    NoneType: st.none(),
    bytes: st.binary(max_size=6) | st.just(b""),
    Span: SPANS,
}


# Fields that nothing checked: numbers out of all bounds, bytes that are no JSON, texts that are no names.
ANY_BYTES = st.binary(max_size=6) | st.sampled_from([b"{", b'{"a":NaN}', b"[" * 2_000, b'"\\ud800"', b"7", b"1e999"])
ANY_NUMBER = st.integers(-(2**63), 2**64 - 1) | st.sampled_from([0, -1, 2**31, 2**63])
UNCHECKED: dict[Any, Any] = {
    **ADMITTED,
    admission.JsonObject: ANY_BYTES,
    admission.Json: ANY_BYTES,
    admission.StreamName: TEXT | st.sampled_from(STREAMS),
    admission.VersionName: TEXT,
    admission.VersionNumber: ANY_NUMBER,
    admission.Total: ANY_NUMBER,
    admission.Microseconds: ANY_NUMBER,
    admission.Priority: ANY_NUMBER | st.floats(),
    int: ANY_NUMBER,
    float: st.floats(),
    Span: SPANS | st.builds(Span, stream=TEXT, runs=st.binary(max_size=4)),
}


def drawn(hint: Any, special: dict[Any, Any]) -> Any:
    """Return what draws values of a type, as the fields of events have it."""
    for known, strategy in special.items():
        if hint == known:
            return strategy
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        # A field that is one of some texts.
        choices = [get_args(note.type) for note in args[1:] if get_origin(note.type) is Literal]
        return st.sampled_from(choices[0]) if choices else drawn(args[0], special)
    if origin in (Union, UnionType):
        return st.one_of(*(drawn(one, special) for one in args))
    if origin is tuple:
        return st.lists(drawn(args[0], special), max_size=3).map(tuple)
    return built(hint, special)


def built(struct: Any, special: dict[Any, Any]) -> Any:
    """Return what draws a Struct with all its fields; a node has those that its type requires."""
    hints = get_type_hints(struct, include_extras=True)
    fields = {name: drawn(hints[name], special) for name in struct.__struct_fields__}
    if special is not ADMITTED:
        return st.builds(struct, **fields)
    if struct.__name__ == "QueryRegistered":
        fields["fields"] = node_fields("Query")
    if struct.__name__ == "NodeRegistered":
        types = [
            st.builds(struct, **{**fields, "type": st.just(one), "fields": node_fields(one)}) for one in NODE_TYPES
        ]
        return st.one_of(*types)
    return st.builds(struct, **fields)


def node_fields(node_type: str) -> Any:
    """Return what draws the fields of a node of a type."""
    own = st.fixed_dictionaries(dict.fromkeys(own_fields(node_type), HOSTILE))
    return st.tuples(OBJECT, own).map(lambda both: canonical_json({**both[0], **both[1]}, what="drawn"))


KINDS_OF_EVENTS = get_args(CODEC.events)
ITEMS = st.one_of(*(built(one, ADMITTED) for one in ITEM_EVENTS))
EVENTS = st.one_of(*(built(one, ADMITTED) for one in KINDS_OF_EVENTS))
ANY_EVENTS = st.one_of(*(built(one, UNCHECKED) for one in KINDS_OF_EVENTS))
EXAMPLES = 1_000 if IS_DEEP else 20
LIVES = settings(PROPERTY, max_examples=EXAMPLES)


def held_names(value: Any) -> Iterator[Any]:
    """Yield all names of items and streams in a value, whatever its fields are declared to be."""
    if isinstance(value, Ref | Segment | Span):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from held_names(one)
    elif isinstance(value, msgspec.Struct):
        yield from held_names(msgspec.structs.astuple(value))


@given(ANY_EVENTS)
def test_all_names_in_an_event_are_found(event: Any) -> None:
    """Only fields that may hold one are looked at."""
    assert sorted(map(repr, names_in(event))) == sorted(map(repr, held_names(event)))


def stream_of(event: Any) -> str:
    """Return the stream that an event belongs to."""
    kind = tag_of(event).partition(".")[0]
    return {"run": "run:u/s/0/0", "store": "store:moments"}.get(kind, f"{kind}:a")


def taken(store: refold.Store, events: list[Any]) -> int:
    """Append events, each for itself, and return how many the log took; the others are refused in words."""
    count = 0
    for event in events:
        with suppress(InvalidInputError):
            append(store.log, stream_of(event), event)
            count += 1
    return count


def open_all(store: refold.Store) -> None:
    """Open the contexts that the events belong to, and others beside them, in which something is."""
    for name in ("a", "b"):
        store.chat(name).add_message("user", f"hello from {name}", message_id=f"m{name}")
        asyncio.run(store.queue(name).append(refold.PoolItem("entry", "about")))
        asyncio.run(store.pool(name).add(refold.PoolItem("note", "about", "k")))
    store.window("a", max_tokens=20)
    for session in ("s", "b"):
        store.run("u", session, 0)


SHOWN: list[Callable[[refold.Store], object]] = [
    lambda store: store.chat("a").items,
    lambda store: store.chat("a").to_dict(),
    lambda store: store.chat("a").to_openai_messages(),
    lambda store: store.chat("a").to_anthropic_messages(),
    lambda store: store.chat("a").to_google_json(),
    lambda store: store.chat("a").to_openai_responses(),
    lambda store: store.chat("a").to_openai_messages(exact=True),
    lambda store: store.chat("a").to_anthropic_messages(exact=True),
]
LOOKS: dict[str, list[Callable[[refold.Store], object]]] = {
    "chat": [
        *SHOWN,
        lambda store: store.chat("a").evicted_items(),
        lambda store: store.chat("a").pending_calls(),
        lambda store: store.pending_approvals(),
        lambda store: store.chat("a").at(1).items,
        lambda store: store.chat("a").at(-1).to_dict(),
        lambda store: store.validity("chat:a"),
        lambda store: store.audit("chat:a"),
        lambda store: store.why_gone("chat:a", "a"),
        lambda store: store.search("a", context="a", kind="chat"),
        lambda store: store.diff("chat:a@1", "chat:a"),
        lambda store: store.at(store.now()).chat("a").items,
    ],
    "queue": [
        lambda store: store.queue("a").to_dict(),
        lambda store: store.entries("queue:a", with_gone=True),
        lambda store: store.audit("queue:a"),
        lambda store: store.why_gone("queue:a", "a"),
    ],
    "pool": [
        lambda store: store.pool("a").to_dict(),
        lambda store: store.pool("a").evicted(),
        lambda store: store.entries("pool:a", with_gone=True),
        lambda store: store.audit("pool:a"),
        lambda store: store.why_gone("pool:a", "a"),
    ],
    "window": [
        lambda store: store.window("a").build(),
        lambda store: store.window("a").dropped(),
        lambda store: store.audit("window:a"),
    ],
    "memory": [
        lambda store: asyncio.run(store.memory().get(key="a", scope="a")),
        lambda store: store.audit("memory:a"),
    ],
    "run": [
        lambda store: store.run("u", "s", 0).graph(),
        lambda store: [store.run("u", "s", 0).node(one) for one in store.run("u", "s", 0).nodes()],
        lambda store: store.run("u", "s", 0).messages(),
        lambda store: store.run("u", "s", 0).steps(),
        lambda store: store.run_graph("u", "s", 0),
        lambda store: store.audit("run:u/s/0/0"),
    ],
}


def all_events(store: refold.Store) -> Sequence[RecordedEvent]:
    """Return all that a log has."""
    return store.log.read_all(after=BEGINNING, limit=1_000).events


def why_not_taken_in(store: refold.Store, file: Path) -> str | None:
    """Take a file in, and return nothing, or why it was refused."""
    try:
        take_in_events(store.log, file)
    except InvalidInputError as error:
        return str(error)
    return None


# Why a file is not taken in: a context could not be read where it came from either.
UNREADABLE = re.compile(r"names version \d+ of .*, which is neither in it nor here|restore it from a copy|holds a NUL")


def look_at(store: refold.Store, events: list[Any], errors: type[Exception] = RefoldError) -> None:
    """Look at the contexts of events in every way, which may raise no other errors."""
    kinds = {stream_of(event).partition(":")[0] for event in events}
    for look in (look for kind in kinds for look in LOOKS.get(kind, ())):
        # Such as names of items that never were: no decision ever led there.
        with suppress(errors):
            look(store)


def require_others(store: refold.Store) -> None:
    """Require that the store answers, and that all is right about the contexts whose streams are as they should be."""
    listed = {(row.kind, row.id): row.items for row in store.contexts()}
    assert [listed[kind, "b"] for kind in ("chat", "queue", "pool")] == [1, 1, 1]
    assert [item.id for item in store.chat("b").items] == ["mb"]
    assert [stay.item for stay in store.validity("chat:b")] == ["mb"]
    assert [len(store.entries(f"{kind}:b")) for kind in ("queue", "pool")] == [1, 1]
    assert "b" in [hit.context for hit in store.search('"hello from b"', limit=100)]
    store.usage(), store.lineage(), store.rollup(), store.find_contexts(limit=1_000)
    assert store.run_nodes("u", "b") == []
    assert store.audit("chat:b")


def require_agreement(store: refold.Store) -> None:
    """Require that rows made anew are those that were there, and without the same events."""
    live = live_rows(store)
    aside = {one.name: one.set_aside for one in store.projections()}
    for name in projections_of(store):
        assert store.rebuild(name).is_done, name
    assert stored_rows(store) == live
    assert {one.name: one.set_aside for one in store.projections()} == aside


@LIVES
@given(st.booleans(), st.lists(EVENTS, min_size=1, max_size=6))
def test_every_projection_folds_it(is_opened: bool, events: list[Any]) -> None:
    """Nothing that a log takes is set aside, and rows made anew are the same."""
    with refold.open(":memory:") as store:
        if is_opened:
            open_all(store)
        taken(store, events)
        assert live_rows(store) == folded_rows(store)
        assert {one.name: one.set_aside for one in store.projections() if one.set_aside} == {}
        look_at(store, events)


@LIVES
@given(st.lists(ITEMS, min_size=1, max_size=4))
def test_every_form_has_it(events: list[Any]) -> None:
    """Items of a chat, with whatever lay beside them at their source: all of them are shown, and converted."""
    with refold.open(":memory:") as store:
        store.chat("a")
        if taken(store, events):
            assert store.contexts()[0].items == len(store.chat("a").items)
        for look in SHOWN:
            look(store)


@LIVES
@given(st.booleans(), st.lists(EVENTS, min_size=1, max_size=6))
def test_it_goes_to_another_store(is_opened: bool, events: list[Any]) -> None:
    """All of it is exported, and taken in again as it was; or nothing is, where what it names is in neither store."""
    with refold.open(":memory:") as store, refold.open(":memory:") as other, TemporaryDirectory() as folder:
        if is_opened:
            open_all(store)
        taken(store, events)
        file = Path(folder) / "events"
        moments = store.log.head(MOMENTS)
        assert export_events(store.log, file).events == len(all_events(store)) - moments

        refused = why_not_taken_in(other, file)

        assert refused is None or UNREADABLE.search(refused), refused
        assert recorded(other) == ({} if refused else recorded(store))


def drawn_lives(events: Any) -> list[list[Any]]:
    """Return some lists of events, for a store that takes all of them: to make one takes long."""
    found: list[list[Any]] = []

    @LIVES
    @given(st.lists(events, min_size=1, max_size=6))
    def draw(events: list[Any]) -> None:
        found.append(events)

    draw()
    return found


def test_in_every_store(store: refold.Store) -> None:
    """The same of many at once: in rows of databases, which are narrower than those in memory."""
    open_all(store)
    events = [event for life in drawn_lives(EVENTS) for event in life]

    assert taken(store, events) > len(events) // 2
    require_others(store)
    require_agreement(store)
    assert {one.name: one.set_aside for one in store.projections() if one.set_aside} == {}
    look_at(store, events)


def test_past_the_door(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever lies in a log stops no answer about other streams, and what a projection cannot fold it names."""
    open_all(store)
    for module in (memory_log, drafting):
        monkeypatch.setattr(module, "admitted", lambda event, _: encode_payload(event))
    for number, life in enumerate(drawn_lives(ANY_EVENTS)):
        taken(store, life)
        look_at(store, life, Exception)
        if number % 5 == 0:
            require_others(store)
    require_others(store)
    require_agreement(store)
    assert store.events_missed() == len({event.event for one in store.projections() for event in one.set_aside})


# What was found once


def test_what_goes_on_from_itself(store: refold.Store) -> None:
    """No walk up to its ancestors goes round for ever; it is said which context that is."""
    own = (Segment("chat:a", 1),)
    append(store.log, "chat:a", Forked(parent="chat:a", version=1, lineage=own, root="a", how="full", change=Totals(0)))
    branched = QueueBranched(parent="queue:a", version=1, lineage=(Segment("queue:a", 1),), root="a", change=Totals(0))
    append(store.log, "queue:a", branched)

    with pytest.raises(DamagedError, match="chat:a is damaged: what it goes on from leads back to chat:a"):
        store.validity("chat:a")
    with pytest.raises(DamagedError, match="queue:a is damaged: what it goes on from leads back to queue:a"):
        store.entries("queue:a")


def test_what_begins_with_each_other(store: refold.Store, tmp_path: Path) -> None:
    """Contexts whose first events name each other are exported, each once."""
    for name, other in (("a", "b"), ("b", "a")):
        before = (Segment(f"queue:{other}", 1),)
        branched = QueueBranched(
            parent=f"queue:{other}", version=1, lineage=before, root=f"queue:{other}", change=Totals(0)
        )
        append(store.log, f"queue:{name}", branched)

    assert export_events(store.log, tmp_path / "events").streams == 2


def test_more_items_than_can_be(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that names two thousand million of them unchecked is set aside, and not gone through."""
    for module in (memory_log, drafting):
        monkeypatch.setattr(module, "admitted", lambda event, _: encode_payload(event))
    span = Span.of_ranges("chat:b", [range(1, 2**31)])
    append(store.log, "chat:a", ItemsEvicted(items=(span,), how="evict", change=Totals(0)))

    assert store.rows("validity") == []
    aside = {one.name: one.set_aside for one in store.projections()}
    assert "NAMED_ITEMS_MAX" in aside["validity"][0].error


def test_a_time_beyond_all_years(store: refold.Store) -> None:
    """It could not be shown, so that no log takes it."""
    late = MemoryRemembered(key="k", value=Content(text="v"), first_at=0, at=10**18, change=Totals(0))
    with pytest.raises(InvalidInputError, match="cannot be stored"):
        append(store.log, "memory:a", late)


@pytest.mark.parametrize("rest", [b'{"cuts":true}', b'{"anthropic":7.5}', b'{"message":"user"}', b'{"responses":[7]}'])
def test_beside_an_item(rest: bytes) -> None:
    """What lies there in no shape that an import gives it counts for nothing."""
    with refold.open(":memory:") as store:
        store.chat("a").add_message("user", "hello")
        plain = MessageAdded(id="m", created_at=1.0, role="user", content="hello")
        called = FunctionReturned(id="o", created_at=1.0, name="f", output="out", call_id="c", is_error=False)
        for event in (plain, called):
            append(store.log, "chat:a", msgspec.structs.replace(event, origin=Origin(rest=rest)))
        assert [look(store) for look in SHOWN]
        assert store.chat("a").to_openai_messages(exact=True)[1] == {"role": "user", "content": "hello"}


NAMING_NOTHING: dict[str, list[Any]] = {
    "window:a": [WindowEvicted(items=(Span.of("", [1]),), change=Totals(0)), WindowReplaced(
        key="k", value="v", source="s", priority=0, quarters=1, old=(), change=Totals(0))],
    "memory:a": [MemoryForgotten(items=(Span.of("", [1]),), change=Totals(0)),
                 MemoryForgotten(items=(Span.of("", [9]),), change=Totals(0))],
}  # fmt: skip


@pytest.mark.parametrize(
    ("stream", "event"), [(stream, one) for stream, some in NAMING_NOTHING.items() for one in some]
)
def test_an_event_that_names_what_is_not_there(stream: str, event: Any) -> None:
    """What left a context, and what is in it, is damage then, as everywhere else."""
    with refold.open(":memory:") as store:
        append(store.log, stream, *([WindowOpened(max_tokens=9)] if stream == "window:a" else []), event)
        view: Any = view_at(store, stream)
        with pytest.raises(DamagedError, match=r"was not there|replaced nothing"):
            assert (view.evicted(), view.entries()) is None


def test_a_run_that_begins_with_an_edge() -> None:
    """What is said of it is plain data."""
    with refold.open(":memory:") as store:
        append(store.log, "run:u/s/0/0", EdgeAdded(source=Ref(1, "chat:a"), target=Ref(2), edge="x"))

        assert json.loads(json.dumps(head_shape(view_at(store, "run:u/s/0/0"))))["opened"]["source"] is None

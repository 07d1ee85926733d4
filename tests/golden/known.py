"""The events whose bytes are kept: for each tag one that says as little as it can, and one that says it all."""

from typing import Any

from refold.domain.chat.events import (
    ApprovalRequested,
    CallApproved,
    CallChanged,
    CallRejected,
    Cleared,
    ConfigUpdated,
    ConflictResolved,
    Extent,
    Forked,
    FunctionCalled,
    FunctionReturned,
    HandedOff,
    Image,
    InstructionsReplaced,
    ItemInserted,
    ItemsEvicted,
    ItemsPinned,
    ItemsRestored,
    ItemsUnpinned,
    Merged,
    MessageAdded,
    MessageExtended,
    MessageFinished,
    Named,
    Opened,
    Origin,
    Placement,
    StateSaved,
    Summarized,
    SummaryUndone,
)
from refold.domain.chat.item_events import as_given
from refold.domain.chat.rules.commands import EvictItems
from refold.domain.erasure.events import (
    ContextHeld,
    ContextReleased,
    ErasedVersions,
    ErasureFinished,
    RetentionEnded,
    RetentionSet,
    StoreErased,
    StoreUnarchived,
)
from refold.domain.log.envelope import NO_DIGEST, Event, Meta
from refold.domain.moments import MomentNamed, StoreCopied
from refold.domain.positions import Moment, Position
from refold.domain.spans import Ref, Segment, Span
from refold.domain.totals import Totals

from .known_containers import POOL_EVENTS, QUEUE_EVENTS
from .known_runs import RUN_EVENTS
from .known_windows import MEMORY_EVENTS, WINDOW_EVENTS

ORIGIN = Origin(starts=False, rest=b'{"name":"mia"}')
WHOLE: dict[str, Any] = {"id": "i1", "created_at": 1_795_000_000.25, "agent_id": "triage", "origin": ORIGIN}
LEAST: dict[str, Any] = {"id": "i1", "created_at": 0.0}
IMAGE = Image(
    id="img_1",
    image="data:image/png;base64,AA==",
    inference_detail="high",
    encode_options=b'{"format":"PNG","quality":5,"resize_options":null}',
)
OWN = Span.of("", [2, 3, 4, 9, 70_000])
OTHERS = Span.of("chat:über", [1, 200, 201])
# The slices 3, 1023 and 3.
SEAL = bytes(range(16))
ORDER = b"x\x9cc`f\xfe\xcf\xc0\x0c\x00\x03!\x01\t"
SAID = MessageAdded(id="i2", created_at=1_795_000_001.5, role="system", content=("Be kind.",))
PAID = FunctionCalled(id="i3", created_at=1_795_000_002.5, name="pay", arguments='{"sum":7}', call_id="c1")
CHANGE = Totals(-3, -1, -120)

EVENTS: list[Event] = [
    Opened(),
    Opened(user="mia", session="s1", agent="triage", source="openai", attributes=b'{"team":"\xc3\xbcber"}'),
    MessageAdded(**LEAST, role="user", content=""),
    MessageAdded(
        **WHOLE,
        role="assistant",
        content=("漢字 \U0001f600\x00", Image(id="img_2", image="https://example.org/a.png"), IMAGE),
        interrupted=True,
        extra=b'{"a":[1,2.5,null]}',
        confidence=0.5,
        metrics=b"{}",
        audio_instructions="Speak.",
        text_instructions="",
    ),
    FunctionCalled(**LEAST, name="lookup", arguments="", call_id="c1"),
    FunctionCalled(**WHOLE, name="lookup", arguments='{"id": 7}', call_id="c1", metadata=b'{"a":true}'),
    FunctionReturned(**LEAST, name="lookup", output="", call_id="c1"),
    FunctionReturned(**WHOLE, name="lookup", output="shipped", call_id="c1", is_error=True),
    HandedOff(**LEAST, to_agent="billing"),
    HandedOff(**WHOLE, to_agent="billing", from_agent="triage", reason="a bill"),
    ConfigUpdated(**LEAST),
    ConfigUpdated(**WHOLE, instructions="Be brief.", tools=("lookup", "refund")),
    ConfigUpdated(**LEAST, tools=()),
    MessageAdded(**LEAST, role="assistant", content=("",), interrupted=True, incomplete="not finished"),
    MessageExtended(item=Ref(2), text="Hel"),
    MessageExtended(item=Ref(70_000), text="lo.", change=Totals(0, 0, 1)),
    MessageFinished(item=Ref(2), role="assistant"),
    MessageFinished(
        item=Ref(2),
        role="user",
        text="lo.",
        incomplete="ValueError: it broke",
        agent_id="triage",
        metrics=b'{"model":"m1"}',
        tokens=7,
        change=Totals(0, 0, 1),
    ),
    ConfigUpdated(**LEAST, tools=("lookup",), tool_schemas=b'{"lookup":{"name":"lookup"}}', settings=b'{"model":"m1"}'),
    Named(name="before-lunch", version=1),
    Named(name="über", version=100_000),
    StateSaved(framework="graph", key="step/1"),
    StateSaved(framework="Über", key="", value=b'{"channels":{"count":1}}'),
    ItemInserted(item=FunctionCalled(**LEAST, name="f", arguments="{}", call_id="c1"), before=Ref(2)),
    ItemInserted(item=SAID, before=Ref(70_000, "chat:über"), tail=(OTHERS, OWN)),
    InstructionsReplaced(item=SAID, before=Ref(2), replaced=(OWN, OTHERS), change=Totals(0, 0, -7)),
    ItemsEvicted(items=(OWN,), change=Totals(-5, 0, -20)),
    ItemsEvicted(items=(OTHERS, OWN), change=CHANGE, how="truncate", reason="over budget", tail=()),
    ItemsRestored(items=(OWN,), change=-CHANGE),
    ItemsRestored(items=(OTHERS,), change=-CHANGE, reason="asked for"),
    ItemsPinned(items=(OWN,)),
    ItemsPinned(items=(OTHERS,), reason="the order's number"),
    ItemsUnpinned(items=(OWN,)),
    ItemsUnpinned(items=(OTHERS,), reason="shipped"),
    ApprovalRequested(call=Ref(3)),
    ApprovalRequested(call=Ref(200, "chat:über"), by="triage", reason="it costs money"),
    CallApproved(call=Ref(3), by="mia"),
    CallApproved(call=Ref(200, "chat:über"), by="mia", reason="a good client"),
    CallRejected(call=Ref(3), by="mia"),
    CallRejected(call=Ref(200, "chat:über"), by="mia", reason="too much"),
    CallChanged(item=PAID, before=Ref(3), replaced=(Span.of("", [3]),), change=Totals(0, 0, -2), by="mia"),
    CallChanged(
        item=PAID,
        before=Ref(200, "chat:über"),
        replaced=(OTHERS,),
        change=CHANGE,
        by="mia",
        reason="half is enough",
        tail=(OTHERS, OWN),
    ),
    Cleared(change=CHANGE),
    Cleared(change=CHANGE, reason="a new day"),
    Summarized(item=SAID, before=Ref(9), folded=(OWN,), change=CHANGE),
    Summarized(item=SAID, before=Ref(9, "chat:über"), folded=(OTHERS, OWN), change=CHANGE, model="m.Model"),
    SummaryUndone(summary=Ref(10), items=(OWN,), change=-CHANGE),
    SummaryUndone(summary=Ref(10, "chat:über"), items=(OTHERS,), change=-CHANGE),
    Forked(parent="chat:a", version=7, lineage=(Segment("chat:a", 7),), root="a"),
    Forked(
        parent="chat:b",
        version=7,
        lineage=(Segment("chat:a", 3), Segment("chat:b", 7)),
        root="s1",
        how="filtered",
        carried=(OTHERS, OWN),
        pinned=(OTHERS,),
        config=ConfigUpdated(**WHOLE, instructions="Be brief.", tools=("lookup",)),
        change=Totals(4, 1, 99),
        user="mia",
        session="s1",
        agent="triage",
    ),
    Forked(
        parent="chat:a",
        version=7,
        lineage=(Segment("chat:a", 7),),
        root="a",
        carried=(OTHERS,),
        extents=(Extent(Ref(2, "chat:a"), 5),),
    ),
    Merged(source="chat:b", version=7),
    Merged(source="chat:b", version=7, extents=(Extent(Ref(2), 5), Extent(Ref(3, "chat:b"), 6))),
    Merged(
        source="chat:b",
        version=7,
        how="result",
        base=Segment("chat:a", 3),
        placed=(Placement(Ref(9), (OTHERS,)), Placement(None, (OTHERS, OTHERS))),
        told=(OTHERS,),
        evicted=(OWN,),
        agent_id="triage",
        change=Totals(9, 3, 400),
    ),
    ConflictResolved(kind="config", source="chat:b", ours=(OWN,), theirs=(OTHERS,), rule="newest", kept="theirs"),
    *QUEUE_EVENTS,
    *POOL_EVENTS,
    *WINDOW_EVENTS,
    *MEMORY_EVENTS,
    *RUN_EVENTS,
    MomentNamed(name="before-lunch", moment="17"),
    MomentNamed(name="über", moment=str(Moment.of({3: 7, 1023: 1_024}))),
    StoreCopied(source="agents.db", moment="17", events=17, root=bytes(range(32)), first=9, order=ORDER),
    StoreCopied(source="postgresql:///agents", moment=str(Moment.of({3: 7})), events=7, root=bytes(32)),
    StoreErased(erasure="erasure-1", scope="item", why="ticket 7", erased=(ErasedVersions("chat:a", b"\2\1", SEAL),)),
    StoreErased(
        erasure="erasure-2",
        scope="user",
        why="asked by the user",
        erased=(ErasedVersions("chat:a", b"\1\2", SEAL + SEAL), ErasedVersions("run:b/1/0/0", b"\3\1", SEAL)),
        subject=SEAL,
        salt=bytes(range(16, 32)),
    ),
    StoreErased(
        erasure="archive-1",
        scope="archive",
        why="cold",
        erased=(ErasedVersions("chat:a", b"\2\1", SEAL),),
        file="/data/cold.jsonl",
        hash=bytes(range(64)),
    ),
    StoreUnarchived(erasure="unarchive-1", contexts=("chat:a",)),
    StoreUnarchived(erasure="unarchive-2", contexts=("chat:a",), erased=(ErasedVersions("chat:a", b"\2\1", SEAL),)),
    ErasureFinished(erasure="erasure-1"),
    ErasureFinished(erasure="erasure-2", unreached=("the server's write-ahead log",)),
    ContextHeld(context="chat:a", why="case 12"),
    ContextReleased(context="chat:a", why="case 12 is closed"),
    RetentionSet(name="chats", days=400, why="policy 3", kind="chat"),
    RetentionSet(name="one", days=30, why="ü", agent="triage", source="x", user=SEAL, salt=bytes(range(16, 32))),
    RetentionSet(name="tickets", days=7, why="policy 5", tag="team=ü"),
    RetentionEnded(name="chats", why="policy 4"),
]

# What the digest is made of, for each example.
ENVELOPES: list[dict[str, Any]] = [
    {
        "previous": NO_DIGEST,
        "stream": "chat:a",
        "version": 1,
        "position": Position(-1, 1),
        "recorded_at": 0,
        "meta": Meta(),
        "payload": b"\x80",
    },
    {
        "previous": bytes(range(32)),
        "stream": "chat:über",
        "version": 70_000,
        "position": Position(1023, 2**40),
        "recorded_at": 1_795_000_000_250_000,
        "meta": Meta("mia", "trace-1", "chat:b@3", "key-1", "k1"),
        "payload": b"\x81\xa1a\x01",
    },
    {
        "previous": bytes(32),
        "stream": "chat:a",
        "version": 2,
        "position": Position(0, 2),
        "recorded_at": 1,
        "meta": Meta(idempotency_key="key-1"),
        "payload": b"",
    },
    {
        "previous": bytes(32),
        "stream": "chat:a",
        "version": 2,
        "position": Position(0, 2),
        "recorded_at": 1,
        "meta": Meta(idempotency_key="key-1", fingerprint=bytes(range(16))),
        "payload": b"",
    },
]

# Calls, and the fingerprints that are in logs for them.
CALLS: dict[str, tuple[object, str]] = {
    "a command": (EvictItems("chat:a", ("m1", "m2"), "old"), "8efee979ee9499b718ef8d36a0b8928f"),
    "without defaults": (EvictItems("chat:a", ("m1", "m2")), "d4247bbb759a81d5622ef80cad262c8c"),
    "an item": (
        ("add", as_given(MessageAdded(id="m1", created_at=1.5, role="user", content=("é", 'a"b')), "id", "created_at")),
        "033ee846e3512c407918528c9b2280f0",
    ),
    "an image": (
        (
            "add",
            as_given(MessageAdded(id="m1", created_at=1.5, role="user", content=(Image(id="i", image="x"),)), "id"),
        ),
        "7cdceab6115ef92bf07aba696287f1b2",
    ),
    "values": (
        ("merge", None, True, 2**70, 0.5, b"\x00\xff", {"b": 1, "a": [2]}, frozenset("ba")),
        "29f6a1879ca7c59482dc925b446bdee8",
    ),
}

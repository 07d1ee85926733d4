"""The known events of queues and pools."""

from typing import Any

from refold.domain.content import Content
from refold.domain.log.envelope import Event
from refold.domain.pool.events import (
    PoolAdded,
    PoolBranched,
    PoolCleared,
    PoolConflictResolved,
    PoolEvicted,
    PoolMerged,
    PoolNamed,
    PoolOpened,
    PoolRemoved,
    PoolReplaced,
    PoolRestored,
    PoolSettingsChanged,
    QueueAppended,
    QueueBranched,
    QueueCleared,
    QueueEvicted,
    QueueMerged,
    QueueNamed,
    QueueOpened,
    QueueRestored,
    QueueSettingsChanged,
)
from refold.domain.spans import Ref, Segment, Span
from refold.domain.totals import Totals

OWN = Span.of("", [2, 3, 4, 9, 70_000])
OTHERS = Span.of("pool:über", [1, 200, 201])
GONE, CAME = Totals(-3, 0, -120), Totals(3, 0, 120)
TEXT, JSON = Content(text="漢字 \U0001f600\x00"), Content(json=b'{"a":[1,2.5,null]}')
TYPED = Content(json=b'{"x":1}', type="reports.kinds:Report.Part")
IDENTITY: dict[str, Any] = {"user": "mia", "session": "s1", "agent": "triage"}


def branch(kind: str) -> dict[str, Any]:
    """Return the fields of a branch that says all it can."""
    return {
        "parent": f"{kind}:b",
        "version": 7,
        "lineage": (Segment(f"{kind}:a", 3), Segment(f"{kind}:b", 7)),
        "root": "s1",
        "limit": 2,
        "tags": ("a", "über"),
        "change": CAME,
        **IDENTITY,
    }


QUEUE_EVENTS: list[Event] = [
    QueueOpened(),
    QueueOpened(limit=10, tags=("a", "über"), **IDENTITY),
    QueueBranched(parent="queue:a", version=7, lineage=(Segment("queue:a", 7),), root="a"),
    QueueBranched(**branch("queue")),
    QueueAppended(content=Content(text="")),
    QueueAppended(content=JSON, description="two\nlines", id="doc-1"),
    QueueAppended(content=TYPED),
    QueueEvicted(items=(OWN,), change=GONE),
    QueueEvicted(items=(OTHERS, OWN), change=GONE, reason="outdated"),
    QueueRestored(items=(OTHERS,), change=CAME),
    QueueCleared(change=GONE),
    QueueMerged(source="queue:b", version=7),
    QueueMerged(source="queue:b", version=7, base=Segment("queue:a", 3), taken=(OTHERS,), dropped=(OWN,), change=CAME),
    QueueSettingsChanged(limit=2**63 - 1),
    QueueSettingsChanged(limit=1, tags=("a", "über")),
    QueueNamed(name="über", version=100_000),
]
POOL_EVENTS: list[Event] = [
    PoolOpened(),
    PoolOpened(limit=10, tags=("a", "über"), **IDENTITY),
    PoolBranched(parent="pool:a", version=7, lineage=(Segment("pool:a", 7),), root="a"),
    PoolBranched(**branch("pool")),
    PoolAdded(content=Content(json=b"null")),
    PoolAdded(content=TEXT, description="two\nlines", id="doc-1"),
    PoolReplaced(content=JSON, old=Ref(2), change=Totals()),
    PoolReplaced(content=TYPED, description="", id="", old=Ref(70_000, "pool:über"), change=CAME),
    PoolRemoved(id="doc-1", item=Ref(2), change=GONE),
    PoolRemoved(id="", item=Ref(70_000, "pool:über"), change=GONE, reason="outdated"),
    PoolEvicted(items=(OWN,), change=GONE),
    PoolEvicted(items=(OTHERS, OWN), change=GONE, reason="outdated"),
    PoolRestored(items=(OTHERS,), change=CAME),
    PoolCleared(change=GONE),
    PoolMerged(source="pool:b", version=7),
    PoolMerged(source="pool:b", version=7, base=Segment("pool:a", 3), taken=(OTHERS,), dropped=(OWN,), change=CAME),
    PoolConflictResolved(source="pool:b", id="doc-1", ours=None, theirs=Ref(2, "pool:b"), rule="newest", kept="theirs"),
    PoolConflictResolved(source="pool:b", id="", ours=Ref(9), theirs=None, rule="function", kept="made"),
    PoolSettingsChanged(limit=None),
    PoolSettingsChanged(limit=1, tags=("a", "über")),
    PoolNamed(name="über", version=100_000),
]

"""The events of a store about itself, as a log shows them: what was done and why, without the hashes that prove it."""

from __future__ import annotations

import json

import pytest

from refold.domain.erasure.events import (
    SEAL_BYTES,
    ContextHeld,
    ContextReleased,
    ErasedVersions,
    ErasureFinished,
    RetentionEnded,
    RetentionSet,
    StoreErased,
    StoreUnarchived,
)
from refold.domain.log.envelope import Event
from refold.domain.moments import StoreCopied
from refold.domain.spans import Span
from refold.infrastructure.views.shapes import describe


def _erased(stream: str, *versions: int) -> ErasedVersions:
    return ErasedVersions(stream, Span.of(stream, versions).runs, bytes(SEAL_BYTES * len(versions)))


MIA = StoreErased(
    erasure="erasure-1",
    scope="user",
    why="ticket 7",
    erased=(_erased("chat:a", 1, 2, 3), _erased("chat:b", 2)),
    subject=b"hash",
    salt=b"salt",
)
MANY = tuple(_erased(f"chat:{number}", *range(1, 1_001)) for number in range(60))


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (MIA, "user: 4 events of 2 contexts (chat:a, chat:b), because: ticket 7"),
        (
            StoreErased(erasure="e", scope="archive", why="cold", erased=MANY[:1], file="cold.jsonl", hash=b"hash"),
            "archive: 1,000 events of 1 context (chat:0), in cold.jsonl, because: cold",
        ),
        (
            StoreErased(erasure="e", scope="context", why="old", erased=MANY),
            "context: 60,000 events of 60 contexts (chat:0, chat:1, chat:2, chat:3, chat:4 and 55 more), because: old",
        ),
        (StoreUnarchived(erasure="e", contexts=("chat:a",), erased=MANY), "1 context (chat:a)"),
        (ErasureFinished(erasure="erasure-1"), "erasure-1"),
        (ErasureFinished(erasure="erasure-1", unreached=("a", "b")), "erasure-1, not reached: a; b"),
        (ContextHeld(context="chat:a", why="case 12"), "chat:a, because: case 12"),
        (ContextReleased(context="chat:a", why="closed"), "chat:a, because: closed"),
        (
            RetentionSet(name="chats", days=400, why="notice", kind="chat", user=b"hash", salt=b"salt"),
            "chats: after 400 days, kind=chat user=[hashed], because: notice",
        ),
        (RetentionEnded(name="chats", why="over"), "chats, because: over"),
        (
            StoreCopied(source="agents.db", moment="20", events=20, root=b"hash", order=b"order"),
            "20 events of agents.db, up to 20",
        ),
    ],
)
def test_an_event_of_the_store_is_shown_in_a_few_words(event: Event, words: str) -> None:
    """An erasure has a seal for each event that it erased: they would fill the log, and say nothing to its readers."""
    assert describe(event).words(json.dumps) == words

"""
Random edits of a long context: of ten five evict an item, two restore one, one inserts one, two append one.

The same seed makes the same edits; each is one public call and one event.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec

import refold
from refold.chat import ChatMessage, ChatRole
from refold.domain.chat.events import FunctionCalled, FunctionReturned, MessageAdded

from .recorded import CREATED_AT, event_of
from .workload import SEED, TURN, Item

EVICTS, RESTORES, INSERTS = 0.5, 0.7, 0.8


def dated_events(items: Sequence[Item]) -> list[Any]:
    """
    Return the events that add items, a second apart, so that an insert finds its place among them.

    Calls get new ids: the texts repeat after ten thousand items, but in a real run few ids repeat.
    """
    return [_dated(event_of(item), number) for number, item in enumerate(items)]


def _dated(event: MessageAdded | FunctionCalled | FunctionReturned, number: int) -> Any:
    changes: dict[str, Any] = {"created_at": CREATED_AT + number}
    if not isinstance(event, MessageAdded):
        changes["call_id"] = f"{event.call_id}-{number // TURN}"
    return msgspec.structs.replace(event, **changes)


class Editor:
    """Somebody who edits a context through one handle."""

    def __init__(self, chat: refold.ChatContext, ids: Sequence[str]) -> None:
        self._chat = chat
        self._ids = ids
        self._evicted: list[str] = []
        self._random = random.Random(SEED)

    def edit(self) -> None:
        """
        Make one edit. Evicting an item that has left, or restoring one that came back with its call, is no edit, so try
        another.
        """
        before = self._chat.version
        while self._chat.version == before:
            self._try(self._random.random())

    def _try(self, draw: float) -> None:
        if draw < EVICTS:
            chosen = self._random.choice(self._ids)
            self._chat.evict(chosen)
            self._evicted.append(chosen)
        elif draw < RESTORES and self._evicted:
            self._chat.restore(self._evicted.pop(self._random.randrange(len(self._evicted))))
        elif draw < INSERTS:
            moment = CREATED_AT + self._random.random() * len(self._ids)
            self._chat.insert(ChatMessage(role=ChatRole.USER, content=["Found later."], created_at=moment))
        else:
            self._chat.add_message("user", "And then?")

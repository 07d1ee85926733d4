"""Stores that are backed up and restored, and what is equal then."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import refold
from refold.domain.log.envelope import RecordedEvent
from refold.infrastructure.exchange.copying import BYTES
from tests.contract.stores import log_at
from tests.support.every_kind import fill


def filled(place: str) -> str:
    """Fill a store with all kinds of contexts, large texts, keys, a name and a subscription; return its place."""
    with refold.open(place) as store:
        fill_store(store)
    return place


def fill_store(store: refold.Store) -> None:
    """Fill an open store."""
    store.chat("first").add_message("user", "a large text; " * 500)
    store.name_moment("filled")
    chat = store.chat("later", session="s9")
    for number in range(40):
        chat.add_message("user", f"message {number}", idempotency_key=f"key {number}")
    subscription = store.subscribe(name="mailer")
    for _ in range(7):
        next(subscription)
    subscription.ack()
    subscription.stop()
    asyncio.run(fill(store))


def events_of(place: str, until: refold.Moment | None = None) -> list[RecordedEvent]:
    """Return the events of a log as they are stored, with positions and digests, by position."""
    with closing(log_at(place, codec=BYTES)) as log:
        found = log.read_all(after=refold.Moment(), limit=99_999, until=until or log.now()).events
    return sorted(found, key=lambda one: (one.position.slice, one.position.number))


def rows_of(place: str) -> list[Any]:
    """Return the catalogue of a store."""
    with refold.open(place) as store:
        return store.contexts()


def say(place: str | Path, text: str) -> None:
    """Append a message."""
    with refold.open(place) as store:
        store.chat("later").add_message("user", text)

"""The records of a memory, and their changes."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from ..clock import REAL_SYSTEM, time_of


class MemoryKind(StrEnum):
    """The kind of a record: an episode, a fact, or a procedure."""

    EPISODIC = "episodic"
    SEMANTIC = "semantic"
    PROCEDURAL = "procedural"


def _present() -> datetime:
    return time_of(int(REAL_SYSTEM.now() * 1_000_000))


class MemoryRecord(BaseModel):
    """
    A thing to remember, in a scope (`user:42`) and under a key.

    `value` is content, like that of an item of a queue. `timestamp` is when the key was first remembered, `updated_at`
    when it was last remembered. A record that was read is a copy: to change a value, `put` the record again.
    """

    model_config = ConfigDict(extra="forbid")

    scope: str = Field(min_length=1)
    key: str = Field(min_length=1)
    value: Any
    kind: MemoryKind = MemoryKind.SEMANTIC
    tags: list[str] = Field(default_factory=list)
    timestamp: datetime = Field(default_factory=_present)
    updated_at: datetime = Field(default_factory=_present)


class MemoryChange(msgspec.Struct, frozen=True):
    """
    The change of a key at one version of its scope: `how` is `remembered`, `forgotten` or `restored`.

    `old` and `new` are the records before and after it; None where there was no record. `because` is `stream@version`
    of the event that caused the change.
    """

    key: str
    version: int
    recorded_at: datetime
    how: str
    old: MemoryRecord | None
    new: MemoryRecord | None
    actor: str | None
    correlation_id: str | None
    because: str | None


@runtime_checkable
class MemoryStore(Protocol):
    """A store of records by scope and key, with calls to put, get, search and forget them."""

    async def put(self, record: MemoryRecord) -> None:
        """Remember a record; it replaces the one with its scope and key."""

    async def get(self, *, scope: str, key: str) -> MemoryRecord | None:
        """Return the record with this scope and key, or None."""

    async def search(
        self,
        *,
        scope: str,
        kind: MemoryKind | None = None,
        key_prefix: str | None = None,
        tag: str | None = None,
        limit: int = 100,
    ) -> list[MemoryRecord]:
        """Return the records of a scope that pass all filters, the newest first."""

    async def forget(self, *, scope: str, key: str | None = None) -> int:
        """Forget a key, or a whole scope, and return the number of forgotten records."""

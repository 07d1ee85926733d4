"""What every memory can do, whoever made it (SPEC A4.2)."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from .records import MemoryKind, MemoryRecord


@runtime_checkable
class MemoryStore(Protocol):
    """Records by scope and key, which can be put, got, searched and forgotten."""

    async def put(self, record: MemoryRecord) -> None:
        """Remember a record, in the place of the one with its scope and key."""

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
        """Forget a key, or a whole scope, and return how many records that were."""

"""Memories of agents: their events, rules, folded state and public classes."""

from __future__ import annotations

from .memory import InMemoryMemoryStore, Memory, MemoryAt, MemoryScope, ScopeAt
from .records import MemoryChange, MemoryKind, MemoryRecord, MemoryStore

__all__ = [
    "InMemoryMemoryStore",
    "Memory",
    "MemoryAt",
    "MemoryChange",
    "MemoryKind",
    "MemoryRecord",
    "MemoryScope",
    "MemoryStore",
    "ScopeAt",
]

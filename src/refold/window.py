"""The context window, the agent's context and its memory under their seed's names: an import moves code over."""

from __future__ import annotations

from refold.domain.content import register_content
from refold.domain.memory.memory import InMemoryMemoryStore, Memory, MemoryAt, MemoryScope, ScopeAt
from refold.domain.memory.records import MemoryChange, MemoryKind, MemoryRecord, MemoryStore
from refold.domain.window.items import ContextItem, DroppedItem, EvictedItem
from refold.domain.window.window import AdmissionPolicy, AgentContext, ContextWindow, ReadOnlyContextWindow
from refold.infrastructure.memory_file import SqliteMemoryStore, import_agent_memory

__all__ = [
    "AdmissionPolicy",
    "AgentContext",
    "ContextItem",
    "ContextWindow",
    "DroppedItem",
    "EvictedItem",
    "InMemoryMemoryStore",
    "Memory",
    "MemoryAt",
    "MemoryChange",
    "MemoryKind",
    "MemoryRecord",
    "MemoryScope",
    "MemoryStore",
    "ReadOnlyContextWindow",
    "ScopeAt",
    "SqliteMemoryStore",
    "import_agent_memory",
    "register_content",
]

"""
Refold: an event-sourced context store for LLM agents. Git for what an agent knows.

    store = refold.open("agents.db")
    chat = store.chat("support-42")
    chat.add_message("user", "Where is my order?")
    chat.at(2).items
"""

from __future__ import annotations

from refold.domain.chat import (
    AgentConfigUpdate,
    AgentHandoff,
    ChatContext,
    ChatMessage,
    ChatRole,
    EvictedItem,
    Eviction,
    FunctionCall,
    FunctionCallOutput,
    ImageContent,
    ReadOnlyChatContext,
)
from refold.domain.chat import ContextWindow as ChatWindow
from refold.domain.concurrency.threads import to_async
from refold.domain.errors import (
    ConcurrencyError,
    DamagedError,
    DuplicateItemError,
    IdempotencyError,
    InvalidInputError,
    LogWentBackError,
    NotFoundError,
    ProjectionError,
    RefoldError,
    StorageError,
)
from refold.domain.log.envelope import RecordedEvent, acting
from refold.domain.memory import InMemoryMemoryStore, MemoryKind, MemoryRecord, MemoryStore
from refold.domain.pool import ContextItem as PoolItem
from refold.domain.pool import ContextPool, ContextQueue
from refold.domain.positions import Moment, Position
from refold.domain.trajectory import Run
from refold.domain.window import AgentContext
from refold.domain.window import ContextItem as BudgetItem
from refold.domain.window import ContextWindow as BudgetWindow
from refold.infrastructure.memory_file import SqliteMemoryStore
from refold.infrastructure.open import open_store as open
from refold.infrastructure.queries.at import StoreAt
from refold.infrastructure.queries.what_if import WhatIf
from refold.infrastructure.store import Store

__version__ = "0.1.0"

__all__ = [
    "AgentConfigUpdate",
    "AgentContext",
    "AgentHandoff",
    "BudgetItem",
    "BudgetWindow",
    "ChatContext",
    "ChatMessage",
    "ChatRole",
    "ChatWindow",
    "ConcurrencyError",
    "ContextPool",
    "ContextQueue",
    "DamagedError",
    "DuplicateItemError",
    "EvictedItem",
    "Eviction",
    "FunctionCall",
    "FunctionCallOutput",
    "IdempotencyError",
    "ImageContent",
    "InMemoryMemoryStore",
    "InvalidInputError",
    "LogWentBackError",
    "MemoryKind",
    "MemoryRecord",
    "MemoryStore",
    "Moment",
    "NotFoundError",
    "PoolItem",
    "Position",
    "ProjectionError",
    "ReadOnlyChatContext",
    "RecordedEvent",
    "RefoldError",
    "Run",
    "SqliteMemoryStore",
    "StorageError",
    "Store",
    "StoreAt",
    "WhatIf",
    "acting",
    "open",
    "to_async",
]

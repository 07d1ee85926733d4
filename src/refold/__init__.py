"""
Refold: an event-sourced context store for LLM agents. Git for what an agent knows.

    store = refold.open("agents.db")
    chat = store.chat("support-42")
    chat.add_message("user", "Where is my order?")
    chat.at(2).items
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refold.domain.chat.context import ChatContext as ChatContext
    from refold.domain.chat.context import ReadOnlyChatContext as ReadOnlyChatContext
    from refold.domain.chat.eviction import EvictedItem as EvictedItem
    from refold.domain.chat.eviction import Eviction as Eviction
    from refold.domain.chat.items import ActiveConfig as ActiveConfig
    from refold.domain.chat.items import AgentConfigUpdate as AgentConfigUpdate
    from refold.domain.chat.items import AgentHandoff as AgentHandoff
    from refold.domain.chat.items import ChatMessage as ChatMessage
    from refold.domain.chat.items import FunctionCall as FunctionCall
    from refold.domain.chat.items import FunctionCallOutput as FunctionCallOutput
    from refold.domain.chat.items import ImageContent as ImageContent
    from refold.domain.chat.pairing import Approval as Approval
    from refold.domain.chat.pairing import PendingAnswer as PendingAnswer
    from refold.domain.chat.pairing import PendingCall as PendingCall
    from refold.domain.chat.roles import ChatRole as ChatRole
    from refold.domain.chat.stream import MessageStream as MessageStream
    from refold.domain.chat.usage import Usage as Usage
    from refold.domain.chat.window import ContextWindow as ChatWindow
    from refold.domain.detectors import Redactor as Redactor
    from refold.domain.errors import CallSettledError as CallSettledError
    from refold.domain.errors import ConcurrencyError as ConcurrencyError
    from refold.domain.errors import DamagedError as DamagedError
    from refold.domain.errors import DuplicateItemError as DuplicateItemError
    from refold.domain.errors import IdempotencyError as IdempotencyError
    from refold.domain.errors import InvalidInputError as InvalidInputError
    from refold.domain.errors import KeyDestroyedError as KeyDestroyedError
    from refold.domain.errors import KeyMissingError as KeyMissingError
    from refold.domain.errors import KeyUnavailableError as KeyUnavailableError
    from refold.domain.errors import LogWentBackError as LogWentBackError
    from refold.domain.errors import NotAllowedError as NotAllowedError
    from refold.domain.errors import NotFoundError as NotFoundError
    from refold.domain.errors import PendingCallsError as PendingCallsError
    from refold.domain.errors import ProjectionError as ProjectionError
    from refold.domain.errors import RefoldError as RefoldError
    from refold.domain.errors import StorageError as StorageError
    from refold.domain.errors import TamperedError as TamperedError
    from refold.domain.errors import WrongKeyError as WrongKeyError
    from refold.domain.log.envelope import RecordedEvent as RecordedEvent
    from refold.domain.log.envelope import acting as acting
    from refold.domain.memory.memory import InMemoryMemoryStore as InMemoryMemoryStore
    from refold.domain.memory.records import MemoryKind as MemoryKind
    from refold.domain.memory.records import MemoryRecord as MemoryRecord
    from refold.domain.memory.records import MemoryStore as MemoryStore
    from refold.domain.pool.items import ContextItem as PoolItem
    from refold.domain.pool.pool import ContextPool as ContextPool
    from refold.domain.pool.queue import ContextQueue as ContextQueue
    from refold.domain.positions import Moment as Moment
    from refold.domain.positions import Position as Position
    from refold.domain.trajectory.run import Run as Run
    from refold.domain.window.items import ContextItem as BudgetItem
    from refold.domain.window.window import AgentContext as AgentContext
    from refold.domain.window.window import ContextWindow as BudgetWindow
    from refold.infrastructure.aio import aopen as aopen
    from refold.infrastructure.aio.siblings import AsyncBudgetWindow as AsyncBudgetWindow
    from refold.infrastructure.aio.siblings import AsyncChat as AsyncChat
    from refold.infrastructure.aio.siblings import AsyncMemory as AsyncMemory
    from refold.infrastructure.aio.siblings import AsyncPool as AsyncPool
    from refold.infrastructure.aio.siblings import AsyncQueue as AsyncQueue
    from refold.infrastructure.aio.siblings import AsyncRun as AsyncRun
    from refold.infrastructure.aio.siblings import AsyncStore as AsyncStore
    from refold.infrastructure.aio.siblings import to_async as to_async
    from refold.infrastructure.exchange.restore import restore as restore
    from refold.infrastructure.inspector.app import inspector as inspector
    from refold.infrastructure.memory_file import SqliteMemoryStore as SqliteMemoryStore
    from refold.infrastructure.open import open_store as open
    from refold.infrastructure.queries.approvals import PendingApproval as PendingApproval
    from refold.infrastructure.queries.at import StoreAt as StoreAt
    from refold.infrastructure.queries.what_if import WhatIf as WhatIf
    from refold.infrastructure.store import Store as Store
    from refold.infrastructure.trust.keys import KeyEnvironment as KeyEnvironment
    from refold.infrastructure.trust.keys import KeyFile as KeyFile
    from refold.infrastructure.trust.keys import Keys as Keys
    from refold.infrastructure.trust.redaction import redact as redact

__version__ = "0.1.0"

# Each name is imported when it is first used: a program that has chats alone never loads pools, runs and windows,
# and `import refold` takes milliseconds.
_MODULES = {
    "ActiveConfig": "refold.domain.chat.items",
    "AgentConfigUpdate": "refold.domain.chat.items",
    "AgentContext": "refold.domain.window.window",
    "AgentHandoff": "refold.domain.chat.items",
    "Approval": "refold.domain.chat.pairing",
    "AsyncBudgetWindow": "refold.infrastructure.aio.siblings",
    "AsyncChat": "refold.infrastructure.aio.siblings",
    "AsyncMemory": "refold.infrastructure.aio.siblings",
    "AsyncPool": "refold.infrastructure.aio.siblings",
    "AsyncQueue": "refold.infrastructure.aio.siblings",
    "AsyncRun": "refold.infrastructure.aio.siblings",
    "AsyncStore": "refold.infrastructure.aio.siblings",
    "BudgetItem": "refold.domain.window.items:ContextItem",
    "BudgetWindow": "refold.domain.window.window:ContextWindow",
    "CallSettledError": "refold.domain.errors",
    "ChatContext": "refold.domain.chat.context",
    "ChatMessage": "refold.domain.chat.items",
    "ChatRole": "refold.domain.chat.items",
    "ChatWindow": "refold.domain.chat.window:ContextWindow",
    "ConcurrencyError": "refold.domain.errors",
    "ContextPool": "refold.domain.pool.pool",
    "ContextQueue": "refold.domain.pool.queue",
    "DamagedError": "refold.domain.errors",
    "DuplicateItemError": "refold.domain.errors",
    "EvictedItem": "refold.domain.chat.eviction",
    "Eviction": "refold.domain.chat.eviction",
    "FunctionCall": "refold.domain.chat.items",
    "FunctionCallOutput": "refold.domain.chat.items",
    "IdempotencyError": "refold.domain.errors",
    "ImageContent": "refold.domain.chat.items",
    "InMemoryMemoryStore": "refold.domain.memory.memory",
    "InvalidInputError": "refold.domain.errors",
    "KeyDestroyedError": "refold.domain.errors",
    "KeyEnvironment": "refold.infrastructure.trust.keys",
    "KeyFile": "refold.infrastructure.trust.keys",
    "KeyMissingError": "refold.domain.errors",
    "KeyUnavailableError": "refold.domain.errors",
    "Keys": "refold.infrastructure.trust.keys",
    "LogWentBackError": "refold.domain.errors",
    "MemoryKind": "refold.domain.memory.records",
    "MemoryRecord": "refold.domain.memory.records",
    "MemoryStore": "refold.domain.memory.records",
    "MessageStream": "refold.domain.chat.stream",
    "Moment": "refold.domain.positions",
    "NotAllowedError": "refold.domain.errors",
    "NotFoundError": "refold.domain.errors",
    "PendingAnswer": "refold.domain.chat.pairing",
    "PendingApproval": "refold.infrastructure.queries.approvals",
    "PendingCall": "refold.domain.chat.pairing",
    "PendingCallsError": "refold.domain.errors",
    "PoolItem": "refold.domain.pool.items:ContextItem",
    "Position": "refold.domain.positions",
    "ProjectionError": "refold.domain.errors",
    "ReadOnlyChatContext": "refold.domain.chat.context",
    "RecordedEvent": "refold.domain.log.envelope",
    "Redactor": "refold.domain.detectors",
    "RefoldError": "refold.domain.errors",
    "Run": "refold.domain.trajectory.run",
    "SqliteMemoryStore": "refold.infrastructure.memory_file",
    "StorageError": "refold.domain.errors",
    "TamperedError": "refold.domain.errors",
    "Store": "refold.infrastructure.store",
    "StoreAt": "refold.infrastructure.queries.at",
    "Usage": "refold.domain.chat.usage",
    "WhatIf": "refold.infrastructure.queries.what_if",
    "WrongKeyError": "refold.domain.errors",
    "acting": "refold.domain.log.envelope",
    "aopen": "refold.infrastructure.aio",
    "inspector": "refold.infrastructure.inspector.app",
    "open": "refold.infrastructure.open:open_store",
    "redact": "refold.infrastructure.trust.redaction",
    "restore": "refold.infrastructure.exchange.restore",
    "to_async": "refold.infrastructure.aio.siblings",
}

__all__ = [
    "ActiveConfig",
    "AgentConfigUpdate",
    "AgentContext",
    "AgentHandoff",
    "Approval",
    "AsyncBudgetWindow",
    "AsyncChat",
    "AsyncMemory",
    "AsyncPool",
    "AsyncQueue",
    "AsyncRun",
    "AsyncStore",
    "BudgetItem",
    "BudgetWindow",
    "CallSettledError",
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
    "KeyDestroyedError",
    "KeyEnvironment",
    "KeyFile",
    "KeyMissingError",
    "KeyUnavailableError",
    "Keys",
    "LogWentBackError",
    "MemoryKind",
    "MemoryRecord",
    "MemoryStore",
    "MessageStream",
    "Moment",
    "NotAllowedError",
    "NotFoundError",
    "PendingAnswer",
    "PendingApproval",
    "PendingCall",
    "PendingCallsError",
    "PoolItem",
    "Position",
    "ProjectionError",
    "ReadOnlyChatContext",
    "RecordedEvent",
    "Redactor",
    "RefoldError",
    "Run",
    "SqliteMemoryStore",
    "StorageError",
    "Store",
    "StoreAt",
    "TamperedError",
    "Usage",
    "WhatIf",
    "WrongKeyError",
    "acting",
    "aopen",
    "inspector",
    "open",
    "redact",
    "restore",
    "to_async",
]


if not TYPE_CHECKING:
    # Type checkers see the imports above, and refuse any other name.
    def __getattr__(name: str) -> Any:
        place = _MODULES.get(name)
        if place is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, _, original = place.partition(":")
        found = globals()[name] = getattr(import_module(module), original or name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

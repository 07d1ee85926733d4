"""
Refold: an event-sourced context store for LLM agents. Git for what an agent knows.

    store = refold.open("agents.db")
    chat = store.chat("support-42")
    chat.add_message("user", "Where is my order?")
    chat.at(2).items
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from refold.domain.chat.context import ChatContext, ReadOnlyChatContext
    from refold.domain.chat.eviction import EvictedItem, Eviction
    from refold.domain.chat.items import (
        ActiveConfig,
        AgentConfigUpdate,
        AgentHandoff,
        ChatMessage,
        FunctionCall,
        FunctionCallOutput,
        ImageContent,
    )
    from refold.domain.chat.pairing import Approval, PendingAnswer, PendingCall
    from refold.domain.chat.roles import ChatRole
    from refold.domain.chat.stream import MessageStream
    from refold.domain.chat.usage import Usage
    from refold.domain.chat.window import ContextWindow as ChatWindow
    from refold.domain.detectors import Redactor
    from refold.domain.errors import (
        ApprovalPendingError,
        CallSettledError,
        ConcurrencyError,
        DamagedError,
        DuplicateItemError,
        IdempotencyError,
        InvalidInputError,
        KeyDestroyedError,
        KeyMissingError,
        KeyUnavailableError,
        LogWentBackError,
        NotAllowedError,
        NotFoundError,
        PendingCallsError,
        ProjectionError,
        RefoldError,
        StorageError,
        TamperedError,
        WrongKeyError,
    )
    from refold.domain.log.envelope import RecordedEvent, acting
    from refold.domain.memory.memory import InMemoryMemoryStore
    from refold.domain.memory.records import MemoryKind, MemoryRecord, MemoryStore
    from refold.domain.pool.items import ContextItem as PoolItem
    from refold.domain.pool.pool import ContextPool
    from refold.domain.pool.queue import ContextQueue
    from refold.domain.positions import Moment, Position
    from refold.domain.trajectory.run import Run
    from refold.domain.window.items import ContextItem as BudgetItem
    from refold.domain.window.window import AgentContext
    from refold.domain.window.window import ContextWindow as BudgetWindow
    from refold.infrastructure.aio import aopen
    from refold.infrastructure.aio.siblings import (
        AsyncBudgetWindow,
        AsyncChat,
        AsyncMemory,
        AsyncPool,
        AsyncQueue,
        AsyncRun,
        AsyncStore,
        to_async,
    )
    from refold.infrastructure.exchange.restore import restore
    from refold.infrastructure.inspector.app import inspector
    from refold.infrastructure.memory_file import SqliteMemoryStore
    from refold.infrastructure.open import open_store as open
    from refold.infrastructure.queries.approvals import PendingApproval
    from refold.infrastructure.queries.at import StoreAt
    from refold.infrastructure.queries.what_if import WhatIf
    from refold.infrastructure.store import Store
    from refold.infrastructure.trust.keys import KeyEnvironment, KeyFile, Keys
    from refold.infrastructure.trust.redaction import redact

__version__ = "0.1.0"

# The names by their modules. Each is imported when it is first used: a program that has chats alone never loads pools,
# runs and windows, and `import refold` takes milliseconds.
_NAMES = {
    "refold.domain.chat.context": ("ChatContext", "ReadOnlyChatContext"),
    "refold.domain.chat.eviction": ("EvictedItem", "Eviction"),
    "refold.domain.chat.items": (
        "ActiveConfig", "AgentConfigUpdate", "AgentHandoff", "ChatMessage", "FunctionCall", "FunctionCallOutput",
        "ImageContent",
    ),
    "refold.domain.chat.pairing": ("Approval", "PendingAnswer", "PendingCall"),
    "refold.domain.chat.roles": ("ChatRole",),
    "refold.domain.chat.stream": ("MessageStream",),
    "refold.domain.chat.usage": ("Usage",),
    "refold.domain.detectors": ("Redactor",),
    "refold.domain.errors": (
        "ApprovalPendingError", "CallSettledError", "ConcurrencyError", "DamagedError", "DuplicateItemError",
        "IdempotencyError", "InvalidInputError", "KeyDestroyedError", "KeyMissingError", "KeyUnavailableError",
        "LogWentBackError", "NotAllowedError", "NotFoundError", "PendingCallsError", "ProjectionError", "RefoldError",
        "StorageError", "TamperedError", "WrongKeyError",
    ),
    "refold.domain.log.envelope": ("RecordedEvent", "acting"),
    "refold.domain.memory.memory": ("InMemoryMemoryStore",),
    "refold.domain.memory.records": ("MemoryKind", "MemoryRecord", "MemoryStore"),
    "refold.domain.pool.pool": ("ContextPool",),
    "refold.domain.pool.queue": ("ContextQueue",),
    "refold.domain.positions": ("Moment", "Position"),
    "refold.domain.trajectory.run": ("Run",),
    "refold.domain.window.window": ("AgentContext",),
    "refold.infrastructure.aio": ("aopen",),
    "refold.infrastructure.aio.siblings": (
        "AsyncBudgetWindow", "AsyncChat", "AsyncMemory", "AsyncPool", "AsyncQueue", "AsyncRun", "AsyncStore",
        "to_async",
    ),
    "refold.infrastructure.exchange.restore": ("restore",),
    "refold.infrastructure.inspector.app": ("inspector",),
    "refold.infrastructure.memory_file": ("SqliteMemoryStore",),
    "refold.infrastructure.queries.approvals": ("PendingApproval",),
    "refold.infrastructure.queries.at": ("StoreAt",),
    "refold.infrastructure.queries.what_if": ("WhatIf",),
    "refold.infrastructure.store": ("Store",),
    "refold.infrastructure.trust.keys": ("KeyEnvironment", "KeyFile", "Keys"),
    "refold.infrastructure.trust.redaction": ("redact",),
}  # fmt: skip
# The names here of what has another name in its module.
_RENAMED = {
    "BudgetItem": ("refold.domain.window.items", "ContextItem"),
    "BudgetWindow": ("refold.domain.window.window", "ContextWindow"),
    "ChatWindow": ("refold.domain.chat.window", "ContextWindow"),
    "PoolItem": ("refold.domain.pool.items", "ContextItem"),
    "open": ("refold.infrastructure.open", "open_store"),
}
_PLACES = {name: (module, name) for module, names in _NAMES.items() for name in names} | _RENAMED

__all__ = [
    "ActiveConfig",
    "AgentConfigUpdate",
    "AgentContext",
    "AgentHandoff",
    "Approval",
    "ApprovalPendingError",
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
        if name not in _PLACES:
            # With the name and the module Python suggests a similar one.
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        module, original = _PLACES[name]
        try:
            found = globals()[name] = getattr(import_module(module), original)
        except ModuleNotFoundError as error:
            from refold.infrastructure.frameworks.extras import is_own

            # `from refold import *` and `help(refold)` ask for every name, also where the page is not installed.
            if name != "inspector" or is_own(error):
                raise
            return _inspector_missing
        return found


def _inspector_missing(*_: object, **__: object) -> NoReturn:
    from refold.infrastructure.frameworks.extras import PAGE_MISSING

    raise ImportError(PAGE_MISSING)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

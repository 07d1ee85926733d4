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
    from refold.domain.chat.approvals import Approvals
    from refold.domain.chat.context import ChatContext, ReadOnlyChatContext
    from refold.domain.chat.eviction import EvictedItem, Eviction
    from refold.domain.chat.items import (
        ActiveConfig,
        AgentConfigUpdate,
        AgentHandoff,
        ChatItem,
        ChatMessage,
        FunctionCall,
        FunctionCallOutput,
        ImageContent,
    )
    from refold.domain.chat.pairing import Approval, PendingAnswer, PendingCall, PendingRule
    from refold.domain.chat.replay import Replay, ReplayedCall
    from refold.domain.chat.roles import ChatRole
    from refold.domain.chat.rules.commands import MergeRule
    from refold.domain.chat.saved_states import SavedState, SavedStates
    from refold.domain.chat.stream import MessageStream
    from refold.domain.chat.usage import Usage
    from refold.domain.chat.window import ContextWindow as ChatWindow
    from refold.domain.clock import System
    from refold.domain.context.differences import Changes
    from refold.domain.context.folded_stream import Durability
    from refold.domain.context.transaction import AsyncTransaction, Transaction
    from refold.domain.detectors import Redactor
    from refold.domain.errors import (
        ActorMissingError,
        ApprovalPendingError,
        CallSettledError,
        CheckpointSupersededError,
        ConcurrencyError,
        ContextNotFoundError,
        DamagedError,
        DamagedFileError,
        DecisionRefusedError,
        DuplicateItemError,
        HeldError,
        IdempotencyError,
        InvalidInputError,
        KeyDestroyedError,
        KeyMissingError,
        KeyUnavailableError,
        LimitExceededError,
        LogWentBackError,
        MissingFieldError,
        NotAllowedError,
        NotFoundError,
        PendingCallsError,
        ProjectionError,
        ReadOnlyError,
        RefoldError,
        RefusedError,
        StorageBusyError,
        StorageClosedError,
        StorageError,
        StorageFullError,
        StorageReadOnlyError,
        StorageUnavailableError,
        TamperedError,
        WrongKeyError,
    )
    from refold.domain.log.envelope import Meta, RecordedEvent, acting
    from refold.domain.log.gate import Allow
    from refold.domain.memory.memory import InMemoryMemoryStore, Memory
    from refold.domain.memory.records import MemoryKind, MemoryRecord, MemoryStore
    from refold.domain.pool.items import ContextItem as PoolItem
    from refold.domain.pool.pool import ContextPool
    from refold.domain.pool.queue import ContextQueue
    from refold.domain.positions import Moment, Position
    from refold.domain.redaction import Redact
    from refold.domain.trajectory.run import Run
    from refold.domain.window.items import ContextItem as BudgetItem
    from refold.domain.window.window import AgentContext
    from refold.domain.window.window import ContextWindow as BudgetWindow
    from refold.infrastructure.aio import aopen
    from refold.infrastructure.aio.proxy import AsyncSubscription
    from refold.infrastructure.aio.siblings import (
        AsyncAgentContext,
        AsyncApprovals,
        AsyncBudgetWindow,
        AsyncChat,
        AsyncMemory,
        AsyncMemoryScope,
        AsyncPool,
        AsyncQueue,
        AsyncRun,
        AsyncSavedStates,
        AsyncStore,
        AsyncStoreAt,
        AsyncWhatIf,
        AsyncWorker,
        to_async,
    )
    from refold.infrastructure.exchange.archiving import Archived
    from refold.infrastructure.exchange.backup import BackupReport
    from refold.infrastructure.exchange.restore import RestoreReport, restore
    from refold.infrastructure.inspector.app import inspector
    from refold.infrastructure.memory_file import SqliteMemoryStore
    from refold.infrastructure.open import open_store as open
    from refold.infrastructure.projecting.comparison import Difference
    from refold.infrastructure.projecting.rebuild import RebuildReport
    from refold.infrastructure.projecting.shadow import RebuildProgress
    from refold.infrastructure.projecting.status import ProjectionStatus
    from refold.infrastructure.projecting.store import SetAside
    from refold.infrastructure.projecting.worker import WorkingThread
    from refold.infrastructure.queries.approvals import PendingApproval
    from refold.infrastructure.queries.at import ContextDifference, StoreAt
    from refold.infrastructure.queries.audit import Transition
    from refold.infrastructure.queries.entries import EntryStay
    from refold.infrastructure.queries.intervals import Interval
    from refold.infrastructure.queries.node_audit import AttributeTransition
    from refold.infrastructure.queries.pages import ContextPage
    from refold.infrastructure.queries.what_if import WhatIf
    from refold.infrastructure.queries.why_gone import WhyGone
    from refold.infrastructure.store import Store
    from refold.infrastructure.subscription import Subscription
    from refold.infrastructure.trust.erasing import Erasure
    from refold.infrastructure.trust.keys import KeyEnvironment, KeyFile, Keys
    from refold.infrastructure.trust.proofs import WitnessState
    from refold.infrastructure.trust.receipts import Receipt, Signer
    from refold.infrastructure.trust.redaction import redact
    from refold.infrastructure.trust.retention import Policy as RetentionPolicy
    from refold.infrastructure.trust.retention import Retained
    from refold.infrastructure.trust.witness import Witness
    from refold.infrastructure.verifying.event_check import Problem
    from refold.infrastructure.verifying.event_check import Report as VerifyReport
    from refold.projections.catalogue import CatalogueRow
    from refold.projections.contract import Projection
    from refold.projections.lineage import LineageRow
    from refold.projections.rollup import RollupRow
    from refold.projections.saved_states import SavedStateRow
    from refold.projections.search import SearchHit
    from refold.projections.trajectory_tables import EdgeRow, NodeRow
    from refold.projections.usage import UsageSum

__version__ = "0.1.0"

# The names by their modules. Each is imported when it is first used: a program that has chats alone never loads pools,
# runs and windows, and `import refold` takes milliseconds.
_NAMES = {
    "refold.domain.chat.approvals": ("Approvals",),
    "refold.domain.chat.context": ("ChatContext", "ReadOnlyChatContext"),
    "refold.domain.chat.eviction": ("EvictedItem", "Eviction"),
    "refold.domain.chat.items": (
        "ActiveConfig", "AgentConfigUpdate", "AgentHandoff", "ChatItem", "ChatMessage", "FunctionCall",
        "FunctionCallOutput", "ImageContent",
    ),
    "refold.domain.chat.pairing": ("Approval", "PendingAnswer", "PendingCall", "PendingRule"),
    "refold.domain.chat.replay": ("Replay", "ReplayedCall"),
    "refold.domain.chat.roles": ("ChatRole",),
    "refold.domain.chat.rules.commands": ("MergeRule",),
    "refold.domain.chat.saved_states": ("SavedState", "SavedStates"),
    "refold.domain.chat.stream": ("MessageStream",),
    "refold.domain.chat.usage": ("Usage",),
    "refold.domain.clock": ("System",),
    "refold.domain.context.differences": ("Changes",),
    "refold.domain.context.folded_stream": ("Durability",),
    "refold.domain.context.transaction": ("AsyncTransaction", "Transaction"),
    "refold.domain.detectors": ("Redactor",),
    "refold.domain.errors": (
        "ActorMissingError", "ApprovalPendingError", "CallSettledError", "CheckpointSupersededError",
        "ConcurrencyError", "ContextNotFoundError", "DamagedError", "DamagedFileError", "DecisionRefusedError",
        "DuplicateItemError", "HeldError", "IdempotencyError", "InvalidInputError", "KeyDestroyedError",
        "KeyMissingError", "KeyUnavailableError", "LimitExceededError", "LogWentBackError", "MissingFieldError",
        "NotAllowedError", "NotFoundError", "PendingCallsError", "ProjectionError", "ReadOnlyError", "RefoldError",
        "RefusedError", "StorageBusyError", "StorageClosedError", "StorageError", "StorageFullError",
        "StorageReadOnlyError", "StorageUnavailableError", "TamperedError", "WrongKeyError",
    ),
    "refold.domain.log.envelope": ("Meta", "RecordedEvent", "acting"),
    "refold.domain.log.gate": ("Allow",),
    "refold.domain.memory.memory": ("InMemoryMemoryStore", "Memory"),
    "refold.domain.memory.records": ("MemoryKind", "MemoryRecord", "MemoryStore"),
    "refold.domain.pool.pool": ("ContextPool",),
    "refold.domain.pool.queue": ("ContextQueue",),
    "refold.domain.positions": ("Moment", "Position"),
    "refold.domain.redaction": ("Redact",),
    "refold.domain.trajectory.run": ("Run",),
    "refold.domain.window.window": ("AgentContext",),
    "refold.infrastructure.aio": ("aopen",),
    "refold.infrastructure.aio.proxy": ("AsyncSubscription",),
    "refold.infrastructure.aio.siblings": (
        "AsyncAgentContext", "AsyncApprovals", "AsyncBudgetWindow", "AsyncChat", "AsyncMemory", "AsyncMemoryScope",
        "AsyncPool", "AsyncQueue", "AsyncRun", "AsyncSavedStates", "AsyncStore", "AsyncStoreAt", "AsyncWhatIf",
        "AsyncWorker", "to_async",
    ),
    "refold.infrastructure.exchange.archiving": ("Archived",),
    "refold.infrastructure.exchange.backup": ("BackupReport",),
    "refold.infrastructure.exchange.restore": ("RestoreReport", "restore"),
    "refold.infrastructure.inspector.app": ("inspector",),
    "refold.infrastructure.memory_file": ("SqliteMemoryStore",),
    "refold.infrastructure.projecting.comparison": ("Difference",),
    "refold.infrastructure.projecting.rebuild": ("RebuildReport",),
    "refold.infrastructure.projecting.shadow": ("RebuildProgress",),
    "refold.infrastructure.projecting.status": ("ProjectionStatus",),
    "refold.infrastructure.projecting.store": ("SetAside",),
    "refold.infrastructure.projecting.worker": ("WorkingThread",),
    "refold.infrastructure.queries.approvals": ("PendingApproval",),
    "refold.infrastructure.queries.at": ("ContextDifference", "StoreAt"),
    "refold.infrastructure.queries.audit": ("Transition",),
    "refold.infrastructure.queries.entries": ("EntryStay",),
    "refold.infrastructure.queries.intervals": ("Interval",),
    "refold.infrastructure.queries.node_audit": ("AttributeTransition",),
    "refold.infrastructure.queries.pages": ("ContextPage",),
    "refold.infrastructure.queries.what_if": ("WhatIf",),
    "refold.infrastructure.queries.why_gone": ("WhyGone",),
    "refold.infrastructure.store": ("Store",),
    "refold.infrastructure.subscription": ("Subscription",),
    "refold.infrastructure.trust.erasing": ("Erasure",),
    "refold.infrastructure.trust.keys": ("KeyEnvironment", "KeyFile", "Keys"),
    "refold.infrastructure.trust.proofs": ("WitnessState",),
    "refold.infrastructure.trust.receipts": ("Receipt", "Signer"),
    "refold.infrastructure.trust.redaction": ("redact",),
    "refold.infrastructure.trust.retention": ("Retained",),
    "refold.infrastructure.trust.witness": ("Witness",),
    "refold.infrastructure.verifying.event_check": ("Problem",),
    "refold.projections.catalogue": ("CatalogueRow",),
    "refold.projections.contract": ("Projection",),
    "refold.projections.lineage": ("LineageRow",),
    "refold.projections.rollup": ("RollupRow",),
    "refold.projections.saved_states": ("SavedStateRow",),
    "refold.projections.search": ("SearchHit",),
    "refold.projections.trajectory_tables": ("EdgeRow", "NodeRow"),
    "refold.projections.usage": ("UsageSum",),
}  # fmt: skip
# The names here of what has another name in its module.
_RENAMED = {
    "BudgetItem": ("refold.domain.window.items", "ContextItem"),
    "BudgetWindow": ("refold.domain.window.window", "ContextWindow"),
    "ChatWindow": ("refold.domain.chat.window", "ContextWindow"),
    "PoolItem": ("refold.domain.pool.items", "ContextItem"),
    "RetentionPolicy": ("refold.infrastructure.trust.retention", "Policy"),
    "VerifyReport": ("refold.infrastructure.verifying.event_check", "Report"),
    "open": ("refold.infrastructure.open", "open_store"),
}
_PLACES = {name: (module, name) for module, names in _NAMES.items() for name in names} | _RENAMED

__all__ = [
    "ActiveConfig",
    "ActorMissingError",
    "AgentConfigUpdate",
    "AgentContext",
    "AgentHandoff",
    "Allow",
    "Approval",
    "ApprovalPendingError",
    "Approvals",
    "Archived",
    "AsyncAgentContext",
    "AsyncApprovals",
    "AsyncBudgetWindow",
    "AsyncChat",
    "AsyncMemory",
    "AsyncMemoryScope",
    "AsyncPool",
    "AsyncQueue",
    "AsyncRun",
    "AsyncSavedStates",
    "AsyncStore",
    "AsyncStoreAt",
    "AsyncSubscription",
    "AsyncTransaction",
    "AsyncWhatIf",
    "AsyncWorker",
    "AttributeTransition",
    "BackupReport",
    "BudgetItem",
    "BudgetWindow",
    "CallSettledError",
    "CatalogueRow",
    "Changes",
    "ChatContext",
    "ChatItem",
    "ChatMessage",
    "ChatRole",
    "ChatWindow",
    "CheckpointSupersededError",
    "ConcurrencyError",
    "ContextDifference",
    "ContextNotFoundError",
    "ContextPage",
    "ContextPool",
    "ContextQueue",
    "DamagedError",
    "DamagedFileError",
    "DecisionRefusedError",
    "Difference",
    "DuplicateItemError",
    "Durability",
    "EdgeRow",
    "EntryStay",
    "Erasure",
    "EvictedItem",
    "Eviction",
    "FunctionCall",
    "FunctionCallOutput",
    "HeldError",
    "IdempotencyError",
    "ImageContent",
    "InMemoryMemoryStore",
    "Interval",
    "InvalidInputError",
    "KeyDestroyedError",
    "KeyEnvironment",
    "KeyFile",
    "KeyMissingError",
    "KeyUnavailableError",
    "Keys",
    "LimitExceededError",
    "LineageRow",
    "LogWentBackError",
    "Memory",
    "MemoryKind",
    "MemoryRecord",
    "MemoryStore",
    "MergeRule",
    "MessageStream",
    "Meta",
    "MissingFieldError",
    "Moment",
    "NodeRow",
    "NotAllowedError",
    "NotFoundError",
    "PendingAnswer",
    "PendingApproval",
    "PendingCall",
    "PendingCallsError",
    "PendingRule",
    "PoolItem",
    "Position",
    "Problem",
    "Projection",
    "ProjectionError",
    "ProjectionStatus",
    "ReadOnlyChatContext",
    "ReadOnlyError",
    "RebuildProgress",
    "RebuildReport",
    "Receipt",
    "RecordedEvent",
    "Redact",
    "Redactor",
    "RefoldError",
    "RefusedError",
    "Replay",
    "ReplayedCall",
    "RestoreReport",
    "Retained",
    "RetentionPolicy",
    "RollupRow",
    "Run",
    "SavedState",
    "SavedStateRow",
    "SavedStates",
    "SearchHit",
    "SetAside",
    "Signer",
    "SqliteMemoryStore",
    "StorageBusyError",
    "StorageClosedError",
    "StorageError",
    "StorageFullError",
    "StorageReadOnlyError",
    "StorageUnavailableError",
    "Store",
    "StoreAt",
    "Subscription",
    "System",
    "TamperedError",
    "Transaction",
    "Transition",
    "Usage",
    "UsageSum",
    "VerifyReport",
    "WhatIf",
    "WhyGone",
    "Witness",
    "WitnessState",
    "WorkingThread",
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

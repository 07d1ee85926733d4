"""The context queue and pool, hooks and agents under their seed's names: code moves over by changing its import."""

from __future__ import annotations

from refold.domain.agent.agent import Agent, AgentRegistry
from refold.domain.agent.context_store import ContextStore
from refold.domain.agent.errors import (
    SafeExecutionError,
    TurnTimeoutError,
    UnregisteredAgentError,
    UnregisteredToolError,
    UnroutableItemError,
    WrongRunMethodError,
)
from refold.domain.agent.tool import AsyncGenTool, BaseTool, Tool, ToolMetadata, ToolRegistry, tool
from refold.domain.agent.turn import StopReason, Turn, TurnMetadata, safe_execution
from refold.domain.concurrency.semaphore import CrossLoopLock
from refold.domain.content import register_content
from refold.domain.hooks.hook import (
    AgentHook,
    ContextPoolHook,
    ContextQueueHook,
    Hook,
    HookFunction,
    HookMetadata,
    HookType,
    NotAsyncError,
    ToolHook,
    TurnHook,
    UnregisteredHookError,
    UnserializableHookError,
    eval_args,
    eval_kwargs,
    inject_context_deps,
    merge_kwargs,
)

# The seed's own names of these two, which its users set to hand out a queue or a pool without an agent.
from refold.domain.hooks.hook import current_context_pool as _current_context_pool  # noqa: F401
from refold.domain.hooks.hook import current_context_queue as _current_context_queue  # noqa: F401
from refold.domain.hooks.registry import (
    HookDecorator,
    HookRegistry,
    hook,
    rebuild_hooks_from_serialization,
    serialize_hooks_by_type,
)
from refold.domain.pool.items import ContextItem, EvictedItem
from refold.domain.pool.pool import ContextPool, ReadOnlyPool
from refold.domain.pool.queue import ContextQueue, ReadOnlyQueue

__all__ = [
    "Agent",
    "AgentHook",
    "AgentRegistry",
    "AsyncGenTool",
    "BaseTool",
    "ContextItem",
    "ContextPool",
    "ContextPoolHook",
    "ContextQueue",
    "ContextQueueHook",
    "ContextStore",
    "CrossLoopLock",
    "EvictedItem",
    "Hook",
    "HookDecorator",
    "HookFunction",
    "HookMetadata",
    "HookRegistry",
    "HookType",
    "NotAsyncError",
    "ReadOnlyPool",
    "ReadOnlyQueue",
    "SafeExecutionError",
    "StopReason",
    "Tool",
    "ToolHook",
    "ToolMetadata",
    "ToolRegistry",
    "Turn",
    "TurnHook",
    "TurnMetadata",
    "TurnTimeoutError",
    "UnregisteredAgentError",
    "UnregisteredHookError",
    "UnregisteredToolError",
    "UnroutableItemError",
    "UnserializableHookError",
    "WrongRunMethodError",
    "eval_args",
    "eval_kwargs",
    "hook",
    "inject_context_deps",
    "merge_kwargs",
    "rebuild_hooks_from_serialization",
    "register_content",
    "safe_execution",
    "serialize_hooks_by_type",
    "tool",
]

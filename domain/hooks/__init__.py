"""Hooks: async functions that are called at moments of queues, pools, agents, turns and tools."""

from __future__ import annotations

from .hook import (
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
from .locks import CrossLoopLock
from .registry import HookDecorator, HookRegistry, hook, rebuild_hooks_from_serialization, serialize_hooks_by_type

__all__ = [
    "AgentHook",
    "ContextPoolHook",
    "ContextQueueHook",
    "CrossLoopLock",
    "Hook",
    "HookDecorator",
    "HookFunction",
    "HookMetadata",
    "HookRegistry",
    "HookType",
    "NotAsyncError",
    "ToolHook",
    "TurnHook",
    "UnregisteredHookError",
    "UnserializableHookError",
    "eval_args",
    "eval_kwargs",
    "hook",
    "inject_context_deps",
    "merge_kwargs",
    "rebuild_hooks_from_serialization",
    "serialize_hooks_by_type",
]

"""Hooks: async functions that are called at moments of queues, pools, agents, turns and tools."""

from __future__ import annotations

from .arguments import eval_args, eval_kwargs, merge_kwargs
from .decorating import HookDecorator, hook
from .errors import NotAsyncError, UnregisteredHookError, UnserializableHookError
from .hook import Hook, HookFunction, HookMetadata
from .injecting import inject_context_deps
from .kinds import AgentHook, ContextPoolHook, ContextQueueHook, HookType, ToolHook, TurnHook
from .locks import CrossLoopLock
from .registry import HookRegistry
from .saving import rebuild_hooks_from_serialization, serialize_hooks_by_type

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

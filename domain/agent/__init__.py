"""Agents, their turns and tools: the seed's way into queues and pools."""

from __future__ import annotations

from .agent import Agent, AgentRegistry
from .context_store import ContextStore
from .errors import (
    SafeExecutionError,
    TurnTimeoutError,
    UnregisteredAgentError,
    UnregisteredToolError,
    UnroutableItemError,
    WrongRunMethodError,
)
from .tool import AsyncGenTool, BaseTool, Tool, ToolMetadata, ToolRegistry, tool
from .turn import StopReason, Turn, TurnMetadata, safe_execution

__all__ = [
    "Agent",
    "AgentRegistry",
    "AsyncGenTool",
    "BaseTool",
    "ContextStore",
    "SafeExecutionError",
    "StopReason",
    "Tool",
    "ToolMetadata",
    "ToolRegistry",
    "Turn",
    "TurnMetadata",
    "TurnTimeoutError",
    "UnregisteredAgentError",
    "UnregisteredToolError",
    "UnroutableItemError",
    "WrongRunMethodError",
    "safe_execution",
    "tool",
]

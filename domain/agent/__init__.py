"""Agents, their turns and tools: the seed's way into queues and pools."""

from __future__ import annotations

from .agent import Agent
from .errors import (
    SafeExecutionError,
    TurnTimeoutError,
    UnregisteredAgentError,
    UnregisteredToolError,
    UnroutableItemError,
    WrongRunMethodError,
)
from .guarding import safe_execution
from .registries import AgentRegistry, ToolRegistry
from .storing import ContextStore
from .tool import AsyncGenTool, BaseTool, Tool, ToolMetadata, tool
from .turn import StopReason, Turn, TurnMetadata

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

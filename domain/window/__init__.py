"""The context window with a token budget: its events, rules, folded state and public classes."""

from __future__ import annotations

from .agent_context import AgentContext
from .items import ContextItem, DroppedItem, EvictedItem
from .sizing import AdmissionPolicy
from .window import ContextWindow, ReadOnlyContextWindow

__all__ = [
    "AdmissionPolicy",
    "AgentContext",
    "ContextItem",
    "ContextWindow",
    "DroppedItem",
    "EvictedItem",
    "ReadOnlyContextWindow",
]

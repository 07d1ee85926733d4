"""The context window with a token budget: its events, rules, folded state and public classes."""

from __future__ import annotations

from .items import ContextItem, DroppedItem, EvictedItem
from .window import AdmissionPolicy, AgentContext, ContextWindow, ReadOnlyContextWindow

__all__ = [
    "AdmissionPolicy",
    "AgentContext",
    "ContextItem",
    "ContextWindow",
    "DroppedItem",
    "EvictedItem",
    "ReadOnlyContextWindow",
]

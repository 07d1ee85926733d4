"""
Messages in the form of agent frameworks: records of them, cleaning, and a compact text.

Messages may be those of this package, objects of other packages whose classes have the same names or whose `type` or
`role` says what they are, and dicts. Nothing is imported for them.
"""

from __future__ import annotations

from .cleaning import clean_messages
from .formatting import build_current_context
from .records import (
    AIMessage,
    HumanMessage,
    Message,
    SystemMessage,
    ToolMessage,
    message_from_dict,
    message_of,
    message_to_dict,
)

__all__ = [
    "AIMessage",
    "HumanMessage",
    "Message",
    "SystemMessage",
    "ToolMessage",
    "build_current_context",
    "clean_messages",
    "message_from_dict",
    "message_of",
    "message_to_dict",
]

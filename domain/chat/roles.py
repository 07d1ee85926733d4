"""
The roles of messages.

They are in a module without pydantic, which items need: its import takes a fifth of the time of a command that only
shows recorded data.
"""

from __future__ import annotations

import enum


class ChatRole(str, enum.Enum):  # noqa: UP042 - the seed's base classes: str(role) stays "ChatRole.USER"
    """The role of a message; there is no tool role, because outputs are separate items."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"


ROLES = {role.value: role for role in ChatRole}

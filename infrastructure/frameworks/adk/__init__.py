"""A session service of Google's Agent Development Kit whose sessions are chats."""

from .sessions import RefoldSessionService

__all__ = ["RefoldSessionService"]

"""Conversations of Pydantic AI, kept as chats."""

from .conversations import RefoldConversations
from .form import messages_of, record

__all__ = ["RefoldConversations", "messages_of", "record"]

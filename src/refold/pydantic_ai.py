"""Conversations of Pydantic AI in a store: `RefoldConversations(store)`, or single histories with `record`."""

from refold.infrastructure.frameworks.extras import needs_extra

with needs_extra("pydantic-ai"):
    from refold.infrastructure.frameworks.pydantic_ai import RefoldConversations, messages_of, record

__all__ = ["RefoldConversations", "messages_of", "record"]

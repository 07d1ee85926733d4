"""A message history of LangChain in a store: `RefoldChatMessageHistory(store, "id")`."""

from refold.infrastructure.frameworks.extras import needs_extra

with needs_extra("langchain"):
    from refold.infrastructure.frameworks.langgraph.history import RefoldChatMessageHistory

__all__ = ["RefoldChatMessageHistory"]

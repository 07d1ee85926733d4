"""A message history of LangChain in a store: `RefoldChatMessageHistory(store, "id")`."""

from refold.infrastructure.frameworks.langgraph.history import RefoldChatMessageHistory

__all__ = ["RefoldChatMessageHistory"]

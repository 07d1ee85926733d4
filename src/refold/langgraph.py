"""LangGraph over a store: `builder.compile(checkpointer=RefoldSaver(store))`. Needs the extra `refold[langgraph]`."""

from __future__ import annotations

from refold.infrastructure.frameworks.langgraph import RefoldSaver, RefoldStore

__all__ = ["RefoldSaver", "RefoldStore"]

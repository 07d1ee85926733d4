"""LangGraph over a store: `builder.compile(checkpointer=RefoldSaver(store))`. Needs the extra `refold[langgraph]`."""

from __future__ import annotations

from refold.infrastructure.frameworks.extras import needs_extra

with needs_extra("langgraph"):
    from refold.infrastructure.frameworks.langgraph import RefoldSaver, RefoldStore

__all__ = ["RefoldSaver", "RefoldStore"]

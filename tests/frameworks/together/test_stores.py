"""What the adapters say to what is no store."""

from __future__ import annotations

import importlib

import pytest

from refold.domain.errors import InvalidInputError

ADAPTERS = {
    "adk": ("RefoldSessionService", ()),
    "agent_framework": ("RefoldHistoryProvider", ()),
    "claude": ("RefoldSessions", ()),
    "langchain": ("RefoldChatMessageHistory", ("support-42",)),
    "langgraph": ("RefoldSaver", ()),
    "llama_index": ("RefoldChatStore", ()),
    "mcp": ("mcp_server", ()),
    "openai_agents": ("RefoldSession", ("support-42",)),
    "pydantic_ai": ("RefoldConversations", ()),
}


@pytest.mark.parametrize("module", ADAPTERS)
def test_a_path_is_no_store(module: str) -> None:
    """It is said at once and by name, not by the first call that fails."""
    name, more = ADAPTERS[module]
    adapter = getattr(importlib.import_module(f"refold.{module}"), name)

    with pytest.raises(InvalidInputError, match=r"the store is 'agents.db': give an open one"):
        adapter("agents.db", *more)

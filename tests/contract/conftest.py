"""Lets pytest explain the assertions of the contracts, which lie in modules that are no test modules."""

import pytest

CHAT = ("chat", "chat_checking", "chat_editing", "chat_forking", "chat_merging", "chat_summaries")
for part in (*CHAT, "appending", "reading", "repeating", "following", "durable", "processes", "damage", "writing"):
    pytest.register_assert_rewrite(f"tests.contract.{part}")

"""Lets pytest explain the assertions of the contracts, which lie in modules that are no test modules."""

import pytest

CHAT = ("chat", "chat_checking", "chat_editing", "chat_forking", "chat_merging", "chat_streaming", "chat_summaries")
CONTAINERS = ("containers", "containers_racing", "containers_shared")
RUNS = ("runs", "runs_shared", "runs_threads")
LOGS = (
    "appending", "reading", "repeating", "following", "durable", "exits", "forks", "processes", "damage", "restores",
    "writing",
)  # fmt: skip
for part in (*LOGS, *CHAT, *CONTAINERS, "windows", "limits", "memories", "agents", "agents_shared", *RUNS):
    pytest.register_assert_rewrite(f"tests.contract.{part}")

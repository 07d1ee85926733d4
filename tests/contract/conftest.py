"""Lets pytest explain the assertions of the contracts, which lie in modules that are no test modules."""

import pytest

for part in ("appending", "reading", "repeating", "following", "durable", "processes", "chat", "damage", "writing"):
    pytest.register_assert_rewrite(f"tests.contract.{part}")

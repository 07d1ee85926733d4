"""A plugin of pytest for OpenAI Agents' own tests, in which Refold answers for its session on SQLite."""

from pathlib import Path
from typing import Any

import agents
import agents.extensions.memory.encrypt_session
import agents.memory
import agents.memory.sqlite_session
import pytest

import refold
from refold.openai_agents import RefoldSession

# Tests that look into the tables, the connections or the locks of the session on SQLite.
OF_SQLITE = frozenset(
    [
        "test_cancelled_suffix_transaction_settles_before_newer_append",
        "test_failed_encrypted_suffix_transaction_preserves_original_tokens",
        "test_handoff_resume_after_cancelled_compaction_commits",
        "test_settled_clear_failure_invalidates_response_chain",
        "test_settled_pop_failure_invalidates_response_chain",
        "test_suffix_transaction_rolls_back_failed_insert",
        "test_sqlite_session_close_closes_worker_thread_connections",
        "test_sqlite_session_close_retries_quarantined_connection",
        "test_sqlite_session_closed_rejects_empty_add_items",
        "test_sqlite_session_closes_retired_connections_before_the_next_allocation",
        "test_sqlite_session_failed_add_items_releases_write_lock",
        "test_sqlite_session_failed_clear_session_rolls_back",
        "test_sqlite_session_failed_pop_item_releases_write_lock",
        "test_sqlite_session_file_lock_is_shared_across_instances",
        "test_sqlite_session_get_items_limit_skips_corrupt_newest_rows",
        "test_sqlite_session_get_items_session_settings_limit_skips_corrupt_rows",
        "test_sqlite_session_keeps_connections_of_live_worker_threads",
        "test_sqlite_session_pop_item_returns_none_after_dropping_only_corrupt_rows",
        "test_sqlite_session_pop_item_skips_corrupt_most_recent",
        "test_sqlite_session_post_commit_cancellation_propagates_after_known_outcome",
        "test_sqlite_session_reaps_connections_from_exited_worker_threads",
        "test_sqlite_session_rollback_failure_evicts_connection",
    ]
)
_stores: dict[str, refold.Store] = {}


class Session(RefoldSession):
    """A session that is made of a file, as the SDK's own; the sessions of a file share its store."""

    def __init__(self, session_id: str, db_path: str | Path = ":memory:", *_: str, **settings: Any) -> None:
        self.db_path = db_path
        super().__init__(_opened(str(db_path)), session_id, **settings)

    def close(self) -> None:
        """Do nothing: the store is closed at the end of the process."""


def _opened(path: str) -> refold.Store:
    if path == ":memory:":
        return refold.open(path)
    place = str(Path(path).absolute())
    if place not in _stores:
        _stores[place] = refold.open(f"{place}.refold")
    return _stores[place]


def pytest_configure() -> None:
    """Put Refold in the place of the SDK's session, before the tests import it."""
    for module in (agents, agents.memory, agents.memory.sqlite_session):
        module.SQLiteSession = Session


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is about SQLite."""
    left_out = [item for item in items if item.name.partition("[")[0] in OF_SQLITE]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]

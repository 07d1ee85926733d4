"""The contract on encrypted logs, and on logs whose digests alone are keyed: in memory, a file, and PostgreSQL."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from refold.domain.log.envelope import UNKEYED
from refold.domain.log.ports import LiveLog
from refold.infrastructure.databases import open_database
from refold.infrastructure.log.codec import CODEC
from refold.infrastructure.trust.sealed_log import SEALED_CODEC, Sealed

from . import writing
from .agents import AgentsContract
from .appending import AppendingContract
from .calls import CallsContract
from .calls_in_transactions import TransactionsContract
from .chat import ChatContextContract
from .contract import LogContract
from .durable import DurableContract
from .memories import MemoryContract
from .snapshots import KeptSnapshotsContract, SnapshotsContract
from .stores import KEYS, Store, sealed_at
from .windows import WindowContract
from .writing import check_chain


def keyed_at(place: str, patch: pytest.MonkeyPatch) -> Store:
    """Return the store at a place whose digests are keyed; the contract checks them with its key."""

    def opened(**options: Any) -> LiveLog:
        log: Any = open_database(place, keys=KEYS, encrypt=False, **options)[0]
        patch.setattr(writing, "UNKEYED", log.chain)
        return cast(LiveLog, log)

    return Store(opened, place)


def check_below(place: str, *, encrypt: bool = True) -> None:
    """Require that all events, or none, are encrypted, and that nobody without the keys could make their digests."""
    below: Any
    codec = SEALED_CODEC if encrypt else CODEC
    with closing(open_database(place, codec=codec, keys=KEYS, is_raw=True)[0]) as below:
        for stream in below.streams():
            events = below.read(stream)
            assert all(isinstance(one.event, Sealed) == encrypt for one in events)
            check_chain(events, below.chain)
            for one in events[:1]:
                with pytest.raises(AssertionError):
                    check_chain([one], UNKEYED)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A file that does not exist yet."""
    store = sealed_at(str(tmp_path / "log.db"))
    yield store
    store.close()
    check_below(store.place)


class TestSealedLog(LogContract, DurableContract):
    """An encrypted log in a file."""


class TestSealedChat(ChatContextContract):
    """Chat contexts on it."""


class TestSealedWindows(WindowContract):
    """Context windows on it."""


class TestSealedMemories(MemoryContract):
    """Memories of agents on it."""


class TestSealedAgents(AgentsContract):
    """Agents whose queues and pools lie on it."""


class TestSealedCalls(CallsContract, TransactionsContract):
    """Repeated calls on it."""


class TestSealedSnapshots(SnapshotsContract, KeptSnapshotsContract):
    """Snapshots of its streams."""


class TestSealedMemoryLog(LogContract):
    """An encrypted log in memory."""

    @pytest.fixture
    def store(self) -> Store:
        """A store whose every log is a new one."""
        return sealed_at(":memory:")


class TestSealedPostgresLog(LogContract, DurableContract):
    """An encrypted log in a database."""

    @pytest.fixture
    def store(self, ready_pg_url: str) -> Iterator[Store]:
        """An empty database."""
        store = sealed_at(ready_pg_url)
        yield store
        store.close()
        check_below(store.place)


class Keyed:
    """In the place of an encrypted file one whose digests alone are keyed."""

    @pytest.fixture
    def store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
        """A file that does not exist yet."""
        store = keyed_at(str(tmp_path / "log.db"), monkeypatch)
        yield store
        store.close()
        check_below(store.place, encrypt=False)


class TestKeyedLog(Keyed, LogContract, DurableContract):
    """A log with keyed digests in a file."""


class TestKeyedSnapshots(Keyed, SnapshotsContract, KeptSnapshotsContract):
    """Snapshots of its streams."""


class TestKeyedMemoryLog(LogContract):
    """A log with keyed digests in memory."""

    @pytest.fixture
    def store(self, monkeypatch: pytest.MonkeyPatch) -> Store:
        """A store whose every log is a new one."""
        return keyed_at(":memory:", monkeypatch)


class TestKeyedPostgresLog(AppendingContract):
    """
    Appends to a log with keyed digests in a database; all else of it is as of the encrypted one there and of the keyed
    one in a file.
    """

    @pytest.fixture
    def store(self, ready_pg_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
        """An empty database."""
        store = keyed_at(ready_pg_url, monkeypatch)
        yield store
        store.close()
        check_below(store.place, encrypt=False)

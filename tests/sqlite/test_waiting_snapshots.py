"""Snapshots that wait for the thread that stores them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from refold.domain.errors import StorageError, StorageReadOnlyError
from refold.infrastructure.log import background
from refold.infrastructure.log.background import READ_ONLY_SECONDS, BackgroundWork, WaitingSnapshots


@pytest.fixture(autouse=True)
def _no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is stored by itself."""
    monkeypatch.setattr(BackgroundWork, "wake", lambda _: None)


class Stored:
    """What was stored; `error` is raised instead."""

    def __init__(self) -> None:
        self.told: list[tuple[str, bytes]] = []
        self.error: Exception | None = None

    def __call__(self, stream: str, packed: bytes) -> None:
        """Store one."""
        if self.error is not None:
            raise self.error
        self.told.append((stream, packed))


def giving(data: bytes | None) -> Callable[[], bytes | None]:
    """Return a function that packs to some bytes."""
    return lambda: data


def waiting(stored: Stored, **packed: bytes | None) -> WaitingSnapshots:
    """Return snapshots that wait."""
    snapshots = WaitingSnapshots("here", stored, lambda: 0)
    for stream, data in packed.items():
        snapshots.put(stream, giving(data))
    return snapshots


def test_they_are_stored_one_by_one() -> None:
    """The last of a stream alone, and what packs to nothing is not stored."""
    stored = Stored()
    snapshots = waiting(stored, a=b"1", b=None, c=b"3")
    snapshots.put("a", lambda: b"newer")

    assert [snapshots.get(stream) for stream in "abcd"] == [b"newer", None, b"3", None]
    assert [snapshots._store_one() for _ in range(4)] == [True, True, False, False]
    assert stored.told == [("a", b"newer"), ("c", b"3")]
    assert snapshots.get("a") is None


def test_each_is_packed_once() -> None:
    """Whoever asks for it first; one that was put meanwhile stays."""
    stored, packed = Stored(), list[str]()
    snapshots = waiting(stored)

    def pack(name: str) -> Callable[[], bytes]:
        def packing() -> bytes:
            packed.append(name)
            if name == "first":
                snapshots.put("a", pack("second"))
            return name.encode()

        return packing

    snapshots.put("a", pack("first"))
    assert snapshots._store_one() is True
    assert snapshots.get("a") == b"second"
    assert snapshots._store_one() is False
    assert (stored.told, packed) == ([("a", b"first"), ("a", b"second")], ["first", "second"])


def test_one_that_cannot_be_packed_goes() -> None:
    """It would fail again, and those behind it wait."""
    stored = Stored()
    snapshots = waiting(stored)
    snapshots.put("a", lambda: bytes(-1))
    snapshots.put("b", lambda: b"2")

    with pytest.raises(ValueError, match="negative"):
        snapshots._store_one()
    assert snapshots._store_one() is False
    assert stored.told == [("b", b"2")]


def test_one_that_cannot_be_stored_waits() -> None:
    """The database may take it later."""
    stored = Stored()
    snapshots = waiting(stored, a=b"1")
    stored.error = StorageError("full")

    with pytest.raises(StorageError, match="full"):
        snapshots._store_one()
    stored.error = None
    assert snapshots._store_one() is False
    assert stored.told == [("a", b"1")]


def test_a_database_that_may_only_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """None waits for it, until some time has passed."""
    now = 1_000.0
    monkeypatch.setattr(background, "monotonic", lambda: now)
    stored = Stored()
    snapshots = waiting(stored, a=b"1", b=b"2")
    stored.error = StorageReadOnlyError("no")

    with pytest.raises(StorageReadOnlyError):
        snapshots._store_one()
    assert [snapshots.get(stream) for stream in "ab"] == [None, None]
    for seconds, found in ((0.0, None), (READ_ONLY_SECONDS - 1, None), (READ_ONLY_SECONDS, b"3")):
        now = 1_000.0 + seconds
        snapshots.put("c", lambda: b"3")
        assert snapshots.get("c") == found

"""Damage to what is packed: blocks on SQLite, runs of 64 on PostgreSQL, and torn pages of a file."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

import refold
from refold.domain.chat.events import MessageAdded
from refold.domain.errors import DamagedError
from refold.domain.log.envelope import NO_META, UNKEYED
from refold.domain.positions import Position
from refold.infrastructure.verifying import Report
from tests.contract.damage import FORGERIES, forge_blocks

from .damaging import rows_of, sql, told, verified

PAGE_BYTES = 4_096


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with 604 events of two chats, most of them sealed."""
    path = tmp_path_factory.mktemp("sealed") / "store.db"
    fill(str(path))
    assert verified(str(path)).is_whole
    [(rows,)], [(blocks,)] = sql(str(path), "SELECT count(*) FROM event"), sql(str(path), "SELECT count(*) FROM block")
    assert (rows < 100, blocks) == (True, 8)
    return path


def fill(place: str) -> None:
    """Write 301 events to each of two chats of one session."""
    with refold.open(place) as store:
        chats = [store.chat(name, session="s") for name in "ab"]
        for start in range(0, 300, 10):
            for chat in chats:
                chat.record_items([message(number) for number in range(start, start + 10)])


def message(number: int) -> MessageAdded:
    """Return a message with a number."""
    return MessageAdded(id=f"m{number}", created_at=1.0, role="user", content=f"text {number}")


@pytest.fixture
def copied(whole: Path, tmp_path: Path) -> str:
    """A copy of the file, to be damaged."""
    return str(shutil.copy(whole, tmp_path / "store.db"))


BLOCK_1 = ["event chat:a@1..64", "projection all"]
BLOCK_2 = ["event chat:a@65..128", "projection all"]


def with_next(told_of: list[str], version: int) -> list[str]:
    """Return what is told where the next event cannot be checked either, for want of the digest before it."""
    return [told_of[0], f"event chat:a@{version}", *told_of[1:]]


SEALED: dict[str, tuple[str, list[str]]] = {
    "bytes": ("UPDATE block SET body = zeroblob(length(body)) WHERE key = 2", BLOCK_2),
    "digests": ("UPDATE block SET digests = zeroblob(length(digests)) WHERE key = 1", with_next(BLOCK_1, 65)),
    "checksum": ("UPDATE block SET checksum = x'00' WHERE key = 2", BLOCK_2),
    "another place": ("UPDATE block SET segment = 1 WHERE key = 1", BLOCK_1),
    "gone": ("DELETE FROM block WHERE key = 2", with_next(BLOCK_2, 129)),
    "cannot be found": ("DELETE FROM part WHERE block = 2", with_next(BLOCK_2, 129)[:2]),
    "another type": ("UPDATE block SET body = cast(body AS text) WHERE key = 2", ["event chat:a@65..129", BLOCK_2[1]]),
}  # fmt: skip


@pytest.mark.parametrize("name", SEALED)
def test_a_damaged_block(copied: str, name: str) -> None:
    """The events in it are named together; those of other blocks are looked at."""
    statement, wanted = SEALED[name]
    sql(copied, statement)

    report = verified(copied)

    assert told(report) == wanted
    assert report.events >= 602 - 65


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_block(copied: str, forgery: str) -> None:
    """A block that was changed under a checksum that fits is told of, event by event, and no view is made of it."""
    forge_blocks(copied, FORGERIES[forgery], 1, 2)

    report = verified(copied)

    assert all(one.startswith("event chat:a@") for one in told(report)[:-1])
    assert {problem.reason for problem in report.problems[:-1]} == {"it does not match its digest"}
    with refold.open(copied) as store, pytest.raises(DamagedError, match="does not match its digest"):
        store.chat("a").at(200).items  # noqa: B018


def test_an_event_with_a_digest_of_its_own(copied: str) -> None:
    """Whoever computes the digest of a changed event, too, has the next one to explain."""

    def change(bodies: Any, digests: Any) -> None:
        parts, positions, times, _, payloads = bodies[0]
        payloads[5] = Raw(bytes(payloads[5]).replace(b"text", b"test"))
        place = Position(-1, positions[5])
        digests[0][5] = UNKEYED.digest(digests[0][4], parts[0][0], 6, place, times[5], NO_META, bytes(payloads[5]))

    forge_blocks(copied, change, 1)

    assert told(verified(copied)) == ["event chat:a@7", "projection all"]


def test_every_block(copied: str) -> None:
    """Each of them is told of, with the versions that it held."""
    sql(copied, "UPDATE block SET checksum = x''")

    told_of = [one for one in told(verified(copied)) if one.startswith("event")]

    assert len(told_of) == 9
    assert told_of[0] == "event chat:a@1..64"
    assert told_of[-1].startswith("event chat:b@")


@pytest.mark.parametrize("change", ["payload = 'text'", "digest = 5", "meta = 'text'", "recorded_at = 'soon'"])
def test_values_of_another_type(copied: str, change: str) -> None:
    """SQLite takes anything into any column; what nothing here can read is a damaged event, and no crash."""
    sql(copied, f"UPDATE event SET {change} WHERE {rows_of(copied, 'chat:a')} AND version = 301")

    assert told(verified(copied)) == ["event chat:a@301", "projection all"]


@pytest.mark.parametrize("seed", range(12))
def test_a_torn_page(copied: str, seed: int) -> None:
    """Whatever page of the file is overwritten: it is described or, where nothing can be opened, said to be damaged."""
    chance, data = random.Random(seed), bytearray(Path(copied).read_bytes())
    start = chance.randrange(1, len(data) // PAGE_BYTES) * PAGE_BYTES
    data[start : start + PAGE_BYTES] = chance.randbytes(PAGE_BYTES)
    Path(copied).write_bytes(data)

    report = described(lambda: verified(copied))
    repaired = described(lambda: verified(copied, repair=True))

    assert report is None or all(problem.where and problem.reason for problem in report.problems)
    assert (report is None) == (repaired is None)


def described(look: Callable[[], Report]) -> Report | None:
    """Return the report, None where the file cannot be opened."""
    try:
        return look()
    except DamagedError:
        return None


def test_a_run_on_postgres(ready_pg_url: str) -> None:
    """Of 64 events that come together, those that were changed are named."""
    fill(ready_pg_url)
    where = rows_of(ready_pg_url, "chat:a")
    assert verified(ready_pg_url).is_whole

    sql(ready_pg_url, f"UPDATE event SET payload = ? WHERE {where} AND version IN (10, 100)", b"\x00\xc1")
    sql(ready_pg_url, f"UPDATE event SET digest = ? WHERE {where} AND version = 200", bytes(32))

    found: Any = told(verified(ready_pg_url))
    assert found == ["event chat:a@10", "event chat:a@100", "event chat:a@200..201", "projection all"]

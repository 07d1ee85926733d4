"""What `refold verify` and a look at a chat say of each sort of damage, to the letter: see tests/golden/told/damage."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

import refold
from refold.domain.errors import StorageBusyError
from refold.infrastructure.log.postgres.log import PostgresLog
from refold.infrastructure.log.row_faults import unreadable
from refold.infrastructure.log.sqlite.log import SqliteLog
from refold.infrastructure.verifying.event_check import damage_of
from tests.cli.running import refold as run
from tests.support.postgres import Server
from tests.support.statements import LARGE, without_background
from tests.support.written_down import UNTIL, assert_as_written, stop_clock

from .damaging import sql

MESSAGES = 600
ON_SQLITE = """
nothing: SELECT 1
event 560, its payload: UPDATE event SET payload = x'00c1' WHERE position = 560
event 560, its digest: UPDATE event SET digest = zeroblob(32) WHERE position = 560
event 560, a short digest: UPDATE event SET digest = x'00' WHERE position = 560
event 560, its meta: UPDATE event SET meta = x'c1' WHERE position = 560
event 560, its time: UPDATE event SET recorded_at = 1 WHERE position = 560
event 560, a text as its time: UPDATE event SET recorded_at = 'noon' WHERE position = 560
event 560, its tag: UPDATE event SET tag = 99 WHERE position = 560
event 560, its version: UPDATE event SET version = 9999 WHERE position = 560
event 560, another stream: UPDATE event SET stream = 2, version = 999 WHERE position = 560
event 560, no stream: UPDATE event SET stream = 77 WHERE position = 560
event 560, far away: UPDATE event SET position = 700 WHERE position = 560
event 560, gone: DELETE FROM event WHERE position = 560
ten events, gone: DELETE FROM event WHERE position BETWEEN 560 AND 569
the end, gone: DELETE FROM event WHERE position > 590
all rows, gone: DELETE FROM event
block 1, its body: UPDATE block SET body = zeroblob(length(body)) WHERE key = 1
block 1, no body: UPDATE block SET body = x'' WHERE key = 1
block 2, its digests: UPDATE block SET digests = zeroblob(length(digests)) WHERE key = 2
block 2, short digests: UPDATE block SET digests = x'00' WHERE key = 2
block 3, its checksum: UPDATE block SET checksum = x'00' WHERE key = 3
block 3, another segment: UPDATE block SET segment = 7 WHERE key = 3
block 3, gone: DELETE FROM block WHERE key = 3
block 3, without parts: DELETE FROM part WHERE block = 3
part, its first version: UPDATE part SET first_version = first_version + 1 WHERE block = 2
part, its last version: UPDATE part SET last_version = 9999 WHERE block = 2
part, its time: UPDATE part SET first_recorded_at = 5 WHERE block = 2
part, its position: UPDATE part SET first_position = 5 WHERE block = 2
part, its start: UPDATE part SET start = 60 WHERE block = 2
part, a block that is not there: UPDATE part SET block = 99 WHERE block = 2
stream a, gone: DELETE FROM stream WHERE id = 'chat:a'
stream b, another name: UPDATE stream SET id = 'chat:other' WHERE id = 'chat:b'
stream b, another slice: UPDATE stream SET slice = slice + 1 WHERE id = 'chat:b'
tag, gone: DELETE FROM tag WHERE name = 'chat.message_added.v1'
tag, another name: UPDATE tag SET name = 'chat.said.v1' WHERE name = 'chat.message_added.v1'
text, its bytes: UPDATE blob SET data = x'006162'
text, its hash: UPDATE blob SET hash = zeroblob(32)
text, gone: DELETE FROM blob
key, gone: DELETE FROM idempotency
key, another: UPDATE idempotency SET key = 'other'
key, other versions: UPDATE idempotency SET first_version = 3, last_version = 3
key, too many versions: UPDATE idempotency SET last_version = 9999
rows of catalogue, wrong: UPDATE view_catalogue SET items = 99 WHERE key = 'chat:a'
rows of catalogue, one too few: DELETE FROM view_catalogue WHERE key = 'chat:b'
rows of catalogue, all gone: DELETE FROM view_catalogue
rows of usage, wrong: UPDATE view_usage SET messages = messages + 1
rows of search, gone: DELETE FROM view_search WHERE rowid = 3
checkpoint, nowhere: UPDATE checkpoint SET moment = 'nowhere'
checkpoint, ahead: UPDATE checkpoint SET moment = '99999'
checkpoint, gone: DELETE FROM checkpoint
"""
# The chats a and c lie in slice 17, and b in slice 771; all events but the last 64 of a slice are in blocks.
ON_POSTGRES = """
nothing: SELECT 1
event 400, its payload: UPDATE event SET payload = '\\x00c1' WHERE slice = 17 AND position = 400
event 400, its digest: UPDATE event SET digest = decode(repeat('00', 32), 'hex') WHERE slice = 17 AND position = 400
event 400, a short digest: UPDATE event SET digest = '\\x00' WHERE slice = 17 AND position = 400
event 400, its meta: UPDATE event SET meta = '\\xc1' WHERE slice = 17 AND position = 400
event 400, its time: UPDATE event SET recorded_at = 1 WHERE slice = 17 AND position = 400
event 400, its tag: UPDATE event SET tag = 99 WHERE slice = 17 AND position = 400
event 400, its version: UPDATE event SET version = 9999 WHERE slice = 17 AND position = 400
event 400, no stream: UPDATE event SET stream_key = 77 WHERE slice = 17 AND position = 400
event 400, gone: DELETE FROM event WHERE slice = 17 AND position = 400
the end, gone: DELETE FROM event WHERE slice = 17 AND position > 420
all rows, gone: DELETE FROM event
block, its body: UPDATE block SET body = '\\x00' WHERE slice = 17 AND first = 1
block, its digests: UPDATE block SET digests = '\\x00' WHERE slice = 17 AND last = 128
block, its checksum: UPDATE block SET checksum = '\\x00' WHERE slice = 17 AND last = 128
block, its first position: UPDATE block SET first = 2 WHERE slice = 17 AND first = 1
block, its last position: UPDATE block SET last = 9999 WHERE slice = 17 AND last = 128
block, gone: DELETE FROM block WHERE slice = 17 AND last = 128
block, without parts: DELETE FROM part WHERE slice = 17 AND last = 128
part, its first version: UPDATE part SET first_version = first_version + 1 WHERE slice = 17 AND last = 128
part, its last version: UPDATE part SET last_version = 9999 WHERE slice = 17 AND last = 128
part, its time: UPDATE part SET recorded_at = 5 WHERE slice = 17 AND last = 128
part, its position: UPDATE part SET position = 5 WHERE slice = 17 AND last = 128
part, its start: UPDATE part SET start = 60 WHERE slice = 17 AND last = 128
part, a block that is not there: UPDATE part SET last = 9998 WHERE slice = 17 AND last = 128
stream a, gone: DELETE FROM stream WHERE id = 'chat:a'
stream b, another name: UPDATE stream SET id = 'chat:other' WHERE id = 'chat:b'
stream b, another slice: UPDATE stream SET slice = slice + 1 WHERE id = 'chat:b'
tag, gone: DELETE FROM tag WHERE name = 'chat.message_added.v1'
tag, another name: UPDATE tag SET name = 'chat.said.v1' WHERE name = 'chat.message_added.v1'
lock, gone: DELETE FROM slice_lock WHERE slice = 17
text, its bytes: UPDATE blob SET data = '\\x006162'
text, its hash: UPDATE blob SET hash = '\\x00'
text, gone: DELETE FROM blob
key, gone: DELETE FROM idempotency
key, another: UPDATE idempotency SET key = 'other'
key, other versions: UPDATE idempotency SET first_version = 3, last_version = 3
rows of catalogue, wrong: UPDATE view_catalogue_4 SET items = 99 WHERE key = 'chat:a'
rows of catalogue, one too few: DELETE FROM view_catalogue_4 WHERE key = 'chat:b'
rows of usage, wrong: UPDATE view_usage_5 SET messages = messages + 1
checkpoint, nowhere: UPDATE checkpoint SET moment = 'nowhere'
checkpoint, gone: DELETE FROM checkpoint
"""


def cases(text: str) -> dict[str, str]:
    """Return statements by what they damage."""
    return dict(line.split(": ", 1) for line in text.strip().splitlines())


# Ids, digests and bytes of events differ from run to run.
VARYING = re.compile(r"\b[0-9a-f]{32,64}\b|\\x[0-9a-f]{2}|b'[^']*'")


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour after the histories."""
    stop_clock(monkeypatch)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a block for each 64 of its first 512 events, and rows behind it, with some projections."""
    place = tmp_path_factory.mktemp("told") / "sound.db"
    with written(str(place)) as store:
        assert isinstance(store.log, SqliteLog)
        while store.log._seal_block():
            pass
    return place


@pytest.fixture(scope="module")
def sound_on_postgres(pg_server: Server) -> Iterator[str]:
    """The same there; the name of its database."""
    with pg_server.database() as url:
        with written(url) as store:
            assert isinstance(store.log, PostgresLog)
            assert sum(store.log.sealing()) > 0
        yield conninfo_to_dict(url)["dbname"]  # type: ignore[misc]  # it is a str


@contextmanager
def written(place: str) -> Iterator[refold.Store]:
    """Make a store with three chats, lend it, and then ask it something."""
    with pytest.MonkeyPatch.context() as patch:
        stop_clock(patch)
        without_background(patch)
        with refold.open(place) as store:
            a, b = store.chat("a", user="mia"), store.chat("b")
            for number in range(MESSAGES // 10):
                for chat, count in ((a, 7), (b, 3)):
                    chat.add_items([said(f"message {number} {one}") for one in range(count)])
            a.add_message("user", LARGE, idempotency_key="k")
            a.fork("c").add_message("user", "only here")
            yield store
            assert store.contexts()
            assert store.usage(by=["agent"])
            assert store.search("message", limit=1)


def said(text: str) -> refold.ChatMessage:
    """Return a message."""
    return refold.ChatMessage(role=refold.ChatRole.USER, content=text, created_at=UNTIL)


def assert_told(place: str, statement: str, name: str) -> None:
    """Damage a store, and compare what is said of it with what is written down."""
    sql(place, statement)
    told = [statement]
    for command in (["verify"], ["show", "a@300", "--tail", "1"], ["log", "c"], ["contexts", "--jsonl"]):
        ended = run("--db", place, *command)
        told.append(f"$ refold {' '.join(command)}\n{ended.out}{ended.err}[ends with {ended.code}]")

    text = VARYING.sub("...", "\n".join(told)).replace(place, "PLACE")
    assert_as_written(f"damage/{re.sub(r'[^a-z0-9]+', '_', name)}", f"{text}\n")


@pytest.mark.parametrize("name", cases(ON_SQLITE))
def test_damage_on_sqlite(sound: Path, tmp_path: Path, name: str) -> None:
    """Where it is, of what sort, and whether it can be mended; who looks at a chat is told, or sees what is sound."""
    place = Path(shutil.copy(sound, tmp_path / "s.db"))

    assert_told(str(place), cases(ON_SQLITE)[name], f"sqlite {name}")


@pytest.mark.parametrize("name", cases(ON_POSTGRES))
def test_damage_on_postgres(sound_on_postgres: str, pg_server: Server, name: str) -> None:
    """The same there."""
    with pg_server.database(sound_on_postgres) as url:
        assert_told(url, cases(ON_POSTGRES)[name], f"postgres {name}")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ValueError("odd"), "row 7 is damaged: it cannot be read (odd)"),
        (KeyError(), "row 7 is damaged: it cannot be read (KeyError)"),
    ],
)
def test_whatever_reading_raises_is_damage(error: Exception, says: str) -> None:
    """What it says is told, or else its type; a database that is busy is no damage."""
    assert str(damage_of(error, "row 7")).startswith(says)
    assert str(unreadable("row 7", error)).startswith(says.replace(": it", ": a value in it"))
    with pytest.raises(StorageBusyError):
        damage_of(StorageBusyError("busy"), "row 7")

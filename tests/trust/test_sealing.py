"""Encrypted stores: what lies in the database, what opens with which keys, and what does not."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import psycopg
import pytest
from click.testing import CliRunner

import refold
from refold.domain.chat.events import MessageAdded
from refold.domain.errors import LogWentBackError, Lost
from refold.domain.log.envelope import NO_META, Undecodable, encode_payload
from refold.domain.positions import BEGINNING
from refold.infrastructure.cli.program import refold as command_line
from refold.infrastructure.log.records import Part
from refold.infrastructure.trust import key_ring, sealed_log
from refold.infrastructure.trust.keys import KEY_BYTES, MasterKeys
from refold.infrastructure.trust.sealed_log import SEALED_CODEC, Sealed, SealedLog
from tests.verifying.damaging import sql

from .stores import wait_for_nobody

WORDS = ("zanzibar", "quokka", "marmalade", "periwinkle", "tangerine")
ONE, TWO = bytes(KEY_BYTES), bytes(range(KEY_BYTES))
KEYS = MasterKeys({"m1": ONE})
Bytes = Callable[[], bytes]


class Place:
    """A location, and all bytes that a database keeps there."""

    def __init__(self, location: str, stored: Bytes) -> None:
        self.location, self.stored = location, stored

    def open(self, keys: refold.Keys | None = KEYS, *, read_only: bool = False) -> refold.Store:
        """Open the store."""
        return refold.open(self.location, keys=keys, read_only=read_only)


def rows_of(url: str) -> bytes:
    """Return the rows of all tables as text."""
    found = []
    with psycopg.connect(url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
        for (table,) in tables:
            for row in connection.execute(f"SELECT * FROM {table}"):
                found += [bytes(one) if isinstance(one, bytes | memoryview) else str(one).encode() for one in row]
    return b"\n".join(found)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A place where nothing is stored yet."""
    if request.param == "postgres":
        url = request.getfixturevalue("ready_pg_url")
        return Place(url, lambda: rows_of(url))
    folder = tmp_path / "store"
    folder.mkdir()
    return Place(str(folder / "log.db"), lambda: b"".join(path.read_bytes() for path in folder.iterdir()))


@pytest.fixture
def store(place: Place) -> Iterator[refold.Store]:
    """An empty encrypted store."""
    with place.open() as store:
        yield store


def filled(store: refold.Store) -> refold.ChatContext:
    """Return a chat whose every field has one of WORDS; each kind of question was asked about it."""
    chat = store.chat("c", user=WORDS[0], agent=WORDS[1])
    chat.add_message("user", f"{WORDS[2]} " * 9)
    with refold.acting(actor=WORDS[0], correlation_id=WORDS[3]):
        chat.add_function_call(WORDS[4], f'{{"{WORDS[3]}": "{WORDS[2]} {"x" * 9000}"}}', idempotency_key=WORDS[3])
    chat.fork().add_message("assistant", WORDS[4])
    assert len(store.search(WORDS[2])) == 2
    assert len(store.contexts()) == 2
    assert store.audit("c")
    assert store.lineage()
    return chat


def test_no_word_is_stored(place: Place) -> None:
    """Neither in the log nor in rows of projections, snapshots, keys or the write-ahead log; open or closed."""
    store = place.open()
    chat = filled(store)
    for number in range(300):
        chat.add_message("user", f"{WORDS[2]} {number}")
    chat.evict([item.id for item in chat.items[5:200]])
    assert store.search(WORDS[2])

    assert [word for word in WORDS if word.encode() in place.stored()] == []
    store.close()
    assert [word for word in WORDS if word.encode() in place.stored()] == []
    with place.open() as store:
        assert len(store.search(WORDS[4])) == 2
        assert store.verify().problems == ()


def test_every_answer_is_that_of_an_open_store(place: Place, tmp_path: Path) -> None:
    """Also in a second process, here a second store, which reads the sealed rows of the first."""
    with place.open() as store, refold.open(tmp_path / "open.db") as other:
        for one in (store, other):
            filled(one)
        with place.open() as again:
            assert len(again.chat("c").items) == len(other.chat("c").items)
            assert [hit.version for hit in again.search(WORDS[2])] == [hit.version for hit in other.search(WORDS[2])]
            assert [(row.kind, row.items) for row in again.contexts()] == [
                (row.kind, row.items) for row in other.contexts()
            ]
            meta = again.log.read("chat:c")[2].meta
            assert (meta.actor, meta.correlation_id, meta.idempotency_key) == (WORDS[0], WORDS[3], WORDS[3])
            assert meta.key_id


def test_without_its_keys_it_stays_closed(place: Place) -> None:
    """The error names the key that is needed; nothing is changed, and with the right one it opens."""
    place.open().close()
    before = place.stored()

    for keys, error in (
        (None, refold.KeyMissingError),
        (MasterKeys({"m2": ONE}), refold.KeyMissingError),
        (MasterKeys({"m1": TWO}), refold.WrongKeyError),
    ):
        with pytest.raises(error, match="'m1'"):
            place.open(keys)

    assert place.stored() == before
    place.open().close()


def test_a_store_that_is_not_encrypted_is_not_opened_with_keys(place: Place) -> None:
    """Otherwise some of its events would be encrypted, and its owner would believe that all are."""
    with place.open(None) as store:
        store.chat("c").add_message("user", "Hello.")

    with pytest.raises(refold.InvalidInputError, match="not encrypted"):
        place.open()


@pytest.mark.parametrize("keys", ["keys.json", object()])
def test_what_is_no_service_of_keys_is_refused(tmp_path: Path, keys: object) -> None:
    """A path must be given as a KeyFile: nobody should take a name for a key."""
    with pytest.raises(refold.InvalidInputError, match="wrap and unwrap"):
        refold.open(tmp_path / "log.db", keys=keys)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["k" * 32, b"k" * 31], ids=["text", "short"])
def test_what_is_no_key_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: object) -> None:
    """A service that gives something else than a key is named, before anything is encrypted with it."""
    keys = MasterKeys({"m1": ONE})
    refold.open(tmp_path / "log.db", keys=keys).close()
    monkeypatch.setattr(MasterKeys, "unwrap", lambda *_: given)

    with pytest.raises(refold.InvalidInputError, match="gave no key of 32 bytes"):
        refold.open(tmp_path / "log.db", keys=keys).chat("c").add_message("user", "Hello.")


def test_masters_are_rotated(place: Place) -> None:
    """Data keys are wrapped anew, and the old master is not needed any more."""
    with place.open() as store:
        filled(store)
    both = MasterKeys({"m1": ONE, "m2": TWO})

    with place.open(both) as store:
        # One key of the store, one of the user.
        assert (store.rotate_keys(), store.rotate_keys()) == (2, 0)

    with place.open(MasterKeys({"m2": TWO})) as store:
        assert len(store.search(WORDS[2])) == 2
    with pytest.raises(refold.KeyMissingError, match="'m2'"):
        place.open(KEYS)


def test_data_keys_are_renewed(store: refold.Store) -> None:
    """New events have a new key, and those before can still be read."""
    chat = filled(store)
    before = chat.version

    store.rotate_keys(renew=True)
    chat.add_message("user", "later")

    keys = [event.meta.key_id for event in store.log.read("chat:c")]
    assert len(set(keys[:before])) == 1
    assert keys[before:] != keys[:1]


def test_each_subject_has_a_key(store: refold.Store) -> None:
    """A user's contexts and their forks share one; a context without a user shares one with its session."""
    store.chat("a", user="mia").fork("a-fork")
    store.queue("b", user="mia")
    store.chat("c", user="tom")
    for name in ("d", "e"):
        store.chat(name, session="s")

    keys = [store.log.read(f"{name}", until=1)[0].meta.key_id for name in ("chat:a", "chat:a-fork", "queue:b")]
    others = [store.log.read(f"chat:{name}", until=1)[0].meta.key_id for name in ("c", "d", "e")]
    assert len(set(keys)) == 1
    assert others[1] == others[2]
    assert len({keys[0], *others}) == 3


def test_only_a_store_with_keys_rotates() -> None:
    """The error says what to do."""
    with refold.open(":memory:") as store, pytest.raises(refold.InvalidInputError, match="was made without keys"):
        store.rotate_keys()


class CloudKeys:
    """An example for a service in a cloud: it never gives its master keys away, and counts how often it is asked."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._masters = MasterKeys({"projects/p/keys/k": TWO})

    def wrap(self, key: bytes) -> tuple[str, bytes]:
        """Ask the service to encrypt a key."""
        self.calls.append("encrypt")
        return self._masters.wrap(key)

    def unwrap(self, master: str, wrapped: bytes) -> bytes:
        """Ask the service to decrypt a key."""
        self.calls.append("decrypt")
        return self._masters.unwrap(master, wrapped)


def test_a_service_is_asked_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each key, however many events there are, also after the time after which keys are looked at again."""
    service = CloudKeys()
    with refold.open(tmp_path / "log.db", keys=service) as store:
        chat = store.chat("c", user="mia")
        for number in range(20):
            chat.add_message("user", str(number))
        monkeypatch.setattr("refold.infrastructure.trust.key_ring.KNOWN_SECONDS", 0.0)
        for number in range(20):
            chat.add_message("user", str(number))
        assert len(store.chat("c").items) == 40

    # Made: the store's and the user's. Read: the store's; the user's, by its subject and by its id.
    assert service.calls.count("encrypt") == 2
    assert service.calls.count("decrypt") <= 3


def test_a_ciphertext_opens_only_in_its_place(tmp_path: Path) -> None:
    """Stream and version are bound to it: with all digests made anew, an event of another stream is still refused."""
    path = str(tmp_path / "log.db")
    with refold.open(path, keys=KEYS) as store:
        store.chat("a", user="mia").add_message("user", "yes")
        store.chat("b", user="mia").add_message("user", "no")

    with refold.open(path, keys=KEYS) as store:
        log = cast(SealedLog, store.log)
        events = [log.below.read_events(f"chat:{name}", after=1)[0] for name in ("a", "b")]

        with pytest.raises(refold.DamagedError, match="does not open with its key"):
            log._decrypted([events[1]], ["chat:a@2"])
        assert len(log._decrypted(events, ["chat:a@2", "chat:b@2"])) == 2


def test_an_event_in_the_open_is_refused(tmp_path: Path) -> None:
    """Somebody without the keys cannot add one: not even the digest would be right."""
    path = str(tmp_path / "log.db")
    with refold.open(path, keys=KEYS) as store:
        store.chat("a").add_message("user", "yes")
    sql(path, "ALTER TABLE data_key RENAME TO away")
    sql(path, "ALTER TABLE sealed_page RENAME TO gone")
    with refold.open(path) as store:
        store.chat("b").add_message("user", "forged")
    sql(path, "ALTER TABLE away RENAME TO data_key")
    sql(path, "ALTER TABLE gone RENAME TO sealed_page")

    with refold.open(path, keys=KEYS) as store:
        with pytest.raises(refold.DamagedError, match="does not match its digest"):
            store.chat("b")
        assert len(store.chat("a").items) == 1


def test_an_event_of_another_type_is_no_sealed_one() -> None:
    """Where the digest is right, because a program wrote it that has the keys, the error says what is wrong."""
    payload = encode_payload(MessageAdded(id="m", created_at=1.0, role="user", content="hello"))

    with pytest.raises(refold.DamagedError, match="it is not encrypted, and this store is"):
        SEALED_CODEC.decode(payload, "event chat:a@1")


def test_a_sealed_event_in_another_shape_is_named() -> None:
    """It says that it is sealed, and what is missing in it."""
    with pytest.raises(refold.DamagedError, match=r"event chat:a@1 is damaged: .*missing required field `c`"):
        SEALED_CODEC.decode(msgspec.msgpack.encode({"t": "sealed.v1", "k": "key"}), "event chat:a@1")


def test_a_key_that_is_missing_is_named(tmp_path: Path) -> None:
    """Where the row of a key is gone, neither its events are read nor more are written; those of others are."""
    path = str(tmp_path / "log.db")
    with refold.open(path, keys=KEYS) as store:
        store.chat("a", user="mia").add_message("user", "yes")
        store.chat("b", user="tom").add_message("user", "no")
        log = cast(SealedLog, store.log)
        key = log.newest_key("mia")
    sql(path, "DELETE FROM data_key WHERE id = ?", key)

    with refold.open(path, keys=KEYS) as store:
        for ask in (lambda: store.log.read("chat:a"), lambda: cast(SealedLog, store.log).subject_of("chat:a")):
            with pytest.raises(refold.KeyMissingError, match="is not in the table data_key of the store") as missing:
                ask()
            assert missing.value.key == key
        assert len(store.chat("b").items) == 1


def test_what_is_kept_of_keys_and_users_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are; all are read."""
    monkeypatch.setattr(key_ring, "KEYS_MAX", 2)
    monkeypatch.setattr(sealed_log, "SUBJECTS_MAX", 2)
    monkeypatch.setattr(sealed_log, "METAS_MAX", 2)
    path, names = tmp_path / "log.db", [f"user{number}" for number in range(5)]
    with refold.open(path, keys=KEYS) as store:
        for name in names:
            store.chat(name, user=name).add_message("user", name)

    with refold.open(path, keys=KEYS) as store:
        log = cast(SealedLog, store.log)
        for name in names:
            assert [item.text for item in store.chat(name).items if isinstance(item, refold.ChatMessage)] == [name]
            store.chat(name).add_message("user", "more")
            assert [one.version for one in log.read(f"chat:{name}")] == [1, 2, 3]
        sizes = [len(kept) for kept in (log.ring._by_id, log.ring._newest, log._subjects, log._metas)]

    assert sizes == [1, 1, 1, 1]


def test_an_audit_reads_past_what_does_not_open(tmp_path: Path) -> None:
    """An event is marked whose key was destroyed, which does not open or is in no known shape; others are as ever."""
    with refold.open(tmp_path / "log.db", keys=KEYS) as store:
        store.chat("a", user="mia")
        with refold.acting(actor="tom"):
            store.chat("b", user="tom").add_message("user", "no")
        log = cast(SealedLog, store.log)
        below = cast(Any, log.below)
        odd: list[dict[str, Any]] = [
            {"t": "chat.tomorrow.v9"},
            {"t": "sealed.v1", "k": log.newest_key("tom"), "c": bytes(40)},
        ]
        for number, event in enumerate(odd):
            draft = below.draft(event["t"], NO_META, msgspec.msgpack.encode(event))
            below.copy_in([Part(f"chat:odd{number}", 1, [draft], 5)])
        whole = log.read("chat:b")
        log.retire_keys("mia")
        log.ring.destroy(log.ring.retired())

        page = log.read_all(after=BEGINNING, limit=99, undecodable=True)

        assert page.moment == store.now()
        marked = [one for one in page.events if isinstance(one.event, Undecodable)]
        assert [one.reference for one in marked] == ["chat:a@1", "chat:odd0@1", "chat:odd1@1"]
        destroyed, unknown, closed = marked
        assert "was destroyed" in destroyed.event.reason
        assert unknown == log.below.read_all(after=BEGINNING, limit=99, undecodable=True).events[-2]
        assert closed.event.reason == f"it does not open with its key {odd[1]['k']!r}"
        assert [one for one in page.events if one.stream == "chat:b"] == whole
        assert {one.meta.actor for one in whole} == {"tom"}


def test_what_opens_and_is_no_event_is_named(store: refold.Store) -> None:
    """The error names the event by its stream and version."""
    log = cast(SealedLog, store.log)
    sealed = log._seal(log.ring.store, "chat:a@1", b"", b"\xc1")

    with pytest.raises(refold.DamagedError, match="event chat:a@1 is damaged"):
        log.event_in(encode_payload(sealed), "chat:a@1")


def test_lost_events_that_do_not_open_are_named_alone(store: refold.Store) -> None:
    """An error for a log that went back has the events that this process can still open."""
    log = cast(SealedLog, store.log)
    event = MessageAdded(id="m", created_at=1.0, role="user", content="hello")
    good = log._seal(log.ring.store, "chat:a@1", b"", encode_payload(event))
    lost = (Lost("chat:a@1", good), Lost("chat:a@2", good), Lost("chat:a@3", Sealed("no key", b"")), Lost("chat:a@4"))

    with pytest.raises(LogWentBackError) as told, log.opening_errors():
        raise LogWentBackError("the log", stream="chat:a", lost=lost)

    assert told.value.lost == (Lost("chat:a@1", event), *map(Lost, ("chat:a@2", "chat:a@3", "chat:a@4")))


def test_news_of_an_encrypted_log(store: refold.Store) -> None:
    """Who waits for them is told of each event."""
    log = cast(SealedLog, store.log)
    count = log.news.count
    store.chat("a")

    assert log.news.count > count


def test_waiting_for_a_receipt_ends_in_time(store: refold.Store) -> None:
    """Whether it was recorded is not known then, so it is no error of the append."""

    def late(timeout: float | None) -> None:
        raise TimeoutError

    below: Any = SimpleNamespace(result=late, exception=late)
    with pytest.raises(TimeoutError):
        sealed_log._Receipts(below, list, cast(SealedLog, store.log)).exception(timeout=0.0)


def test_a_destroyed_key_leaves_a_chain_that_verifies(tmp_path: Path) -> None:
    """Its events, and what was folded of them, cannot be read by anybody; those of others can."""
    path = str(tmp_path / "log.db")
    with refold.open(path, keys=KEYS) as store:
        store.chat("a", user="mia").add_message("user", "yes")
        store.chat("b", user="tom").add_message("user", "no")
        log: Any = store.log
        log.keep_snapshot("chat:a", lambda: b"folded")
        log.below._snapshots.close()
        assert log.snapshot("chat:a") == b"folded"

        log.retire_keys("mia")

        assert log.ring.destroy(log.ring.retired()) == 1
        assert log.snapshot("chat:a") is None
        # There is nothing to be wrapped.
        assert store.rotate_keys() == 0
        with pytest.raises(refold.KeyDestroyedError):
            log.read("chat:a")
        assert len(log.below.read("chat:a")) == 2
        assert len(store.chat("b").items) == 1
    with refold.open(path, keys=KEYS) as store, pytest.raises(refold.KeyDestroyedError):
        store.chat("a")


def test_whom_another_process_erased_may_come_back(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a new key: a process that knew the old one looks for another, and what it records can be read."""
    wait_for_nobody(monkeypatch)
    with place.open() as store, place.open() as other:
        other.chat("before", user="mia").add_message("user", "before")
        store.erase(user="mia", why="she asked", dry_run=False)
        other.chat("after", user="mia").add_message("user", "after")
    with place.open() as store:
        assert [len(store.chat(name).items) for name in ("before", "after")] == [1, 1]
        assert len(store.search("after")) == 1


def test_a_retired_key_is_kept_while_events_need_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It opens those, and encrypts no new one; it is destroyed when nothing needs it, after the others have written."""
    slept: list[float] = []
    monkeypatch.setattr("refold.infrastructure.trust.sealed_log.time.sleep", slept.append)
    with place.open() as store:
        chat = store.chat("a", user="mia")
        log = cast(SealedLog, store.log)

        log.retire_keys("mia")
        chat.add_message("user", "yes")

        # The new key of mia alone is renewed.
        assert (log.destroy_retired_keys(), log.ring.renew()) == (0, 1)
        assert slept[0] == (31.0 if log.has_slices else 11.0)
        first, second = log.read("chat:a")
        assert first.meta.key_id != second.meta.key_id
        assert log.subject_of("chat:a") == log.user_subject("mia")
        log.retire_keys("mia")
        log.retire_keys("tom")
        # Nothing was encrypted with the renewed one.
        assert [log.destroy_retired_keys(), log.destroy_retired_keys()] == [1, 0]
    with place.open() as store:
        assert len(store.chat("a", user="mia").items) == 1


def test_the_command_line_takes_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From an option, or from the environment; it makes and rotates them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)

    def said(*arguments: str) -> str:
        """Run a command that must succeed."""
        result = CliRunner().invoke(command_line, arguments)
        assert result.exit_code in (0, None), result.output
        return result.output

    said("--keys", "keys.json", "init", "--db", "log.db")
    with pytest.raises(refold.KeyMissingError, match=r"log\.db is encrypted with the master key 'm1', and no keys"):
        CliRunner().invoke(command_line, ["contexts", "--db", "log.db"], catch_exceptions=False, standalone_mode=False)
    monkeypatch.setenv("REFOLD_KEY_FILE", "keys.json")
    assert "no contexts" in said("contexts", "--db", "log.db")
    assert "new master key m2" in said("keys", "new", "keys.json")
    assert "wrapped 1 data key" in said("keys", "rotate", "--renew", "--db", "log.db")
    assert json.loads(said("keys", "list", "--db", "log.db", "--json")) == {"masters": {"m2": 1}, "destroyed": 0}
    assert said("keys", "new", "other.json").startswith("other.json has the new master key m1")

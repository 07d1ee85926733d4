"""Stores whose digests are keyed, encrypted or not: nobody without the keys can compute one."""

import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import refold
from refold.domain.errors import DamagedError, TamperedError
from refold.domain.positions import Moment
from refold.infrastructure.cli.program import refold as command_line
from refold.infrastructure.exchange import copy_store
from refold.infrastructure.exchange.backup import back_up_from, check_backup
from refold.infrastructure.exchange.restore import restore
from refold.infrastructure.log.block_body import block_checksum
from refold.infrastructure.log.compression import ERASED
from refold.infrastructure.trust.keys import KEY_BYTES, KeyFile, MasterKeys
from refold.infrastructure.verifying import shares

from .forging import EXPAND, Place, rechained, rewrite, with_text
from .test_witness import texts_of

KEYS = MasterKeys({"m1": bytes(KEY_BYTES)})


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    """A file of keys that does not exist yet."""
    return KeyFile(tmp_path / "keys.json")


def filled(place: Place, keys: KeyFile, *, encrypt: bool = False) -> None:
    """Write a short chat."""
    with refold.open(place.url, keys=keys, encrypt=encrypt) as store:
        for text in ("one", "two", "six"):
            store.chat("b").add_message("user", text)


@pytest.mark.parametrize("encrypt", [True, False])
def test_with_a_witness(place: Place, keys: KeyFile, encrypt: bool) -> None:
    """A store with keys has a witness as others have; what it says, and what is proved, holds without keys."""
    filled(place, keys, encrypt=encrypt)

    with place.open(keys=keys, encrypt=encrypt) as store:
        store.chat("b").add_message("user", "more")
        assert texts_of(store, "b") == ["one", "two", "six", "more"]
        proof = store.prove("chat:b@2")
        assert proof["is_keyed"]
    with place.open(keys=keys, encrypt=encrypt) as store:
        assert store.verify().problems == ()
        store.chat("b").add_message("user", "last")
    place.remove(place.rows("chat:b")[-1])
    with pytest.raises(refold.TamperedError, match="the log ends before it"):
        place.open(keys=keys, encrypt=encrypt)


@pytest.mark.parametrize("encrypt", [True, False])
def test_a_forged_event_is_refused_without_a_witness(place: Place, keys: KeyFile, encrypt: bool) -> None:
    """A digest that was computed without the key is wrong, also at the end of the log."""
    filled(place, keys, encrypt=encrypt)
    *_, last = place.rows("chat:b")
    forged = last._replace(version=last.version + 1, position=last.position + 1)
    place.add(next(rechained("chat:b", [forged], last.digest)))

    with (
        refold.open(place.url, keys=keys, encrypt=encrypt) as store,
        pytest.raises(DamagedError, match="does not match its digest"),
    ):
        pytest.fail(f"{texts_of(store, 'b')} were served")


def test_a_stream_that_was_written_again_is_refused(place: Place, keys: KeyFile) -> None:
    """Another text, and all digests of the stream computed anew without the key."""
    filled(place, keys)
    rewrite(place, "chat:b", lambda rows: [*rows[:2], with_text(rows[2], "two", "TWO"), *rows[3:]])

    with (
        refold.open(place.url, keys=keys, encrypt=False) as store,
        pytest.raises(DamagedError, match="does not match its digest"),
    ):
        pytest.fail(f"{texts_of(store, 'b')} were served")


def test_a_changed_block_is_refused(tmp_path: Path, keys: KeyFile) -> None:
    """Also with the checksum of the block computed anew, which has no key."""
    place = Place(str(tmp_path / "store.db"), tmp_path / "witness.log")
    with refold.open(place.url, keys=keys, encrypt=False) as store:
        chat = store.chat("b")
        with store.transaction():
            for number in range(600):
                chat.add_message("user", f"text {number}")
        log: Any = store.log
        while log._seal_block():
            pass
        assert texts_of(store, "b")[0] == "text 0"
    key, segment, digests, body = place.sql("SELECT key, segment, digests, body FROM block ORDER BY key LIMIT 1")[0]
    changed = b"\0" + EXPAND(body, "the block").replace(b"text 0", b"TEXT 0")
    checksum = block_checksum(segment.to_bytes(8, "big"), digests, changed)
    place.sql("UPDATE block SET body = ?, checksum = ? WHERE key = ?", changed, checksum, key)

    with (
        refold.open(place.url, keys=keys, encrypt=False) as store,
        pytest.raises(DamagedError, match="does not match its digest"),
    ):
        pytest.fail(f"{texts_of(store, 'b')} were served")


def test_a_snapshot_from_somebody_else_is_none(place: Place, keys: KeyFile) -> None:
    """Nobody without the key makes a snapshot, which no digest covers; the context is folded from its events."""
    filled(place, keys)
    with refold.open(place.url, keys=keys, encrypt=False) as store:
        store.log.keep_snapshot("chat:b", lambda: b"what the events give")
    with refold.open(place.url, keys=keys, encrypt=False) as store:
        assert store.log.snapshot("chat:b") == b"what the events give"

    place.sql("UPDATE snapshot SET packed = ?", b"what somebody would like them to give")

    with refold.open(place.url, keys=keys, encrypt=False) as store:
        assert store.log.snapshot("chat:b") is None
        assert texts_of(store, "b") == ["one", "two", "six"]


def test_a_snapshot_that_this_process_did_not_store(place: Place) -> None:
    """Without a key but with a witness it is none either; one that this process has stored is taken."""
    with place.open() as store:
        store.chat("b").add_message("user", "one")
        log: Any = store.log
        log.keep_snapshot("chat:b", lambda: b"what the events give")
        # Now it is stored.
        log._snapshots.close()
        assert log.snapshot("chat:b") == b"what the events give"

        place.sql("UPDATE snapshot SET packed = ?", b"what somebody would like them to give")

        assert log.snapshot("chat:b") is None
        assert texts_of(store, "b") == ["one"]


def test_a_time_beside_a_block(ready_pg_url: str, tmp_path: Path) -> None:
    """Where versions of the past are looked for there is no digest; so their events are looked at, too."""
    place = Place(ready_pg_url, tmp_path / "witness.log")
    with place.open() as store:
        chat = store.chat("a")
        with store.transaction():
            for number in range(200):
                chat.add_message("user", f"text {number}")
        assert sum(store.log.sealing()) == 128  # type: ignore[attr-defined]  # the log on PostgreSQL has it
        now = store.now()
        assert store.log.version_at("chat:a", now) == 201
        place.sql("UPDATE part SET position = position + 1000 WHERE first_version = 65")

        with pytest.raises(TamperedError, match=r"event chat:a@65 .*: its place or time is another one in its row"):
            store.log.version_at("chat:a", Moment(((now.heads[0][0], 100),)))


def test_its_events_stay_readable(place: Place, keys: KeyFile) -> None:
    """In the database, with indexes and rows of projections there: nothing is encrypted."""
    filled(place, keys)

    with refold.open(place.url, keys=keys, encrypt=False) as store:
        assert [hit.context for hit in store.search("two")] == ["b"]
        assert store.log.read("chat:b")[1].meta.key_id is None
    assert any(b"two" in EXPAND(row.payload, "the payload") for row in place.rows("chat:b"))


def test_without_its_keys_it_stays_closed(place: Place) -> None:
    """The error names the key that is needed; nothing is changed, and with the right one it opens."""
    refold.open(place.url, keys=KEYS, encrypt=False).close()
    before = place.sql("SELECT * FROM data_key")

    for keys, error in (
        (None, refold.KeyMissingError),
        (MasterKeys({"m2": bytes(KEY_BYTES)}), refold.KeyMissingError),
        (MasterKeys({"m1": bytes(range(KEY_BYTES))}), refold.WrongKeyError),
    ):
        with pytest.raises(error, match="'m1'"):
            refold.open(place.url, keys=keys, encrypt=keys is None)

    assert place.sql("SELECT * FROM data_key") == before
    refold.open(place.url, keys=KEYS, encrypt=False).close()


def test_a_program_says_which_kind_it_expects(place: Place) -> None:
    """So nobody has it write readable events by putting another store in the place of an encrypted one."""
    refold.open(place.url, keys=KEYS).close()
    with pytest.raises(refold.InvalidInputError, match="is encrypted: open it without encrypt=False"):
        refold.open(place.url, keys=KEYS, encrypt=False)
    refold.open(place.url, keys=KEYS, encrypt=None).close()

    place.sql("DROP TABLE data_key")
    place.sql("DROP TABLE sealed_page")
    refold.open(place.url, keys=KEYS, encrypt=False).close()
    with pytest.raises(refold.InvalidInputError, match="has keyed digests alone: open it with encrypt=False"):
        refold.open(place.url, keys=KEYS)
    with refold.open(place.url, keys=KEYS, encrypt=None) as store:
        store.chat("b")
        assert store.log.read("chat:b")[0].meta.key_id is None


def test_what_has_no_keys_gets_none_later(place: Place) -> None:
    """Digests that nobody keyed cannot be keyed without another chain; and a key cannot be left out."""
    with refold.open(place.url) as store:
        store.chat("b")

    with pytest.raises(refold.InvalidInputError, match="whose digests are not keyed"):
        refold.open(place.url, keys=KEYS, encrypt=False)
    with pytest.raises(refold.InvalidInputError, match="give keys, too"):
        refold.open(place.url, encrypt=False)
    with pytest.raises(refold.InvalidInputError, match="encrypt is 0"):
        refold.open(place.url, keys=KEYS, encrypt=0)  # type: ignore[arg-type]


def test_masters_are_rotated(place: Place) -> None:
    """The one key is wrapped anew, also where keys of subjects would be renewed; digests stay as they are."""
    both = MasterKeys({"m1": bytes(KEY_BYTES), "m2": bytes(range(KEY_BYTES))})
    with refold.open(place.url, keys=KEYS, encrypt=False) as store:
        store.chat("b").add_message("user", "one")

    with refold.open(place.url, keys=both, encrypt=False) as store:
        assert (store.rotate_keys(renew=True), store.rotate_keys()) == (1, 0)

    with refold.open(place.url, keys=both, encrypt=False) as store:
        assert texts_of(store, "b") == ["one"]
        assert store.verify().problems == ()


@pytest.mark.long
def test_other_processes_help(place: Place, keys: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """They get the key of the digests, and read the log themselves: for verify, and for a rebuild in partitions."""
    filled(place, keys)
    helpers: list[shares.Helper] = []
    start = shares._started

    def noted(*arguments: Any) -> shares.Helper | None:
        helper = start(*arguments)
        helpers.extend([helper] if helper else [])
        return helper

    monkeypatch.setattr(shares, "SHARED_EVENTS_MIN", 1)
    monkeypatch.setattr(shares, "_started", noted)
    with refold.open(place.url, keys=keys, encrypt=False) as store:
        assert store.search("two")
        assert store.verify(processes=3).problems == ()
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
            assert store.rebuild("catalogue", executor=executor, partitions=2).is_done
        assert [row.key for row in store.contexts()] == ["chat:b"]

    assert len(helpers) == 2
    assert all(set(helper.right) == {one.name for one in helper.share} for helper in helpers)


def test_backups_and_copies_have_the_same_digests(tmp_path: Path, place: Place, keys: KeyFile) -> None:
    """They need the same master keys, which no backup has; a name of a moment can be read in it."""
    filled(place, keys)
    path, target = tmp_path / "backup", f"{place.url}.restored" if place.is_file else place.url
    with refold.open(place.url, keys=keys, encrypt=False) as store:
        store.name_moment("then")
        store.chat("b").add_message("user", "more")
        store.backup(path)
        assert store.backup(path).added == 0
        digests = [one.digest for one in store.log.read("chat:b")]
    back_up_from(place.url, path, keys=keys)

    with pytest.warns(RuntimeWarning, match="no digest was computed"):
        assert check_backup(path).events == 6
    assert check_backup(path, keys=keys).events == 6
    with pytest.raises(refold.KeyMissingError, match=r"the digests of .*backup are keyed with the master key 'm1'"):
        restore(path, target, overwrite=True)
    restore(path, target, overwrite=True, keys=keys)
    copy_store(target, str(tmp_path / "copy.db"), keys=keys, lag_seconds=0)

    with pytest.raises(refold.KeyMissingError, match="are keyed with the master key 'm1'"):
        refold.open(tmp_path / "copy.db")
    for location in (target, str(tmp_path / "copy.db")):
        with refold.open(location, keys=keys, encrypt=False) as store:
            assert texts_of(store, "b") == ["one", "two", "six", "more"]
            assert len(store.at("then").chat("b").items) == 3
            assert store.verify().problems == ()
            if location == target:
                assert [one.digest for one in store.log.read("chat:b")] == digests
                # Nothing is taken for erased, which is not compressed.
                assert not any(row.payload[0] & ERASED for row in Place(target, tmp_path / "none").rows("chat:b"))


def test_in_memory_its_keys_go_with_it(tmp_path: Path) -> None:
    """So it is not backed up."""
    with refold.open(":memory:", keys=KEYS, encrypt=False) as store:
        store.chat("b").add_message("user", "one")
        assert store.verify().problems == ()
        with pytest.raises(refold.InvalidInputError, match="they are gone with it"):
            store.backup(tmp_path / "backup")


def test_the_command_line_opens_either_kind(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store is made with `init --no-encrypt`; all other commands take what they find."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REFOLD_DB", place.url)

    def said(*arguments: str, code: int = 0) -> str:
        """Run a command."""
        result = CliRunner().invoke(command_line, arguments)
        assert (result.exit_code or 0) == code, result.output
        return result.output

    assert "--no-encrypt needs keys" in said("init", "--no-encrypt", code=2)
    monkeypatch.setenv("REFOLD_KEY_FILE", "keys.json")
    if not place.is_file:
        assert "--no-encrypt: an encrypted store cannot be distributed" in said("init", "--citus", code=2)
    said("init", "--no-encrypt")
    with refold.open(place.url, keys=KeyFile("keys.json"), encrypt=False) as store:
        chat = store.chat("b")
        chat.add_message("user", "quokka")
        with store.transaction():
            for number in range(1_100):
                chat.add_message("user", str(number))
    assert said("search", "quokka") == "b@2  quokka\n"
    said("keys", "new", "keys.json")
    assert "wrapped 1 data key" in said("keys", "rotate")
    assert json.loads(said("keys", "list", "--json")) == {"masters": {"m2": 1}, "destroyed": 0}
    assert "nothing is wrong" in said("verify")
    said("vacuum")
    if not place.is_file:
        assert "packed 1,0" in said("seal")
    said("backup", "backup.refold")
    assert "nothing is wrong" in said("verify")

"""Copies of encrypted stores: from a file to a file, to PostgreSQL, and back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.domain.errors import DamagedError, InvalidInputError, StorageReadOnlyError, TamperedError
from refold.infrastructure.exchange import copy_store
from refold.infrastructure.exchange.event_files import Progress
from refold.infrastructure.trust import sealed_rows
from refold.infrastructure.trust.keys import KEY_BYTES, KeyFile, MasterKeys
from tests.cli.running import refold as command
from tests.verifying.damaging import sql

KEYS = MasterKeys({"m1": bytes(KEY_BYTES)})


def fill(location: str) -> None:
    """Make an encrypted store with a named moment, a key of a call, and the place of a subscription."""
    with refold.open(location, keys=KEYS) as store:
        chat = store.chat("c", user="mia")
        chat.add_message("user", "zanzibar", idempotency_key="k")
        store.name_moment("then")
        chat.add_message("user", "later")
        events = store.subscribe(name="mail")
        next(events)
        events.ack()
        events.stop()


def test_a_store_that_was_moved_is_opened_again(tmp_path: Path) -> None:
    """By the command that the error names."""
    keys, source = KeyFile(tmp_path / "keys.json"), tmp_path / "a.db"
    with refold.open(source, keys=keys) as store:
        store.chat("c").add_message("user", "before")
    copy_store(str(source), str(tmp_path / "b.db"), move=True, keys=keys)
    with refold.open(source, keys=keys) as store:
        with pytest.raises(StorageReadOnlyError, match="refold init --reopen"):
            store.chat("c").add_message("user", "refused")

        assert command("--keys", tmp_path / "keys.json", "init", "--reopen", db=source).code == 0
        store.chat("c").add_message("user", "after")


def check(location: str) -> None:
    """Require that everything is in a copy."""
    with refold.open(location, keys=KEYS) as store:
        chat = store.chat("c", user="mia")
        chat.add_message("user", "zanzibar", idempotency_key="k")
        assert [message["content"][0]["text"] for message in chat.to_openai_messages()] == ["zanzibar", "later"]
        assert len(store.at("then").chat("c").items) == 1
        assert len(store.search("zanzibar")) == 1
        assert store.verify().problems == ()
        events = store.subscribe(name="mail")
        assert next(events).version == 2
        events.stop()


def test_into_another_file(tmp_path: Path) -> None:
    """The copy has the same keys; it goes on where it was, and needs the master key."""
    first, second = str(tmp_path / "one.db"), str(tmp_path / "two.db")
    fill(first)

    assert copy_store(first, second, keys=KEYS).copied == 4
    assert copy_store(first, second, keys=KEYS, move=True).copied == 0

    check(second)
    assert b"zanzibar" not in (tmp_path / "two.db").read_bytes()
    with pytest.raises(refold.KeyMissingError):
        refold.open(second)


def between_pages(location: str, change: Callable[[refold.Store], object], keys: Any = KEYS) -> Progress:
    """Return what changes a store once, when some of its events are copied."""
    changes = iter([change])

    def progress(*_: int) -> None:
        for each in changes:
            with refold.open(location, keys=keys) as store:
                each(store)

    return progress


def test_a_key_that_is_made_while_a_store_is_moved(tmp_path: Path) -> None:
    """It comes along with the events that need it."""
    first, second = str(tmp_path / "one.db"), str(tmp_path / "two.db")
    fill(first)
    says = between_pages(first, lambda store: store.chat("n", user="ann").add_message("user", "new here"))

    copy_store(first, second, keys=KEYS, move=True, progress=says)

    check(second)
    with refold.open(second, keys=KEYS) as store:
        assert [item.text for item in store.chat("n", create=False).items] == ["new here"]


@pytest.mark.parametrize("keys", [None, KEYS], ids=["readable", "sealed"])
def test_what_is_erased_while_a_store_is_moved(keys: Any, tmp_path: Path) -> None:
    """The copy has the texts already, so it is refused, and the store takes events again."""
    first, second = str(tmp_path / "one.db"), str(tmp_path / "two.db")
    with refold.open(first, keys=keys) as store:
        store.chat("c").add_message("user", "zanzibar")
    erases = between_pages(first, lambda store: store.erase(context="c", why="x", dry_run=False), keys)

    for progress in (erases, None):
        with pytest.raises(InvalidInputError, match="or texts that were erased there since: copy into a new database"):
            copy_store(first, second, keys=keys, move=True, progress=progress)
    with refold.open(first, keys=keys) as store:
        store.chat("c").add_message("user", "still open")
    assert copy_store(first, str(tmp_path / "three.db"), keys=keys, move=True).is_moved


def test_to_a_server_and_back(tmp_path: Path, ready_pg_url: str) -> None:
    """Moments are named by the places that they have there."""
    first, second = str(tmp_path / "one.db"), str(tmp_path / "two.db")
    fill(first)

    assert copy_store(first, ready_pg_url, keys=KEYS).copied == 4
    assert copy_store(first, ready_pg_url, keys=KEYS, move=True).copied == 0
    check(ready_pg_url)
    copy_store(ready_pg_url, second, keys=KEYS, move=True, lag_seconds=0)

    check(second)


@pytest.mark.parametrize("is_server", [False, True])
def test_events_whose_key_is_closed(is_server: bool, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Nothing new is encrypted with it; what is there goes along."""
    first = str(tmp_path / "one.db")
    second = str(request.getfixturevalue("ready_pg_url") if is_server else tmp_path / "two.db")
    fill(first)
    with refold.open(first, keys=KEYS) as store:
        log: Any = store.log
        log.retire_keys("mia")
        log.ring.close(log.ring.retired())

    assert copy_store(first, second, keys=KEYS, move=True).copied == 4
    check(second)


def test_without_keys(tmp_path: Path) -> None:
    """Nothing is copied, and the error names the key."""
    first, second = tmp_path / "one.db", tmp_path / "two.db"
    fill(str(first))

    with pytest.raises(refold.KeyMissingError, match="'m1'"):
        copy_store(str(first), str(second))

    assert not second.exists()


def test_not_into_a_store_in_the_open(tmp_path: Path) -> None:
    """A store is encrypted as a whole, or not at all."""
    first, second = str(tmp_path / "one.db"), str(tmp_path / "two.db")
    fill(first)
    with refold.open(second) as store:
        store.chat("d")

    with pytest.raises(refold.InvalidInputError, match="has events without keys"):
        copy_store(first, second, keys=KEYS)


def test_a_backup_does_not_take_its_place(tmp_path: Path) -> None:
    """Also where its keys are not there, to see what it has."""
    place = str(tmp_path / "one.db")
    fill(place)
    with refold.open(tmp_path / "two.db") as store:
        store.chat("d")
        store.backup(tmp_path / "backup")

    with pytest.raises(refold.InvalidInputError, match="has events: restore into a new place"):
        refold.restore(tmp_path / "backup", place)

    check(place)


@pytest.fixture(params=["sqlite", "postgres"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Where a store is, and where it is restored to."""
    if request.param == "postgres":
        return tuple(str(request.getfixturevalue(name)) for name in ("ready_pg_url", "pg_url"))  # type: ignore[return-value]
    return str(tmp_path / "one.db"), str(tmp_path / "two.db")


def test_out_of_a_backup(pair: tuple[str, str], tmp_path: Path) -> None:
    """The place of a subscription is there, too; at an earlier moment, where that is; one that cannot be read stays."""
    first, second = pair
    fill(first)
    with refold.open(first, keys=KEYS) as store:
        moment = store.chat("c").history()[0].position
        store.backup(tmp_path / "a.backup")

    refold.restore(tmp_path / "a.backup", second, keys=KEYS)

    check(second)
    refold.restore(tmp_path / "a.backup", second, keys=KEYS, at=moment, overwrite=True)
    with refold.open(second, keys=KEYS) as store:
        assert store.subscribe(name="mail").moment == store.now()
    sql(first, "UPDATE note SET value = 'x' WHERE name = 'subscription/mail'")
    with refold.open(first, keys=KEYS) as store:
        store.backup(tmp_path / "a.backup")
    refold.restore(tmp_path / "a.backup", second, keys=KEYS, overwrite=True)
    with refold.open(second, keys=KEYS) as store, pytest.raises(DamagedError, match="the note subscription/mail"):
        store.subscribe(name="mail")


@pytest.mark.parametrize("comes", ["first", "later"])
def test_a_witness_and_a_backup(pair: tuple[str, str], tmp_path: Path, comes: str) -> None:
    """Both know the store by the same id; the witness refuses the restored store, and says why."""
    (first, second), file, witness = pair, tmp_path / "a.backup", tmp_path / "witness.log"
    with refold.open(first, keys=KEYS, witness=witness if comes == "first" else None) as store:
        store.chat("c").add_message("user", "zanzibar")
        store.backup(file)

    with refold.open(first, keys=KEYS, witness=witness) as store:
        store.chat("c").add_message("user", "quokka")
        seen = store.witnessed()
        assert seen is not None
        assert store.backup(file).lineage == seen.lineage

    restored = refold.restore(file, second, keys=KEYS).lineage
    with pytest.raises(TamperedError, match=f"it is the store {restored}, and its witness saw {seen.lineage}"):
        refold.open(second, keys=KEYS, witness=witness)


def test_an_id_that_an_earlier_version_encrypted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the store's all the same."""
    with monkeypatch.context() as earlier:
        earlier.setattr(sealed_rows, "LINEAGE", "another")
        with refold.open(tmp_path / "a.db", keys=KEYS, witness=tmp_path / "witness.log") as store:
            store.chat("c").add_message("user", "zanzibar")

    with refold.open(tmp_path / "a.db", keys=KEYS, witness=tmp_path / "witness.log") as store:
        store.chat("c").add_message("user", "quokka")
        assert store.backup(tmp_path / "a.backup").events == 3

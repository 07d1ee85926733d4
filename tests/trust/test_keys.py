"""Master keys: in a file, in the environment, and in a service of the user's."""

import base64
import errno
import json
import os
import stat
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.domain.errors import (
    DamagedError,
    InvalidInputError,
    KeyDestroyedError,
    KeyMissingError,
    NotFoundError,
    StorageUnavailableError,
)
from refold.infrastructure.trust import keys
from refold.infrastructure.trust.keys import KEY_BYTES, VARIABLE, KeyEnvironment, KeyFile, MasterKeys
from tests.cli.running import refold as run
from tests.trust.stores import WORD, Place, places, wait_for_nobody
from tests.verifying.damaging import sql

KEY = bytes(range(KEY_BYTES))
UNNAMED = json.dumps({"\ud800": base64.b64encode(KEY).decode()})


def test_a_file_is_made_when_it_is_needed(tmp_path: Path) -> None:
    """It is readable by its owner alone, and a second service reads the same keys from it."""
    file = KeyFile(tmp_path / "keys.json")
    assert not (tmp_path / "keys.json").exists()

    master, wrapped = file.wrap(KEY)

    assert KeyFile(tmp_path / "keys.json").unwrap(master, wrapped) == KEY
    assert stat.S_IMODE((tmp_path / "keys.json").stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["keys.json"]


@pytest.mark.parametrize("becomes", ["gone", "another"])
def test_a_file_that_is_lost_while_it_is_in_use(tmp_path: Path, becomes: str) -> None:
    """No new key takes its place: what it encrypts could not be read when the file is back."""
    file, path = KeyFile(tmp_path / "keys.json"), tmp_path / "keys.json"
    with refold.open(tmp_path / "a.db", keys=file) as store:
        store.chat("a", user="mia").add_message("user", "Hello.")
        path.rename(tmp_path / "kept")
        if becomes == "another":
            KeyFile(path).make()
        with pytest.raises(InvalidInputError, match=r"cannot be read \(No such file|was another one before: put that"):
            store.chat("b", user="ben").add_message("user", "Hello.")
        assert path.exists() == (becomes == "another")
        (tmp_path / "kept").replace(path)
        store.chat("b", user="ben").add_message("user", "Hello again.")

    with refold.open(tmp_path / "a.db", keys=KeyFile(path)) as store:
        assert [item.text for item in store.chat("b").items] == ["Hello again."]


def test_a_file_is_not_looked_for_in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may change its folder; a second file would be made there."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    file = KeyFile("keys.json")
    monkeypatch.chdir("elsewhere")

    file.wrap(KEY)

    assert [one.name for one in tmp_path.iterdir() if one.is_file()] == ["keys.json"]


def test_a_key_is_on_disk_before_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is synced before it gets its name, and the folder afterwards; so is a file with a new master."""
    synced: list[str] = []
    sync = os.fsync

    def note(handle: int) -> None:
        names = sorted(one.name for one in tmp_path.iterdir())
        synced.append(f"{'folder' if stat.S_ISDIR(os.fstat(handle).st_mode) else 'file'} {len(names)} {names[0]}")
        sync(handle)

    monkeypatch.setattr(os, "fsync", note)
    file = KeyFile(tmp_path / "keys.json")
    file.wrap(KEY)
    file.add_master()

    new = f"keys.json.{os.getpid()}.new"
    assert synced == [f"file 1 {new}", "folder 1 keys.json", "file 2 keys.json", "folder 1 keys.json"]


def test_a_new_master_wraps_from_then_on(tmp_path: Path) -> None:
    """What older masters wrapped can still be opened."""
    file = KeyFile(tmp_path / "keys.json")
    before = file.wrap(KEY)

    assert file.add_master() == "m2"

    assert (before[0], file.wrap(KEY)[0]) == ("m1", "m2")
    assert file.unwrap(*before) == KEY


def test_a_new_master_takes_the_place_of_none(tmp_path: Path) -> None:
    """Older ones were taken out, as the guide says: the newest, with which all data keys are wrapped, stays."""
    path = tmp_path / "keys.json"
    file = KeyFile(path)
    file.wrap(KEY)
    file.add_master()
    wrapped = file.wrap(KEY)
    texts = json.loads(path.read_text())
    path.write_text(json.dumps({"m2": texts["m2"]}))

    assert KeyFile(path).add_master() == "m3"

    assert KeyFile(path).unwrap(*wrapped) == KEY
    assert [*json.loads(path.read_text())] == ["m2", "m3"]


def test_masters_that_are_added_at_once(tmp_path: Path) -> None:
    """None is overwritten: it may be in use already."""
    path = tmp_path / "keys.json"
    with ThreadPoolExecutor(8) as threads:
        made = [*threads.map(lambda _: KeyFile(path).make(), range(8))]
        added = [*threads.map(lambda _: KeyFile(path).add_master(), range(16))]

    assert made == ["m1"] * 8
    assert sorted(added) == sorted(f"m{number}" for number in range(2, 18))
    assert len(json.loads(path.read_text())) == 17


def test_what_a_killed_process_left_beside_the_file(tmp_path: Path) -> None:
    """In a container the next process often has the same number; it makes the file all the same."""
    (tmp_path / f"keys.json.{os.getpid()}.new").write_text("{")

    KeyFile(tmp_path / "keys.json").wrap(KEY)

    assert [one.name for one in tmp_path.iterdir()] == ["keys.json"]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says why; a file that is there stays as it is."""
    with pytest.raises(InvalidInputError, match=r"cannot be written \(No such file or directory\)"):
        KeyFile(tmp_path / "missing" / "keys.json").wrap(KEY)
    path = tmp_path / "keys.json"
    KeyFile(path).make()
    before = path.read_text()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InvalidInputError, match=r"cannot be written \(No space left on device\)"):
        KeyFile(path).add_master()
    assert path.read_text() == before
    assert [one.name for one in tmp_path.iterdir()] == ["keys.json"]


def test_a_wrapped_key_does_not_show_the_key() -> None:
    """Each time it is wrapped with another nonce."""
    masters = MasterKeys({"a": KEY})

    assert KEY not in masters.wrap(KEY)[1]
    assert masters.wrap(KEY) != masters.wrap(KEY)


def test_missing_keys_are_named(tmp_path: Path) -> None:
    """An error names the key, and the place where it was looked for."""
    wrapped = MasterKeys({"a": KEY}).wrap(KEY)
    path = tmp_path / "keys.json"

    with pytest.raises(refold.KeyMissingError, match=r"'a' is not in .*keys\.json"):
        KeyFile(path).unwrap(*wrapped)
    with pytest.raises(refold.KeyMissingError, match="'a'") as error:
        MasterKeys({"b": KEY}).unwrap(*wrapped)
    assert error.value.key == "a"


def test_another_key_of_the_same_name_is_refused() -> None:
    """It is not taken for the right one, and what it gives is not returned."""
    wrapped = MasterKeys({"a": KEY}).wrap(KEY)

    with pytest.raises(refold.WrongKeyError, match="'a'"):
        MasterKeys({"a": KEY[::-1]}).unwrap(*wrapped)


@pytest.mark.parametrize("cut", [0, 5, 12, 30, 59])
def test_changed_bytes_are_refused(cut: int) -> None:
    """Each bit of a wrapped key counts, and so does its length."""
    master, wrapped = MasterKeys({"a": KEY}).wrap(KEY)

    with pytest.raises(refold.WrongKeyError):
        MasterKeys({"a": KEY}).unwrap(master, wrapped[:cut])
    with pytest.raises(refold.WrongKeyError):
        MasterKeys({"a": KEY}).unwrap(master, wrapped[:cut] + bytes([wrapped[cut] ^ 1]) + wrapped[cut + 1 :])


def test_keys_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest is the last one."""
    first, second = (base64.b64encode(key).decode() for key in (KEY, KEY[::-1]))
    monkeypatch.setenv(VARIABLE, f"m1:{first}")
    wrapped = KeyEnvironment().wrap(KEY)

    monkeypatch.setenv(VARIABLE, f"m1:{first}, m2:{second}")

    assert KeyEnvironment().wrap(KEY)[0] == "m2"
    assert KeyEnvironment().unwrap(*wrapped) == KEY


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "in the variable OTHER_KEYS: `refold keys new FILE` makes one"),
        ("m1:!", "not base64"),
        ("m1:é", "not base64"),
        ("m1:AAAA", "has 3 bytes: it needs 32"),
    ],
)
def test_a_wrong_environment_is_named(monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    """The error names the variable, and no key."""
    monkeypatch.setenv("OTHER_KEYS", text)

    with pytest.raises(refold.InvalidInputError, match=message):
        KeyEnvironment("OTHER_KEYS").wrap(KEY)


@pytest.mark.parametrize(
    "text",
    ["", "[]", pytest.param("[" * 100_000, id="deep"), '{"m1": 7}', '{"m1": "?"}', '{"m1": "AAAA"}', "{}", UNNAMED],
)
def test_a_wrong_file_is_named(tmp_path: Path, text: str) -> None:
    """It is neither used nor overwritten."""
    path = tmp_path / "keys.json"
    path.write_text(text)

    with pytest.raises(refold.InvalidInputError, match="keys"):
        KeyFile(path).wrap(KEY)
    assert path.read_text() == text


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """The error says why, and nothing is made in its place."""
    with pytest.raises(refold.InvalidInputError, match=rf"the key file {tmp_path} cannot be read \(Is a directory\)"):
        KeyFile(tmp_path).wrap(KEY)
    assert [*tmp_path.iterdir()] == []


def test_two_that_make_a_file_at_once_share_one_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slower one uses the file of the faster one."""
    path = tmp_path / "keys.json"
    made = json.dumps({"m1": base64.b64encode(KEY).decode()})

    def overtaken(*_: object) -> None:
        path.write_text(made)
        raise FileExistsError

    synced: list[Path] = []
    monkeypatch.setattr(keys, "sync_folder", synced.append)
    monkeypatch.setattr(os, "link", overtaken)
    master, wrapped = KeyFile(path).wrap(KEY[::-1])

    assert MasterKeys({"m1": KEY}).unwrap(master, wrapped) == KEY[::-1]
    assert [one.name for one in tmp_path.iterdir()] == ["keys.json"]
    assert synced == [tmp_path]


def test_data_keys_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the master that wraps them, and those that an erasure destroyed."""
    wait_for_nobody(monkeypatch)
    path = tmp_path / "agents.db"
    monkeypatch.setenv("REFOLD_KEY_FILE", str(tmp_path / "keys.json"))
    with refold.open(path, keys=KeyFile(tmp_path / "keys.json")) as store:
        for user in ("mia", "ben"):
            store.chat(user, user=user).add_message("user", "a question")
        whole = run("keys", "list", "--db", path)
        store.erase(user="mia", why="ticket 7", dry_run=False)

    after = run("keys", "list", "--db", path)

    assert whole.out.splitlines() == ["m1  3 data keys"]
    # The events that say what was erased have a key of their own.
    assert after.out.splitlines() == ["m1  3 data keys", "1 data key destroyed"]


def test_keys_without_their_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install is said, and no file is made."""
    monkeypatch.setitem(sys.modules, "refold.infrastructure.trust.sealed_log", None)

    with pytest.raises(StorageUnavailableError, match=r'needs another package: pip install "refold\[keys\]"'):
        refold.open(tmp_path / "store.db", keys=KeyFile(tmp_path / "keys.json"))

    assert list(tmp_path.iterdir()) == []


@pytest.fixture(params=["sealed", "sealed-postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """The place of an encrypted store."""
    yield from places(request, tmp_path)


def drop(place: Place, key_id: str) -> None:
    """Delete the row of a data key."""
    sql(place.location, "DELETE FROM data_key WHERE id = ?", key_id)


def assign(place: Place, key_id: str) -> None:
    """Write another subject into the row of a data key."""
    sql(place.location, "UPDATE data_key SET subject = ? WHERE id = ?", "f" * 32, key_id)


def destroy(place: Place, key_id: str) -> None:
    """Destroy a data key, though events are encrypted with it."""
    sql(place.location, "UPDATE data_key SET wrapped = ? WHERE id = ?", b"", key_id)


@pytest.mark.parametrize("change", [drop, assign])
def test_a_key_that_is_gone_or_was_changed(place: Place, change: Callable[[Place, str], None]) -> None:
    """Others can be erased all the same; the receipt says that nobody knows whose these contexts are."""
    with place.open() as store:
        for user in ("mia", "tom"):
            store.chat(f"of-{user}", user=user).add_message("user", WORD)
        assert len(store.contexts()) == 2
        log: Any = store.log
        key_id = log.newest_key("tom")
    change(place, key_id)

    with place.open() as store:
        done = store.erase(user="mia", why="ticket 7", dry_run=False)
        with pytest.raises(NotFoundError, match="1 context whose keys are not in the table"):
            store.erase(user="tom", why="ticket 8", dry_run=False)

    said = "1 context whose keys are not in the table data_key, or were changed there: nobody knows whose they are"
    assert ([one.context for one in done.contexts], said in done.unreached) == (["chat:of-mia"], True)
    assert "the user's name in the id of 1 context" in done.unreached
    assert done.receipt is not None
    assert said in done.receipt.unreached


@pytest.mark.parametrize("change", [drop, destroy])
def test_a_later_key_that_is_gone(place: Place, change: Callable[[Place, str], None]) -> None:
    """What can be read is erased; the receipt says how many events nobody can read until their key is back."""
    with place.open() as store:
        log: Any = store.log
        chat = store.chat("of-mia", user="mia")
        chat.add_message("user", WORD)
        log.ring.renew()
        chat.add_message("user", WORD)
        store.chat("of-tom", user="tom").add_message("user", WORD)
        key_id = log.newest_key("mia")
    row = sql(place.location, "SELECT * FROM data_key WHERE id = ?", key_id)[0]
    change(place, key_id)

    with place.open() as store:
        done = store.erase(user="mia", why="ticket 7", dry_run=False)
        assert done.receipt is not None
        said = "1 event whose keys are gone from the table data_key: erase again if they come back from a copy"
        assert (done.events, said in done.receipt.unreached) == (2, True)
        assert len(store.log.read("chat:of-mia", until=2)) == 2
        with pytest.raises((KeyMissingError, KeyDestroyedError), match=key_id):
            store.log.read("chat:of-mia")
        drop(place, key_id)
        sql(place.location, "INSERT INTO data_key VALUES (?, ?, ?, ?, ?)", *row)

        assert store.erase(user="mia", why="ticket 7", dry_run=False).receipt is not None
        assert WORD not in str(store.log.read("chat:of-mia"))
        assert store.verify().is_whole


def test_a_rotation_beside_a_key_that_was_changed(place: Place) -> None:
    """All others are wrapped anew before the error: else the master key before could never be taken out."""
    with place.open() as store:
        for user in ("mia", "tom", "zoe"):
            store.chat(f"of-{user}", user=user)
        log: Any = store.log
        ids = sorted(log.newest_key(user) for user in ("mia", "tom", "zoe"))
    assign(place, ids[0])
    both = MasterKeys({"first": bytes(range(32)), "second": KEY})

    with (
        refold.open(place.location, keys=both) as store,
        pytest.raises(DamagedError, match=ids[0]),
    ):
        store.rotate_keys()

    assert [row[0] for row in sql(place.location, "SELECT id FROM data_key WHERE master = 'first'")] == ids[:1]

"""Places that keep the entries of a witness: a disk that is nearly full, and an endpoint with too many entries."""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import sqlite3
import time
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.client import BadStatusLine
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from unittest.mock import patch

import pytest

import refold
from refold.domain.errors import StorageUnavailableError, TamperedError
from refold.infrastructure.open import accept_store
from refold.infrastructure.trust import checkpoints, witness
from refold.infrastructure.trust.witness import Accepted, FileWitness, HttpWitness, text_of

from .forging import Place

LINE = '{"kind":"closed"}'
# What an endpoint was sent: the path, the entry, and its type.
SENT: list[tuple[str, bytes, str]] = []


def test_an_entry_that_the_disk_takes_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is whole in the end, and synced then, or an error says that it is not."""
    write, path = os.write, tmp_path / "witness.log"
    synced: list[str] = []
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:5]))
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(path.read_text()))
    FileWitness(path).add(LINE)
    assert FileWitness(path).entries() == [LINE]
    assert synced == [f"{LINE}\n"]

    def fill(handle: int, data: bytes) -> int:
        if len(data) <= 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(handle, data[:-10])

    monkeypatch.setattr(os, "write", fill)
    with pytest.raises(OSError, match="No space left"):
        FileWitness(path).add(LINE)
    monkeypatch.setattr(os, "write", write)
    FileWitness(path).add(LINE)
    assert FileWitness(path).entries() == [LINE, LINE[:8], LINE]


class Lines(BaseHTTPRequestHandler):
    """Answers with three entries, at /slow byte by byte, at /torn as if there were more; from /moved it sends on."""

    def do_GET(self) -> None:
        """Answer."""
        if self.path == "/moved":
            self.do_POST()
            return
        self.send_response(200)
        if self.path == "/torn":
            self.send_header("Content-Length", "99")
        self.end_headers()
        entries = f"{LINE}\n".encode() * 3
        step = 1 if self.path == "/slow" else len(entries)
        for start in range(0, len(entries), step):
            self.wfile.write(entries[start : start + step])
            time.sleep(0.05 if step == 1 else 0)

    def do_POST(self) -> None:
        """Keep an entry at /kept, or send it on."""
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.startswith("/kept"):
            SENT.append((self.path, sent, self.headers["Content-Type"]))
            self.send_response(200)
            self.end_headers()
            return
        self.send_response(301)
        self.send_header("Location", "/here")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    """The URL of a server with three entries."""
    server = HTTPServer(("127.0.0.1", 0), Lines)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_endpoint_with_more_entries_than_are_read(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest are not left out: less would be compared with them."""
    monkeypatch.setattr(witness, "HTTP_BYTES_MAX", 3 * (len(LINE) + 1))
    assert HttpWitness(url).entries() == [LINE] * 3
    monkeypatch.setattr(witness, "HTTP_BYTES_MAX", 3 * len(LINE))
    with pytest.raises(OSError, match="it has more than 51 bytes"):
        HttpWitness(url).entries()


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85"])
def test_an_endpoint_with_an_entry_whose_text_has_a_line_end(
    url: str, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """Only a line feed ends an entry: the text in one may have other characters that end lines, which JSON keeps."""
    entry = text_of(Accepted(lineage="a" * 32, time="", actor="mia", reason=f"moved{end}to Berlin"))
    monkeypatch.setitem(globals(), "LINE", entry)

    assert HttpWitness(url).entries() == [entry] * 3


def test_an_endpoint_that_keeps_an_entry(url: str) -> None:
    """It gets the line as JSON; a password in its address is not shown."""
    SENT.clear()
    place = HttpWitness(url + "kept?password=1234")

    place.add(LINE)

    assert [("/kept?password=1234", LINE.encode(), "application/json")] == SENT
    assert repr(place) == f"{url}kept"


def test_an_endpoint_that_sends_others_on(url: str) -> None:
    """An entry does not get there, as a GET comes of it; reading goes on there."""
    with pytest.raises(OSError, match=f"it sends entries on to {url}here: name that address"):
        HttpWitness(url + "moved").add(LINE)
    assert HttpWitness(url + "moved").entries() == [LINE] * 3


def test_an_answer_that_breaks_off(url: str) -> None:
    """It may lack the newest entries."""
    with pytest.raises(OSError, match="its answer broke off: 45 bytes are missing"):
        HttpWitness(url + "torn").entries()


def test_an_endpoint_that_answers_slowly(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then does not keep a store from being opened."""
    monkeypatch.setattr(witness, "HTTP_ANSWER_SECONDS_MAX", 0.3)
    with pytest.raises(OSError, match=r"its answer took more than 0.3 seconds"):
        HttpWitness(url + "slow").entries()
    monkeypatch.setattr(witness, "HTTP_ANSWER_SECONDS_MAX", 30.0)
    assert HttpWitness(url + "slow").entries() == [LINE] * 3


NO_ENTRIES = ["<html>", "log in", "</html>"]
BAD_ROOT = '{"kind":"checkpoint","lineage":"a","time":"t","events":1,"root":"","slices":{"-1":[1,"no","hex"]}}'


class Kept:
    """A witness that has some lines already."""

    def __init__(self, *lines: str) -> None:
        self.lines = [*lines]

    def add(self, entry: str) -> None:
        """Keep a line."""
        self.lines.append(entry)

    def entries(self) -> list[str]:
        """Return all lines."""
        return self.lines


@pytest.mark.parametrize("lines", [NO_ENTRIES, [BAD_ROOT], [BAD_ROOT.replace("-1", "x")]])
def test_a_place_that_has_something_else(lines: list[str], tmp_path: Path) -> None:
    """It is no witness that begins anew: that nothing is compared is said."""
    place = Kept(*lines)
    with pytest.warns(RuntimeWarning, match=r"cannot be reached .* none of which is an entry"):
        store = refold.open(tmp_path / "a.db", witness=place)
    with store:
        store.chat("a").add_message("user", "hello")
        store.flush()
    assert place.lines == lines


def test_a_line_that_is_no_entry(tmp_path: Path) -> None:
    """It counts for nothing, whatever is wrong with it; those around it are compared, and a check names it."""
    place = Kept()
    with refold.open(tmp_path / "a.db", witness=place) as store:
        store.chat("a").add_message("user", "hello")
    lineage = json.loads(place.lines[0])["lineage"]
    place.lines.insert(1, BAD_ROOT.replace('"a"', f'"{lineage}"'))
    place.lines.insert(2, NO_ENTRIES[0])
    place.lines.insert(3, '{"kind":"opened","lineage":' + "[" * 100_000 + "]" * 100_000 + "}")
    place.lines.insert(4, '{"kind":"opened","more":' + "[" * 100_000 + "]" * 100_000 + "}")

    with refold.open(tmp_path / "a.db", witness=place) as store:
        assert store.compare_with_witness() == [("the witness", "4 of its lines are no entries")]
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("DELETE FROM event WHERE position = 2")
    with pytest.raises(TamperedError, match="the log ends before it"):
        refold.open(tmp_path / "a.db", witness=place)


def aged(place: Kept, days: int) -> None:
    """Let all that the witness keeps have been said so many days ago."""
    past = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="milliseconds")
    place.lines[:] = [re.sub(r'"time":"[^"]*"', f'"time":"{past}"', line) for line in place.lines]


def closed_in(place: Kept) -> list[str]:
    """Return the writers that have closed the store, or are said to have ended."""
    return [json.loads(line)["writer"] for line in place.lines if '"closed"' in line]


@pytest.mark.parametrize("speaks", ["before", "meanwhile", "never"])
def test_a_writer_that_has_the_store_open_for_weeks(
    speaks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program on another machine does not take it for one that was killed, if it said something within a week."""
    place, path = Kept(), tmp_path / "a.db"
    monkeypatch.setattr(socket, "gethostname", lambda: "one")
    with refold.open(path, witness=place) as daemon:
        writer = json.loads(place.lines[0])["writer"]
        chat = daemon.chat("a")
        daemon.flush()
        aged(place, 8)
        if speaks == "before":
            chat.add_message("user", "hello")
            daemon.flush()
        monkeypatch.setattr(socket, "gethostname", lambda: "other")
        with refold.open(path, witness=place) as store:
            store.chat("b").add_message("user", "hello")
            if speaks == "meanwhile":
                chat.add_message("user", "hello")
                daemon.flush()

        assert (writer in closed_in(place)) == (speaks == "never")
        if speaks == "never":
            monkeypatch.setattr(checkpoints, "DAY_SECONDS", -1)
            chat.add_message("user", "hello")
            daemon.flush()
            # It is there again: what it records next is no forgery.
            assert [json.loads(line)["kind"] for line in place.lines[-2:]] == ["opened", "checkpoint"]
        monkeypatch.undo()
    assert closed_in(place)[-1] == writer


def test_a_witness_that_is_out_of_reach_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is recorded meanwhile does not stay in memory: it is read from the log when the witness is back."""
    monkeypatch.setattr(checkpoints, "NOTED_MAX", 5)
    place = Kept()
    with refold.open(tmp_path / "a.db", witness=place) as store:
        known = store._checkpoints.known  # type: ignore[union-attr]  # it has a witness
        with patch.object(Kept, "add", side_effect=OSError("no route")), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kept = set[int]()
            for number in range(20):
                store.chat("a").add_message("user", f"text {number}")
                store.flush()
                kept.add(len(known.noted))
        assert max(kept) == 5

        store.chat("a").add_message("user", "and on it goes")
        store.flush()

        assert (known.seen.events, known.noted, store.compare_with_witness()) == (22, [], [])
        # The next append wakes the thread again.
        assert not known.is_awake
    assert closed_in(place)


def test_calls_that_need_a_witness_out_of_reach(tmp_path: Path) -> None:
    """Whatever goes wrong there is an error of Refold's, also what no program expects of a server."""
    with refold.open(tmp_path / "a.db") as store:
        store.chat("a")
    place = Kept()
    with patch.object(Kept, "entries", side_effect=BadStatusLine("\x1b[2J")), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        store = refold.open(tmp_path / "a.db", witness=place)
        cannot_be_reached = r"cannot be reached \(BadStatusLine: "
        with pytest.raises(StorageUnavailableError, match=cannot_be_reached):
            store.prove("chat:a@1")
        with pytest.raises(StorageUnavailableError, match=cannot_be_reached):
            store.prove_consistency(1)
        store.close()
    with patch.object(Kept, "add", side_effect=OSError("no route")), pytest.raises(StorageUnavailableError):
        accept_store(str(tmp_path / "a.db"), witness=place, keys=None, encrypt=None, actor="tom", reason="a test")


@pytest.mark.parametrize("read_only", [False, True])
def test_a_witness_that_is_not_where_it_was(read_only: bool, tmp_path: Path) -> None:
    """A disk that is not mounted, or a slip in the name, does not look like the first witness of a store."""
    path, witness = tmp_path / "a.db", tmp_path / "witness.log"
    with refold.open(path, witness=witness) as store:
        store.chat("a").add_message("user", "hello")
    with refold.open(path, witness=witness, read_only=read_only) as store:
        assert len(store.chat("a").items) == 1

    with pytest.warns(RuntimeWarning, match=r"other.log has no entries, and this store had a witness"):
        store = refold.open(path, witness=tmp_path / "other.log", read_only=read_only)
    store.close()
    if not read_only:
        refold.open(path, witness=tmp_path / "other.log").close()


class Unreachable(Kept):
    """A witness that one program cannot reach."""

    def entries(self) -> list[str]:
        """Fail."""
        raise OSError("no route")


def test_a_witness_that_one_of_several_programs_cannot_reach(tmp_path: Path) -> None:
    """What it records is not taken for forged, also after another one has told the witness of it."""
    place, path = Kept(), tmp_path / "a.db"
    with refold.open(path, witness=place) as store:
        store.chat("a").add_message("user", "hello")
    with pytest.warns(RuntimeWarning, match="no route"):
        cut_off = refold.open(path, witness=Unreachable())
    for text in ("one", "two"):
        cut_off.chat("a").add_message("user", text)
        cut_off.flush()
        with pytest.warns(RuntimeWarning, match="they are taken for those of a writer of"):
            store = refold.open(path, witness=place)
        with store:
            assert store.chat("a").items[-1].text == text
        assert place.lines[-2].count("with events of a writer of") == 1
    cut_off.close()


def test_a_checkpoint_that_did_not_arrive(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is handed over later, also of slices to which nobody writes any more."""
    with refold.open(place.url) as store:
        for name in ("a", "b", "c"):
            store.chat(name).add_message("user", "hello")
    add = FileWitness.add

    def lose_checkpoints(witness: FileWitness, entry: str) -> None:
        if json.loads(entry)["kind"] == "checkpoint":
            raise OSError("no room")
        add(witness, entry)

    def opened() -> refold.Store:
        store = place.open()
        store._witnessed_by().write()
        return store

    with monkeypatch.context() as patched:
        # Before the store is opened: from then on a thread of its own may hand them over at any moment.
        patched.setattr(FileWitness, "add", lose_checkpoints)
        with pytest.warns(RuntimeWarning, match="no room"):
            store = opened()
    store.chat("a").add_message("user", "more")
    store.close()

    with place.open() as store:
        assert store._witnessed_by().known.seen.events == store.now().events == 7

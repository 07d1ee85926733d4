"""Files that cannot be taken in: they are refused with what is wrong, and nothing is written."""

from __future__ import annotations

import json
import random
import re
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import refold
from refold.domain.errors import InvalidInputError, StorageError
from refold.infrastructure.exchange import export_events, rehearsal, take_in_events
from refold.infrastructure.files import reading_file
from tests.contract.chat_checking import message

Lines = list[Any]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with two chats, one of which is a fork of the other, and a window."""
    path = tmp_path / "file"
    with refold.open(":memory:") as source:
        chat = source.chat("a", session="s")
        chat.add_items([message(f"i{number}") for number in range(4)], idempotency_key="k")
        chat.evict(["i1", "i2"])
        chat.fork("b").add_message("user", "forked")
        source.window("w").add(refold.BudgetItem("k", "v", "s"))
        export_events(source.log, path)
    return path


def lines_of(path: Path) -> Lines:
    """Return the lines of a file."""
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def written(path: Path, lines: Lines) -> Path:
    """Write lines into a file beside another one."""
    other = path.with_name("other")
    other.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    return other


def refusal(path: Path) -> str:
    """Return why a file is refused, by an empty store and by one that has a context; neither of them changes."""
    said = set[str]()
    for name in ("", "z"):
        with refold.open(":memory:") as store:
            if name:
                store.chat(name)
            end = store.now()
            with pytest.raises(InvalidInputError) as caught:
                take_in_events(store.log, path)
            said.add(str(caught.value))
            assert (store.now(), len(store.contexts())) == (end, len(name))
    (only,) = said
    return only


def changed(number: int, **fields: Any) -> Callable[[Lines], Lines]:
    """Return what changes fields of a line, counted from 0."""
    return lambda lines: [{**line, **fields} if place == number else line for place, line in enumerate(lines)]


CHAT_EVENT = {"t": "chat.message_added.v1", "id": "x", "created_at": 1.0, "role": "user", "content": "x"}
NAMING = {"t": "chat.items_evicted.v1", "items": [["chat:nowhere", "BwE="]], "change": [0, 0, 0]}
NAMING_THE_FIRST = {**NAMING, "items": [["chat:nowhere", "AQE="]]}
IMAGE = {"id": "i", "image": "https://example.org/i.png", "size": "large"}
IN_BASE64 = b64encode(msgspec.msgpack.encode({**CHAT_EVENT, "mood": "glad"})).decode()
BROKEN: dict[str, tuple[Callable[[Lines], Lines], str]] = {
    "cut off at the end": (lambda lines: lines[:-1], "cut off"),
    "cut off in the middle": (lambda lines: lines[:4], "cut off"),
    "the header alone": (lambda lines: lines[:1], "cut off"),
    "nothing": (lambda lines: [], "cut off: it ends after 0 events"),
    "an event less": (lambda lines: lines[:-2] + lines[-1:], "cut off"),
    "an event too many": (lambda lines: [*lines[:-1], lines[-2], lines[-1]], "has version 2 of"),
    "more behind the end": (lambda lines: [*lines, lines[-2]], "nothing comes behind the end"),
    "two ends": (lambda lines: [*lines, lines[-1]], "nothing comes behind the end"),
    "no header": (lambda lines: lines[1:], "line 1: this is not an export"),
    "another header": (changed(0, refold="one"), "line 1: this is not an export"),
    "a newer form": (changed(0, refold=2), "newer Refold"),
    "versions in another order": (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], "behind version 0"),
    "a version twice": (changed(3, version=2), "has version 2 of chat:a behind version 2"),
    "a hole": (lambda lines: lines[:3] + lines[4:], "behind version 2"),
    "a stream in two places": (lambda lines: [*lines[:4], lines[-2], *lines[4:]], "chat:a in two places|version 2"),
    "another stream's event": (changed(2, stream="window:w"), "has version 2 of window:w behind"),
    "an event of another kind": (changed(10, event=CHAT_EVENT), "an event in window:w that does not belong"),
    "an unknown tag": (changed(2, event={"t": "chat.dreamt.v1"}), "line 3: .*newer Refold"),
    "an unknown field": (changed(2, event={**CHAT_EVENT, "mood": "glad"}), "line 3: .*'mood'.*newer Refold"),
    "an unknown field of a part": (changed(2, event={**CHAT_EVENT, "content": [IMAGE]}), "line 3: .*'size'"),
    "an unknown field of an array": (changed(6, event={**NAMING, "change": [0, 0, 0, 0]}), "line 7: .*field 3"),
    "an unknown field in base64": (changed(2, event=IN_BASE64), "line 3: .*'mood'.*newer Refold"),
    "an unknown field beside an event": (changed(2, mood="glad"), "line 3: .*unknown field `mood`"),
    "no tag": (changed(2, event={"id": "x"}), "line 3: "),
    "no event": (changed(2, event=None), "line 3: "),
    "bytes that are none": (changed(2, event="?"), "line 3: "),
    "bytes that are no event": (changed(2, event="AAAA"), "line 3: "),
    "a field of another type": (changed(2, event={**CHAT_EVENT, "created_at": "soon"}), "line 3: .*created_at"),
    "an id that cannot be": (lambda lines: _renamed(lines, "chat:a@b"), "cannot be the id"),
    "no id": (lambda lines: _renamed(lines, "chat:"), "cannot be the id"),
    "no kind": (lambda lines: _renamed(lines, "a"), "which is no context"),
    "another kind": (lambda lines: _renamed(lines, "pool:a"), "does not belong there"),
    "a kind that there is not": (lambda lines: _renamed(lines, "store:moments"), "which is no context"),
    "another root": (changed(1, root="elsewhere"), "as the root of chat:a"),
    "it names what is nowhere": (changed(6, event=NAMING), "names version 7 of chat:nowhere, which is"),
    "it names the first": (changed(6, event=NAMING_THE_FIRST), "names version 1 of chat:nowhere, which is"),
    "a list that ends too soon": (changed(6, event={**NAMING, "items": [["", "gA=="]]}), "damaged event, version 6"),
    "no parent": (lambda lines: [line for line in lines if line.get("stream") != "chat:a"], "cut off"),
}  # fmt: skip


def _renamed(lines: Lines, stream: str) -> Lines:
    return [{**line, "stream": stream} if line.get("stream") == "chat:a" else line for line in lines]


def test_the_file_itself_is_fine(file: Path) -> None:
    """What is changed below can be taken in as it is; written anew it is the same."""
    for path in (file, written(file, lines_of(file))):
        with refold.open(":memory:") as store:
            assert take_in_events(store.log, path).added == 3
            assert store.verify().is_whole


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    """It is said why it cannot be read."""
    said = f"^{re.escape(str(tmp_path))} is no regular file: name a file$"
    with pytest.raises(InvalidInputError, match=said), reading_file(tmp_path):
        pass


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_with_it(file: Path, name: str) -> None:
    """Each of these is refused, with the file's name and what is wrong."""
    change, reason = BROKEN[name]
    said = refusal(written(file, change(lines_of(file))))

    assert str(file.with_name("other")) in said
    assert re.search(reason, said), said


def test_a_key_at_two_calls(file: Path) -> None:
    """What was recorded under a key follows each other: two calls cannot have one."""
    apart = changed(4, meta=[None, None, None, "other"])(lines_of(file))

    assert "'k' as the key of two calls of chat:a, at 3 and 5" in refusal(written(file, apart))


@pytest.mark.parametrize(
    "garbage", [b"\x00", b"\xff\xfe", b"{", b"[]", b"null", b'"x"', b"", b"{}" * 3, b"[" * 100_000]
)
@pytest.mark.parametrize("place", [0, 1, 5, -2])
def test_garbage_among_the_lines(file: Path, garbage: bytes, place: int) -> None:
    """A line that is no line of such a file is named by its number."""
    lines = file.read_bytes().split(b"\n")[:-1]
    lines[place] = garbage
    other = file.with_name("other")
    other.write_bytes(b"\n".join(lines) + b"\n")

    assert f"line {range(1, len(lines) + 1)[place]}: " in refusal(other)


@pytest.mark.parametrize("seed", range(30))
def test_a_byte_that_was_changed(file: Path, seed: int) -> None:
    """It is refused with nothing written, or what it says is taken in and the store is whole."""
    chance, data = random.Random(seed), bytearray(file.read_bytes())
    for _ in range(chance.randint(1, 3)):
        data[chance.randrange(len(data))] = chance.choice(b'\x00\n"{}[]x7,\xff')
    file.write_bytes(data)

    with refold.open(":memory:") as store:
        try:
            take_in_events(store.log, file)
        except InvalidInputError:
            assert store.now().heads == ()
        assert store.verify().is_whole


def test_without_the_parent(file: Path) -> None:
    """A fork whose parent is neither in the file nor in the store is refused; where the parent is, it is taken in."""
    lines = [line for line in lines_of(file) if line.get("stream") != "chat:a"]
    alone = written(file, [lines[0], *lines[1:-1], {"end": len(lines) - 2}])

    assert "names version 6 of chat:a" in refusal(alone)
    with refold.open(":memory:") as store:
        take_in_events(store.log, file)
        assert take_in_events(store.log, alone).unchanged == 2


def test_a_store_that_fails_is_no_fault_of_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the database says is told as it is, and nothing is written."""

    def failing(*_: object, **__: object) -> None:
        raise StorageError("the disk does not answer")

    with refold.open(":memory:") as store:
        monkeypatch.setattr(rehearsal, "require_projectable", failing)
        with pytest.raises(StorageError, match=r"^the disk does not answer$"):
            take_in_events(store.log, file)
        assert store.now().heads == ()


def test_every_cut(file: Path) -> None:
    """Wherever a file was cut off, it is refused: but for the line break at its end."""
    data, other = file.read_bytes(), file.with_name("other")
    for size in range(0, len(data) - 1, 7):
        other.write_bytes(data[:size])
        assert "cut off" in (said := refusal(other)) or "not an export" in said
    other.write_bytes(data[:-1])
    with refold.open(":memory:") as store:
        assert take_in_events(store.log, other).added == 3

"""Files that somebody changed with care, or a disk without any: refused whole, or taken in and every answer works."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

import refold
from refold.domain.chat.context import ChatContext
from refold.domain.errors import InvalidInputError
from refold.domain.log.envelope import Event, Meta
from refold.infrastructure.exchange import event_files, export_events, rehearsal, take_in_events
from refold.infrastructure.queries.audit import AuditEntry, context_changes
from tests.contract.chat_checking import message
from tests.support.doctored import doctored, every_answer
from tests.support.every_kind import fill, seen

Line = dict[str, Any]
SEEDS, AT_ONCE = 240, 40


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An export of a store with every kind of context in it."""
    path = tmp_path_factory.mktemp("whole") / "file"
    with refold.open(":memory:") as source:
        asyncio.run(fill(source))
        export_events(source.log, path)
    return path.read_bytes()


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_by_chance(whole: bytes, tmp_path: Path, first: int) -> None:
    """Whatever was changed: the file is refused by its name and leaves nothing, or every answer works on it."""
    path, refused = tmp_path / "doctored", 0
    for seed in range(first, first + AT_ONCE):
        path.write_bytes(doctored(whole, seed))
        with refold.open(":memory:") as store:
            try:
                take_in_events(store.log, path)
            except InvalidInputError as error:
                said = str(error)
            else:
                said = ""
                every_answer(store, tmp_path)
            assert not said or (str(path) in said and store.now().heads == ()), f"{seed}: {said}"
            refused += bool(said)

    assert 0 < refused < AT_ONCE


def event(line: Line, **fields: Any) -> Line:
    """Return a line with other fields in its event."""
    return {**line, "event": {**line["event"], **fields}}


def encoded(text: bytes) -> str:
    """Return what stands for bytes in a file."""
    return base64.b64encode(text).decode()


MESSAGE, EVICTED, FORKED = 2, 5, 6
REFUSED = "line {}: an event .* of '{}' cannot be stored"
DOCTORED: dict[str, tuple[int, Callable[[Line], Line], str]] = {
    "totals": (EVICTED, lambda line: event(line, change=[2**63 - 1] * 3), REFUSED.format(6, "chat:a")),
    "a number": (FORKED, lambda line: event(line, change=[2**64, 0, 0]), REFUSED.format(7, "chat:b")),
    "a negative number": (FORKED, lambda line: event(line, change=[-(2**63) - 1, 0, 0]), REFUSED.format(7, "chat:b")),
    "a role": (MESSAGE, lambda line: event(line, role="robot"), REFUSED.format(3, "chat:a")),
    "bytes in JSON": (MESSAGE, lambda line: event(line, extra=encoded(b'{"\xff')), REFUSED.format(3, "chat:a")),
    "no JSON": (MESSAGE, lambda line: event(line, metrics=encoded(b'{"a":')), REFUSED.format(3, "chat:a")),
    "a lineage": (FORKED, lambda line: event(line, lineage=[["chat:a", 9]]), "version 9 of chat:a"),
    "another lineage": (FORKED, lambda line: event(line, lineage=[]), "chat:b that do not fit.*lineage"),
    "letters": (MESSAGE, lambda line: {**line, "event": "\u00e9"}, "line 3: "),
    "a message's shape": (
        MESSAGE,
        lambda line: event(line, origin={"rest": encoded(b'{"message":7}')}),
        "chat:a that do not fit",
    ),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with a chat and a fork of it."""
    with refold.open(":memory:") as source:
        chat = source.chat("a")
        chat.add_items([message(f"i{number}") for number in range(3)])
        chat.evict(["i1", "i2"])
        chat.fork("b")
        export_events(source.log, tmp_path / "file")
    return tmp_path / "file"


def with_line(file: Path, number: int, change: Callable[[Line], Line]) -> Path:
    """Return a file beside another one, with one of its lines changed."""
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    lines[number] = change(lines[number])
    other = file.with_name("other")
    other.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    return other


@pytest.mark.parametrize("name", DOCTORED)
def test_with_care(store: refold.Store, file: Path, name: str) -> None:
    """On every kind of store: refused with what is wrong, and the good file can be taken in afterwards."""
    number, change, reason = DOCTORED[name]
    bad = with_line(file, number, change)

    with pytest.raises(InvalidInputError) as caught:
        take_in_events(store.log, bad)

    assert re.search(reason, str(caught.value)), caught.value
    assert str(bad) in str(caught.value)
    assert store.now().heads == ()
    assert take_in_events(store.log, file).added == 2
    every_answer(store, file.parent)


# `to_google_contents` makes objects of what `to_google_json` returns.
CONVERSIONS = {name for name in dir(ChatContext) if name.startswith("to_")} - {"to_dict", "to_google_contents"}


@pytest.mark.parametrize("name", [*sorted(CONVERSIONS), "exact"])
def test_what_no_converter_takes(file: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Each conversion, of `rehearsal.CONVERTED`, is asked for imported messages, before anything is written."""
    imported = with_line(file, MESSAGE, lambda line: event(line, origin={"starts": True}))
    convert = "to_openai_messages" if name == "exact" else name
    whole = getattr(ChatContext, convert)

    def failing(chat: ChatContext, **options: Any) -> Any:
        if bool(options) is (name == "exact"):
            raise TypeError("a shape that nobody knows")
        return whole(chat, **options)

    monkeypatch.setattr(ChatContext, convert, failing)
    with refold.open(":memory:") as store:
        with pytest.raises(InvalidInputError, match="chat:a that do not fit"):
            take_in_events(store.log, imported)
        assert store.now().heads == ()


def test_what_is_audited_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every context but chats to which items were only added."""
    audited: list[str] = []

    def noted(log: Any, stream: str, until: int) -> Iterator[AuditEntry]:
        audited.append(stream)
        return context_changes(log, stream, until)

    monkeypatch.setattr(rehearsal, "context_changes", noted)
    with refold.open(":memory:") as source, refold.open(":memory:") as store:
        source.chat("only added to").add_items([message("a")])
        source.chat("edited").add_items([message("b")])
        source.chat("edited").evict(["b"])
        asyncio.run(source.queue("q").append(refold.PoolItem("text", "name", "name")))
        export_events(source.log, tmp_path / "file")
        take_in_events(store.log, tmp_path / "file")

    assert sorted(audited) == ["chat:edited", "queue:q"]


def test_a_line_without_an_end(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more is read of it than a line may have."""
    monkeypatch.setattr(event_files, "LINE_BYTES_MAX", 5_000)
    with file.open("ab") as opened:
        opened.write(b"x" * 6_000)

    with refold.open(":memory:") as store, pytest.raises(InvalidInputError, match=r"line 9.* LINE_BYTES_MAX, 5,000"):
        take_in_events(store.log, file)


def test_a_stream_that_many_name_is_read_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its events are kept while others that begin with them are checked."""
    with refold.open(":memory:") as source:
        chat = source.chat("a")
        for number in range(100):
            chat.add_message("user", f"text {number}")
        for number in range(20):
            chat.fork(f"fork-{number}").add_message("user", "more")
        lines = export_events(source.log, tmp_path / "file").events
    read: list[int] = []

    def noted(opened: IO[bytes], offset: int) -> tuple[Event, Meta]:
        read.append(offset)
        return event_files.event_at(opened, offset)

    monkeypatch.setattr(rehearsal, "event_at", noted)

    with refold.open(":memory:") as store:
        take_in_events(store.log, tmp_path / "file")

    assert lines == 141
    assert len(read) < 4 * lines


async def test_streams_that_are_not_kept(whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a stream is too long to be kept, it is read from the file as often as it is named."""
    monkeypatch.setattr(rehearsal, "EVENTS_KEPT_MAX", 3)
    monkeypatch.setattr(rehearsal, "PAGE_EVENTS", 2)
    (tmp_path / "file").write_bytes(whole)

    with refold.open(":memory:") as store, refold.open(":memory:") as source:
        await fill(source)
        assert take_in_events(store.log, tmp_path / "file").added == len(source.contexts())
        assert (await seen(store)).keys() == (await seen(source)).keys()

"""A file that an older Refold wrote, with events of shapes that have changed since: they come in as the newest."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import refold
from refold.domain.errors import InvalidInputError
from refold.infrastructure.exchange import event_files, export_events, take_in_events
from refold.infrastructure.log.codec import CODEC, Codec, Upcaster

OLDEST, OLD, NEWEST = (f"chat.message_added.v{number}" for number in (-1, 0, 1))


def said_to_text(old: dict[str, Any]) -> dict[str, Any]:
    """The oldest shape to the old one: `said` became `text`."""
    return {**{name: value for name, value in old.items() if name != "said"}, "text": old["said"]}


def text_to_content(old: dict[str, Any]) -> dict[str, Any]:
    """The old shape to the newest: `text` became `content`, and something is known that was not."""
    rest = {name: value for name, value in old.items() if name != "text"}
    return {**rest, "content": old["text"], "extra": b'{"old":true}'}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with three messages: of the oldest shape, of the old one, and of the old one as it was stored."""
    steps = {OLDEST: Upcaster(OLD, said_to_text), OLD: Upcaster(NEWEST, text_to_content)}
    monkeypatch.setattr(event_files, "CODEC", Codec(CODEC.events, steps))
    path = tmp_path / "file"
    with refold.open(":memory:") as source:
        chat = source.chat("a")
        for number in range(3):
            chat.add_message("user", f"text {number}", f"m{number}", 1.5)
        export_events(source.log, path)
    header, opened, *lines, end = map(json.loads, path.read_text().splitlines())
    common = {"created_at": 1.5, "role": "user"}
    lines[0]["event"] = {"t": OLDEST, "id": "m0", "said": "text 0", **common}
    lines[1]["event"] = {"t": OLD, "id": "m1", "text": "text 1", **common}
    stored = msgspec.msgpack.encode({"t": OLD, "id": "m2", "text": "text 2", **common})
    lines[2]["event"] = base64.b64encode(stored).decode()
    path.write_text("".join(json.dumps(line) + "\n" for line in (header, opened, *lines, end)))
    return path


def test_older_shapes(file: Path) -> None:
    """They are what the upcasters make of them, one after the other, and the same again is nothing new."""
    with refold.open(":memory:") as store:
        take_in_events(store.log, file)

        messages = store.chat("a").messages()
        assert [(message.id, message.content) for message in messages] == [(f"m{n}", f"text {n}") for n in range(3)]
        assert [message.extra for message in messages] == [{"old": True}] * 3
        assert take_in_events(store.log, file).unchanged == 1


def test_a_byte_that_is_no_base64(file: Path) -> None:
    """A line that was changed is refused, also where a generous reader would skip what does not belong there."""
    *lines, last, end = file.read_text().splitlines()
    said = json.loads(last)
    said["event"] = "!" + said["event"]
    file.write_text("".join(f"{line}\n" for line in (*lines, json.dumps(said), end)))

    with refold.open(":memory:") as store, pytest.raises(InvalidInputError, match="line 5"):
        take_in_events(store.log, file)


def test_an_old_event_that_is_none(file: Path) -> None:
    """Where a field is missing that its upcaster needs, the file is refused, and nothing is written."""
    file.write_text(file.read_text().replace('"said"', '"told"'))

    with refold.open(":memory:") as store:
        with pytest.raises(InvalidInputError, match=f"line 3: the event is no {OLDEST}: KeyError"):
            take_in_events(store.log, file)
        assert store.contexts() == []

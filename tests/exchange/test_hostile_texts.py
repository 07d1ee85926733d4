"""Texts that hurt, wherever a text can stand: they come out as they went in."""

from __future__ import annotations

import json
from math import isfinite
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import force_setattr

import refold
from refold.domain.errors import InvalidInputError
from refold.infrastructure.exchange import export_events, take_in_events
from refold.infrastructure.exchange.event_files import line_of
from tests.contract.writing import append
from tests.domain.chat_events import said
from tests.domain.strategies import ALPHABET, PROPERTY
from tests.support.every_kind import LARGE

from .places import recorded

TEXTS = [
    "", " ", "\x00", "\n{\"end\":1}\n", "{\"end\":0}", "null", "\\u0000", "\u2028\u2029", "\ufeff", "\U0001f600\u0301",
    "\x7f\x85\x9f", "\"'\\/", "%00..@", "'; DROP TABLE event; --", "\uffff", "e\u0301" * 500, LARGE + "\x00",
]  # fmt: skip
SAID = st.text(ALPHABET + "{}[],", max_size=20)


def hurt(store: refold.Store, text: str, number: int = 0) -> None:
    """Put a text wherever one can stand."""
    name = "".join(char for char in text if char.isprintable() and char not in "@.")[:50] + str(number)
    # Ids have 255 bytes, and no log takes a NUL in names; keys and sessions are some.
    short = text[:60]
    key = short.replace("\x00", "0")
    with refold.acting(actor=text, correlation_id=text, because=f"chat:c{name}@1"):
        chat = store.chat(f"c{name}", user=text or None, session=key or None, agent=text or None, source=text)
        chat.add_message("user", text, short or None, idempotency_key=key or None)
        chat.add_message("assistant", [text, text], agent_id=text)
        chat.add_function_call(text, text, call_id=short)
        chat.add_function_output(text, text, call_id=short)
        chat.add_handoff(text, text, text)
        chat.add_config_update(text, [text])
        chat.evict(chat.items[0].id, reason=text)
        store.window(f"w{name}").add(refold.BudgetItem(text, text, text))
        run = store.run(f"u{name}", f"s{name}")
        table = run.register_node("Table", text, [run.register_query(text)], "e", f"t{name}", path=text)
        run.modify_node(table, {"path": f"{text}!"})
        run.record_messages({"role": "user", "content": text})


async def pooled(store: refold.Store, text: str) -> None:
    """Put a text into a pool and a queue."""
    content: Any = {text: [text, {text: text}]}
    await store.pool("p").add(refold.PoolItem(content, text, f"i{text[:60]}"))
    await store.queue("q").append(refold.PoolItem(text, text))


@pytest.mark.long
async def test_every_text_everywhere(store: refold.Store, tmp_path: Path) -> None:
    """Into a store of each kind, from an SQLite file and back into one."""
    with refold.open(tmp_path / "source.db") as source, refold.open(tmp_path / "third.db") as third:
        for number, text in enumerate(TEXTS):
            hurt(source, text, number)
            await pooled(source, text)
        export_events(source.log, tmp_path / "there")
        take_in_events(store.log, tmp_path / "there")
        export_events(store.log, tmp_path / "back")
        take_in_events(third.log, tmp_path / "back")

        assert recorded(third) == recorded(store) == recorded(source)
        assert (third.verify().problems, store.verify().problems) == ((), ())
        assert (tmp_path / "there").read_bytes().count(b"\n") == 2 + sum(map(len, recorded(source).values()))


@PROPERTY
@given(st.lists(SAID, max_size=5))
def test_any_texts(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    """However they are put together."""
    file = tmp_path_factory.mktemp("texts") / "file"
    with refold.open(":memory:") as source, refold.open(":memory:") as target:
        for number, text in enumerate(texts):
            hurt(source, f"{number}{text}")
        export_events(source.log, file)
        take_in_events(target.log, file)

        assert recorded(target) == recorded(source)


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), 5e-324, 1e308, 1e22, 2, 2.0, 10**15, -1])
def test_any_number(tmp_path: Path, number: float) -> None:
    """Infinities, which JSON does not have and no time is, the smallest, the largest, and whole ones as floats."""
    with refold.open(":memory:") as source, refold.open(":memory:") as target:
        source.window("w").add(refold.BudgetItem("null", "null", "null", number))  # type: ignore[arg-type]
        source.chat("a")
        append(source.log, "chat:a", said(text="null", created_at=float(number) if isfinite(number) else 1.0))
        export_events(source.log, tmp_path / "file")
        take_in_events(target.log, tmp_path / "file")

        [item] = target.window("w").items
        assert (item.priority, type(item.priority)) == (number, type(number))
        assert recorded(target) == recorded(source)
        assert take_in_events(target.log, tmp_path / "file").unchanged == 2


@pytest.mark.parametrize("text", ["null", "is null", 'say "null"', "nothing"])
def test_a_line_is_plain_where_json_can_say_it(text: str) -> None:
    """People read files: only what JSON has no words for, as an infinity, is written as its bytes."""
    one, endless = said(text=text), said(text=text, created_at=1.0)
    force_setattr(endless, "created_at", float("inf"))

    assert json.loads(bytes(line_of(one)))["content"] == text
    assert isinstance(json.loads(bytes(line_of(endless))), str)


def test_what_is_no_number(tmp_path: Path) -> None:
    """A time that is no number, as an older log may have, is written to a file, and refused where it is to be taken."""
    with refold.open(":memory:") as source, refold.open(":memory:") as target:
        source.chat("a")
        append(source.log, "chat:a", said(created_at=1.0))
        force_setattr(source.log.read("chat:a")[1].event, "created_at", float("nan"))
        export_events(source.log, tmp_path / "file")

        with pytest.raises(InvalidInputError, match=r"chat:a.* `\$.created_at`"):
            take_in_events(target.log, tmp_path / "file")


@pytest.mark.parametrize("name", ["key-1", "session-1"])
def test_a_name_that_no_log_takes(store: refold.Store, name: str, tmp_path: Path) -> None:
    """A file with a NUL in a key or a session, as no store writes one, is refused before anything is written."""
    with refold.open(":memory:") as source:
        source.chat("a").add_message("user", "one")
        source.chat("b", session="session-1").add_message("user", "two", idempotency_key="key-1")
        export_events(source.log, tmp_path / "file")
    said = (tmp_path / "file").read_text()
    (tmp_path / "file").write_text(said.replace(f'"{name}"', f'"{name}\\u0000"'))

    with pytest.raises(InvalidInputError, match=r"chat:b, which holds a NUL"):
        take_in_events(store.log, tmp_path / "file")
    assert store.log.streams() == []

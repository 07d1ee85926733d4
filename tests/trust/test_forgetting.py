"""What else held a text that was erased: snapshots, texts beside events in blocks, and logs of other processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.domain.chat.roles import ChatRole
from refold.domain.erasure import forgetting
from refold.domain.erasure.foreign_erasures import note_own
from refold.domain.erasure.skeleton import ERASED
from refold.domain.errors import (
    DecisionRefusedError,
    InvalidInputError,
    RefoldError,
    StorageClosedError,
    StorageUnavailableError,
)
from refold.domain.llm.base import LLM, LLMResponse
from refold.domain.log.envelope import RecordedEvent
from refold.domain.positions import BEGINNING
from refold.domain.trajectory import run as running
from refold.infrastructure.log import background
from refold.infrastructure.log.background import ErasureWatch
from refold.infrastructure.log.postgres.log import PostgresLog
from tests.contract.chat_checking import Teller
from tests.projecting.counts import Count, Counts
from tests.support.effort import meanwhile
from tests.trust.stores import KINDS, WORD, Place, places

LARGE = "a large text that lies beside its event; " * 200


@pytest.fixture(params=[kind for kind in KINDS if kind != "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """The place of a store of each kind that outlives its process."""
    yield from places(request, tmp_path)


def test_the_snapshot_of_a_context_leaves(place: Place) -> None:
    """It is made of the texts; that of another context stays."""
    with place.open() as store:
        for name in ("a", "b"):
            store.chat(name).add_message("user", "hello")
            store.log.keep_snapshot(f"chat:{name}", f"{WORD} in {name}".encode)
    with place.open() as store:
        assert set(store.log.streams_with_snapshot()) == {"chat:a", "chat:b"}

        store.erase(context="a", why="x", dry_run=False)

        assert list(store.log.streams_with_snapshot()) == ["chat:b"]
        assert store.log.snapshot("chat:a") is None
        assert store.log.snapshot("chat:b") == f"{WORD} in b".encode()


def test_a_text_that_an_event_in_a_block_refers_to_stays(place: Place) -> None:
    """It is an event of somebody else, and no row refers to the text."""
    if place.has_keys:
        pytest.skip("a log with keys lies on one of the others")
    with place.open() as store:
        chat, other = (store.chat(name, session="s") for name in ("a", "b"))
        other.add_message("user", LARGE)
        with store.transaction():
            for number in range(640):
                chat.add_message("user", LARGE if number == 2 else f"question {number}")
    with place.open() as store:
        if place.is_server:
            assert sum(store.log.sealing()) > 0  # type: ignore[attr-defined]  # the log on PostgreSQL has it

        store.erase(context="a", why="x", dry_run=False)

        assert [item.content for item in store.chat("b").items] == [[LARGE]]  # type: ignore[union-attr]
        assert store.verify().problems == ()


class ByText(Counts):
    """How often something was said, under the text."""

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """Return the text of a message."""
        return tuple(getattr(event.event, "content", ()))


def test_rows_of_a_projection_that_only_another_program_has(place: Place) -> None:
    """They may hold the text, so they leave; that program makes them anew."""
    with place.open() as store:
        store.chat("a").add_message("user", WORD)
        store.add_projection(ByText())
        assert store.rows("counts") == [Count(WORD, 1)]
    with place.open() as store:
        store.erase(context="a", why="x", dry_run=False)

        assert store._projections.rows(ByText()) == []
        assert store._projections.checkpoint(ByText()) == BEGINNING
        assert len(store.contexts()) == 1
    assert place.holding() == []
    with place.open() as store:
        store.add_projection(ByText())
        assert store.rows("counts") == [Count("[erased]", 1)]


def test_a_store_on_several_servers(ready_pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is erased there, and the error says where it can be."""
    with refold.open(ready_pg_url) as store:
        store.chat("a").add_message("user", WORD)
        monkeypatch.setattr(PostgresLog, "is_distributed", True)

        with pytest.raises(InvalidInputError, match="a store on several servers: copy it to one server"):
            store.erase(context="a", why="x", dry_run=False)

        monkeypatch.undo()
        assert [item.content for item in store.chat("a").items] == [[WORD]]  # type: ignore[union-attr]
        assert store.verify().problems == ()


class Unreadable:
    """A log that raises an error when it is looked at."""

    def __init__(self, error: RefoldError) -> None:
        self.error, self.looks = error, 0

    def head(self, stream: str) -> int:
        """Count a look, and raise the error."""
        self.looks += 1
        raise self.error

    def forget(self) -> None:
        """Do nothing."""


def test_a_log_that_cannot_be_looked_at(caplog: pytest.LogCaptureFixture) -> None:
    """One that is closed is looked at no longer; any other is looked at again, and why it failed is in the log."""
    watch = ErasureWatch()
    closed, broken = Unreadable(StorageClosedError("it is closed")), Unreadable(StorageUnavailableError("it is gone"))
    for log in (closed, broken):
        watch.add(log)

    with caplog.at_level(logging.DEBUG, logger="refold"):
        for _ in range(2):
            watch.look()

    assert (closed.looks, broken.looks) == (1, 2)
    assert caplog.messages == ["erasures in a log could not be looked for: it is gone"] * 2


class Looked:
    """A log whose stream of erasures has a version that a test sets."""

    def __init__(self) -> None:
        self.version, self.forgot = 0, 0

    def head(self, stream: str) -> int:
        """Return the version."""
        return self.version

    def forget(self) -> None:
        """Count it."""
        self.forgot += 1


def test_when_a_log_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """At each erasure by another process that was not seen yet; one's own is none of these."""
    monkeypatch.setattr(background, "LOOK_SECONDS", None)
    watch, log, found = ErasureWatch(), Looked(), list[int]()
    watch.add(log)
    for version in (0, 0, 2, 2, 3, 5, 4):
        log.version = version
        if version == 5:
            note_own(log, version)
        watch.look()
        found.append(log.forgot)
    assert found == [0, 0, 1, 1, 2, 2, 3]

    watch.discard(log)
    log.version = 9
    watch.look()
    assert log.forgot == 3
    other = Looked()
    other.version = 7
    watch.add(other)
    watch.look()
    # What it read before it was looked at for the first time may have been erased since.
    assert other.forgot == 1


class Remembering:
    """An object that is told of erasures."""

    is_told = False

    def _forget_erased(self) -> None:
        self.is_told = True


def test_others_open_contexts_and_logs_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that were there before are told, and looked at."""
    monkeypatch.setattr(background, "LOOK_SECONDS", None)
    watch, logs, held = ErasureWatch(), [Looked() for _ in range(3)], [Remembering() for _ in range(3)]
    kept = list[object]()
    for log, one in zip(logs, held, strict=True):
        watch.add(log)
        forgetting.watch(logs[0], one)

    def open_another() -> None:
        kept.extend((Remembering(), Looked()))
        forgetting.watch(logs[0], kept[-2])  # type: ignore[arg-type]  # it is one
        watch._logs[kept[-1]] = None  # type: ignore[index]

    for log in logs:
        log.version = 1
    with meanwhile(open_another):
        forgetting.forget(logs[0])
        watch.look()

    assert [one.is_told for one in held] == [True] * 3
    assert [log.forgot for log in logs] == [1] * 3


def test_of_two_large_texts_in_one_block_the_other_stays(tmp_path: Path) -> None:
    """It can be read, also by whoever opens the store next, and leaves the file when it is erased itself."""
    path = tmp_path / "store.db"
    with refold.open(path) as store:
        chat = store.chat("a")
        with store.transaction():
            first, second = (chat.add_message("user", f"{WORD} number {number}; " * 2_000) for number in "12")
            for number in range(600):
                chat.add_message("user", f"small {number}")
    with refold.open(path) as store:
        store.erase(context="a", item=first.id, why="asked for", dry_run=False)

    with refold.open(path) as store:
        texts = [item.text for item in store.chat("a").messages()]
        assert texts[:3] == [ERASED, f"{WORD} number 2; " * 2_000, "small 0"]
        assert store.verify(processes=1).is_whole
        store.erase(context="a", item=second.id, why="asked for", dry_run=False)
        assert store.verify(processes=1).is_whole
    assert WORD.encode() not in path.read_bytes()


class Echo(LLM):
    """A model that says what it is asked."""

    async def chat(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[LLMResponse]:
        """Say it."""
        yield LLMResponse(content=str(messages.messages()[-1].content), role=ChatRole.ASSISTANT)

    async def cancel_current_generation(self) -> None:
        """Do nothing."""


MAKINGS: dict[str, Callable[[refold.Store, refold.ChatContext], object]] = {
    "summary": lambda _, chat: asyncio.run(chat.summarize(Echo(), keep_recent_turns=1)),
    "summary of another": lambda store, chat: asyncio.run(store.chat("b").merge_with_summary(chat, llm=Echo())),
    "configuration": lambda _, chat: chat.fork_filtered(1, tools=[]),
}


@pytest.mark.parametrize("make", MAKINGS.values(), ids=MAKINGS.keys())
def test_what_another_process_has_just_erased(make: Callable[..., object], tmp_path: Path) -> None:
    """Nothing is made of it any more, though this process still remembers it."""
    with refold.open(tmp_path / "agents.db") as store, refold.open(tmp_path / "agents.db") as eraser:
        chat = store.chat("a", user="mia")
        chat.add_config_update(instructions=f"Speak of {WORD}.")
        for text in (WORD, "and now?", "and then?"):
            chat.add_message("user", text)
        assert WORD in repr(chat.items)
        eraser.erase(user="mia", why="x", dry_run=False)

        make(store, chat)

        assert WORD not in repr(eraser.log.read_all(after=BEGINNING, limit=100).events)


def test_a_change_of_what_another_process_has_just_erased(tmp_path: Path) -> None:
    """The old value is what is left of it."""
    with refold.open(tmp_path / "agents.db") as store, refold.open(tmp_path / "agents.db") as eraser:
        run = store.run("mia", "s", 0)
        read = run.register_node(
            "Action", "", [run.register_query("which?")], action="read", params={}, output="", success=True
        )
        table = run.register_node("Table", WORD, [read], label="t", path="/t")
        assert run.node(table).description == WORD
        eraser.erase(context=run.stream_id, item=table, why="x", dry_run=False)

        run.modify_node(table, {"description": "another"})

        assert [one.old for one in run.history(table, "description")] == [None, ERASED]
        assert WORD not in repr(eraser.log.read_all(after=BEGINNING, limit=100).events)


def test_branches_of_what_is_erased_meanwhile() -> None:
    """A fork without the item that set the instructions has a copy of them, so they are not kept; others are."""
    with refold.open(":memory:") as store:
        for name in ("a", "b"):
            chat = store.chat(name)
            chat.add_config_update(instructions=f"Speak of {WORD}.")
            for text in ("and now?", "and then?"):
                chat.add_message("user", text)
        moment = store.now()
        gone, kept = store.what_if(moment), store.what_if(moment)
        for what_if, name in ((gone, "a"), (kept, "b")):
            what_if.chat(name, f"{name}-2").fork_filtered(1, context_id=f"{name}-3")
        store.erase(context="a", why="x", dry_run=False)

        with pytest.raises(DecisionRefusedError, match="texts of chat:a were erased since"):
            gone.keep()
        assert kept.keep() == ["chat:b-2", "chat:b-3"]
        assert store.log.streams("chat:a") == ["chat:a"]


def test_what_a_model_makes_of_texts_that_are_erased_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A summary is refused, and a description is asked for once more, also where another handle erased."""
    monkeypatch.setattr(running, "FIRST_PAUSE_SECONDS", 0)
    with refold.open(tmp_path / "agents.db") as store, refold.open(tmp_path / "agents.db") as eraser:
        chat, other = store.chat("a"), store.chat("b")
        for text in (WORD, "and then?", "and now?"):
            chat.add_message("user", text)
        erases = partial(eraser.erase, context="a", why="x", dry_run=False)

        def model() -> Teller:
            return Teller(f"They spoke of {WORD}.", meanwhile=erases)

        with pytest.raises(DecisionRefusedError, match="texts were erased meanwhile"):
            asyncio.run(chat.summarize(model(), keep_recent_turns=1))
        chat.add_message("user", f"once more {WORD}")
        with pytest.raises(DecisionRefusedError, match="texts were erased meanwhile"):
            asyncio.run(other.merge_with_summary(chat, llm=model()))
        chat.add_message("user", f"at last {WORD}")
        run = store.run("mia", "s", 0)
        asked = run.register_query("which?")
        read = run.register_node("Action", "", [asked], action="read", params={}, output="", success=True)
        run.register_node("Table", "", [read], label="t", path="/t")
        answers = iter([WORD, "nothing of it"])
        run.portray_with(lambda _: (erases(), next(answers))[1])
        run.profiling()
        asyncio.run(run.wait_portraits(5))

        assert run.node("Table(t)").description == "nothing of it"
        assert WORD not in repr(store.log.read_all(after=BEGINNING, limit=100).events)

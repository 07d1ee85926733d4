"""What is made of texts is not recorded behind their erasure, also if that comes at the moment of the append."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

import pytest

import refold
from refold.domain.erasure.events import STREAM, ErasureFinished
from refold.domain.errors import ConcurrencyError, DecisionRefusedError
from refold.domain.log.ports import NewEvents
from refold.domain.memory.records import MemoryRecord
from refold.domain.positions import BEGINNING
from refold.domain.trajectory import run as running
from refold.infrastructure.trust.erasing import CUT_OFF, ErasureRequest
from refold.infrastructure.trust.selection import Selection
from tests.contract.chat_checking import Teller

from .stores import KINDS, WORD, places

Meanwhile = Callable[[], object]


def summary(store: refold.Store, meanwhile: Meanwhile) -> None:
    """Summarise a context."""
    asyncio.run(store.chat("a").summarize(Teller(f"About {WORD}.", meanwhile=meanwhile), keep_recent_turns=1))


def summary_of_another(store: refold.Store, meanwhile: Meanwhile) -> None:
    """Tell one context what another one came to."""
    model = Teller(f"About {WORD}.", meanwhile=meanwhile)
    asyncio.run(store.chat("b").merge_with_summary(store.chat("a"), llm=model))


def filtered_fork(store: refold.Store, meanwhile: Meanwhile) -> None:
    """Fork without the item that set the instructions."""
    chat = store.chat("a")
    chat.add_message("user", "at last?")
    meanwhile()
    chat.fork_filtered(1, context_id="c")


def merge_of_pools(store: refold.Store, meanwhile: Meanwhile) -> None:
    """Let a rule make one item of two."""

    def rule(_: str, here: Any, there: Any) -> refold.PoolItem[Any]:
        meanwhile()
        return refold.PoolItem(f"{here.content} and {there.content}", "d", "i1")

    asyncio.run(store.pool("p").merge(store.pool("p-2"), rule=rule))


MADE = (summary, summary_of_another, filtered_fork, merge_of_pools)


async def filled(store: refold.Store) -> None:
    """Fill a store with texts of which something can be made."""
    chat = store.chat("a")
    chat.add_config_update(instructions=f"Speak of {WORD}.")
    for text in (WORD, "and then?", "and now?"):
        chat.add_message("user", text)
    ours, theirs = store.pool("p"), store.pool("p").branch("p-2")
    await ours.add(refold.PoolItem("ours", "d", "i1"))
    await theirs.add(refold.PoolItem(WORD, "d", "i1"))
    run = store.run("mia", "s", 0)
    asked = run.register_query(WORD)
    read = run.register_node("Action", "", [asked], action="read", params={}, output="", success=True)
    run.register_node("Table", WORD, [read], label="t", path="/t")


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[refold.Store]:
    """A store of each kind with texts of which something can be made."""
    for place in places(request, tmp_path):
        with place.open() as opened:
            asyncio.run(filled(opened))
            yield opened


def before_the_append(store: refold.Store, monkeypatch: pytest.MonkeyPatch, do: Meanwhile) -> Meanwhile:
    """Return a function after which the next append is preceded by something that others do."""
    append = store.log.append

    def crossed(batch: Sequence[NewEvents], **options: Any) -> Any:
        monkeypatch.setattr(store.log, "append", append)
        do()
        return append(batch, **options)

    return lambda: monkeypatch.setattr(store.log, "append", crossed)


def erase_all(store: refold.Store) -> None:
    """Erase the texts."""
    store.erase(context="a", why="asked", dry_run=False)
    store.erase(context="p-2", why="asked", dry_run=False)
    for node in ("Query(query00000)", "Table(t)"):
        store.erase(context="run:mia/s/0/0", item=node, why="asked", dry_run=False)


def seen(store: refold.Store) -> str:
    """Return all that is recorded."""
    return repr(store.log.read_all(after=BEGINNING, limit=1_000).events)


@pytest.mark.parametrize("make", MADE)
def test_what_is_made_of_texts_that_are_erased_at_its_append(
    store: refold.Store, make: Callable[[refold.Store, Meanwhile], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused, or made anew of what is left."""
    is_anew = make is filtered_fork
    with nullcontext() if is_anew else pytest.raises(DecisionRefusedError, match="texts were erased meanwhile"):
        make(store, before_the_append(store, monkeypatch, lambda: erase_all(store)))

    assert WORD not in seen(store)
    assert store.verify().problems == ()


@pytest.mark.parametrize("make", MADE)
def test_what_is_made_while_something_else_is_said_of_the_store(
    store: refold.Store, make: Callable[[refold.Store, Meanwhile], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is recorded: nothing was erased."""
    make(store, before_the_append(store, monkeypatch, lambda: store.hold("a", why="case 12")))

    assert seen(store).count(WORD) > 3
    assert store.holds()


@pytest.mark.parametrize("durability", ["commit", "enqueue"])
@pytest.mark.parametrize("within", [False, True])
def test_a_summary_in_a_transaction_or_behind_queued_events(
    durability: Literal["commit", "enqueue"], within: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are refused as well, and what was queued before is recorded."""
    with refold.open(":memory:", durability=durability) as store:
        asyncio.run(filled(store))
        chat = store.chat("a")
        chat.add_message("user", "queued")

        async def told() -> None:
            summarised = chat.summarize(Teller(f"About {WORD}.", meanwhile=arm), keep_recent_turns=1)
            if not within:
                await summarised
                return
            with store.transaction():
                await summarised
                arm()

        arm = before_the_append(store, monkeypatch, lambda: erase_all(store))
        with pytest.raises((DecisionRefusedError, ConcurrencyError), match=r"meanwhile|transaction again"):
            asyncio.run(told())

        assert WORD not in seen(store)
        assert [chat.version, len(chat.items)] == [6, 5]
        assert store.verify().problems == ()


def test_a_portrait_of_texts_that_are_erased_at_its_append(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of the node is asked for."""
    monkeypatch.setattr(running, "FIRST_PAUSE_SECONDS", 0)
    with refold.open(":memory:") as store:
        run = store.run("mia", "s", 0)
        asked = run.register_query(WORD)
        read = run.register_node("Action", "", [asked], action="read", params={}, output="", success=True)
        run.register_node("Table", "", [read], label="t", path="/t")
        erases = before_the_append(
            store, monkeypatch, lambda: store.erase(context=run.stream_id, item=asked, why="asked", dry_run=False)
        )
        answers = iter([(erases, WORD), (lambda: None, "nothing of it")])

        def answer(_: str) -> str:
            before, text = next(answers)
            before()
            return text

        run.portray_with(answer)
        run.profiling()
        asyncio.run(run.wait_portraits(5))

        assert run.node("Table(t)").description == "nothing of it"
        assert WORD not in seen(store)


def test_a_node_that_another_process_has_just_erased_is_met_again(tmp_path: Path) -> None:
    """It has what is left of it, though this process has not looked for erasures yet."""
    with refold.open(tmp_path / "agents.db") as store, refold.open(tmp_path / "agents.db") as eraser:
        asyncio.run(filled(store))
        run = store.run("mia", "s", 0)
        assert run.node("Table(t)").description == WORD
        erase_all(eraser)

        run.register_node("Table", "", run.nodes("Action"), label="t")
        run.modify_node("Query(query00000)", {"query": "another question"})

        assert WORD not in seen(eraser)


def test_who_may_only_append_registers_a_node_again() -> None:
    """Whether it is there is not asked for in the actor's name."""

    def allow(actor: str | None, action: str, context: str | None) -> bool:
        return actor != "agent" or action in ("open", "append")

    with refold.open(":memory:", allow=allow) as store:
        asyncio.run(filled(store))
        run = store.run("mia", "s", 0)
        (read,) = run.nodes("Action")
        with refold.acting(actor="agent"):
            assert run.register_node("Table", "", [read], label="t") == "Table(t)"


def in_a_look(
    monkeypatch: pytest.MonkeyPatch, number: int, *, before: Meanwhile = int, behind: Meanwhile = int
) -> None:
    """Let an erasure's look through the log, the first one or a later one, be preceded and followed by something."""
    complete, looks = Selection.complete, [0]

    def crossed(self: Selection) -> None:
        looks[0] += 1
        if looks[0] == number:
            before()
        complete(self)
        if looks[0] == number:
            behind()

    monkeypatch.setattr(Selection, "complete", crossed)


def test_retention_leaves_what_is_said_of_what_it_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """An item that comes while it erases stays, and so does the reason for which a fork lets it go."""
    with refold.open(":memory:") as store:
        chat = store.chat("a")
        chat.add_message("user", WORD)

        def goes_on() -> None:
            stays = chat.add_message("user", "this stays")
            chat.fork("f").evict([stays.id], reason="said of what stays")

        in_a_look(monkeypatch, 2, before=goes_on)
        store._eraser.erase(ErasureRequest("retention", contexts=["a"], check=lambda: None), dry_run=False)

        assert WORD not in seen(store)
        assert ("this stays" in seen(store), "said of what stays" in seen(store)) == (True, True)


def test_a_scope_of_a_user_that_comes_during_the_erasure(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is erased, too, and what was taken for a copy of somebody else's before is none."""
    text = f"a longer text with {WORD} in it"
    with refold.open(":memory:") as store:
        store.chat("a", user="mia").add_message("user", text)
        store.chat("b").add_message("user", text)
        record = MemoryRecord(scope="mia", key="k", value=text)
        in_a_look(monkeypatch, 1, behind=lambda: store.memory().scope("mia").put(record))

        told = store.erase(user="mia", why="asked", dry_run=False)

        assert [one.context for one in told.contexts] == ["chat:a", "memory:mia"]
        assert told.copies == ("chat:b@2",)
        assert seen(store).count(WORD) == 1


def test_an_erasure_that_is_cut_off_before_its_last_look_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """What others made of the texts in its last moment may stay, until it is made again."""

    def end() -> None:
        raise KeyboardInterrupt

    with refold.open(":memory:") as store:
        chat = store.chat("a")
        chat.add_message("user", WORD)
        with monkeypatch.context() as patched:
            in_a_look(patched, 3, before=end)
            with pytest.raises(KeyboardInterrupt):
                store.erase(context="a", why="asked", dry_run=False)
        store._eraser.finish_what_is_left()

        (finished,) = [event for event in store.log.read_events(STREAM) if isinstance(event, ErasureFinished)]
        assert CUT_OFF in finished.unreached


@pytest.mark.parametrize("begun", ["Hi", "a beginning that is longer than what takes its place: "])
def test_a_message_that_is_being_written(begun: str, tmp_path: Path) -> None:
    """It gets no more text, of which a part would be left out; its end is recorded. One that is back goes on."""
    with refold.open(":memory:") as store:
        chat = store.chat("a")

        def write_on() -> None:
            with chat.stream() as out:
                out.write(begun)
                out.flush()
                store.erase(context="a", why="asked", dry_run=False)
                out.write("and more")

        with pytest.raises(DecisionRefusedError, match="while it was written: begin another"):
            write_on()
        with chat.stream() as out:
            out.write(begun)
            out.flush()
            store.erase(context="a", why="asked", dry_run=False)
        with chat.stream() as out:
            out.write(begun)
            out.flush()
            store.archive(tmp_path / "a.jsonl", "a", why="cold")
            out.write("and more")
            with pytest.raises(DecisionRefusedError, match="archived while"):
                out.flush()
            store.unarchive("a")

        assert [one.content for one in chat.messages()] == [["[erased]"], ["[erased]"], [f"{begun}and more"]]
        assert [one.incomplete is None for one in chat.messages()] == [False, True, True]
        assert store.verify().problems == ()

"""What if: contexts branched at one moment, in memory, and kept as one, or never heard of."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

import refold
from refold.domain.context.adopt import named_streams
from refold.domain.errors import ConcurrencyError, DecisionRefusedError, InvalidInputError, NotFoundError, StorageError
from refold.domain.log.ports import NewEvents
from refold.domain.positions import Moment
from refold.domain.spans import Segment
from tests.contract.writing import at_once
from tests.domain.fakes import CountingSystem
from tests.support.every_kind import fill, seen


async def begun(store: refold.Store) -> Moment:
    """Write a chat, another one, a queue and a pool; return that moment, and write to each of them again."""
    chats, queue, pool = [store.chat(name) for name in "ab"], store.queue("q"), store.pool("p")
    for chat in chats:
        chat.add_message("user", f"{chat.id} asks", f"{chat.id}1")
    await queue.append(refold.PoolItem("first"))
    await pool.add(refold.PoolItem("first", "", "i1"))
    moment = store.now()
    for chat in chats:
        chat.add_message("assistant", "as it went", f"{chat.id}2")
    await queue.append(refold.PoolItem("as it went"))
    await pool.remove("i1")
    return moment


def said(chat: Any) -> list[str]:
    """Return the texts of a chat's messages."""
    return [message.content[0] for message in chat.messages()]


async def test_branches_of_one_moment(store: refold.Store) -> None:
    """They begin as things were then, go their own way, and the store knows nothing of them until they are kept."""
    moment = await begun(store)
    before, end = await seen(store), store.now()
    what_if = store.what_if(moment)
    chat, queue, pool = what_if.chat("a", "a2"), what_if.queue("q", "q2"), what_if.pool("p", "p2")
    chat.add_message("assistant", "otherwise")
    chat.evict("a1")
    await queue.append(refold.PoolItem("otherwise"))
    await pool.add(refold.PoolItem("otherwise", "", "i2"))

    assert (said(chat), len(chat.evicted_items())) == (["otherwise"], 1)
    assert [item.content for item in queue] == ["first", "otherwise"]
    assert [item.id for item in pool] == ["i1", "i2"]
    assert (await seen(store), store.now()) == (before, end)

    assert what_if.keep() == ["chat:a2", "queue:q2", "pool:p2"]

    assert said(store.chat("a2", create=False)) == ["otherwise"]
    assert [item.content for item in store.queue("q2", create=False)] == ["first", "otherwise"]
    assert [item.id for item in store.pool("p2", create=False)] == ["i1", "i2"]
    assert {key: value for key, value in (await seen(store)).items() if key in before} == before
    assert store.verify().is_whole


def test_branches_have_the_clock_and_the_ids_of_their_store() -> None:
    """Chats do, too: a store with a clock for tests has the same branches each time."""
    system = CountingSystem()
    with refold.open(":memory:", system=system) as store:
        store.chat("a")
        branch = store.what_if(store.now()).chat("a")

        said = branch.add_message("user", "otherwise")

        assert said.id == f"msg_{system.ids:012x}"
        assert said.created_at <= system.time


async def test_they_are_kept_as_one(store: refold.Store) -> None:
    """At no moment is there one of them without the other."""
    moment = await begun(store)
    what_if = store.what_if(moment)
    for name in "ab":
        what_if.chat(name, f"{name}2").add_message("user", "otherwise")
    before = store.now()

    what_if.keep()

    keys = [[row.key for row in store.at(at).contexts() if row.id.endswith("2")] for at in (before, store.now())]
    assert keys == [[], ["chat:a2", "chat:b2"]]
    first, second = (store.log.read(f"chat:{name}2") for name in "ab")
    assert first[0].recorded_at == second[-1].recorded_at


async def test_an_id_that_is_taken(store: refold.Store) -> None:
    """At once where it is known, at the end where somebody took it meanwhile; nothing is written then."""
    moment = await begun(store)
    what_if = store.what_if(moment)
    with pytest.raises(InvalidInputError, match="chat:b exists already"):
        what_if.chat("a", "b")
    what_if.chat("a", "fine").add_message("user", "otherwise")
    what_if.chat("b", "taken")
    store.chat("taken")
    end = store.now()

    for _ in range(2):
        with pytest.raises(InvalidInputError, match="chat:taken exists already"):
            what_if.keep()

    assert store.now() == end
    with pytest.raises(NotFoundError):
        store.chat("fine", create=False)
    with pytest.raises(InvalidInputError, match="chat:fine exists already"):
        what_if.chat("b", "fine")


async def test_what_was_kept_takes_nothing_more(store: refold.Store) -> None:
    """Neither a second keep, nor another branch, nor a change that would never be written."""
    moment = await begun(store)
    what_if = store.what_if(moment)
    chat, pool = what_if.chat("a", "a2"), what_if.pool("p", "p2")
    what_if.keep()
    end = store.now()

    async def add() -> None:
        await pool.add(refold.PoolItem("lost", "", "i2"))

    for late in (what_if.keep, lambda: what_if.chat("b")):
        with pytest.raises(DecisionRefusedError, match="these branches were kept"):
            late()
    with pytest.raises(DecisionRefusedError, match="this what-if was kept"):
        chat.add_message("user", "lost")
    with pytest.raises(DecisionRefusedError):
        await add()
    assert (said(chat), [item.id for item in pool], store.now()) == (["a asks"], ["i1"], end)


def test_nothing_that_was_recorded_is_lost_by_keeping() -> None:
    """Whoever writes while it is kept is heard, or told that it is too late."""
    store = refold.open(":memory:")
    store.chat("a").add_message("user", "one")
    what_if = store.what_if(store.now())
    chat, recorded = what_if.chat("a", "a2"), list[str]()

    def write() -> None:
        for number in range(100_000):
            try:
                recorded.append(chat.add_message("user", f"text {number}").id)
            except DecisionRefusedError:
                return

    writer = threading.Thread(target=write)
    writer.start()
    while len(recorded) < 50:
        pass
    what_if.keep()
    writer.join()

    assert [item.id for item in store.chat("a2").items[1:]] == recorded


async def test_a_store_that_refuses(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was written, and it can be kept when the store takes it again."""
    with refold.open(tmp_path / "store.db") as store:
        what_if = store.what_if(await begun(store))
        chat = what_if.chat("a", "a2")

        def full(*_: Any, **__: Any) -> Any:
            raise StorageError("no room")

        with monkeypatch.context() as patch:
            patch.setattr(store.log, "append", full)
            with pytest.raises(StorageError):
                what_if.keep()
        chat.add_message("user", "once more")

        assert what_if.keep() == ["chat:a2"]
        assert said(store.chat("a2")) == ["a asks", "once more"]


@pytest.mark.parametrize("when", ["before", "after", "never"])
async def test_an_interrupt_while_they_are_kept(
    store: refold.Store, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Whether the log has taken them before it, takes them after it, or never: they are kept once, and that is said."""
    what_if, append, late = store.what_if(await begun(store)), store.log.append, list[Any]()
    what_if.chat("a", "a2").add_message("user", "once")

    def interrupted(batch: Any) -> Any:
        (append(batch).result() if when == "before" else late.append(batch))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store.log, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            what_if.keep()
    if when == "after":
        append(late[0]).result()

    if when == "before":
        with pytest.raises(DecisionRefusedError, match="these branches were kept"):
            what_if.keep()
    else:
        assert what_if.keep() == ["chat:a2"]
    assert said(store.chat("a2", create=False)) == ["a asks", "once"]


async def test_forks_of_forks(store: refold.Store) -> None:
    """Within it they stand on each other, and so they do when they are kept."""
    what_if = store.what_if(await begun(store))
    first = what_if.chat("a", "a2", agent="trial")
    first.add_message("user", "two")
    second = first.fork("a3")
    second.add_message("user", "three")
    brief = second.fork_filtered(1, context_id="a4")
    first.add_message("user", "after the fork")
    past = first.at(2).fork("a5")

    what_if.keep()

    wanted = {"a2": ["a asks", "two", "after the fork"], "a3": ["a asks", "two", "three"], "a4": ["three"]}
    assert {name: said(store.chat(name, create=False)) for name in wanted} == wanted
    assert (said(brief), said(past), said(store.chat("a5"))) == (["three"], ["a asks", "two"], ["a asks", "two"])
    assert {row.id: row.agent for row in store.contexts() if row.kind == "chat"}["a2"] == "trial"
    assert store.verify().is_whole


async def test_merges_within(store: refold.Store) -> None:
    """One branch takes what the other has, chats and pools; kept, each names what it took."""
    what_if = store.what_if(await begun(store))
    chat, other = what_if.chat("a", "a2"), what_if.chat("b", "b2")
    other.add_message("assistant", "otherwise")
    await chat.merge(other)
    pool, beside = what_if.pool("p", "p2"), what_if.pool("p", "p3")
    await beside.add(refold.PoolItem("otherwise", "", "i2"))
    await pool.merge(beside)

    what_if.keep()

    assert sorted(said(store.chat("a2"))) == ["a asks", "b asks", "otherwise"]
    assert [item.id for item in store.pool("p2")] == ["i1", "i2"]
    assert "chat:b2" in named_streams(store.log.read_events("chat:a2")[-1])
    assert store.verify().is_whole


async def test_merges_with_the_store(store: refold.Store) -> None:
    """What comes from the other side is copied in, under a name of its own: events name streams of their own log."""
    what_if = store.what_if(await begun(store))
    chat = what_if.chat("a", "a2")
    chat.add_message("user", "otherwise")
    await chat.merge(store.chat("b"))
    assert sorted(said(chat)) == ["a asks", "as it went", "b asks", "otherwise"]

    await store.chat("a").merge(chat)
    merged: Any = store.chat("a").history()[-1].event
    assert (merged.source.startswith("chat:a~"), merged.base) == (True, Segment("chat:a", 2))
    assert sorted(said(store.chat("a"))) == ["a asks", "as it went", "as it went", "b asks", "otherwise"]
    kept = what_if.keep()

    assert (kept[0], len(kept)) == ("chat:a2", 2)
    assert sorted(said(store.chat("a2"))) == ["a asks", "as it went", "b asks", "otherwise"]
    assert store.verify().is_whole


async def test_the_past_below_stands_still(store: refold.Store) -> None:
    """What others write to the store is not in the branches, whether they were read before or not."""
    what_if = store.what_if(await begun(store))
    early, late = what_if.chat("a", "a2"), what_if.chat("b", "b2")
    assert said(early) == ["a asks"]
    for name in "ab":
        store.chat(name).add_message("user", "meanwhile")
        store.chat(name).evict(f"{name}1")

    assert (said(early), said(late), said(what_if.chat("a"))) == (["a asks"], ["b asks"], ["a asks"])
    with pytest.raises(NotFoundError):
        what_if.chat("nowhere")
    with pytest.raises(NotFoundError):
        what_if.chat("a2").fork().at("unnamed")


def test_what_is_erased_at_the_moment_of_keeping(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept: a fork has a copy of the configuration."""
    store.chat("a").add_config_update(instructions="secret", tools=[])
    what_if = store.what_if(store.now())
    what_if.chat("a").fork_filtered(recent_turns=1)
    append = store.log.append

    def crossed(batch: Sequence[NewEvents], **options: Any) -> Any:
        monkeypatch.setattr(store.log, "append", append)
        store.erase(context="a", why="asked", dry_run=False)
        return append(batch, **options)

    monkeypatch.setattr(store.log, "append", crossed)
    with pytest.raises(DecisionRefusedError, match="branch again"):
        what_if.keep()
    assert not any(name.startswith("chat:a") and name != "chat:a" for name in store.log.streams())


async def test_every_edit_survives_keeping(store: refold.Store) -> None:
    """Branches of a store with everything in it are read from the store as they were in memory."""
    await fill(store)
    what_if = store.what_if(store.now())
    with refold.acting(actor="trial", correlation_id="t9"):
        chats = [what_if.chat(name, f"what {name}") for name in ("a", "side", "deep", "told", "brief", "cleared")]
        for chat in chats:
            chat.add_message("user", "otherwise", idempotency_key="k")
            chat.truncate(max_items=3)
            chat.name_version("here")
        queue, pool = what_if.queue("q2", "what q"), what_if.pool("p", "what p")
        await queue.evict(queue.births[0])
        await pool.remove("i2")
    before = [(chat.version, chat.to_dict(), chat.evicted_items()) for chat in chats]

    what_if.keep()

    kept = [store.chat(chat.id, create=False) for chat in chats]
    assert [(chat.version, chat.to_dict(), chat.evicted_items()) for chat in kept] == before
    assert [chat.at("here").version for chat in kept] == [chat.version - 1 for chat in kept]
    assert store.queue("what q").to_dict() == queue.to_dict()
    assert store.pool("what p").to_dict() == pool.to_dict()
    metas = {(event.meta.actor, event.meta.correlation_id) for event in kept[0].history()}
    assert metas == {("trial", "t9")}
    assert store.verify().is_whole


async def test_a_conflict_between_two_handles(store: refold.Store) -> None:
    """Within a what-if, too, no writer is silently overwritten."""
    what_if = store.what_if(await begun(store))
    one = what_if.chat("a", "a2")
    one.add_message("user", "x", "x1")
    other = one.at(2).fork("a3")
    other.add_message("user", "y")

    with pytest.raises(ConcurrencyError):
        one.add_message("user", "late", expected_version=1)
    assert (said(one), said(other)) == (["a asks", "x"], ["a asks", "x", "y"])


async def test_not_within_a_transaction(store: refold.Store) -> None:
    """Neither branches nor a detached context: they would stay where the block is rolled back."""
    what_if = store.what_if(await begun(store))
    what_if.chat("a", "a2")
    detached = refold.ChatContext()
    for write in (what_if.keep, lambda: store.adopt(detached, "d")):
        with pytest.raises(InvalidInputError, match="within a transaction: do it"), store.transaction():
            write()

    assert what_if.keep() == ["chat:a2"]
    assert store.adopt(detached, "d").stream_id == "chat:d"


async def test_two_threads_keep_the_branches(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them does; the other one is told, and does not open the branches again for changes that would be lost."""
    what_if = store.what_if(await begun(store))
    branch = what_if.chat("a", "a2")
    both, real = threading.Barrier(2), what_if._overlay.finish

    def finish() -> Any:
        with suppress(threading.BrokenBarrierError):
            both.wait(0.5)
        return real()

    monkeypatch.setattr(what_if._overlay, "finish", finish)
    (refused,) = at_once(what_if.keep, what_if.keep)

    assert isinstance(refused, DecisionRefusedError)
    with pytest.raises(DecisionRefusedError, match="was kept"):
        branch.add_message("user", "too late")

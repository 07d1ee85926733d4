"""The contract of snapshots: whatever is kept, lost, damaged or foreign, every answer is that of the events."""

from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from refold.chat import ChatMessage, ChatRole
from refold.domain.chat.rules.decide import CHAT
from refold.domain.chat.state.packed import _Source
from refold.domain.chat.state.unread_items import WINDOW_MIN
from refold.domain.context import folded_stream, journal
from refold.domain.context.decider import Decider
from refold.domain.context.folded_stream import FoldedStream, Place
from refold.domain.context.snapshot import Snapshot
from refold.domain.errors import DuplicateItemError, InvalidInputError, LogWentBackError, StorageReadOnlyError
from refold.domain.log.ports import LiveLog, PartitionedLog, StreamEnd
from refold.domain.memory.rules import MEMORIES
from refold.domain.pool.items import ContextItem
from refold.domain.pool.rules import POOLS, QUEUES
from refold.domain.trajectory.rules import RUNS
from refold.domain.trajectory.stored import StoredEvents
from refold.domain.window.items import ContextItem as WindowItem
from refold.domain.window.rules import WINDOWS
from refold.infrastructure.databases import stored_log
from refold.infrastructure.log import background
from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.infrastructure.store import Store

from ..domain.chat_events import said
from ..domain.memory.remembering import about
from ..domain.pool.containers import item, queue_on
from ..model.editing_life import TELLER
from ..support.waiting import soon
from .grown_runs import ACTION, fill_runs
from .windows import busy

# A fold of each version behind each other one of a longer stream takes too long.
LONG_STREAM = 40
DECIDERS: dict[str, Decider[Any]] = {
    "chat": CHAT,
    "queue": QUEUES,
    "pool": POOLS,
    "memory": MEMORIES,
    "window": WINDOWS,
    "run": RUNS,
}


async def fill(log: LiveLog) -> list[str]:
    """Make contexts of every kind that has snapshots, with some of every change; return their streams."""
    store = Store(log, MemoryProjectionStore())
    queue, pool, memory = store.queue("s", limit=4), store.pool("s", limit=4), store.memory()
    for number in range(7):
        await queue.append(ContextItem(f"q{number}", "about"))
        await pool.add(item(f"k{number % 7 % 5}", f"p{number}"))
        await memory.put(about(f"key{number % 4}", number))
    queue.name_version("here")
    await queue.restore(queue.evicted()[0].born)
    await pool.restore(pool.evicted()[-1].born)
    side, other = queue.branch(context_id="s2"), pool.branch(context_id="s2")
    await side.append(ContextItem("aside", "about"))
    await other.remove(other.items[0].id or "")
    await other.add(item("new"))
    await queue.merge(side)
    await pool.merge(other)
    await queue.change_settings(limit=3, tags=["x"])
    await memory.forget(scope="s", key="key1")
    await memory.restore(scope="s", key="key1")
    await memory.put(about("key0", "again"))
    await pool.clear()
    await pool.add(item("last"))
    chat, brief = await fill_chats(store)
    streams = [queue.stream_id, pool.stream_id, side.stream_id, other.stream_id, "memory:s", chat, brief]
    return [*streams, fill_window(store), *await fill_runs(store)]


def fill_window(store: Store) -> str:
    """Make a window whose groups of items are in another order than the items, and return its stream."""
    window = store.window("s", max_tokens=3_780, policy="evict_lower_priority")
    busy(window)
    for key, priority in (("x", 0), ("y", 0.5), ("x", 2), ("z", 1)):
        window.add(WindowItem(key, f"{key} {priority}", "s", priority))  # type: ignore[arg-type]
    window.evict(window.births[-4])
    window.put(WindowItem("y", "again", "s", 3))
    window.remove("z")
    window.restore(window.evicted()[-1].born)
    return window.stream_id


async def fill_chats(store: Store) -> tuple[str, str]:
    """Make a chat and a part of it that went on, with some of every change; return their streams."""
    chat = store.chat("s")
    for number in range(4):
        chat.add_message("user" if number % 2 else "system", f"text {number}", f"m{number}", float(number))
    chat.add_function_call("look", "{}", call_id="c1")
    chat.approvals.request("c1", by="mia", because="it costs")
    chat.name_version("here")
    chat.approvals.change("c1", '{"a": 1}', by="mia")
    chat.add_function_output("look", "seen", call_id="c1")
    chat.insert(ChatMessage(role=ChatRole.USER, content=["between"], created_at=1.5))
    chat.pin("m1")
    chat.evict("m2", reason="old")
    chat.evict("m3")
    chat.restore(["m2"])
    brief = chat.fork_filtered(recent_turns=2, context_id="s2")
    for number in range(3):
        brief.add_message("user", f"aside {number}")
    brief.evict(brief.items[-1].id)
    with chat.stream() as out:
        out.write("It is ")
        out.flush()
        chat.pin(chat.items[-1].id)
        out.write("on its way.")
    await chat.merge(brief)
    await chat.merge_result(brief, agent_id="sub")
    await chat.summarize(TELLER, keep_recent_turns=1)
    chat.undo_summary()
    chat.clear()
    chat.restore()
    return chat.stream_id, brief.stream_id


def folded(log: LiveLog, stream: str, version: int | None = None) -> FoldedStream[Any]:
    """Return a stream that is not folded yet."""
    end = log.end(stream) if version is None else StreamEnd(version)
    decider = DECIDERS[stream.partition(":")[0]]
    return FoldedStream(log, Place(stream, stream), decider, version=end.version, digest=end.digest)


def keep(log: LiveLog, stream: str, version: int) -> None:
    """Keep a snapshot of a stream as of a version."""
    at = folded(log, stream, version)
    assert at.decider.packing is not None
    digest = log.read(stream, after=version - 1, until=version)[0].digest
    at.decider.packing.keep(log, stream, at.past(version), StreamEnd(version, digest))


def counted(call: Callable[..., Any], read: list[int], count: Callable[[Any], int]) -> Callable[..., Any]:
    """Return a call that also notes how many events it returns."""

    def counting(*args: Any, **kwargs: Any) -> Any:
        found = call(*args, **kwargs)
        read.append(count(found))
        return found

    return counting


def is_used(log: LiveLog, stream: str) -> bool:
    """Return whether a view would begin with the snapshot that is kept."""
    packing = DECIDERS[stream.partition(":")[0]].packing
    return packing is not None and packing.read(log, stream, log.end(stream)) is not None


def is_right(log: LiveLog, stream: str) -> bool:
    """Return whether the snapshot that is kept is that of the state that a fold in pages gives, as `verify` asks."""
    decider = DECIDERS[stream.partition(":")[0]]
    packing, found = decider.packing, Snapshot.unpacked(stream, log.snapshot(stream))
    assert packing is not None
    assert found is not None
    return packing.is_of(found, decider.state_at(log, stream, found.version, at_once=7))


def other_digest(found: Snapshot) -> Snapshot:
    return msgspec.structs.replace(found, digest=bytes(len(found.digest)))


def other_code(found: Snapshot) -> Snapshot:
    return msgspec.structs.replace(found, code=b"another version of Refold")


def ahead(found: Snapshot) -> Snapshot:
    return msgspec.structs.replace(found, version=found.version + 100)


def other_body(found: Snapshot) -> Snapshot:
    return msgspec.structs.replace(found, body=b"\x93")


class SnapshotsContract:
    """What holds for snapshots in any log. Needs the fixture `log`."""

    async def test_every_answer_is_that_of_the_events(self, log: LiveLog, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of every version, behind a snapshot of every version before it; of long ones, or on disk, of some."""
        streams = await fill(log)
        monkeypatch.setattr(folded_stream, "SNAPSHOT_EVENTS", 1)

        for stream in streams:
            last = log.head(stream)
            states = [folded(log, stream).past(version) for version in range(last + 1)]
            is_long = last > LONG_STREAM
            for kept in range(1, last + 1, 5 if is_long else 3 if isinstance(log, PartitionedLog) else 1):
                keep(log, stream, kept)
                assert is_used(log, stream)
                assert folded(log, stream).state == states[last]
                for version in range(kept, last + 1, last // 2 if is_long else 1):
                    assert folded(log, stream).recorded_past(version) == states[version]
                # And what follows is decided on the same state: a fold that goes on from it.
                assert folded(log, stream).recorded_past(kept - 1) == states[kept - 1]
            assert is_right(log, stream)

    @pytest.mark.parametrize("spoil", [other_digest, other_code, ahead, other_body])
    async def test_one_that_does_not_fit_counts_for_nothing(
        self, log: LiveLog, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Snapshot], Snapshot]
    ) -> None:
        """Of another log or another code, of events that are gone, or one that cannot be read."""
        (stream, *_) = await fill(log)
        monkeypatch.setattr(folded_stream, "SNAPSHOT_EVENTS", 1)
        keep(log, stream, 5)
        found = Snapshot.unpacked(stream, log.snapshot(stream))
        assert found is not None
        assert is_used(log, stream)

        spoiled = spoil(found).packed(stream)
        log.keep_snapshot(stream, lambda: spoiled)

        assert not is_used(log, stream)
        assert folded(log, stream).state == folded(log, stream).past(log.head(stream))

    async def test_a_damaged_one_counts_for_nothing(self, log: LiveLog) -> None:
        """Each flipped byte is noticed, also one that leaves another snapshot; and so is that of another stream."""
        queue, _, side, *_ = await fill(log)
        keep(log, queue, 5)
        packed = log.snapshot(queue) or b""

        for place in range(0, len(packed), 7):
            damaged = packed[:place] + bytes([packed[place] ^ 1]) + packed[place + 1 :]
            log.keep_snapshot(queue, partial(bytes, damaged))
            assert not is_used(log, queue)
        log.keep_snapshot(side, lambda: packed)
        assert not is_used(log, side)

    async def test_it_hides_no_log_that_went_back(self, log: LiveLog, monkeypatch: pytest.MonkeyPatch) -> None:
        """A view that knows an event which the log does not have says so, snapshot or not."""
        (stream, *_) = await fill(log)
        monkeypatch.setattr(folded_stream, "SNAPSHOT_EVENTS", 1)
        keep(log, stream, 5)
        end = log.end(stream)

        for known in (StreamEnd(end.version, bytes(len(end.digest))), StreamEnd(end.version + 1, end.digest)):
            lost = FoldedStream(log, Place(stream, stream), QUEUES, version=known.version, digest=known.digest)
            with pytest.raises(LogWentBackError):
                _ = lost.state

    @pytest.mark.parametrize("kind", ["queue", "chat"])
    async def test_what_is_not_recorded_yet_comes_behind_it(
        self, log: LiveLog, kind: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A state that is read for the first time within a transaction has its decisions."""
        stream = next(key for key in await fill(log) if key.startswith(f"{kind}:"))
        monkeypatch.setattr(folded_stream, "SNAPSHOT_EVENTS", 1)
        keep(log, stream, 5)
        store = Store(log, MemoryProjectionStore())
        opened: Any = store.queue("s") if kind == "queue" else store.chat(stream.removeprefix("chat:"))
        with store.transaction():
            if kind == "queue":
                await opened.append(ContextItem("decided", "about"))
            else:
                opened.add_message("user", "decided")
            shown = opened.items[-1].content

        assert shown in ("decided", ["decided"])

    async def test_whoever_folds_much_keeps_one(self, log: LiveLog, monkeypatch: pytest.MonkeyPatch) -> None:
        """At the first look at a long queue; then at an append behind many others; a short queue needs none."""
        monkeypatch.setattr(folded_stream, "SNAPSHOT_EVENTS", 40)
        monkeypatch.setattr(journal, "APPENDS_UNTIL_SNAPSHOT", 30)
        queue = queue_on(log, limit=3)
        await queue.append(*[ContextItem(str(number), "about") for number in range(10)])
        assert log.snapshot(queue.stream_id) is None

        for number in range(10, 30):
            await queue.append(ContextItem(str(number), "about"))
        first = Snapshot.unpacked(queue.stream_id, log.snapshot(queue.stream_id))
        assert first is not None
        assert first.version >= 40

        log.keep_snapshot(queue.stream_id, bytes)
        assert [one.content for one in queue_on(log, limit=3).items] == ["27", "28", "29"]
        found = Snapshot.unpacked(queue.stream_id, log.snapshot(queue.stream_id))
        assert found is not None
        assert found.version == queue.version

    @pytest.mark.parametrize("kind", ["window", "memory"])
    async def test_opening_a_long_one_reads_few_events(
        self, log: LiveLog, monkeypatch: pytest.MonkeyPatch, kind: str
    ) -> None:
        """Those of the present items, the first one, and those behind the snapshot; however many there were before."""
        monkeypatch.setattr(folded_stream, "SNAPSHOT_EVENTS", 40)
        store = Store(log, MemoryProjectionStore())
        window, memory = store.window("s", max_tokens=3_780), store.memory()
        for number in range(60):
            window.put(WindowItem(f"k{number % 3}", f"text {number}", "s"))
            await memory.put(about(f"key{number % 3}", number))
        stream = f"{kind}:s"
        whole = folded(log, stream).past(log.head(stream))
        # The first one to read all of it keeps a snapshot.
        assert folded(log, stream).state == whole
        window.put(WindowItem("k0", "behind", "s"))
        await memory.put(about("key0", "behind"))
        read: list[int] = []
        for name in ("read", "read_events"):
            monkeypatch.setattr(log, name, counted(getattr(log, name), read, len))
        monkeypatch.setattr(log, "read_ranges", counted(log.read_ranges, read, lambda found: sum(map(len, found))))

        opened = folded(log, stream)

        assert opened.state.version == log.head(stream) > 60
        # An event may count twice, where one call reads through another.
        assert sum(read) <= 2 * (3 + 1 + 2 + 1)
        assert opened.state == opened.past(log.head(stream))

    async def test_a_transaction_keeps_one_when_it_is_recorded(
        self, log: LiveLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its appends count like others; before it ends they are in no log."""
        monkeypatch.setattr(folded_stream, "SNAPSHOT_EVENTS", 40)
        monkeypatch.setattr(journal, "APPENDS_UNTIL_SNAPSHOT", 30)
        store = Store(log, MemoryProjectionStore())
        queue = store.queue("s", limit=3)
        with store.transaction():
            for number in range(40):
                await queue.append(ContextItem(str(number), "about"))
            assert log.snapshot(queue.stream_id) is None

        found = Snapshot.unpacked(queue.stream_id, log.snapshot(queue.stream_id))
        assert found is not None
        assert found.version == queue.version
        assert is_used(log, queue.stream_id)
        assert [one.content for one in queue_on(log, "s").items] == ["37", "38", "39"]

    async def test_items_are_added_to_a_chat_that_is_not_read(self, log: LiveLog) -> None:
        """A snapshot of the ids that it held shows that an item is new; any doubt reads the chat, as without one."""
        store = Store(log, MemoryProjectionStore())
        messages = [ChatMessage(role=ChatRole.USER, content=[str(number)]) for number in range(200)]
        store.chat("c").add_items(messages[:40])
        assert log.snapshot("chat:c") is None
        store.chat("c").add_items(messages[40:41])
        assert log.snapshot("chat:c") is not None

        for number in range(41, 80):
            chat = store.chat("c")
            chat.add_items(messages[number : number + 1])
            assert not chat._journal.is_loaded
        kept = Snapshot.unpacked("chat:c", log.snapshot("chat:c"))
        assert kept is not None
        assert kept.version > 70

        chat = store.chat("c")
        assert chat.add_items([messages[5]]) == []
        other = ChatMessage(id=messages[77].id, role=ChatRole.USER, content=["another"])
        with pytest.raises(DuplicateItemError):
            store.chat("c").add_items([messages[90], other])
        fork = store.chat("c").fork("side")
        fork.add_items([messages[100]])
        await store.chat("c").merge(fork)
        assert store.chat("c").add_items([messages[100]]) == []
        assert [item.id for item in store.chat("c").items] == [one.id for one in (*messages[:80], messages[100])]
        assert store.verify().problems == ()

    async def test_an_item_that_another_writer_adds_meanwhile(self, log: LiveLog) -> None:
        """What was new at a version is looked at again behind it: the same item is not there twice."""
        store = Store(log, MemoryProjectionStore())
        messages = [ChatMessage(role=ChatRole.USER, content=[str(number)]) for number in range(60)]
        store.chat("c").add_items(messages[:50])
        store.chat("c").add_items([messages[50]])
        one, other, third = store.chat("c"), store.chat("c"), store.chat("c")
        one.add_items([messages[51]])

        assert other.add_items([messages[51]]) == []
        assert third.add_items(messages[51:53]) == [third.items[-1]]
        assert [item.id for item in other.items] == [message.id for message in messages[:52]]
        assert [item.id for item in third.items] == [message.id for message in messages[:53]]

    async def test_a_chat_reads_the_items_that_it_shows(self, log: LiveLog, monkeypatch: pytest.MonkeyPatch) -> None:
        """Opened from a snapshot it finds an item, evicts it and has its totals, and reads no others."""
        monkeypatch.setattr(folded_stream, "SNAPSHOT_EVENTS", 200)
        store = Store(log, MemoryProjectionStore())
        chat = store.chat("c")
        chat.record_items([said(f"m{number}", (f"text {number}",)) for number in range(400)])
        chat.evict("m7")
        known = (chat.turn_count(), chat.estimated_tokens(), len(chat.items))
        read: list[Sequence[int]] = []
        whole = _Source.read

        def noted(source: _Source, ordinals: Sequence[int]) -> list[Any]:
            read.append(ordinals)
            return whole(source, ordinals)

        monkeypatch.setattr(_Source, "read", noted)

        again = store.chat("c", create=False)
        assert again._journal.state.version == chat.version
        assert (again.turn_count(), again.estimated_tokens(), len(again)) == known
        assert read == []
        assert again.get_by_id("m350") == chat.get_by_id("m350")
        again.evict("m320")
        again.add_message("user", "new")
        assert again.restore("m7")
        assert sum(map(len, read)) <= 2 * WINDOW_MIN
        assert [item.id for item in again.tail(2)] == ["m399", again.items[-1].id]
        held = store.chat("c").recorded_items()
        read.clear()
        assert [item.id for item in held][:7] == [f"m{number}" for number in range(7)]
        assert read == []
        assert chat.rebase(lambda one: one.items) == again.items == store.chat("c").items

    async def test_a_message_written_in_a_parent(self, log: LiveLog, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its fork has no snapshot, since the fold alone knows which pieces are the fork's; and shows the same."""
        monkeypatch.setattr(folded_stream, "SNAPSHOT_EVENTS", 1)
        store = Store(log, MemoryProjectionStore())
        chat = store.chat("c")
        with chat.stream() as out:
            out.write("It ")
            out.flush()
            fork = chat.fork("side")
            out.write("is on its way.")

        assert store.chat("side").messages() == fork.messages()
        assert log.snapshot("chat:side") is None
        assert store.chat("c").items == chat.items
        assert is_used(log, "chat:c")

    async def test_a_run_reads_the_events_that_it_shows(self, log: LiveLog, monkeypatch: pytest.MonkeyPatch) -> None:
        """Opened from a snapshot it finds a node by its name and goes on; only who looks at all of it reads all."""
        monkeypatch.setattr(folded_stream, "SNAPSHOT_EVENTS", 200)
        run = Store(log, MemoryProjectionStore()).run("mia", "long")
        query = run.register_query("which orders?")
        for number in range(400):
            run.register_node("Action", "looked", [query], label=f"look {number}", **ACTION)
        run.modify_node("Action(look 9)", {"output": "seen"})
        assert log.snapshot(run.stream_id) is None
        assert Store(log, MemoryProjectionStore()).run("mia", "long").nodes() == run.nodes()
        assert log.snapshot(run.stream_id) is not None
        read: list[int] = []
        whole = StoredEvents._read

        def noted(stored: StoredEvents, start: int, stop: int) -> None:
            read.append(start)
            whole(stored, start, stop)

        monkeypatch.setattr(StoredEvents, "_read", noted)

        again = Store(log, MemoryProjectionStore()).run("mia", "long", create=False)
        assert again.steps() == []
        assert read == []
        assert again.node("Action(look 9)") == run.node("Action(look 9)")
        again.register_node("Action", "looked again", ["Action(look 8)"], "triggers", label="look 8 again", **ACTION)
        with pytest.raises(InvalidInputError, match="same label"):
            again.register_node("Action", "looked", [query], label="look 300", **ACTION)
        assert len(read) == 2
        run.refresh()
        assert again.nodes() == run.nodes()
        assert again.graph().edges == run.graph().edges
        assert again.versions("Action(look 9)") == run.versions("Action(look 9)")


class KeptSnapshotsContract:
    """What holds for snapshots in a log on disk. Needs the fixture `store`."""

    async def test_it_is_there_when_the_log_is_opened_again(self, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """The first handle folds all events, the next process begins behind them; without the rows, as the first."""
        monkeypatch.setattr(folded_stream, "SNAPSHOT_EVENTS", 20)
        log = store.open()
        queue = queue_on(log, limit=3)
        await queue.append(*[ContextItem(str(number), "about") for number in range(20)])
        assert list(log.streams_with_snapshot()) == []
        assert len(queue_on(log, limit=3)) == 3
        log.close()

        again = store.open()
        assert list(again.streams_with_snapshot()) == [queue.stream_id]
        assert is_used(again, queue.stream_id)
        monkeypatch.setattr(FoldedStream, "past", lambda *_: pytest.fail("all events were read"))
        reopened = queue_on(again, limit=3)
        assert [one.content for one in reopened.items] == ["17", "18", "19"]
        await reopened.append(ContextItem("20", "about"))
        assert [one.content for one in queue_on(again, limit=3).items] == ["18", "19", "20"]

    def test_where_a_database_may_only_be_read(self, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """None waits there for ever, with the state that it is made of; it is tried again after a while."""
        log = store.open()
        Store(log, MemoryProjectionStore()).chat("a")
        with monkeypatch.context() as refusing:
            refusing.setattr(
                stored_log(log)._snapshots.table, "store", Mock(side_effect=StorageReadOnlyError("it may only be read"))
            )
            log.keep_snapshot("chat:a", lambda: b"one")
            assert soon(lambda: log.snapshot("chat:a") is None)
            log.keep_snapshot("chat:b", lambda: b"another")
            assert log.snapshot("chat:b") is None

        monkeypatch.setattr(background, "monotonic", lambda: monotonic() + background.READ_ONLY_SECONDS)
        log.keep_snapshot("chat:a", lambda: b"two")
        assert soon(lambda: list(log.streams_with_snapshot()) == ["chat:a"])

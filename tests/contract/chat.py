"""The contract of a chat context that is kept in a log: two handles, conflicts, queues, transactions, the past."""

import asyncio
import random
from datetime import UTC, datetime
from typing import Any

import pytest

from refold import to_async
from refold.domain.chat.context import ChatContext
from refold.domain.chat.events import TAIL_ITEMS
from refold.domain.chat.items import ChatMessage, ImageContent
from refold.domain.chat.roles import ChatRole
from refold.domain.chat.rules.commands import AddItems
from refold.domain.context.transaction import transaction
from refold.domain.errors import ConcurrencyError, DuplicateItemError, InvalidInputError, NotFoundError
from refold.domain.log.envelope import acting
from refold.domain.log.ports import LiveLog
from refold.domain.positions import BEGINNING

from ..domain.chat_events import OPENED
from ..domain.fakes import handle_on, record, texts
from .chat_approvals import ChatApprovalsContract
from .chat_calls import ChatCallsContract
from .chat_editing import ChatEditingContract
from .chat_forking import ChatForkingContract
from .chat_merging import ChatMergingContract
from .chat_states import ChatStatesContract
from .chat_streaming import ChatStreamingContract
from .chat_summaries import ChatSummariesContract
from .shared_handles import SharedHandlesContract
from .writing import at_once, check_chain, said

A, B = "chat:a", "chat:b"


def opened(log: LiveLog, *streams: str, durability: Any = "commit") -> list[ChatContext]:
    """Open streams and return a handle on each."""
    for stream in streams:
        record(log, OPENED, stream=stream)
    return [handle_on(log, stream, durability=durability) for stream in streams]


class ChatContextContract(
    ChatApprovalsContract,
    ChatStatesContract,
    ChatCallsContract,
    ChatEditingContract,
    ChatForkingContract,
    ChatMergingContract,
    ChatStreamingContract,
    ChatSummariesContract,
    SharedHandlesContract,
):
    """What holds for a chat context, whatever log it lies in. Needs the fixture `log`."""

    def test_messages_come_in_one_append(self, log: LiveLog) -> None:
        """All or none, once under a key, and outputs are named after calls that another handle made."""
        [chat] = opened(log, A)
        call = {"type": "tool_use", "id": "t1", "name": "look_up", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "t1", "content": "shipped"}
        chat.add_messages([{"role": "user", "content": "Where?"}, {"role": "assistant", "content": [call]}])
        other = handle_on(log)
        with pytest.raises(InvalidInputError, match=r"messages\[1\]"):
            other.add_messages([{"role": "user", "content": [result]}, {"role": "robot"}])
        before = log.now()
        first = other.add_messages([{"role": "user", "content": [result]}], idempotency_key="k")
        again = chat.add_messages([{"role": "user", "content": [result]}], idempotency_key="k")

        assert [(item.type, getattr(item, "name", "")) for item in first] == [("function_call_output", "look_up")]
        assert again == first
        assert chat.items == other.items == handle_on(log).items
        assert log.now().events - before.events == 1
        assert chat.version == 4

    def test_an_item_knows_its_version(self, log: LiveLog) -> None:
        """Its own context's: what a fork began with is of version 1, what a merge brought of the merge's."""
        [chat, other] = opened(log, A, B)
        first = chat.add_message("user", "first")
        [second] = chat.add_messages([{"role": "assistant", "content": "second"}])
        brought = other.add_message("user", "brought", created_at=first.created_at - 1)
        asyncio.run(chat.merge(other))
        child = chat.fork("c")
        chat.evict(second.id)
        own = child.add_message("user", "own")
        branch = child.fork_filtered(1)

        assert (first.version, second.version, brought.version, own.version) == (2, 3, 2, 2)
        assert [(item.id, item.version) for item in handle_on(log).items] == [(brought.id, 4), (first.id, 2)]
        assert [item.version for item in handle_on(log, "chat:c").items] == [1, 1, 1, 2]
        assert [item.version for item in handle_on(log).tail(1)] == [2]
        assert [item.version for item in handle_on(log, "chat:c").tail(2)] == [1, 2]
        assert [item.version for item in child.tail(2)] == [1, 2]
        assert chat.evicted_items()[0].item.version == 3
        assert {item.version for item in branch.items} == {1}
        assert chat.at(brought).version == 4
        assert child.at(brought).version == 1
        assert child.at(f"item:{own.id}").items[-1] == own
        assert handle_on(log).items[1] == first

    def test_a_call_id_works_where_an_item_id_does(self, log: LiveLog) -> None:
        """In addresses, in edits, and for what the model saw; of a repeated id the newest call counts."""
        [chat] = opened(log, A)
        chat.add_message("user", "Compare.")
        chat.add_message("assistant", "I look twice.")
        calls = [chat.add_function_call("f", str(number), f"c{number}") for number in (1, 2)]
        outputs = [chat.add_function_output("f", "found", f"c{number}") for number in (2, 1)]
        chat.add_function_call("g", "{}", "c1")
        chat.name_version("c2", 2)

        assert chat.at("item:c2").items[-1] == calls[1]
        assert (chat.at("item:c1").version, chat.at("c1").version, chat.at("c2").version) == (8, 8, 2)
        assert texts(chat.seen("c2")) == texts(chat.seen(calls[0].id)) == ["Compare."]
        assert chat.seen("c1").items == chat.items[:-1]
        assert chat.get_by_id("c2") == calls[1]
        assert chat.evict("c2").item_ids == [calls[1].id, outputs[0].id]
        assert chat.get_by_id("c2") is None
        assert chat.restore("c2") == [calls[1].id, outputs[0].id]
        child = chat.fork("b")
        with pytest.raises(NotFoundError, match="it came from chat:a, ask there"):
            child.seen("c2")
        for unknown in ("item:c3", "c3"):
            with pytest.raises(NotFoundError, match="c3"):
                chat.at(unknown)
        with pytest.raises(NotFoundError, match="no call"):
            chat.seen(chat.items[0].id)

    def test_where_an_answer_begins(self, log: LiveLog) -> None:
        """A handoff parts no answer; two answers one after the other are two, where the messages of a client say so."""
        [chat] = opened(log, A)
        called = [{"id": f"c{number}", "function": {"name": "f", "arguments": "{}"}} for number in (1, 2)]
        chat.add_messages([{"role": "assistant", "tool_calls": [one]} for one in called])
        chat.add_message("user", "Compare.")
        spoken = chat.add_message("assistant", "I look.")
        chat.add_handoff("billing")
        chat.add_function_call("f", "{}", "c3")

        assert chat.seen("c1").items == []
        assert chat.seen("c2").items == chat.items[:1]
        assert chat.seen("c3").version == (spoken.version or 0) - 1

    def test_imported_history_has_two_times(self, log: LiveLog) -> None:
        """A time is when it was recorded, `happened:` when it happened; a day is meant to its end, UTC."""
        [chat] = opened(log, A)
        for day in (1, 2, 2, 5):
            chat.add_message("user", str(day), created_at=datetime(2020, 3, day, 23, tzinfo=UTC).timestamp())
        chat.name_version("done")

        def seen(address: str) -> list[str]:
            return texts(chat.at(address))

        assert seen("happened:2020-03-02") == ["1", "2", "2"]
        assert seen("happened:2020-03-02T22:59:59Z") == ["1"]
        assert seen("happened:2020-02-28") == []
        assert chat.at("happened:2020-03-05").version == chat.version
        assert (seen("2020-03-05"), seen("2999-01-01")) == ([], ["1", "2", "2", "5"])
        fork = chat.fork("b")
        assert [fork.at(f"happened:2020-03-0{day}").version for day in (5, 6)] == [1, 1]
        assert fork.at("happened:2020-02-28").version == 0
        with pytest.raises(NotFoundError, match=f"chat:b began with a younger item: ask {A} for that time"):
            fork.at("happened:2020-03-02")

    def test_what_is_written_is_read(self, log: LiveLog) -> None:
        """Items of every kind, by the handle that wrote them and by a new one."""
        [chat] = opened(log, A)
        image = ImageContent(image="data:image/png;base64,AA==", inference_detail="low")
        chat.add_message("user", ["look", image], created_at=1.25)
        chat.add_items(
            [ChatMessage(role=ChatRole.SYSTEM, content="as it is", extra={"a": [1, {"b": None}]}, confidence=0.5)]
        )
        chat.add_function_call("f", '{"a": 1}', metadata={"ü": [1, 2.5]})
        chat.add_function_output("f", "x" * 10_000, "c", is_error=True)
        chat.add_handoff("b", "a", "tired")
        chat.add_config_update("Be brief.", [])

        again = handle_on(log)

        assert again.items == chat.items
        assert again.to_dict() == chat.to_dict()
        assert again.estimated_tokens() == chat.estimated_tokens()
        assert (again.version, again.turn_count()) == (7, 1)

    def test_an_append_catches_up(self, log: LiveLog) -> None:
        """Two handles write in turn, each without looking; both see all of it in one order."""
        [one] = opened(log, A)
        other = handle_on(log)
        for number in range(6):
            (one, other)[number % 2].add_message("user", str(number))

        one.refresh()
        assert texts(one) == texts(other) == [str(number) for number in range(6)]
        assert [event.event.content for event in other.came_between] == [("4",)]

    def test_an_editing_call_is_told(self, log: LiveLog) -> None:
        """ConcurrencyError with where the stream is; the view stays, and a rebase goes through."""
        [one] = opened(log, A)
        other = handle_on(log)
        _ = other.items
        one.add_message("user", "first")

        with pytest.raises(ConcurrencyError) as caught:
            other._journal.execute(AddItems(A, (said(1),)), catch_up=False)
        with pytest.raises(ConcurrencyError):
            other.add_message("user", "second", expected_version=1)

        assert (caught.value.stream, caught.value.expected, caught.value.actual) == (A, 1, 2)
        assert (other.version, texts(other)) == (1, [])
        other.rebase(lambda chat: chat.add_message("user", "second", expected_version=chat.version))
        assert texts(other) == ["first", "second"]

    def test_an_id_is_taken_by_another_handle(self, log: LiveLog) -> None:
        """The rule holds on what is in the log, not on what a handle has seen of it."""
        [one] = opened(log, A)
        other = handle_on(log)
        _ = other.items
        one.add_message("user", "mine", message_id="m1")

        with pytest.raises(DuplicateItemError):
            other.add_message("user", "yours", message_id="m1")
        assert other.add_message("user", "mine", message_id="m1") == one.items[0]
        assert log.head(A) == 2

    @pytest.mark.parametrize("durability", ["commit", "enqueue"])
    def test_threads_share_a_handle(self, log: LiveLog, durability: Any) -> None:
        """Four threads add through one object: everything is in it once, each thread's in its order."""
        [chat] = opened(log, A, durability=durability)

        def write(writer: int) -> None:
            for number in range(15):
                chat.add_message("user", f"{writer}-{number}")

        raised = at_once(*(lambda writer=writer: write(writer) for writer in range(4)))
        chat.flush()

        assert raised == []
        assert texts(chat) == texts(handle_on(log))
        for writer in range(4):
            mine = [text for text in texts(chat) if text.startswith(f"{writer}-")]
            assert mine == [f"{writer}-{number}" for number in range(15)]

    def test_threads_with_handles_of_their_own(self, log: LiveLog) -> None:
        """Nobody is refused, and what came between is never what one wrote oneself."""
        opened(log, A)

        def write(writer: int) -> None:
            chat = handle_on(log)
            for number in range(10):
                chat.add_message("user", f"{writer}-{number}")
                assert not any(event.event.content[0].startswith(f"{writer}-") for event in chat.came_between)
            assert texts(chat) == texts(handle_on(log))[: chat.version - 1]

        raised = at_once(*(lambda writer=writer: write(writer) for writer in range(4)))

        assert (raised, log.head(A)) == ([], 41)
        check_chain(log.read(A))

    @pytest.mark.parametrize("durability", ["commit", "enqueue"])
    def test_a_key_makes_a_call_repeatable(self, log: LiveLog, durability: Any) -> None:
        """By the same handle, by one that is behind, and by a new one: recorded once, seen once."""
        opened(log, A)
        behind = handle_on(log, durability=durability)
        handles = [handle_on(log, durability=durability) for _ in range(2)]
        for chat in (handles[0], handles[0], behind, handles[1]):
            chat.add_message("user", "once", idempotency_key="k")
            chat.flush()

        assert [texts(chat) for chat in (*handles, behind)] == [["once"]] * 3
        assert log.head(A) == 2

    def test_queued_calls(self, log: LiveLog) -> None:
        """Seen at once, on disk after `flush`; several contexts at a time."""
        left, right = opened(log, A, B, durability="enqueue")
        for number in range(100):
            left.add_message("user", str(number))
            right.add_message("user", str(number))
        seen = texts(left)

        left.flush()
        right.flush()

        assert seen == texts(handle_on(log, A)) == texts(handle_on(log, B)) == [str(number) for number in range(100)]

    def test_what_follows_a_refused_entry_is_refused(self, log: LiveLog) -> None:
        """Entries were decided one upon the other: with one the rest is refused, and the view is set back."""
        opened(log, A)
        chat = handle_on(log, durability="enqueue")
        _ = chat.items
        record(log, said(9, "theirs"), stream=A)
        for number in range(3):
            chat.add_message("user", "mine", message_id=f"x{number}")

        with pytest.raises(ConcurrencyError) as caught:
            chat.flush()

        assert [event.id for event in caught.value.refused] == ["x0", "x1", "x2"]
        assert texts(chat) == texts(handle_on(log)) == ["theirs"]
        chat.add_message("user", "again")
        chat.flush()
        assert texts(handle_on(log)) == ["theirs", "again"]

    def test_a_transaction_over_two_contexts(self, log: LiveLog) -> None:
        """Both changes at one position after the other, or none: committed, rolled back, in conflict."""
        left, right = opened(log, A, B)
        with transaction(log):
            left.add_message("user", "one")
            right.add_message("user", "uno")

        def fail() -> None:
            with transaction(log):
                left.add_message("user", "never")
                _ = 1 / 0

        def conflict() -> None:
            with transaction(log):
                left.add_message("user", "never")
                right.add_message("user", "nunca")
                record(log, said(9, "theirs"), stream=B)

        for act, error in ((fail, ZeroDivisionError), (conflict, ConcurrencyError)):
            with pytest.raises(error):
                act()
        assert (texts(left), texts(right)) == (["one"], ["uno"])
        right.refresh()
        assert (texts(handle_on(log, A)), texts(handle_on(log, B))) == (["one"], ["uno", "theirs"])
        assert texts(right) == ["uno", "theirs"]

    def test_a_transaction_is_repeatable(self, log: LiveLog) -> None:
        """Under its key it is done once, also by handles that have not seen the first time."""
        for _ in range(2):
            if not log.head(A):
                opened(log, A, B)
            left, right = handle_on(log, A), handle_on(log, B)
            with transaction(log, idempotency_key="k"):
                left.add_message("user", "one")
                left.add_message("user", "two")
                right.add_message("user", "uno")

        assert (texts(left), texts(right)) == (["one", "two"], ["uno"])
        assert (log.head(A), log.head(B)) == (3, 2)

    def test_transactions_race(self, log: LiveLog) -> None:
        """Threads that move the same two contexts on: each transaction is whole in both, or told."""
        opened(log, A, B)

        def write(writer: int) -> None:
            left, right = handle_on(log, A), handle_on(log, B)
            done = 0
            while done < 5:
                try:
                    with transaction(log):
                        left.add_message("user", f"{writer}-{done}")
                        right.add_message("user", f"{writer}-{done}")
                    done += 1
                except ConcurrencyError:
                    left.refresh()
                    right.refresh()

        raised = at_once(*(lambda writer=writer: write(writer) for writer in range(3)))

        assert raised == []
        assert texts(handle_on(log, A)) == texts(handle_on(log, B))
        assert len(texts(handle_on(log, A))) == 15

    def test_every_address(self, log: LiveLog) -> None:
        """Each version by number, from the head, by its time, its position and its name."""
        [chat] = opened(log, A)
        for number in range(130):
            chat.add_message("user", str(number))
            if number % 40 == 0:
                chat.name_version(f"at-{number}")
        history = chat.history()

        for event in history[::9]:
            said_by_then = [one.event.content[0] for one in history[: event.version] if hasattr(one.event, "content")]
            last = max(one.version for one in history if one.recorded_at <= event.recorded_at)
            time = datetime.fromtimestamp(event.recorded_at // 1_000_000, UTC)
            time = time.replace(microsecond=event.recorded_at % 1_000_000)
            assert texts(chat.at(event.version)) == said_by_then
            assert texts(chat.at(f"pos:{event.position}")) == said_by_then
            assert chat.at(event.version - len(history)).version == event.version % len(history)
            assert chat.at(time).version == chat.at(time.isoformat()).version == last
        assert [chat.at(f"at-{number}").turn_count() for number in (0, 40, 80, 120)] == [1, 41, 81, 121]
        assert chat.at("pos:0").version == chat.at(datetime.fromtimestamp(0, UTC)).version == 0

    def test_an_address_that_leads_nowhere(self, log: LiveLog) -> None:
        """No such version or name, or not an address at all."""
        [chat] = opened(log, A)

        for address in (2, -2, "nobody"):
            with pytest.raises(NotFoundError):
                chat.at(address)
        for address in ("--1", "2026-11-21T10:00", "pos:?"):
            with pytest.raises(InvalidInputError):
                chat.at(address)

    def test_a_far_position(self, log: LiveLog) -> None:
        """A position that no log has reached is the present, however large its number."""
        [chat] = opened(log, A)
        lane = str(chat.history()[0].position).rpartition(".")[0]

        for number in (10**6, 2**63, 10**30):
            assert chat.at(f"pos:{lane}.{number}" if lane else f"pos:{number}").version == 1

    def test_the_tail_knows_what_brought_an_item(self, log: LiveLog) -> None:
        """A fork or a merge, also after edits; the whole context is loaded only if its end does not say."""
        [chat, other] = opened(log, A, B)
        ids = [chat.add_message("user", text).id for text in "xyz"]
        other.add_message("user", "brought")
        child = chat.fork("c")
        child.evict(ids[2])
        grandchild = child.fork_filtered(2, context_id="g")
        asyncio.run(grandchild.merge(other))
        merged = handle_on(log, "chat:g")
        versions = [item.version for item in merged.tail(3)]
        grandchild.evict(ids[1])
        whole = child.fork("w")
        whole.evict(ids[1])

        assert (versions, merged._journal.is_loaded) == ([1, 1, 2], False)
        for stream, shown in (("chat:c", [1, 1]), ("chat:g", [1, 2]), ("chat:w", [1])):
            unloaded = handle_on(log, stream)
            tail = unloaded.tail(9)
            assert [item.version for item in tail] == shown == [item.version for item in handle_on(log, stream).items]
            assert unloaded._journal.is_loaded == (stream in ("chat:g", "chat:w"))

    def test_the_tail_of_a_long_context(self, log: LiveLog) -> None:
        """The last items, whatever lies between them, without loading the rest."""
        [chat] = opened(log, A)
        chance = random.Random(1)
        for number in range(200):
            chat.add_message("user", str(number))
            while chance.random() < 0.5:
                chat.name_version(f"n{chance.random()}")
        unloaded = handle_on(log)

        for count in (1, 3, 64, 150, 500):
            assert unloaded.tail(count) == chat.items[-count:]
        assert not unloaded._journal.is_loaded
        assert unloaded.at(150).tail(20) == chat.at(150).items[-20:]

    def test_the_tail_of_an_edited_context(self, log: LiveLog) -> None:
        """An edit names the last 64 items: more are read by a load, and these without one."""
        [chat] = opened(log, A)
        items = [chat.add_message("user", str(number)) for number in range(TAIL_ITEMS + 6)]
        chat.evict(items[-2].id)
        chat.add_message("user", "last")

        for count, is_loaded in ((2, False), (TAIL_ITEMS + 1, False), (TAIL_ITEMS + 2, True)):
            unloaded = handle_on(log)
            assert unloaded.tail(count) == chat.items[-count:]
            assert unloaded._journal.is_loaded is is_loaded

    def test_who_and_why(self, log: LiveLog) -> None:
        """The envelope is kept: actor, trace, cause."""
        [chat] = opened(log, A)
        cause = chat.history()[0]
        with acting(actor="mia", correlation_id="t1", because=cause):
            chat.add_message("user", "hi")

        meta = handle_on(log).history()[-1].meta
        assert (meta.actor, meta.correlation_id, meta.causation) == ("mia", "t1", "chat:a@1")

    def test_from_async_code(self, log: LiveLog) -> None:
        """Twenty appends at once through the wrapper, and twenty queued ones with a barrier."""
        left, right = opened(log, A, B)
        queued = handle_on(log, B, durability="enqueue")

        async def write() -> None:
            await asyncio.gather(*(to_async(left).add_message("user", str(number)) for number in range(20)))
            for number in range(20):
                queued.add_message("user", str(number))
            await queued.aflush()

        asyncio.run(write())

        right.refresh()
        assert sorted(texts(handle_on(log, A)), key=int) == texts(right) == [str(number) for number in range(20)]

    def test_the_log_tells_the_same_story(self, log: LiveLog) -> None:
        """Reading the whole log gives the events of both contexts in the order in which they were written."""
        left, right = opened(log, A, B)
        for number in range(20):
            (left, right)[number % 2].add_message("user", str(number))

        story = [event.event.content[0] for event in log.read_all(after=BEGINNING, limit=100).events[2:]]
        assert sorted(story, key=int) == [str(number) for number in range(20)]
        assert [text for text in story if int(text) % 2 == 0] == texts(left)

"""The contract of calls in a chat context that is kept in a log: those that wait, and outputs that are there once."""

from contextlib import suppress

import pytest

from refold.domain.chat.context import ChatContext
from refold.domain.chat.items import FunctionCallOutput
from refold.domain.context.transaction import transaction
from refold.domain.errors import CallSettledError, ConcurrencyError, NotFoundError, ReadOnlyError
from refold.domain.log.ports import LiveLog

from ..domain.fakes import handle_on
from .chat_checking import call, ids, message, output, require_same_from_log
from .chat_editing import begun
from .writing import at_once


class ChatCallsContract:
    """Calls that wait, and their outputs. Needs the fixture `log`."""

    def test_calls_that_wait(self, log: LiveLog) -> None:
        """They come by the answers they were in, with what a tool needs; the past has those of its time."""
        chat = begun(log, message("q"), message("a", "assistant"))
        first = chat.add_function_call("look", '{"id": 7}', "c1", agent_id="triage")
        chat.add_handoff("billing")
        second = chat.add_function_call("pay", "{}", "c2")
        chat.add_message("user", "and now?")
        alone = chat.add_function_call("look", "{}", "c3")
        before = chat.version
        chat.answer_call("c1", "found")

        [spoken, unspoken] = chat.pending_calls()

        assert (spoken.item_id, [one.call_id for one in spoken.calls]) == ("a", ["c2"])
        assert (unspoken.item_id, [one.item_id for one in unspoken.calls]) == (alone.id, [alone.id])
        then = chat.at(before).pending_calls()[0].calls
        assert [one.item_id for one in then] == [first.id, second.id]
        assert (then[0].name, then[0].arguments, then[0].agent_id) == ("look", '{"id": 7}', "triage")
        assert handle_on(log).pending_calls() == [spoken, unspoken]

    def test_an_output_is_there_once(self, log: LiveLog) -> None:
        """The same again is the item that is there, also after a reopening; another one is refused."""
        chat = begun(log, message("q"), call("c1"))
        first = chat.answer_call("c1", "found", agent_id="triage")
        again = handle_on(log)

        assert (first.name, first.call_id, first.output, first.is_error) == ("look", "c1", "found", False)
        assert chat.answer_call("c1", "found") == first == again.answer_call("c1", "found")
        assert again.answer_call("c1", "found").version == first.version == chat.version
        for other, is_error in (("lost", False), ("found", True)):
            with pytest.raises(CallSettledError) as refused:
                again.answer_call("c1", other, is_error=is_error)
            assert (refused.value.call_id, first.id in str(refused.value)) == ("c1", True)
        assert chat.pending_calls() == []
        assert ids(handle_on(log)) == f"q c1 {first.id}"

    def test_writers_hand_in_an_output_at_once(self, log: LiveLog) -> None:
        """Of many who hand in the same one is recorded; of two with different ones, one is refused."""
        chat = begun(log, call("c1"), call("c2"))
        got: list[FunctionCallOutput] = []
        handles = [handle_on(log) for _ in range(6)]
        raised = at_once(*(lambda one=one: got.append(one.answer_call("c1", "found")) for one in handles))
        refused = at_once(*(lambda one=one: one.answer_call("c2", one.stream_id + str(id(one))) for one in handles[:2]))

        chat.refresh()
        outputs = [item for item in chat.items if isinstance(item, FunctionCallOutput)]
        assert raised == []
        assert [type(error) for error in refused] == [CallSettledError]
        assert [one.call_id for one in outputs] == ["c1", "c2"]
        assert {one.id for one in got} == {outputs[0].id}

    def test_a_repeated_call_id(self, log: LiveLog) -> None:
        """Its newest waiting call is meant; the id of an item means that one alone."""
        chat = begun(log, call("c1"), output("c1"), message("q"))
        newest = chat.add_function_call("g", "{}", "c1")

        assert chat.answer_call("c1", "late").name == "g"
        assert chat.answer_call(newest.id, "late").output == "late"
        with pytest.raises(CallSettledError):
            chat.answer_call(newest.id, "later")
        require_same_from_log(log, chat)

    def test_an_output_answers_the_call_that_it_names(self, log: LiveLog) -> None:
        """Also if others with its call id wait: by its item, or by the call id the first of the newest answer."""
        chat = begun(log, message("q"))
        old, _, first, second, third = [
            chat.add_function_call("old", "{}", "c1"),
            chat.add_message("user", "Go on."),
            *(chat.add_function_call(name, "{}", "c1") for name in ("first", "second", "third")),
        ]
        answers = [chat.answer_call(call.id, name) for call, name in ((third, "third"), (old, "old"))]
        answers += [chat.answer_call("c1", name) for name in ("first", "second")]
        again = [chat.answer_call(call.id, call.name) for call in (old, first, second, third)]
        sent = chat.to_openai_messages(pending="refuse")

        assert [one.name for one in answers] == ["third", "old", "first", "second"]
        assert [one.id for one in again] == [answers[number].id for number in (1, 2, 3, 0)]
        assert [one.call_item_id for one in answers] == [third.id, old.id, None, None]
        names: dict[str, str] = {}
        for one in sent:
            names |= {made["id"]: made["function"]["name"] for made in one.get("tool_calls", ())}
            assert one["role"] != "tool" or names[one["tool_call_id"]] == one["content"]
        assert sorted(names.values()) == ["first", "second", "third"]
        require_same_from_log(log, chat)
        for copied in (ChatContext(chat.items), ChatContext.from_dict(chat.to_dict())):
            assert copied.to_openai_messages() == sent

    def test_an_output_before_its_call(self, log: LiveLog) -> None:
        """It answers none: the call waits, and leaves and comes back by itself."""
        chat = begun(log, message("q"))
        made = chat.add_function_call("f", "{}", "c1")
        early = chat.items[0].created_at - 1
        chat.insert(FunctionCallOutput(id="o", name="f", call_id="c1", output="early", created_at=early))

        assert [one.item_id for answer in chat.pending_calls() for one in answer.calls] == [made.id]
        assert chat.evict(made.id).item_ids == [made.id]
        assert chat.restore(made.id) == [made.id]
        assert [item.id for item in chat.items] == ["o", "q", made.id]

    def test_a_decision_is_on_the_call_that_it_names(self, log: LiveLog) -> None:
        """A rejected call gets its output, though a call with the same id stands before it."""
        chat = begun(log, message("q"))
        first, second = [chat.add_function_call(name, "{}", "c1") for name in ("first", "second")]
        decided = chat.approvals.reject(second.id, by="mia")

        assert decided.state == "rejected"
        assert [one.item_id for answer in chat.pending_calls() for one in answer.calls] == [first.id]

    def test_outputs_that_are_refused(self, log: LiveLog) -> None:
        """A call that never was or that left the view, a view, another writer in between: and nothing is changed."""
        chat = begun(log, message("q"), call("c1"), call("c2"))
        chat.evict("c1", reason="old")
        before = chat.version

        with pytest.raises(NotFoundError, match="no call 'q'"):
            chat.answer_call("q", "x")
        with pytest.raises(CallSettledError, match="restore 'c1' first"):
            chat.answer_call("c1", "x")
        with pytest.raises(ReadOnlyError):
            chat.at(before).answer_call("c2", "x")
        with pytest.raises(ConcurrencyError):
            chat.answer_call("c2", "x", expected_version=before - 1)
        assert chat.version == before
        chat.restore("c1")
        chat.answer_call("c1", "x")
        chat.evict("c1")
        assert chat.answer_call("c1", "x").output == "x"

    def test_outputs_in_a_transaction(self, log: LiveLog) -> None:
        """What is rolled back was never handed in, and may be handed in again."""
        chat = begun(log, call("c1"))
        with suppress(ZeroDivisionError), transaction(log):
            chat.answer_call("c1", "x")
            _ = 1 / 0
        waiting = chat.pending_calls()
        for _ in range(2):
            with transaction(log, idempotency_key="k"):
                chat.answer_call("c1", "y")

        assert [one.call_id for one in waiting[0].calls] == ["c1"]
        assert ids(chat).split()[0] == "c1"
        assert [item.output for item in chat.items if isinstance(item, FunctionCallOutput)] == ["y"]

"""The contract of calls that wait for a person, in a chat context that is kept in a log."""

from collections.abc import Callable
from typing import Any

import pytest

from refold.domain.chat.context import ChatContext
from refold.domain.chat.pairing import Approval
from refold.domain.errors import ApprovalPendingError, CallSettledError, InvalidInputError, NotFoundError, ReadOnlyError
from refold.domain.log.envelope import acting
from refold.domain.log.ports import LiveLog

from ..domain.fakes import handle_on
from .chat_checking import call, ids, message, output, require_same_from_log, run
from .chat_editing import begun
from .writing import at_once


def waiting(chat: ChatContext) -> list[str]:
    """Return the call ids that wait for a decision."""
    return [one.call_id for one in chat.approvals.pending()]


def last_actor(chat: ChatContext) -> str | None:
    """Return the actor of the newest event."""
    return chat.recorded_events(after=chat.version - 1)[0].meta.actor


class ChatApprovalsContract:
    """Requests and decisions. Needs the fixture `log`."""

    def test_a_call_waits_and_is_approved(self, log: LiveLog) -> None:
        """By whom and why is there, also after a reopening and in the past; nothing of the view is another one."""
        chat = begun(log, message("q"), call("c1"), call("c2"))
        before = chat.items
        asked = chat.approvals.request("c1", by="clerk", because="it costs money")
        at = chat.version
        with pytest.raises(
            ApprovalPendingError, match=f"'c1' of {chat.stream_id} waits for a decision since version {at}"
        ):
            chat.answer_call("c1", "paid")
        given = chat.approvals.approve("c1", by="mia", because="a good client")

        assert asked == Approval("requested", "clerk", "it costs money", at)
        assert given == Approval("approved", "mia", "a good client", at + 1)
        assert last_actor(chat) == "mia"
        assert (waiting(chat), waiting(chat.at(at)), waiting(chat.at(at - 1))) == ([], ["c1"], [])
        first, second = handle_on(log).pending_calls()[0].calls
        assert (first.approval, second.approval, chat.approvals.of("c2")) == (given, None, None)
        assert chat.items == before
        require_same_from_log(log, chat)

    def test_a_rejected_call_has_an_output(self, log: LiveLog) -> None:
        """It says by whom and why, is marked as an error, and came in one step with the decision."""
        chat = begun(log, message("q"), call("c1"))
        rejected = chat.approvals.reject("c1", by="mia", because="too much")

        last: Any = chat.items[-1]
        assert rejected.state == "rejected"
        assert (last.name, last.call_id, last.is_error) == ("look", "c1", True)
        assert last.output == "This call was rejected by mia and did not run. Reason: too much"
        assert chat.pending_calls() == []
        with pytest.raises(CallSettledError, match="another output"):
            chat.answer_call("c1", "it ran all the same")
        require_same_from_log(log, chat)

    @pytest.mark.parametrize("is_asked", [False, True])
    def test_calls_with_the_same_call_id(self, log: LiveLog, is_asked: bool) -> None:
        """The answer is about the call that was decided, and not about the one that waits next under its call id."""
        chat = begun(log, message("q"))
        made = [chat.add_function_call("look", "{}", "c1").id for _ in range(4)]
        for one in made * is_asked:
            chat.approvals.request(one, by="clerk")

        approved = chat.approvals.approve(made[2], by="mia")
        rejected = chat.approvals.reject("c1", by="mia")
        changed = chat.approvals.change("c1", {"sum": 7}, by="mia", idempotency_key="once")
        again = chat.approvals.change("c1", {"sum": 7}, by="mia", idempotency_key="once")
        assert [one.state for one in (approved, rejected, changed, again)] == [
            "approved",
            "rejected",
            "changed",
            "changed",
        ]
        assert [chat.approvals.of(one) for one in made[:3]] == [rejected, changed, approved]
        require_same_from_log(log, chat)

    def test_a_changed_call(self, log: LiveLog) -> None:
        """A call with the new arguments stands in its place; the model's own is in the past."""
        chat = begun(log, message("q"), call("c1"), call("c2"))
        chat.approvals.request("c1")
        changed = chat.approvals.change("c1", {"sum": 7}, by="mia", because="half is enough")

        [answer] = chat.pending_calls()
        first = answer.calls[0]
        assert (first.call_id, first.name, first.arguments) == ("c1", "look", '{"sum":7}')
        assert (first.approval, changed.state, waiting(chat)) == (changed, "changed", [])
        assert ids(chat) == f"q {first.item_id} c2"
        assert [(one.item.id, one.how, one.reason) for one in chat.evicted_items()] == [
            ("c1", "change", "half is enough")
        ]
        assert ids(chat.at(-1)) == "q c1 c2"
        with pytest.raises(CallSettledError, match="was changed by mia"):
            chat.restore("c1")
        assert chat.answer_call("c1", "paid").call_id == "c1"
        chat.evict(first.item_id)
        assert ids(chat) == "q c2"
        require_same_from_log(log, chat)

    def test_a_tool_that_ran_with_the_old_arguments(self, log: LiveLog) -> None:
        """Its output is refused, if it is handed in for the item that it was run for."""
        chat = begun(log, message("q"))
        asked = chat.add_function_call("pay", '{"sum": 700}', "c1")
        chat.approvals.change(asked.id, '{"sum": 7}', by="mia")

        with pytest.raises(CallSettledError, match="was changed by mia: run it with the new arguments"):
            chat.answer_call(asked.id, "paid 700")
        assert chat.approvals.change(asked.id, '{"sum": 7}', by="mia") == chat.approvals.of(asked.id)
        assert chat.version == 4

    def test_decisions_are_final(self, log: LiveLog) -> None:
        """The same again changes nothing; any other, a second request, and one on an answered call are refused."""
        chat = begun(log, message("q"), *(call(f"c{number}") for number in range(5)), output("c4"))
        calls = chat.approvals
        for _ in range(2):
            calls.request("c0", because="x")
            calls.approve("c1", by="mia")
            calls.reject("c2", by="mia", because="no")
            calls.change("c3", '{"a": 1}', by="mia")
        before = chat.version

        assert before == 7 + 1 + 5
        refused: list[Callable[[], object]] = [
            lambda: calls.request("c0", because="y"), lambda: calls.request("c1"), lambda: calls.reject("c1", by="mia"),
            lambda: calls.approve("c1", by="bob"), lambda: calls.approve("c2", by="mia"),
            lambda: calls.change("c3", '{"a": 2}', by="mia"), lambda: calls.request("c4"),
            lambda: calls.approve("c4", by="mia"),
        ]  # fmt: skip
        for decide in refused:
            with pytest.raises(CallSettledError):
                decide()
        assert chat.version == before

    def test_what_cannot_be_decided(self, log: LiveLog) -> None:
        """A call that never was or left, nobody's decision, arguments that are no object, a view of the past."""
        chat = begun(log, message("q"), call("c1"), call("c2"))
        chat.evict("c2")
        before = chat.version

        for name in ("q", "c3"):
            with pytest.raises(NotFoundError, match="pending_calls"):
                chat.approvals.approve(name, by="mia")
        with pytest.raises(CallSettledError, match="restore 'c2' first"):
            chat.approvals.approve("c2", by="mia")
        for nobody in ("", " ", None, 7):
            with pytest.raises(InvalidInputError, match="give the name"):
                chat.approvals.approve("c1", by=nobody)  # type: ignore[arg-type]  # what a caller may get wrong
        for arguments in ("", "[1]", "{", '"x"'):
            with pytest.raises(InvalidInputError, match="JSON"):
                chat.approvals.change("c1", arguments, by="mia")
        with pytest.raises(ReadOnlyError):
            chat.at(before).approvals.approve("c1", by="mia")
        assert chat.version == before

    def test_merging_what_was_decided_in_a_fork(self, log: LiveLog) -> None:
        """A changed call takes the place of the one that waits here; a rejected one is answered here as well."""
        chat = begun(log, message("q"), call("c1"), call("c2"))
        fork = chat.fork("f")
        fork.approvals.change("c1", {"sum": 7}, by="mia")
        fork.answer_call("c1", "paid 7")
        fork.approvals.reject("c2", by="mia")
        for _ in range(2):
            run(chat.merge(fork))

        assert chat.pending_calls() == []
        sent = [one.get("tool_calls") or one["content"] for one in chat.to_openai_messages(pending="refuse")]
        assert [one["function"]["arguments"] for one in sent[1]] == ["{}", '{"sum":7}']
        assert sent[2:] == ["paid 7", "This call was rejected by mia and did not run."]
        assert [(one.item.id, one.how) for one in chat.evicted_items()] == [("c1", "change")]
        before = chat.version
        with pytest.raises(CallSettledError, match="was changed: the new call"):
            chat.restore("c1")
        assert chat.answer_call("c1", "paid 7").output == "paid 7"
        with pytest.raises(CallSettledError):
            chat.approvals.approve("c1", by="bob")
        assert chat.version == before
        require_same_from_log(log, chat)

    def test_merging_a_call_that_was_changed_there_and_answered_here(self, log: LiveLog) -> None:
        """It waits for nobody: a tool must not run twice. What ran on both sides is shown."""
        chat = begun(log, message("q"), call("c1"), call("c2"))
        fork = chat.fork("f")
        for name in ("c1", "c2"):
            fork.approvals.change(name, {"sum": 7}, by="mia")
            chat.answer_call(name, "paid")
        fork.answer_call("c2", "paid 7")
        run(chat.merge(fork))

        assert chat.pending_calls() == []
        assert [item.output for item in chat.items if item.type == "function_call_output"] == ["paid", "paid", "paid 7"]
        assert [(one.how, one.reason) for one in chat.evicted_items()] == [("merge", "the call was answered here")]
        require_same_from_log(log, chat)

    def test_two_people_decide_at_once(self, log: LiveLog) -> None:
        """One decision is recorded, and the other one is told so."""
        chat = begun(log, call("c1"))
        one, other = handle_on(log), handle_on(log)

        def approve() -> None:
            one.approvals.approve("c1", by="mia")

        def reject() -> None:
            other.approvals.reject("c1", by="bob")

        refused = at_once(approve, reject)

        chat.refresh()
        assert [type(error) for error in refused] == [CallSettledError]
        assert chat.approvals.of("c1") in (one.approvals.of("c1"), other.approvals.of("c1"))
        assert (chat.pending_calls() == []) is (chat.approvals.of("c1").state == "rejected")  # type: ignore[union-attr]  # one was recorded

    def test_a_fork_has_the_approvals_of_its_parent(self, log: LiveLog) -> None:
        """What is decided afterwards holds on one side alone; who acts for whoever decides is the actor."""
        chat = begun(log, message("q"), call("c1"))
        chat.approvals.request("c1")
        fork = chat.fork("f")
        fork.approvals.change("c1", "{}", by="mia")
        with acting(actor="slack"):
            chat.approvals.approve("c1", by="bob", idempotency_key="k")
        again = handle_on(log)
        again.approvals.approve("c1", by="bob", idempotency_key="k")

        assert [one.approvals.of("c1").state for one in (chat, fork)] == ["approved", "changed"]  # type: ignore[union-attr]  # both were decided
        assert last_actor(chat) == "slack"
        assert again.version == chat.version
        require_same_from_log(log, chat, fork)

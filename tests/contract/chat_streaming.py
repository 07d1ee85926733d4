"""The contract of a message that is written piece by piece."""

import pytest

from refold.domain.chat.context import ChatContext
from refold.domain.chat.events import UNFINISHED
from refold.domain.chat.stream import MessageStream
from refold.domain.errors import DecisionRefusedError
from refold.domain.log.ports import LiveLog

from ..domain.chat_events import OPENED
from ..domain.fakes import handle_on, record, texts
from .chat_checking import look, message, require_same_from_log, run
from .chat_editing import begun


def piece(out: MessageStream, text: str) -> None:
    """Write a text as a piece of its own."""
    out.write(text)
    out.flush()


def break_off(out: MessageStream) -> None:
    """Write a beginning, and raise an error."""
    with out:
        out.write("It is ")
        raise ValueError("the answer broke off")


def state_of(chat: ChatContext) -> list[tuple[str, str | None]]:
    """Return what each message says, and why it is incomplete."""
    return list(zip(texts(chat), [one.incomplete for one in chat.messages()], strict=True))


class ChatStreamingContract:
    """What others see of it, at every version, after edits, forks and merges. Needs the fixture `log`."""

    def test_one_item_that_grows(self, log: LiveLog) -> None:
        """It keeps its place while others write, and every version shows it as far as it was then."""
        chat = begun(log, message("a"))
        other = handle_on(log)
        with chat.stream("assistant", agent_id="solver") as out:
            piece(out, "It is ")
            other.add_message("user", "Stop.")
            seen = chat.readonly.messages()[1]
            piece(out, "on its way.")
            out.use({"input_tokens": 7}, model="m1")
        whole = chat.messages()[1]

        assert (seen.incomplete, seen.interrupted, whole.incomplete, whole.interrupted) == (
            UNFINISHED, True, None, False,
        )  # fmt: skip
        assert (whole.id, whole.agent_id, whole.metrics) == (
            out.message_id, "solver", {"model": "m1", "usage": {"input_tokens": 7}},
        )  # fmt: skip
        assert [texts(chat.at(version)) for version in range(3, 8)] == [
            ["text", ""], ["text", "It is "], ["text", "It is ", "Stop."], ["text", "It is on its way.", "Stop."],
            ["text", "It is on its way.", "Stop."],
        ]  # fmt: skip
        other.refresh()
        assert look(other) == look(chat)
        require_same_from_log(log, chat)

    def test_what_a_crash_leaves(self, log: LiveLog) -> None:
        """Another handle sees it as far as it came, incomplete, and can do with it what it can do with any item."""
        chat = begun(log, message("a"))
        out = chat.stream()
        out.__enter__()
        piece(out, "It is ")
        out.write("on")
        left = handle_on(log)
        assert state_of(left) == [("text", None), ("It is ", UNFINISHED)]
        assert left.to_openai_messages()[-1]["content"] == [{"type": "text", "text": "It is "}]

        left.pin(out.message_id)
        left.unpin(out.message_id)
        left.evict(out.message_id)
        with left.stream() as again:
            again.write("Again.")
        assert state_of(left) == [("text", None), ("Again.", None)]
        left.restore()
        assert state_of(left) == [("text", None), ("It is ", UNFINISHED), ("Again.", None)]
        require_same_from_log(log, left)

    def test_an_exception_is_the_reason(self, log: LiveLog) -> None:
        """What was written stays, nothing can be written behind it, and the exception goes on."""
        chat = begun(log, message("a"))
        out = chat.stream()
        with pytest.raises(ValueError, match="broke off"):
            break_off(out)

        assert state_of(chat)[1:] == [("It is ", "ValueError: the answer broke off")]
        with pytest.raises(DecisionRefusedError, match="not open"):
            out.write("on")
        with pytest.raises(DecisionRefusedError, match="begin another"):
            out.__enter__()
        require_same_from_log(log, chat)

    def test_edits_while_it_grows(self, log: LiveLog) -> None:
        """It goes on behind an eviction, and comes back whole; tokens are those of what can be seen."""
        chat = begun(log, message("a"), message("b"))
        with chat.stream() as out:
            piece(out, "one two three ")
            chat.evict([out.message_id, "a"])
            piece(out, "four five six ")
            chat.restore(out.message_id)
            piece(out, "seven")
            chat.clear()
        assert texts(chat) == []
        chat.restore()

        assert texts(chat) == ["text", "one two three four five six seven"]
        require_same_from_log(log, chat)

    def test_forks_and_merges_in_the_middle(self, log: LiveLog) -> None:
        """A fork has it as far as it was, whole or in part, and so have those forked and merged from there."""
        chat = begun(log, message("a"))
        with chat.stream() as out:
            piece(out, "one ")
            forks = [chat.fork("full"), chat.fork_filtered(1, context_id="part"), chat.copy(context_id="copy")]
            piece(out, "two ")
            late = chat.fork_filtered(1, context_id="late")
            deep = forks[1].fork_filtered(1, context_id="deep")
            record(log, OPENED, stream="chat:stranger")
            stranger = handle_on(log, "chat:stranger")
            stranger.add_items([message("s", time=0.5)])
            run(stranger.merge(late))
            taken = stranger.fork_filtered(1, context_id="taken")
            piece(out, "three")
        run(stranger.merge_result(chat.fork("done"), agent_id="other"))
        run(forks[0].merge(chat))

        assert [texts(one)[-1] for one in (*forks, deep, late, taken)] == ["one "] * 4 + ["one two "] * 2
        assert texts(chat)[-1] == "one two three"
        assert handle_on(log, "chat:taken").tail(1) == taken.items[-1:]
        require_same_from_log(log, chat, *forks, late, deep, taken, stranger)

    def test_two_at_once(self, log: LiveLog) -> None:
        """Of two handles, in one context: each message has its own pieces."""
        chat = begun(log, message("a"))
        other = handle_on(log)
        with chat.stream() as mine, other.stream("user") as theirs:
            for number in range(3):
                piece(mine, f"m{number} ")
                piece(theirs, f"t{number} ")
        chat.refresh()
        other.refresh()

        assert texts(chat) == ["text", "m0 m1 m2 ", "t0 t1 t2 "]
        assert chat.turn_count() == 2
        require_same_from_log(log, chat, other)

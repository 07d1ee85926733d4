"""When the text of a message that is written piece by piece is recorded."""

import contextlib
from typing import Any

import pytest

from refold.domain.chat.context import ChatContext
from refold.domain.chat.events import PIECES
from refold.domain.chat.items import ChatMessage
from refold.domain.chat.rules.commands import WritePiece
from refold.domain.chat.rules.decide import CHAT
from refold.domain.chat.stream import PIECE_BYTES_MAX, MessageStream
from refold.domain.errors import DecisionRefusedError, InvalidInputError, ReadOnlyError, StorageError
from refold.domain.log.envelope import encode_payload
from refold.infrastructure.log.large_texts import LARGE_TEXT_BYTES

from .fakes import CountingSystem


class Clock(CountingSystem):
    """Time stands still unless it is set."""

    def now(self) -> float:
        """Return the time."""
        return self.time


def content(item: object) -> Any:
    """Return the content of a message."""
    assert isinstance(item, ChatMessage)
    return item.content


def write_both(out: MessageStream, *texts: Any) -> None:
    """Write texts in one block."""
    with out:
        for text in texts:
            out.write(text)


def pieces(chat: ChatContext) -> list[str]:
    """Return the texts of the recorded pieces."""
    return [one.event.text for one in chat.history() if isinstance(one.event, PIECES)]


def test_a_piece_a_quarter_of_a_second() -> None:
    """Text waits until the last piece is 250 ms old, and ends behind a word; the end records the rest."""
    clock = Clock()
    chat = ChatContext(system=clock)
    with chat.stream() as out:
        for delta in ("It ", "is ", "on"):
            out.write(delta)
        before = pieces(chat)
        clock.time += 0.25
        out.write(" its w")
        out.write("ay")

        assert (before, pieces(chat)) == ([], ["It is on its "])
    assert pieces(chat) == ["It is on its ", "way"]


def test_a_first_piece_of_one_letter() -> None:
    """The message begins with whatever comes first."""
    chat = ChatContext(system=Clock())
    with chat.stream() as out:
        out.write("")
        assert len(chat.items) == 0
        out.write("A")

        assert len(chat.items) == 1


def test_a_clock_that_is_set_back() -> None:
    """Then text is recorded at once, and not when the old time comes again."""
    clock = Clock()
    chat = ChatContext(system=clock)
    with chat.stream() as out:
        out.write("It ")
        clock.time -= 3_600
        out.write("is ")

        assert pieces(chat) == ["It is "]


@pytest.mark.parametrize(("delta", "count"), [("x" * 20, 192), ("ä" * 10, 192), ("x" * 9_000, 1)])
def test_a_piece_of_nearly_four_kilobytes(delta: str, count: int) -> None:
    """Of UTF-8; a text without a blank is cut anywhere, and a large one is one piece."""
    chat = ChatContext(system=Clock())
    with chat.stream() as out:
        for _ in range(count - 1):
            out.write(delta)
        before = pieces(chat)
        out.write(delta)

        assert (before, [len(one.encode()) >= PIECE_BYTES_MAX for one in pieces(chat)]) == ([], [True])


def test_ten_thousand_deltas() -> None:
    """They are a few events, whose texts are the whole text."""
    chat = ChatContext(system=Clock())
    with chat.stream() as out:
        for number in range(10_000):
            out.write(f"{number:>19} ")

    assert len(pieces(chat)) == 10_000 * 20 // PIECE_BYTES_MAX + 1
    assert chat.messages()[0].content == ["".join(pieces(chat))] == ["".join(f"{n:>19} " for n in range(10_000))]


def test_each_of_them_is_a_small_event() -> None:
    """A large one would be stored in two rows, and not by the way that small ones take."""
    chat = ChatContext(system=Clock())
    with chat.stream() as out:
        for delta in ("antidisestablishmentarianism" * 2, "a "):
            for _ in range(300):
                out.write(delta)

    written = [len(encode_payload(one.event)) for one in chat.history()]
    assert len(written) > 5
    assert max(written) < LARGE_TEXT_BYTES


def test_nothing_written() -> None:
    """It is no message, unless there is a usage to be kept; before the first text the prompt is as it was."""
    chat = ChatContext()
    with chat.stream() as out:
        out.write("")
        assert chat.items == []
    with pytest.raises(KeyError), chat.stream():
        raise KeyError("no answer")
    assert chat.version == 1
    with chat.stream("user") as out:
        out.use(input_tokens=5)

    assert [(one.role.value, one.content, one.incomplete) for one in chat.messages()] == [("user", [""], None)]


def test_a_reason_that_is_not_unicode() -> None:
    """An error may name a file whose name is no UTF-8; the text that waits is recorded all the same."""
    chat = ChatContext()
    with contextlib.suppress(ValueError), chat.stream() as out:
        out.write("It is ")
        out.write("shipped.")
        raise ValueError("no file 'caf\udce9'")

    assert [(one.text, one.incomplete) for one in chat.messages()] == [("It is shipped.", "ValueError: no file 'caf?'")]


def test_a_usage_that_is_no_json() -> None:
    """It is refused where it is given: at the end of the block, the text that waits would be lost with it."""
    chat = ChatContext()
    with chat.stream() as out:
        out.write("It is ")
        out.write("shipped.")
        out.use(output_tokens=2)
        with pytest.raises(InvalidInputError, match="the usage of the message cannot be stored as JSON"):
            out.use({"input_tokens": 1, "details": object()})

    message = chat.messages()[0]
    assert (message.text, message.incomplete, message.metrics) == (
        "It is shipped.",
        None,
        {"usage": {"output_tokens": 2}},
    )


async def test_in_an_event_loop() -> None:
    """The same, awaited."""
    clock = Clock()
    chat = ChatContext(system=clock)
    async with chat.stream() as out:
        await out.awrite("It ")
        clock.time += 1
        await out.awrite("is ")
        await out.awrite("shipped.")

    assert pieces(chat) == ["It is ", "shipped."]


def test_an_old_view_keeps_the_old_form() -> None:
    """Of one item table the live context continues, and a fork that shares it; counters of tokens count it again."""
    chat = ChatContext()
    chat.add_message("user", "Where?")
    with chat.stream() as out:
        out.write("one ")
        out.flush()
        child, old, count = chat.fork(), chat.at(chat.version), chat.estimated_tokens(len)
        first = chat.items[0]
        out.write("two ")
        out.flush()
        child.add_message("user", "And?")

        assert [one.messages()[1].content for one in (chat, child, old)] == [["one two "], ["one "], ["one "]]
        assert chat.estimated_tokens(len) == count + 4
        # Only the message that grew is made again.
        assert chat.items[0] is first
        assert chat.items[1].id == out.message_id
    assert old.messages()[1].content == ["one "]


@pytest.mark.parametrize(
    ("written", "error"), [(5, InvalidInputError), ("\ud800", InvalidInputError), (None, InvalidInputError)]
)
def test_what_is_no_text(written: Any, error: type[Exception]) -> None:
    """It is refused, and leaves no trace in the message but its reason."""
    chat = ChatContext()
    out = chat.stream()
    with pytest.raises(error):
        write_both(out, "It ", written)

    assert chat.messages()[0].content == ["It "]
    assert str(chat.messages()[0].incomplete).startswith("InvalidInputError: ")


def test_what_is_no_stream() -> None:
    """Instructions are in force as a whole; a view is read only; nothing is written before or behind the block."""
    chat = ChatContext()
    with pytest.raises(InvalidInputError, match="add_message"):
        chat.stream("system")
    with pytest.raises(ValueError, match="role"):
        chat.stream("robot")
    with pytest.raises(ReadOnlyError):
        chat.readonly.stream()
    with pytest.raises(DecisionRefusedError, match="not open"):
        chat.stream().write("x")
    assert chat.version == 1


def test_pieces_that_are_refused() -> None:
    """Of a message that nobody writes, or that is written elsewhere, or behind lost text; known text adds nothing."""
    chat = ChatContext()
    done, text = chat.add_message("assistant", "done"), "x" * PIECE_BYTES_MAX

    def decided(context: ChatContext, item_id: str, start: int) -> list[Any]:
        return list(CHAT.decide(WritePiece(context.stream_id, item_id, start, text), context._journal.state))

    with chat.stream() as out:
        out.write(text)
        out.write(".")
        for context, item_id, start, fault in (
            (chat, done.id, 0, "is not being written"),
            (chat, "nobody", 0, "is not being written"),
            (chat.fork("child"), out.message_id, len(text), f"is written in {chat.stream_id}: write it there"),
            (chat, out.message_id, len(text) + 1, "has 3840 of 3841 characters: some are lost"),
        ):
            with pytest.raises(DecisionRefusedError, match=fault):
                decided(context, item_id, start)
        assert decided(chat, out.message_id, 0) == []
        assert [one.text for one in decided(chat, out.message_id, len(text) - 1)] == [text[1:]]


def test_an_end_that_cannot_be_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is raised, unless the block failed already: then the first error has it as a note."""

    def refuse(*_: Any, **__: Any) -> None:
        raise StorageError("no room")

    def write(fails: bool) -> None:
        with ChatContext().stream() as out:
            out.write("Hi")
            monkeypatch.setattr(out, "_record", refuse)
            if fails:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        write(True)
    with pytest.raises(StorageError):
        write(False)
    assert caught.value.__notes__[0].endswith(" was not recorded: no room")


def test_a_replay_has_the_whole_message() -> None:
    """It was complete before the model was called again."""
    chat = ChatContext()
    chat.add_message("user", "Where?")
    with chat.stream() as out:
        for word in ("on ", "its ", "way"):
            out.write(word)
            out.flush()
    chat.add_message("user", "When?")
    chat.add_message("assistant", "Soon.")
    child = chat.fork()
    child.add_message("user", "Thanks.")
    child.add_message("assistant", "Welcome.")

    for replay in (chat.replay("all"), chat.replay("items:10")):
        assert [call.version for call in replay.calls] == [3, 9]
        assert content(replay.seen(9)[1]) == ["on its way"]
    last = child.replay("all")
    assert content(last.seen(last.calls[-1].version)[1]) == ["on its way"]


def test_it_is_the_same_item_elsewhere() -> None:
    """Plain data have the mark of an incomplete one, and adding the same item again adds nothing."""
    chat = ChatContext()
    with chat.stream() as out:
        out.write("one ")
        out.flush()
        plain = chat.to_dict()
        assert "incomplete" in plain["items"][0]
        assert ChatContext.from_dict(plain).items == chat.items
    assert "incomplete" not in chat.to_dict()["items"][0]
    version = chat.version
    assert (chat.add_items(chat.items), chat.version) == ([], version)


@pytest.mark.parametrize("at", range(4))
def test_an_interrupt_behind_an_append(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was recorded when the interrupt came is not written twice, and what was not is not lost."""
    chat = ChatContext(system=CountingSystem())
    record, calls = chat._record, 0

    def interrupted(*args: Any, **options: Any) -> Any:
        nonlocal calls
        outcome, calls = record(*args, **options), calls + 1
        if calls == at + 1:
            raise KeyboardInterrupt
        return outcome

    monkeypatch.setattr(chat, "_record", interrupted)
    with contextlib.suppress(KeyboardInterrupt), chat.stream() as out:
        for word in ("one ", "two ", "three "):
            with contextlib.suppress(KeyboardInterrupt):
                out.write(word)

    assert (chat.messages()[0].content, chat.messages()[0].incomplete) == (["one two three "], None)


def test_nothing_waits_behind_the_block() -> None:
    """The last piece has all text, so a flush has nothing to record; an error without a text ends the message, too."""

    class Unreadable(Exception):
        def __str__(self) -> str:
            raise ValueError

    chat = ChatContext()
    with chat.stream() as answer:
        answer.write("All of it.")
    answer.flush()
    with pytest.raises(Unreadable), chat.stream() as answer:  # noqa: PT012 - it is raised within the block
        answer.write("Half of")
        raise Unreadable

    assert [(one.text, one.incomplete) for one in chat.messages()] == [("All of it.", None), ("Half of", "Unreadable")]

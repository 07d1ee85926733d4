"""The contract of summaries in a chat context that is kept in a log."""

from typing import Any

import pytest

from refold.domain.chat.context import ChatContext
from refold.domain.errors import DecisionRefusedError, NotFoundError
from refold.domain.log.ports import LiveLog
from refold.domain.spans import refs_of

from ..domain.fakes import handle_on
from .chat_checking import Teller, call, config, ids, look, message, output, require_same_from_log, run
from .chat_editing import begun

TURNS = [message(f"u{number}", time=float(number)) for number in range(1, 6)]

SUMMARY = {"summary": True}


class ChatSummariesContract:
    """Summaries of the context itself, and of others. Needs the fixture `log`."""

    def test_a_summary_and_its_undoing(self, log: LiveLog) -> None:
        """It stands before what was kept, with the time of what it tells; undone, everything is as it was."""
        chat = begun(log, message("s", "system"), message("u1", time=1.0), call("c1", time=2.0), output("c1", time=3.0),
                     config("cfg", "x", time=3.5), *TURNS[3:])  # fmt: skip
        chat.pin("u1")
        before = look(chat)
        run(chat.summarize(Teller("Told."), keep_recent_turns=2))
        told: Any = chat.items[3]

        assert ids(chat) == f"s u1 cfg {told.id} u4 u5"
        assert (told.created_at, told.content, told.extra) == (3.5, ["[Conversation Summary]\nTold."], SUMMARY)
        assert chat.history()[-1].event.model == "tests.contract.chat_checking.Teller"
        chat.undo_summary()
        after = look(chat)
        assert (after[0], *after[2:5], *after[6:]) == (before[0], *before[2:5], *before[6:])
        with pytest.raises(NotFoundError, match="no summary"):
            chat.undo_summary()
        require_same_from_log(log, chat)

    def test_a_summary_takes_in_the_one_before(self, log: LiveLog) -> None:
        """The model is given it, it leaves the view, and the two are undone one after the other."""
        chat = begun(log, *TURNS)
        teller = Teller("One.", "Two.")
        run(chat.summarize(teller, keep_recent_turns=3))
        one = ids(chat)
        run(chat.summarize(teller, keep_recent_turns=1))
        two = chat.items[0].id

        assert ids(chat) == f"{two} u5"
        assert teller.prompts[1].startswith("[Previous Summary]: One.\nUser: ")
        require_same_from_log(log, chat, chat.fork())
        again = handle_on(log)
        again.undo_summary()
        assert ids(again) == one
        again.undo_summary(again.items[0].id)
        assert ids(again) == "u1 u2 u3 u4 u5"
        require_same_from_log(log, again)

    def test_others_append_meanwhile(self, log: LiveLog) -> None:
        """What a summary tells is named, so appending does no harm; evicting what it tells does."""
        chat = begun(log, *TURNS)
        other = handle_on(log)
        run(chat.summarize(Teller("Told.", meanwhile=lambda: other.add_items([message("new")])), keep_recent_turns=1))
        assert ids(chat).split()[1:] == ["u5", "new"]
        require_same_from_log(log, chat)
        chat.undo_summary()
        version = chat.version
        with pytest.raises(DecisionRefusedError, match="item 'u2' of chat:a was"):
            run(chat.summarize(Teller("Told.", meanwhile=lambda: chat.evict("u2")), keep_recent_turns=1))
        assert (ids(chat), chat.version) == ("u1 u3 u4 u5 new", version + 1)

    def test_an_output_comes_meanwhile(self, log: LiveLog) -> None:
        """The call is not told away from it."""
        chat = begun(log, message("u1"), call("c1"), message("u2"))
        with pytest.raises(DecisionRefusedError, match="item 'oc1' of chat:a was"):
            run(chat.summarize(Teller("x", meanwhile=lambda: chat.add_items([output("c1")])), keep_recent_turns=1))
        assert ids(chat) == "u1 c1 u2 oc1"

    def test_without_an_answer(self, log: LiveLog) -> None:
        """Nothing is changed, and why is told."""
        chat = begun(log, *TURNS)
        for llm, why in ((Teller(" ", " "), "blank answer"), (Teller(), "IndexError")):
            run(chat.summarize(llm, keep_recent_turns=1))
            assert why in (chat.summary_failure or "")
            run(chat.merge_with_summary(chat.at(3), llm=llm))
            assert why in (chat.summary_failure or "")
        assert chat.version == 6

    def test_it_returns_the_context(self, log: LiveLog) -> None:
        """Whether there was anything to tell, whether there was an answer, and called again with the same key."""
        chat = begun(log, *TURNS)
        sub, empty = chat.fork(context_id="sub"), ChatContext()
        sub.add_items([message("a", "assistant")])
        for turns, texts, key in ((9, (), None), (1, (" ", " "), None), (1, ("Told.",), "k"), (1, (), "k")):
            llm = Teller(*texts)
            assert run(chat.summarize(llm, keep_recent_turns=turns, idempotency_key=key)) is chat
        for other, texts, key in ((empty, (), None), (sub, (" ", " "), None), (sub, ("Told.",), "l"), (sub, (), "l")):
            assert run(chat.merge_with_summary(other, llm=Teller(*texts), idempotency_key=key)) is chat
        assert (len(chat.items), chat.summary_failure) == (3, None)

    def test_another_context_is_told(self, log: LiveLog) -> None:
        """Each version once, also after its answer was taken; what it told is named."""
        chat = begun(log, message("u"))
        sub = chat.fork_brief("Do it.", "Now.", context_id="sub")
        sub.add_items([message("a", "assistant")])
        run(chat.merge_result(sub))
        for _ in range(2):
            run(chat.merge_with_summary(sub, llm=Teller("Told."), agent_id="sub"))
        told: Any = chat.items[-1]
        assert (told.content, told.agent_id) == (["[Sub-agent Summary]\nTold."], "sub")
        assert (len(chat.items), chat.history()[-2].event.told[0].stream) == (3, "chat:sub")
        sub.add_items([message("more")])
        run(chat.merge_with_summary(sub, llm=Teller("Again.")))
        assert chat.messages()[-1].content == ["[Sub-agent Summary]\nAgain."]
        require_same_from_log(log, chat)

    def test_another_context_goes_on_meanwhile(self, log: LiveLog) -> None:
        """The event names the version that the model was given, so what came later can be told, too."""
        chat = begun(log, message("u"))
        for sub in (chat.fork_brief("Do it.", "Now.", context_id="sub"), ChatContext([message("own")])):
            before = sub.version
            teller = Teller("Told.", meanwhile=lambda sub=sub: sub.add_message("assistant", "42."))  # type: ignore[misc]
            run(chat.merge_with_summary(sub, llm=teller))
            merged = chat.history()[-2].event
            assert (merged.version, len(list(refs_of(merged.told)))) == (before, len(sub.items) - 1)
            run(chat.merge_with_summary(sub, llm=Teller("It is 42.")))
            assert chat.messages()[-1].content == ["[Sub-agent Summary]\nIt is 42."]
        require_same_from_log(log, chat)

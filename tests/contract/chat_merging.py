"""The contract of merging a chat context that is kept in a log with another one."""

from pathlib import Path
from typing import Any

import pytest

from refold.domain.chat.context import ChatContext
from refold.domain.chat.events import ConflictResolved
from refold.domain.context.transaction import transaction
from refold.domain.errors import ConcurrencyError, InvalidInputError
from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.ports import LiveLog
from refold.domain.positions import BEGINNING

from ..domain.fakes import handle_on, record
from .chat_checking import Teller, call, config, ids, look, message, output, require_same_from_log, run, stream_of
from .chat_editing import begun
from .stores import log_at
from .writing import said

RULES = pytest.mark.parametrize(("rule", "kept"), [("ours", "ours"), ("theirs", "theirs"), ("newest", "theirs")])


def conflicts(chat: ChatContext) -> list[ConflictResolved]:
    """Return the conflicts that a context's merges resolved."""
    return [one.event for one in chat.history() if isinstance(one.event, ConflictResolved)]


class ChatMergingContract:
    """Merges of forks, of strangers, of other logs. Needs the fixture `log`."""

    def test_both_sides_went_on(self, log: LiveLog) -> None:
        """What is new goes where its time belongs, own items stay as they are, the other side is left alone."""
        ours = begun(log, message("a", time=1.0), message("late", time=9.0), message("b", time=2.0))
        theirs = ours.fork("theirs")
        theirs.add_items([message("t3", time=3.0), message("t1", time=1.0), message("t10", time=10.0)])
        theirs.evict("a")
        ours.add_items([message("o", time=4.0)])
        before = look(theirs)
        version = ours.version
        assert run(ours.merge(theirs)) is ours

        assert (ids(ours), ours.version) == ("a t1 t3 late b o t10", version + 1)
        merged = ours.history()[-1].event
        assert (merged.base.version, merged.source) == (4, "chat:theirs")
        assert look(theirs) == before
        assert run(ours.merge(theirs)).version == version + 1
        ours.evict("t3")
        theirs.add_items([message("t11", time=11.0)])
        assert ids(run(ours.merge(theirs))) == "a t1 late b o t10 t11"
        assert ids(run(theirs.merge(ours))) == "o late b t3 t1 t10 t11"
        require_same_from_log(log, ours, theirs)

    @RULES
    def test_both_changed_the_instructions(self, log: LiveLog, rule: Any, kept: str) -> None:
        """Who wins is in force, both are kept in an event, and merging again changes nothing."""
        ours = begun(log, message("s", "system", text="Base."))
        theirs = ours.fork("theirs")
        ours.add_items([config("o", "Ours.", time=5.0)])
        theirs.add_items([config("t", "Theirs.", time=6.0 if rule == "newest" else 4.0), message("m")])
        run(ours.merge(theirs, on_conflict=rule))
        version = ours.version
        run(ours.merge(theirs, on_conflict=rule))

        assert ours.active_config_at()[0] == ("Ours." if kept == "ours" else "Theirs.")
        assert [(one.kind, one.rule, one.kept) for one in conflicts(ours)] == [("config", rule, kept)]
        assert ours.version == version
        require_same_from_log(log, ours)

    @RULES
    def test_both_told_the_same(self, log: LiveLog, rule: Any, kept: str) -> None:
        """One summary stays; the other is in the past, and its conflict is recorded."""
        ours = begun(log, *(message(f"u{number}", time=float(number)) for number in range(1, 5)))
        theirs = ours.fork("theirs")
        run(ours.summarize(Teller("Ours."), keep_recent_turns=2))
        run(theirs.summarize(Teller("Theirs."), keep_recent_turns=1))
        run(ours.merge(theirs, on_conflict=rule))

        shown = [item.content[0] for item in ours.messages() if item.extra]
        assert shown == ["[Conversation Summary]\n" + ("Ours." if kept == "ours" else "Theirs.")]
        assert [one.kind for one in conflicts(ours)] == ["summary"]
        ours.restore(["u1", "u2"])
        assert {"u1", "u2"} <= set(ids(ours).split())
        require_same_from_log(log, ours, theirs)

    @pytest.mark.parametrize("rule", ["ours", "theirs"])
    def test_nothing_that_one_side_alone_told_is_out_of_sight(self, log: LiveLog, rule: Any) -> None:
        """A summary of more than the winning one's stays beside it, until it is undone."""
        ours = begun(log, *(message(f"u{number}", time=float(number)) for number in range(1, 5)))
        theirs = ours.fork("theirs")
        theirs.add_items([message("new", time=4.5), message("last", time=4.6)])
        if rule == "ours":
            run(ours.summarize(Teller("Less."), keep_recent_turns=2))
            run(theirs.summarize(Teller("More."), keep_recent_turns=1))
        else:
            run(ours.summarize(Teller("More."), keep_recent_turns=1))
            run(theirs.summarize(Teller("Less."), keep_recent_turns=4))
        run(ours.merge(theirs, on_conflict=rule))

        told = sorted(str(item.content[0]).partition("\n")[2] for item in ours.messages() if item.extra)
        assert told == ["Less.", "More."]
        assert conflicts(ours) == []
        assert "last" in ids(ours).split()
        require_same_from_log(log, ours, theirs)

    def test_instructions_stay_behind(self, log: LiveLog) -> None:
        """A sub-agent's instructions do not become one's own, unless that is asked for."""
        ours = begun(log, message("s", "system", text="Ours."), message("u"))
        brief = ours.fork_brief("Brief.", "Task.", context_id="brief")
        brief.add_message("assistant", "Done.")
        run(ours.merge(brief))
        assert (ours.active_config_at()[0], len(ours.items)) == ("Ours.", 4)
        run(ours.merge(brief, instructions=True))
        assert len(ours.items) == 5
        with pytest.raises(InvalidInputError, match="on_conflict is 'mine'"):
            run(ours.merge(brief, on_conflict="mine"))  # type: ignore[arg-type]
        require_same_from_log(log, ours)

    def test_a_call_that_was_evicted_here(self, log: LiveLog) -> None:
        """Its output comes along, but not into the view; both come back together."""
        ours = begun(log, message("u", time=1.0), call("c1", time=2.0))
        theirs = ours.fork("theirs")
        theirs.add_items([output("c1", time=3.0), message("a", "assistant", time=4.0)])
        ours.evict("c1")
        run(ours.merge(theirs))
        assert ids(ours) == "u a"
        ours.restore("c1")
        assert ids(ours) == "u c1 oc1 a"
        require_same_from_log(log, ours)

    def test_an_output_of_a_slow_clock(self, log: LiveLog) -> None:
        """It goes behind its call, whatever its time says."""
        ours = begun(log, message("u", time=8.0), call("c1", time=6.0), message("later", time=9.0))
        theirs = ours.fork("theirs")
        theirs.add_items([output("c1", time=2.0), call("c2", time=7.0), output("c2", time=1.0)])
        run(ours.merge(theirs))
        assert ids(ours) == "c2 oc2 u c1 oc1 later"

    def test_the_last_answer(self, log: LiveLog) -> None:
        """Once, at the end, with another name on it, which it keeps in forks, copies, merges and after reading."""
        ours = begun(log, message("u"))
        sub = ours.fork("sub")
        sub.add_items([message("first", "assistant"), message("a", "assistant", time=0.5), message("u2")])
        for _ in range(2):
            run(ours.merge_result(sub, agent_id="sub"))
        assert (ids(ours), ours.version, ours.items[-1].agent_id) == ("u a", 3, "sub")
        assert sub.get_by_id("a").agent_id is None  # type: ignore[union-attr]
        brief = ours.fork_brief("x", context_id="brief")
        run(brief.merge(ours))
        others = [ours.fork(), ours.fork_filtered(1), ours.copy(exclude_handoffs=True), brief]
        assert [other.get_by_id("a").agent_id for other in others] == ["sub"] * 4  # type: ignore[union-attr]
        ours.evict("a")
        assert run(ours.merge_result(sub)).version == 4
        require_same_from_log(log, ours, *others, others[1].fork())

    def test_a_context_of_another_log(self, log: LiveLog, tmp_path: Path) -> None:
        """It is adopted in the same transaction, with all that it names; again, where nothing is new, it is not."""
        far = log_at(str(tmp_path / "far.db"))
        try:
            root = begun(far, message("r1", time=1.0), message("r2", time=2.0))
            side = root.fork("side")
            side.add_items([message("side", time=4.0)])
            other = root.fork("other")
            run(other.merge(side))
            other.evict("r1")
            other.add_items([message("own", "assistant", time=3.0)])
            ours = begun(log, message("a", time=2.5))
            run(ours.merge(other))
            streams = {one.stream for one in log.read_all(after=BEGINNING, limit=99).events}
            version = ours.version
            run(ours.merge(other))
            run(ours.merge_result(other))
        finally:
            far.close()
        assert ids(ours) == "r2 a own side"
        assert len(streams) == 4
        assert {one.stream for one in log.read_all(after=BEGINNING, limit=99).events} == streams
        assert ours.version == version
        adopted = handle_on(log, ours.history()[-1].event.source)
        assert ids(adopted) == "r2 side own"
        run(ours.merge(adopted))
        require_same_from_log(log, ours, adopted)

    def test_an_adoption_that_is_refused(self, log: LiveLog) -> None:
        """Another writer came first: nothing of the other log is there."""
        other = ChatContext([message("o")])
        ours = begun(log, message("a"))
        record(log, said(9))
        with pytest.raises(ConcurrencyError):
            run(ours.merge(other))
        assert {one.stream for one in log.read_all(after=BEGINNING, limit=99).events} == {"chat:a"}
        assert ids(ours) == "a"
        ours.refresh()
        assert set(ids(run(ours.merge(other))).split()) == {"a", "m9", "o"}

    @pytest.mark.parametrize("is_kept", [True, False])
    def test_an_adoption_in_a_transaction(self, log: LiveLog, is_kept: bool) -> None:
        """It becomes part of it, or nothing."""
        other = handle_on(MemoryLog(), "chat:x")
        record(other._journal.log, said(1), stream="chat:x")
        other.refresh()
        ours = begun(log, message("a"))
        try:
            with transaction(log):
                run(ours.merge(ChatContext([message("o")])))
                ours.add_items([message("b")])
                assert set(ids(ours).split()) == {"a", "o", "b"}
                if not is_kept:
                    _ = 1 / 0
        except ZeroDivisionError:
            assert (ids(ours), len(log.read_all(after=BEGINNING, limit=99).events)) == ("a", 2)
            return
        require_same_from_log(log, ours)

    def test_a_merge_is_repeatable(self, log: LiveLog) -> None:
        """Under its key, also of a context of another log, and by a handle that has not seen it."""
        other = ChatContext([message("o", time=2.0)])
        ours = begun(log, message("a"))
        behind = handle_on(log)
        _ = behind.items
        for handle in (ours, ours, behind):
            run(handle.merge(other, idempotency_key="k"))
        assert (ids(ours), ids(behind), log.head("chat:a")) == ("a o", "a o", 3)

    def test_a_merge_of_the_past_and_of_itself(self, log: LiveLog) -> None:
        """The past gives what is not here; oneself has nothing to give."""
        ours = begun(log, message("a"))
        theirs = ours.fork("theirs")
        theirs.add_items([message("t1"), message("t2")])
        assert ids(run(ours.merge(theirs.at(2)))) == "a t1"
        version = ours.version
        run(ours.merge(ours))
        run(ours.merge(ours.at(1)))
        run(ours.merge(theirs.at(1)))
        assert ours.version == version
        assert stream_of(theirs) == ours.history()[-1].event.source

    def test_a_queued_merge(self, log: LiveLog) -> None:
        """What it names is on disk before it, also where the other side was queued."""
        ours = begun(log, message("a"), durability="enqueue")
        theirs = ours.fork("theirs")
        theirs.add_items([message("t", time=2.0)])
        run(ours.merge(theirs))
        ours.add_items([message("b", time=3.0)])
        ours.flush()
        require_same_from_log(log, ours, theirs)

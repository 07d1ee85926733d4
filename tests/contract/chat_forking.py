"""The contract of forking a chat context that is kept in a log."""

import pytest

from refold.domain.chat.events import Forked
from refold.domain.context.transaction import transaction
from refold.domain.errors import InvalidInputError
from refold.domain.log.ports import LiveLog

from ..domain.fakes import handle_on
from .chat_checking import call, config, ids, look, message, output, require_same_from_log, run, stream_of
from .chat_editing import begun


class ChatForkingContract:
    """Forks of the present, of the past and of forks, with all of the parent or a part. Needs the fixture `log`."""

    def test_a_fork_is_one_event(self, log: LiveLog) -> None:
        """It shows what its parent shows, evicted and pinned items too; then each goes its own way."""
        parent = begun(log, message("a"), call("c1"), output("c1"), message("b"))
        parent.evict("c1")
        parent.pin("b")
        first, before = parent.fork("first"), look(parent)
        second = parent.fork()
        assert [type(event) for event in log.read_events("chat:first")] == [Forked]
        assert look(first)[2:5] == look(parent)[2:5]
        # Appending in turn: they share what is in memory, and must not see each other's.
        for turn in range(3):
            for number, chat in enumerate((first, parent, second, first)):
                chat.add_items([message(f"{turn}-{number}")])
        first.restore()
        second.clear()
        parent.insert(message("0", time=0.5))

        assert ids(parent) == "0 a b 0-1 1-1 2-1"
        assert ids(first) == "a c1 oc1 b 0-0 0-3 1-0 1-3 2-0 2-3"
        assert (ids(second), len(second.evicted_items())) == ("", 7)
        assert look(parent.at(before[1])) == before
        require_same_from_log(log, parent, first, second)

    def test_a_hundred_forks_deep(self, log: LiveLog) -> None:
        """Each adds, and takes back what the one before evicted: all of it is in the last one, by reading too."""
        chat = begun(log, message("root"))
        for depth in range(100):
            chat = chat.fork(f"d{depth}")
            chat.add_items([message(f"m{depth}")])
            chat.restore() if depth % 2 else chat.evict("root")
        again = handle_on(log, stream_of(chat))

        assert ids(again) == ids(chat) == " ".join(["root", *(f"m{depth}" for depth in range(100))])
        assert ids(again.at(1)) == " ".join(f"m{depth}" for depth in range(99))
        assert again.estimated_tokens() == 101 * 5
        again.insert(message("0", time=0.5))
        assert ids(handle_on(log, stream_of(chat)).fork()).startswith("0 root m0")

    def test_a_fork_of_the_past(self, log: LiveLog) -> None:
        """Of each version, by number and by name, and of a past that is itself a fork's."""
        parent = begun(log, message("a"), message("b"))
        parent.evict("a")
        parent.name_version("before", 3)
        parent.clear()
        children = [parent.at(version).fork() for version in (1, 2, 3, 4, 6)]
        named = parent.at("before").fork()
        named.add_items([message("c")])
        of_past = named.at(1).fork()

        assert [ids(child) for child in children] == ["", "a", "a b", "b", ""]
        assert (ids(named), ids(of_past)) == ("a b c", "a b")
        with pytest.raises(InvalidInputError, match="fork a later version"):
            parent.at(0).fork()
        require_same_from_log(log, *children, named, of_past)

    def test_the_last_turns(self, log: LiveLog) -> None:
        """Instructions first, pairs whole, the instructions in force, pins kept; forked and read again the same."""
        parent = begun(
            log, message("s", "system", text="Old."), message("u1"), call("c1"), config("cfg", "In force."),
            message("u2"), output("c1"), message("s2", "developer", text="Late."), config("cfg2", "Now."),
            message("u3"),
        )  # fmt: skip
        parent.pin(["u2", "u1"])
        child = parent.fork_filtered(2)
        grandchild = child.fork_filtered(1)

        assert ids(child) == "s s2 u2 cfg2 u3"
        assert child.pinned_ids() == ["u2"]
        assert ids(grandchild).startswith("s s2 u3 cfgupd_")
        assert child.active_config_at() == grandchild.active_config_at() == parent.active_config_at()
        require_same_from_log(log, child, grandchild, grandchild.fork())

    def test_a_brief_and_copies(self, log: LiveLog) -> None:
        """New instructions alone; and what passes a filter, outputs with their calls."""
        parent = begun(log, message("s", "system"), call("c1"), output("c1"), message("u", text=" "), config("g", "x"))
        brief = parent.fork_brief("Do it.", "Now.", context_id="brief")
        copies = [
            parent.copy(),
            parent.copy(exclude_system_messages=True),
            parent.copy(tools=[], exclude_empty_messages=True),
            parent.copy(tools=["look"], exclude_config_updates=True),
        ]
        copies[1].add_items([message("own")])

        assert [item.role for item in brief.messages()] == ["system", "user"]
        assert [ids(one) for one in copies] == ["s c1 oc1 u g", "c1 oc1 u g own", "s g", "s c1 oc1 u"]
        require_same_from_log(log, brief, *copies, copies[1].fork())

    def test_a_fork_is_repeatable(self, log: LiveLog) -> None:
        """Under its key it is the same child, as it was forked the first time, whatever the parent did since."""
        parent = begun(log, message("a"))
        first = parent.fork(idempotency_key="k")
        parent.add_items([message("b")])
        first.add_items([message("mine")])
        again = parent.fork(idempotency_key="k")

        assert (again.id, ids(again), again.version) == (first.id, "a mine", 2)
        again.add_items([message("more")])
        require_same_from_log(log, again)

    def test_an_id_that_is_taken(self, log: LiveLog) -> None:
        """It is refused, and both contexts stay as they are."""
        parent = begun(log, message("a"))
        child = parent.fork("child")
        with pytest.raises(InvalidInputError, match="chat:child exists already"):
            parent.fork("child")
        with pytest.raises(InvalidInputError, match="chat:a exists already"):
            child.fork("a")
        assert (child.version, parent.version) == (1, 2)

        # Nor is it a conflict at the end of a transaction: to repeat that would never end.
        with pytest.raises(InvalidInputError, match="chat:child exists already: fork"), transaction(log):
            parent.fork("child").add_items([message("b")])
        assert (log.head("chat:child"), parent.version, ids(parent)) == (1, 2, "a")

    def test_a_fork_of_what_is_queued(self, log: LiveLog) -> None:
        """What a fork names is on disk before it."""
        parent = begun(log, message("a"), durability="enqueue")
        parent.add_items([message("b")])
        child = parent.fork("child")
        child.add_items([message("c")])
        child.evict("a")
        child.flush()

        assert ids(handle_on(log, "chat:child")) == "b c"
        require_same_from_log(log, child, parent)

    def test_all_that_is_queued_comes_before_a_fork(self, log: LiveLog) -> None:
        """However much there is of it."""
        parent = begun(log, message("a"), durability="enqueue")
        for number in range(200):
            parent.add_items([message(f"queued-{number}")])
        child = parent.fork("child")
        child.flush()

        named, born = log.read(stream_of(parent))[-1], log.read("chat:child")[0]
        assert named.version == parent.version
        assert named.recorded_at <= born.recorded_at

    @pytest.mark.parametrize("is_kept", [True, False])
    def test_fork_and_merge_in_one_transaction(self, log: LiveLog, is_kept: bool) -> None:
        """The child is begun, written, read, forked and merged as one with its parent's change, or not at all."""
        parent = begun(log, message("a", time=1.0), config("cfg", "Base."))
        before = look(parent)
        try:
            with transaction(log):
                parent.add_items([message("b", time=2.0)])
                child = parent.fork("child")
                child.add_items([message("c", time=3.0)])
                run(parent.merge(child))
                parent.add_items([message("d", time=4.0)])
                assert ids(parent.at(5)) == "a cfg b c"
                assert (ids(child.at(1)), [item.id for item in child.fork("grand").tail(2)]) == ("a cfg b", ["b", "c"])
                run(child.merge(parent, instructions=True))
                assert ids(child) == "a cfg b c d"
                if not is_kept:
                    _ = 1 / 0
        except ZeroDivisionError:
            assert look(parent) == before
            assert [log.head(f"chat:{name}") for name in ("a", "child", "grand")] == [3, 0, 0]
            return
        assert (ids(parent), ids(child)) == ("a cfg b c d", "a cfg b c d")
        require_same_from_log(log, parent, child, handle_on(log, "chat:grand"))

    def test_what_only_one_side_changed_in_a_transaction(self, log: LiveLog) -> None:
        """Where two contexts were the same last is known, though nothing of it is in the log yet."""
        parent = begun(log, config("cfg", "Base."))
        with transaction(log):
            one = parent.fork("one")
            two = one.fork("two")
            one.add_items([config("new", "New.", time=2.0)])
            run(two.merge(one, instructions=True))
        assert two.active_config_at()[0] == "New."
        assert [type(event).__name__ for event in log.read_events("chat:two")] == ["Forked", "Merged"]

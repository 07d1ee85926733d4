"""The contract of runs that are begun, changed, restored and read within a transaction."""

import gc
import weakref

import pytest

from refold.domain.context.transaction import transaction
from refold.domain.errors import ConcurrencyError, DecisionRefusedError
from refold.domain.log.ports import LiveLog
from refold.domain.trajectory.rounds import export_round

from ..domain.trajectory.runs import add, everything
from .agents import store_on
from .writing import at_once


class RunsInTransactionsContract:
    """What holds for runs in a transaction, whatever log they lie in. Needs the fixture `log`."""

    def test_a_transaction_that_others_overtake(self, log: LiveLog) -> None:
        """What they recorded under its versions is not told as its own."""
        run, other = store_on(log).run("mia", "s"), store_on(log).run("mia", "s")
        run.register_query("q")
        other.refresh()

        def overtaken() -> None:
            with transaction(log):
                name = add(run, "State", "Query(query00000)", label="s")
                at_once(lambda: other.record_messages({"role": "user", "content": "x"}))
                with pytest.raises(DecisionRefusedError, match="transaction"):
                    run.history(name)
                with pytest.raises(DecisionRefusedError, match="transaction"):
                    export_round(run)

        with pytest.raises(ConcurrencyError):
            overtaken()

    @pytest.mark.long
    def test_a_run_that_is_released_within_a_transaction(self, log: LiveLog) -> None:
        """Whoever asks for it again in the block gets it with what was decided in it; nothing is held behind it."""
        store = store_on(log)
        with store.transaction():
            store.run("mia", "s").register_query("first")
            gc.collect()
            again = store.run("mia", "s")
            add(again, "Table", add(again, "Action", "Query(query00000)", label="a"), label="t")
            gone = weakref.ref(again)
            del again
            gc.collect()
            assert gone() is None
            assert store.run("mia", "s").nodes() == ["Query(query00000)", "Action(a)", "Table(t)"]
        assert store_on(log).run("mia", "s").version == store.run("mia", "s").version == 4

    def test_rounds_of_a_transaction(self, log: LiveLog) -> None:
        """Restored as they are in it, and so are their nodes in the tables, in whatever order the runs were changed."""
        store = store_on(log)
        with store.transaction():
            later = store.run("mia", "s", 1)
            later.register_query("second")
            earlier = store.run("mia", "s")
            add(earlier, "Table", add(earlier, "Action", earlier.register_query("first"), label="a"), label="t")
            assert later.restore_previous_runs() == [0]
            assert later.nodes() == [
                "Query(query00000)#1", "Action(a)", "Table(t)", "Query(query00000)",
            ]  # fmt: skip
            later.modify_node("Table(t)", {"path": "/new"})
            last = store.run("mia", "s", 2)
            assert [one.stream for one in last.rounds] == [earlier.stream_id, later.stream_id]

        again = store_on(log)
        for run in (later, last):
            assert everything(again.run(*run.identity)) == everything(run)
        (table,) = again.run_nodes("mia", "s", node_type="Table")
        path = again.run("mia", "s", 2).node("Table(t)").get_full_content()["path"]
        assert (table.changes, path) == (1, "/new")

    def test_rounds_of_a_transaction_that_are_read_again(self, log: LiveLog) -> None:
        """In it, after an interrupt: the events of the earlier round are not in the log yet."""
        store = store_on(log)
        with store.transaction():
            earlier, later = store.run("mia", "s"), store.run("mia", "s", 1, restore=False)
            earlier.register_query("first")
            later.restore_previous_runs()
            later._journal._is_unsettled = True
            later.append_todo("a")
            later.cleanup()
            assert later.nodes() == ["Query(query00000)"]

    def test_sub_agents_of_a_transaction(self, log: LiveLog) -> None:
        """Each has the next number that is free in it, also beside a main agent that began in it."""
        store = store_on(log)

        def begin() -> list[int]:
            main = store.run("mia", "s")
            main.register_query("q")
            return [store.run("mia", "s", sub_id=None).sub_id for _ in range(2)]

        def fail() -> None:
            with store.transaction():
                assert begin() == [1, 2]
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        with store.transaction():
            assert begin() == [1, 2]
        assert store.run("mia", "s", sub_id=None).sub_id == 3

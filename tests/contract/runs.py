"""The contract of runs that are kept in a log: one object each, read again, at any moment, with others who write."""

import gc
import weakref
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from refold.domain.context.transaction import transaction
from refold.domain.errors import ConcurrencyError, DamagedError, DecisionRefusedError, InvalidInputError, NotFoundError
from refold.domain.ids import split_stream_id
from refold.domain.log.envelope import NO_META, acting
from refold.domain.log.ports import LiveLog, NewEvents
from refold.domain.spans import Segment
from refold.domain.trajectory.events import RoundsRestored
from refold.domain.trajectory.factory import RunFactory
from refold.domain.trajectory.identity import RunId, run_id_of
from refold.domain.trajectory.nodes import RunStateError
from refold.domain.trajectory.run import Run
from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.infrastructure.store import Store

from ..domain.trajectory.runs import add, asked, bridges, busy, edges, everything, told
from .agents import store_on
from .runs_in_transactions import RunsInTransactionsContract
from .writing import at_once, check_chain

# Every call that changes a run which has an action `a` and a table `t`; those marked are told of other writers.
CALLS: dict[str, tuple[bool, Callable[..., Any]]] = {
    "node": (False, lambda run, **options: add(run, "State", "Action(a)", **options)),
    "labelled": (False, lambda run, **options: add(run, "State", "Action(a)", label="s", **options)),
    "edge": (False, lambda run, **options: run.add_edge("Query(query00000)", "Table(t)", "e", **options)),
    "modify": (True, lambda run, **options: run.modify_node("Table(t)", {"path": "/new"}, **options)),
    "remove": (True, lambda run, **options: run.remove_node("Table(t)", **options)),
    "move": (True, lambda run, **options: run.move_pointers(join=["Table(t)"], **options)),
    "name": (False, lambda run, **options: run.name_version("here", 1, **options)),
    "fill": (False, lambda run, **options: run.init_todolist(["p"], ["q"], **options)),
    "queue": (False, lambda run, **options: run.append_todo("s", **options)),
    "take": (False, lambda run, **options: run.pop_todo(**options)),
    "return": (False, lambda run, **options: run.return_step(6, **options)),
    "clear": (True, lambda run, **options: run.clear_steps(**options)),
    "messages": (False, lambda run, **options: run.record_messages({"role": "user", "content": "x"}, **options)),
    "close": (False, lambda run, **options: run.close("done", **options)),
}
STRICT = ("node", "labelled", "edge", "modify", "remove", "move", "name")


def begun(log: LiveLog) -> Run:
    """
    Return a run with an action `a` and a table `t`, a step that waits and one that is taken (which version 6 queued).
    """
    run = store_on(log).run("mia", "s", agent="planner")
    query = run.register_query("q")
    add(run, "Table", add(run, "Action", query, label="a"), label="t")
    run.append_todo("first")
    run.append_todo("taken")
    run.pop_todo()
    run.pop_todo()
    run.return_step(5)
    return run


class RunsContract(RunsInTransactionsContract):
    """What holds for runs, whatever log they lie in. Needs the fixture `log`."""

    # One object each

    def test_sixteen_threads_get_one_object(self, log: LiveLog) -> None:
        """For each round and agent, whoever is first; it is released when nobody holds it (SPEC D1.2)."""
        store, got = store_on(log), list[Run]()
        raised = at_once(
            *(lambda number=number: got.append(store.run("mia", "s", 0, number % 2)) for number in range(16))
        )

        assert (raised, len(got), len(set(map(id, got)))) == ([], 16, 2)
        assert [log.head(f"run:mia/s/0/{sub}") for sub in (0, 1)] == [1, 1]
        watched = weakref.ref(got[0])
        got.clear()
        gc.collect()
        assert watched() is None

    def test_runs_are_let_go(self, log: LiveLog) -> None:
        """All, or those of a user, session or round; nothing recorded is touched, and who asks gets a new object."""
        store = store_on(log)
        runs = [store.run("mia", "s"), store.run("mia", "s", 1), store.run("mia", "z"), store.run("bob", "s")]
        runs[0].register_query("q")

        assert [store.release_runs("mia", "s", 1), store.release_runs("mia"), store.release_runs()] == [1, 2, 1]
        assert store.release_runs() == 0
        assert store.run("mia", "s") is not runs[0]
        assert store.run("mia", "s").graph() == runs[0].graph()

    def test_numbers_of_sub_agents(self, log: LiveLog) -> None:
        """They never meet, over two stores and eight threads, and pass by those that were chosen (SPEC D1.5)."""
        stores, got = [store_on(log), store_on(log)], list[Run]()
        stores[0].run("mia", "s", 0, 3, agent="chosen")
        with pytest.raises(InvalidInputError, match="without sub_id"):
            stores[0].run("mia", "s", 0, None)
        stores[0].run("mia", "s")

        def begin(store: Any) -> None:
            got.extend(store.run("mia", "s", 0, None, agent="sub") for _ in range(3))

        raised = at_once(*(lambda number=number: begin(stores[number % 2]) for number in range(8)))

        assert (raised, sorted(run.sub_id for run in got)) == ([], [1, 2, *range(4, 26)])
        assert {run.version for run in got} == {1}

    @pytest.mark.parametrize("texts", [("a/b", "c%2F/../d"), ("ä漢@\n", "."), ("..", "x" * 60), ("%", " ")])
    def test_any_user_and_session(self, log: LiveLog, texts: tuple[str, str]) -> None:
        """Whatever they are called, they are told apart, and the stream says which they are."""
        store = store_on(log)
        run = store.run(*texts, 7, 2)
        other = store.run(texts[0].replace("/", "%2F"), texts[1] + "/7", 7, 2)

        assert other.stream_id != run.stream_id
        assert run_id_of(split_stream_id(run.stream_id)[1]) == run.identity == RunId(*texts, 7, 2)
        assert store_on(log).run(*texts, 7, 2, create=False).user_id == texts[0]

    def test_agents_and_runs_that_are_not(self, log: LiveLog) -> None:
        """The agent of a run is who acts in it; another one's run is refused, as is one that is not there."""
        run = begun(log)
        store = store_on(log)

        assert store.run("mia", "s").agent == "planner"
        assert {event.meta.actor for event in run.recorded_events()} == {"planner"}
        with pytest.raises(InvalidInputError, match=r"planner.*names another writer"):
            store.run("mia", "s", agent="other")
        with pytest.raises(NotFoundError):
            store.run("mia", "s", 1, create=False)
        with pytest.raises(NotFoundError, match="sub_id=None creates a new run"):
            store.run("mia", "s", sub_id=None, create=False)
        assert log.streams() == ["run:mia/s/0/0"]
        store.chat("c", agent="planner")
        with pytest.raises(InvalidInputError, match=r"'planner', not 'other'.*names another writer"):
            store.chat("c", agent="other")

    # Read again, at any moment

    def test_read_again_it_is_the_same(self, log: LiveLog) -> None:
        """The first round, the third and a sub-agent's: nodes, edges, histories, steps, messages; and every version."""
        store = store_on(log)
        runs = [store.run("mia", "s"), store.run("mia", "s", 2), store.run("mia", "s", 0, None)]
        for run in runs:
            run.register_query("q")
            busy(run)

        runs[1].restore_previous_runs()
        for run in runs:
            again = store_on(log).run(*run.identity, create=False)
            assert everything(again) == everything(run)
            assert [again.node(name) for name in again.nodes()] == [run.node(name) for name in run.nodes()]
            for version in range(run.version + 1):
                assert again.at(version).graph() == run.at(version).graph()
            check_chain(log.read(run.stream_id))

    def test_every_moment(self, log: LiveLog) -> None:
        """By version, from the end, by position, by time and by name it is what it was then."""
        run = begun(log)
        version = run.name_version("before", 3)
        run.modify_node("Table(t)", {"path": "/new"})
        run.remove_node("Action(a)")
        (recorded,) = run.recorded_events(after=2, until=3)
        moment = datetime.fromtimestamp(recorded.recorded_at // 1_000_000, UTC)
        moment = moment.replace(microsecond=recorded.recorded_at % 1_000_000)
        by_then = max(one.version for one in run.recorded_events() if one.recorded_at <= recorded.recorded_at)

        again = store_on(log).run("mia", "s")
        for address in (version, version - again.version, f"pos:{recorded.position}", "before"):
            assert again.at(address).nodes() == ["Query(query00000)", "Action(a)"]
            assert again.at(address).graph() == run.at(3).graph()
        assert again.at(moment).graph() == run.at(by_then).graph()
        assert again.at(run.version - 1).node("Table(t)").get_full_content()["path"] == "/new"
        assert again.at(4).node("Table(t)").get_full_content()["path"] == "/t.csv"

    def test_who_and_why(self, log: LiveLog) -> None:
        """Each change of an attribute says who made it, when, and which event it follows from."""
        run = begun(log)
        cause = run.recorded_events()[1]
        with acting(actor="mia", correlation_id="t1", because=cause):
            run.modify_node("Table(t)", {"path": "/new"})
        again = store_on(log).run("mia", "s")
        first, second = again.history("Table(t)", "path")

        assert (first.actor, first.cause, second.actor, second.cause) == ("planner", None, "mia", cause.reference)
        assert (second.old, second.new, second.correlation_id) == ("/t.csv", "/new", "t1")
        recorded = run.recorded_events()[-1]
        assert (second.recorded_at, second.position) == (recorded.recorded_at, recorded.position)
        assert second.reference == recorded.reference

    # Rounds

    def test_rounds_with_gaps(self, log: LiveLog) -> None:
        """Bridged over, live and read again; one graph without cycles, rooted at the first query (SPEC D7)."""
        store = store_on(log)
        for number in (0, 2):
            run = store.run("mia", "s", number)
            add(run, "Table", run.register_query("q"), label="t")
        last = store.run("mia", "s", 5)
        last.register_query("q")

        again = store_on(log).run("mia", "s", 5)
        for one in (last, again):
            assert bridges(one) == {("Table(t)#1", "Query(query00001)"), ("Table(t)", "Query(query00002)")}
            assert (one.graph().root, one.graph().is_acyclic) == ("Query(query00000)", True)
            assert one.restore_previous_runs() == [0, 2]
        assert again.graph() == last.graph()

    def test_rounds_that_go_on(self, log: LiveLog) -> None:
        """An earlier round is as it was when it was restored, until it is restored again."""
        store = store_on(log)
        first, second = store.run("mia", "s"), store.run("mia", "s", 1, restore=False)
        query = first.register_query("q")
        second.register_query("q")
        assert second.restore_previous_runs() == [0]
        add(first, "State", query)

        # Until then neither knew of the other's query.
        assert second.nodes() == ["Query(query00000)#1", "Query(query00000)"]
        second.restore_previous_runs()
        assert len(second.graph()) == 3
        assert bridges(second) == {("State(state00000)", "Query(query00000)")}
        assert second.graph() == store_on(log).run("mia", "s", 1).graph()

    def test_the_same_data_in_every_round(self, log: LiveLog) -> None:
        """What an earlier round read is met again, changed and removed in later ones; the history goes over all."""
        store = store_on(log)
        for number in range(3):
            run = store.run("mia", "s", number)
            add(run, "Table", run.register_query("q"), label="t", path=f"/{number}")
        run.modify_node("Table(t)#1", {"path": "/changed"})
        run.remove_node("Table(t)")

        again = store_on(log).run("mia", "s", 2)
        assert [one[0] for one in told(again, "Table(t)") if one[1] == "path"] == [
            "registered", "changed", "met_again", "met_again", "removed",
        ]  # fmt: skip
        assert again.history("Table(t)", "path")[-1].new == again.graph().nodes["Table(t)"].attributes["path"] == "/1"
        assert store.run("mia", "s", 0).graph().nodes["Table(t)"].attributes["path"] == "/0"

    # Other writers

    @pytest.mark.parametrize("what", CALLS)
    def test_a_repeated_call_of_a_run(self, log: LiveLog, what: str) -> None:
        """Under its key it is done once, also by a handle that is behind, and says the same (issue 5)."""
        behind = store_on(log).run("mia", "s", agent="planner")
        run = begun(log)
        first = CALLS[what][1](run, idempotency_key="k")
        head = log.head(run.stream_id)
        for handle in (run, store_on(log).run("mia", "s"), behind):
            assert CALLS[what][1](handle, idempotency_key="k") == first
            handle.refresh()
            assert everything(handle) == everything(run)

        assert log.head(run.stream_id) == head == run.version

    @pytest.mark.parametrize("what", CALLS)
    def test_a_call_that_comes_second(self, log: LiveLog, what: str) -> None:
        """An append catches up; an edit is told, and the view stays as it was."""
        run = begun(log)
        stale = store_on(log).run("mia", "s")
        before = everything(stale)
        run.record_messages({"role": "user", "content": "first"})
        is_edit, call = CALLS[what]
        if not is_edit:
            call(stale)
            assert [type(one.event).__name__ for one in stale.came_between] == ["MessageRecorded"]
            assert everything(stale) == everything(store_on(log).run("mia", "s"))
            return

        with pytest.raises(ConcurrencyError) as caught:
            call(stale)
        assert (caught.value.expected, caught.value.actual) == (run.version - 1, run.version)
        assert everything(stale) == before
        stale.rebase(call)
        assert everything(stale) == everything(store_on(log).run("mia", "s"))

    @pytest.mark.parametrize("what", STRICT)
    def test_an_expected_version(self, log: LiveLog, what: str) -> None:
        """Another one is refused, by a handle that is behind and by one that is not; nothing is changed."""
        run = begun(log)
        stale = store_on(log).run("mia", "s")
        before = everything(run)
        for version in (0, run.version - 1, run.version + 1):
            with pytest.raises(ConcurrencyError):
                CALLS[what][1](run, expected_version=version)
        assert everything(run) == before
        CALLS[what][1](run, expected_version=run.version)
        with pytest.raises(ConcurrencyError):
            CALLS[what][1](stale, expected_version=stale.version)
        assert everything(stale) == before

    def test_a_transaction_that_fails(self, log: LiveLog) -> None:
        """Rolled back or in conflict, every view is as it was; what began in it never was, and can begin again."""
        store, run, new = store_on(log), begun(log), list[Run]()
        before = everything(run)

        def change(run: Run) -> Run:
            other = store.run("mia", "s", 1)
            other.register_query("q")
            busy(other)
            CALLS["node"][1](run)
            CALLS["modify"][1](run)
            return other

        def fail() -> None:
            with store.transaction():
                new.append(change(run))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert (everything(run), log.head(run.stream_id), log.head(new[0].stream_id)) == (before, run.version, 0)
        with pytest.raises(DecisionRefusedError, match="rolled back"):
            new[0].register_query("q")
        with store.transaction():
            again = change(run)
        assert again is not new[0]
        for one in (run, again):
            assert everything(one) == everything(store_on(log).run(*one.identity))

    def test_within_a_transaction(self, log: LiveLog) -> None:
        """What was decided in it is seen; what became of it can be asked once it is over."""
        run = begun(log)
        with transaction(log):
            name = CALLS["labelled"][1](run)
            assert run.node(name) is not None
            with pytest.raises(DecisionRefusedError, match="transaction"):
                run.history(name)
        assert told(run, name)[0][0] == "registered"

    def test_a_round_that_is_lost(self, log: LiveLog) -> None:
        """A run that goes back over more than there is cannot be read, as a fork of such a chat."""
        earlier = begun(log)
        later = store_on(log).run("mia", "s", 1)
        lost = RoundsRestored(rounds=(Segment(earlier.stream_id, earlier.version + 1),))
        new = NewEvents(stream=later.stream_id, expected_version=later.version, events=(lost,), metas=(NO_META,))
        log.append([new]).result()

        with pytest.raises(DamagedError, match=f"{earlier.stream_id}@{earlier.version + 1}"):
            store_on(log).run("mia", "s", 1).nodes()
        assert store_on(log).run("mia", "s").nodes()

    @pytest.mark.parametrize("what", ["node", "labelled", "edge", "move", "fill", "queue", "take", "return", "clear"])
    def test_a_closed_run(self, log: LiveLog, what: str) -> None:
        """No node, edge, pointer or step comes any more; corrections do, and the next round goes on from it."""
        begun(log).close("enough")
        run = store_on(log).run("mia", "s")
        before = everything(run)

        with pytest.raises(RunStateError, match="closed"):
            CALLS[what][1](run)
        assert everything(run) == before
        run.modify_node("Table(t)", {"path": "/right"})
        run.close("again")
        assert run.version == before["version"] + 1
        second = store_on(log).run("mia", "s", 1)
        second.register_query("q")
        assert bridges(second) == {("Table(t)", "Query(query00001)")}

    # Queued, and taken along

    def test_what_is_queued_is_seen(self, log: LiveLog) -> None:
        """By who asks for the run again after its object has gone, and by the next round; on disk after the flush."""
        store = Store(log, MemoryProjectionStore(), durability="enqueue")
        query = store.run("mia", "s").register_query("q")
        assert store.run("mia", "s").initial == query
        for _ in range(30):
            add(store.run("mia", "s"), "State", query, add_pt=True)
        run = store.run("mia", "s", 1)
        run.register_query("q")

        assert (len(run.graph()), len(bridges(run))) == (32, 30)
        store.flush()
        assert store_on(log).run("mia", "s", 1).graph() == run.graph()

    def test_a_run_is_taken_along(self, log: LiveLog) -> None:
        """A detached one, with its past, its agent and the rounds it goes back over, into the slice of its session."""
        factory = RunFactory()
        busy(asked(factory=factory)[0])
        run = factory.run("mia", "s", 1, agent="planner")
        run.register_query("q")
        busy(run)
        run.remove_node("Action(a)#2)#1")
        before, past = everything(run), [run.at(version).nodes() for version in range(run.version + 1)]
        store = store_on(log)
        with pytest.raises(InvalidInputError, match="can be adopted only under its own id"):
            store.adopt(run, "mia/other")
        store.adopt(run, run.id)

        again = store.run("mia", "s", 1, agent="planner")
        assert (run.agent, run.root, run.is_detached) == ("planner", "s", False)
        for one in (run, again):
            shown = everything(one)
            assert shown["edges"] == before["edges"]
            assert {name: node[1:] for name, node in shown["nodes"].items()} == {
                name: node[1:] for name, node in before["nodes"].items()
            }
            assert [one.at(version).nodes() for version in range(one.version + 1)] == past
        add(run, "State", run.initial or "")
        again.refresh()
        assert everything(again) == everything(run)
        assert edges(again) == edges(run)

    def test_a_run_over_another_past_is_refused(self, log: LiveLog) -> None:
        """If a round that it goes back over is here with other events, nothing of the run is taken."""
        store, factory = store_on(log), RunFactory()
        factory.run("mia", "s", 0).register_query("detached")
        run = factory.run("mia", "s", 1)
        run.register_query("follow-up")
        store.run("mia", "s", 0).register_query("here")

        with pytest.raises(
            InvalidInputError, match=r"^run:mia/s/0/0 is here already, with other events than run:mia/s/1/0"
        ):
            store.adopt(run, run.id)

        assert run.is_detached
        assert log.head("run:mia/s/1/0") == 0

"""The folded state of a run: a value, the same however its events are cut."""

import pytest

from refold.domain.errors import DamagedError
from refold.domain.spans import Ref
from refold.domain.trajectory.factory import RunFactory
from refold.domain.trajectory.graph import RunGraph
from refold.domain.trajectory.nodes import NodeNotFoundError
from refold.domain.trajectory.run import Run
from refold.domain.trajectory.state import EMPTY, RunState, Steps, complete, fold
from refold.domain.trajectory.stored import StoredEvents
from tests.support.effort import calls_of

from .runs import add, asked, busy


def long_run() -> Run:
    """Return a second round to which everything happened, changes of the first one too."""
    factory = RunFactory()
    busy(asked(factory=factory)[0])
    run, _ = asked(1, factory=factory)
    busy(run)
    run.modify_node("State(state00000)", {"state": 1})
    run.remove_node("Table(orders\n(all))#1")
    run.clear_steps("pre")
    run.close("done")
    return run


def test_folded_in_two_parts() -> None:
    """Cut anywhere it comes to the same, and to what the run has."""
    run = long_run()
    events = complete(run._journal.log, run._journal.events(until=run.version))
    whole = fold(EMPTY, events)

    assert whole == run._state
    for cut in range(len(events) + 1):
        assert fold(fold(EMPTY, events[:cut]), events[cut:]) == whole


def test_one_by_one() -> None:
    """Each state stays what it was while others are made of it, and so does the empty one."""
    run = long_run()
    events = complete(run._journal.log, run._journal.events(until=run.version))
    states: list[RunState] = [EMPTY]
    for event in events:
        states.append(fold(states[-1], [event]))

    for version, state in enumerate(states):
        assert state == fold(EMPTY, events[:version])
        assert state.version == version
    assert RunState() == EMPTY


def test_edges_by_their_sources() -> None:
    """Put together at the end or handed on from state to state they are the same."""
    run = long_run()
    events = complete(run._journal.log, run._journal.events(until=run.version))
    late = fold(EMPTY, events).out
    state = EMPTY
    for event in events:
        is_put_together = len(state.out.by_source) > 0
        state = fold(state, [event])
        assert (state.out.made is not None) == is_put_together

    assert late.made is None
    assert state.out.made == late.by_source


def test_it_is_counted_what_there_ever_was() -> None:
    """By type, removed ones too."""
    run = long_run()

    assert run._state.counts == {"Query": 1, "Action": 1, "Table": 2, "State": 2}
    assert run._state.touches_past
    assert not run._state.goes_backward


@pytest.mark.parametrize("node_type", ["State", "Table"])
def test_a_node_costs_the_same(node_type: str) -> None:
    """To register the thousandth is the same work as to register the hundredth, also of one label."""
    run, query = asked()
    label = None if node_type == "State" else "t"

    def register(count: int) -> None:
        for _ in range(count):
            add(run, node_type, query, label=label, add_pt=True)

    register(100)
    young = calls_of(lambda: register(20))
    register(860)
    assert calls_of(lambda: register(20)) <= young * 1.1


def test_a_stored_event_is_read_with_its_neighbours() -> None:
    """By windows, of which whoever goes on gets a larger one."""
    asked: list[tuple[int, int]] = []

    class Log:
        def read_events(self, _: str, *, after: int, until: int) -> list[int]:
            asked.append((after, until))
            return [*range(after + 1, until + 1)]

    stored = StoredEvents(Log(), "run:a", 200)  # type: ignore[arg-type]  # each event is its version

    assert [stored.event(version) for version in (129, 130, 1, 65, 200)] == [129, 130, 1, 65, 200]
    assert asked == [(128, 192), (0, 64), (64, 192), (199, 200)]


def test_steps_that_were_never_queued() -> None:
    """A log that takes or gives back a step that is not there is damaged, and the error says where."""
    with pytest.raises(DamagedError, match=r"the queue 'todo' of a run.*a step was taken from it, and there was none"):
        Steps().without_first("todo")
    with pytest.raises(DamagedError, match=r"step 7 of a run.*it was put back, and had not been taken"):
        Steps().put_back("todo", 7)


def test_a_node_of_a_version_that_registered_none() -> None:
    """The graph has no such node, and the error names the version."""
    run, _ = asked()

    with pytest.raises(NodeNotFoundError, match="this run has no node of version 9"):
        RunGraph(run._state).event(Ref(9))


def test_an_event_that_a_run_needs_is_gone() -> None:
    """The error names the stream and the version; an event that was noted is not read."""
    run, _ = asked()
    stored = StoredEvents(run._journal.log, run.stream_id, run.version)
    (opened,) = run._journal.log.read_events(run.stream_id, until=1)
    stored.put(9, opened)

    assert stored.event(9) is opened
    with pytest.raises(DamagedError, match=f"{run.stream_id}@8 is damaged: a run needs it, and it is not there"):
        stored.event(8)

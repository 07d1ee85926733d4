"""The contract of runs that several processes share."""

import json

import pytest

from tests.support.processes import Program

from ..domain.trajectory.runs import add, busy, everything
from .agents import store_on
from .stores import Store
from .writing import check_chain

WRITERS, COUNT = 3, 15
WRITER = Program("tests.contract.run_writer")


class SharedRunsContract:
    """What holds between processes. Needs the fixture `store`."""

    def test_another_process_sees_the_same(self, store: Store) -> None:
        """All that a run of the second round shows, read anew."""
        log = store.open()
        for number in range(2):
            run = store_on(log).run("mia", "s", number)
            run.register_query("q")
            busy(run)
        reader = WRITER.start(store.place, "tell", "1")

        told = json.loads(reader.communicate(timeout=100)[0])
        assert reader.returncode == 0
        assert told == json.loads(json.dumps(everything(run)))

    @pytest.mark.long
    def test_processes_take_steps(self, store: Store) -> None:
        """Each step is taken once, by one of three who want them all; each takes them in their order."""
        log = store.open()
        run = store_on(log).run("mia", "s")
        run.steps_max = WRITERS * COUNT
        names = [f"{number:02}" for number in range(run.steps_max)]
        run.init_todolist(names)
        takers = [WRITER.start(store.place, "take") for _ in range(WRITERS)]
        printed = [taker.communicate(timeout=100)[0].split() for taker in takers]

        assert [taker.returncode for taker in takers] == [0] * WRITERS
        assert sorted(name for lines in printed for name in lines) == names
        assert all(lines == sorted(lines) for lines in printed)
        run.refresh()
        assert run.steps("pre") == []

    @pytest.mark.long
    def test_processes_begin_sub_agents(self, store: Store) -> None:
        """No number is given twice, and none is left out."""
        log = store.open()
        store_on(log).run("mia", "s")
        writers = [WRITER.start(store.place, "begin", str(COUNT)) for _ in range(WRITERS)]
        printed = [writer.communicate(timeout=100)[0].split() for writer in writers]

        assert [writer.returncode for writer in writers] == [0] * WRITERS
        assert sorted(int(number) for lines in printed for number in lines) == [*range(1, WRITERS * COUNT + 1)]

    @pytest.mark.long
    def test_processes_register_nodes(self, store: Store) -> None:
        """All of them are there, each under a name of its own; who is killed leaves what was acknowledged."""
        log = store.open()
        run = store_on(log).run("mia", "s")
        query = run.register_query("q")
        ends = ["", "", "kill"]
        writers = [WRITER.start(store.place, "grow", str(COUNT), end) for end in ends]
        printed = [writer.communicate(timeout=100)[0].split() for writer in writers]

        assert [writer.returncode for writer in writers] == [0, 0, -9]
        names = [name for lines in printed for name in lines]
        assert len(set(names)) == len(names) == WRITERS * COUNT
        run.refresh()
        assert set(run.nodes()) == {query, *names}
        assert run.get_active_branch() == {query, *names}
        add(run, "State", query)
        assert everything(run) == everything(store_on(log).run("mia", "s"))
        check_chain(log.read(run.stream_id))

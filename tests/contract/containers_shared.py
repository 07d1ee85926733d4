"""The contract of queues and pools that several processes share."""

from typing import Any

import pytest

from tests.support.processes import Program

from ..domain.pool.containers import contents, pool_on, queue_on
from .containers_racing import check_race
from .stores import Store

WRITERS, ITEMS = 3, 15
WRITER = Program("tests.contract.container_writer")


class SharedContainersContract:
    """What holds between processes. Needs the fixture `store`."""

    @pytest.mark.long
    @pytest.mark.parametrize("kind", ["queue", "pool"])
    def test_processes_race_for_one_container(self, store: Store, kind: str) -> None:
        """Each gets all its items in, in its own order; the limit holds, and nothing is lost."""
        on: Any = queue_on if kind == "queue" else pool_on
        log = store.open()
        on(log, limit=3)
        writers = [WRITER.start(kind, store.place, str(writer), str(ITEMS)) for writer in range(WRITERS)]
        printed = [writer.communicate(timeout=100)[0].split() for writer in writers]

        container = on(log)
        assert [writer.returncode for writer in writers] == [0] * WRITERS
        check_race(log, container, [text for lines in printed for text in lines])
        came = [left.item.content for left in container.evicted()] + contents(container)
        for writer, lines in enumerate(printed):
            mine = [text for text in came if text.startswith(f"{writer}-")]
            assert mine == lines == [f"{writer}-{number}" for number in range(ITEMS)]

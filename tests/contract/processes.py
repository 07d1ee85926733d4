"""The contract of a log that several processes share: races, news, and what a killed one leaves."""

import json
import statistics
import time

import pytest

from tests.support.processes import Program

from .stores import Store
from .writing import append, check_chain, check_order, everything, ids, numbers, said

A = "chat:a"
WRITER = Program("tests.contract.writer")
NEWS_SECONDS_MAX = 0.25


class ProcessesContract:
    """What holds between processes."""

    @pytest.mark.long
    def test_processes_race_for_one_stream(self, store: Store) -> None:
        """Each of four writers gets all its events in, in its own order; no version twice, none left out."""
        log = store.open()
        append(log, A, said(0))
        writers = [WRITER.start("race", store.place, A, str(writer), "25") for writer in range(4)]
        printed = [writer.communicate(timeout=100)[0] for writer in writers]

        events = log.read(A)
        assert [writer.returncode for writer in writers] == [0] * 4
        assert len(events) == 101
        check_chain(events)
        for writer, lines in enumerate(printed):
            mine = [event.event.id for event in events if event.event.id.startswith(f"w{writer}-")]
            assert mine == [f"w{writer}-{number}" for number in range(25)] == lines.split()

    @pytest.mark.long
    def test_processes_race_for_new_streams(self, store: Store) -> None:
        """Each stream is begun by one of three, who knows it; nobody else is in it, and none is half there."""
        log = store.open()
        writers = [WRITER.start("begin", store.place, "chat:n", str(writer), "25") for writer in range(3)]
        printed = [writer.communicate(timeout=100)[0] for writer in writers]

        assert [writer.returncode for writer in writers] == [0] * 3
        begun = sorted((line for lines in printed for line in lines.split()), key=lambda line: int(line.split("-")[1]))
        assert [numbers(log.read(f"chat:n{number}")) for number in range(25)] == [[line] for line in begun]
        assert len(everything(log)) == 25

    @pytest.mark.long
    def test_processes_with_streams_of_their_own(self, store: Store) -> None:
        """Their events are mixed in the log, and nothing of them is lost."""
        log = store.open()
        writers = [WRITER.start("any", store.place, f"chat:{writer}", str(writer), "40") for writer in range(3)]
        for number in range(40):
            append(log, "chat:mine", said(number))
        assert [writer.wait(100) for writer in writers] == [0] * 3
        for writer in writers:
            writer.communicate()

        events = everything(log)
        assert len(events) == 160
        check_order(sorted(events, key=lambda event: event.position))
        for stream in ("chat:mine", "chat:0", "chat:1", "chat:2"):
            check_chain(log.read(stream))
            assert len(log.read(stream)) == 40

    @pytest.mark.long
    def test_much_is_written_while_others_read(self, store: Store) -> None:
        """Whatever is tidied up in the background meanwhile: every look at the log shows a whole one."""
        log = store.open()
        writers = [WRITER.start("bulk", store.place, f"chat:{writer}", str(writer), "600") for writer in range(3)]
        while any(writer.poll() is None for writer in writers):
            check_order(sorted(everything(log, limit=211), key=lambda event: event.position))
            check_chain(log.read("chat:1"))
        for writer in writers:
            writer.communicate()

        assert [writer.returncode for writer in writers] == [0] * 3
        for number in range(3):
            wanted = [f"w{number}-{item}" for item in range(600)]
            assert numbers(log.read(f"chat:{number}")) == wanted
            assert ids(log.read_events(f"chat:{number}")) == wanted
        assert len(everything(log)) == 1_800

    def test_news_of_another_process(self, store: Store) -> None:
        """What it appends is seen here within 250 ms (the middle one of several)."""
        log = store.open()
        seen = log.now()
        writer = WRITER.start("slow", store.place, A, "0", "7")
        arrived: dict[str, float] = {}
        while len(arrived) < 7:
            log.wait_for_news(seen, timeout_seconds=30)
            page = log.read_all(after=seen, limit=10)
            seen = page.moment
            arrived.update({event.event.id: time.time() for event in page.events})
        written = dict(json.loads(line) for line in writer.communicate(timeout=60)[0].splitlines())

        assert statistics.median(arrived[item] - written[item] for item in written) < NEWS_SECONDS_MAX

"""A log behind a gate: each call asks what it should, and gives what the log behind the gate answers."""

import inspect
from typing import Any

import pytest

from refold.domain.log.gate import Gate
from refold.domain.log.log_over import GatedLog, gated
from refold.domain.log.ports import LiveLog, PartitionedLog, Range

RANGES = [Range("chat:a", 0, 1), Range("chat:b", 0, 1), Range("chat:a", 2, 3)]
GIVEN: dict[str, Any] = {"ranges": RANGES, "stream": "chat:a", "batch": [], "remnants": [], "new": []}
# What a call asks for; what is not here asks for nothing.
ASKED: dict[str, tuple[tuple[str, str | None], ...]] = {
    **dict.fromkeys(("read", "read_events", "recorded_under", "snapshot"), (("read", "chat:a"),)),
    "read_ranges": (("read", "chat:a"), ("read", "chat:b")),
    **dict.fromkeys(("read_all", "idempotency_keys"), (("read", None),)),
    **dict.fromkeys(("streams", "streams_with_snapshot", "doubtful_streams"), (("search", None),)),
    **dict.fromkeys(("erase", "scrub"), (("admin", None),)),
}
# They return nothing.
SILENT = {"close", "forget", "keep_snapshot", "wait_for_news", "prepare_partitions"}


class Answering:
    """A log whose calls return their own name and arguments, and are noted."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.calls.append(name)
        if name in ("news", "has_slices", "location"):
            return name
        return lambda *given, **options: (name, given, options)


class AskedGate(Gate):
    """A gate that allows everything, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []
        super().__init__(lambda *_: True, needs_actor=False)

    def ask(self, action: Any, context: str | None = None) -> None:
        """Note the question."""
        self.asked.append((action, context))


def names_of(port: type) -> list[str]:
    """Return the names of the methods and properties of a port."""
    return [name for name in dir(port) if not name.startswith("_")]


@pytest.mark.parametrize("name", names_of(LiveLog))
def test_what_is_behind_the_gate_answers(name: str) -> None:
    """With all that was given, after the question was asked."""
    behind, gate = Answering(), AskedGate()
    log: Any = GatedLog(behind, gate)
    found = getattr(log, name)
    given: dict[str, Any] = {}
    if inspect.ismethod(found):
        given = {one: GIVEN.get(one, one) for one in inspect.signature(found).parameters}
        places = inspect.signature(found).bind(**given)
        found = found(*places.args, **places.kwargs)
        answer: Any = (name, places.args, places.kwargs)
    else:
        answer = name

    assert found == (None if name in SILENT else answer)
    assert behind.calls == [name]
    assert gate.asked == [*ASKED.get(name, ())]


class Parted(Answering):
    """A log with partitions."""

    location: Any = property(lambda _: "here")

    def prepare_partitions(self) -> None:
        """Note the call."""
        self.calls.append("prepared")

    def partition(self, partition: Any) -> Any:
        """Return a log."""
        self.calls.append(partition)
        return Answering()


def test_partitions_are_behind_the_gate() -> None:
    """They are read as a whole; a log without partitions has none behind a gate either."""
    behind, gate = Parted(), AskedGate()
    log: Any = gated(behind, gate)
    log.prepare_partitions()
    part: Any = log.partition("a part")

    given: dict[str, Any] = {"after": 1, "limit": 2, "until": 3, "undecodable": True}
    assert part.read_all(**given) == ("read_all", (), given)
    assert part.now() == ("now", (), {})
    assert (log.location, behind.calls, gate.asked) == ("here", ["prepared", "a part"], [("read", None)])
    assert isinstance(log, PartitionedLog)
    assert type(gated(object(), gate)) is GatedLog  # type: ignore[arg-type]

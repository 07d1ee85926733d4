"""The random life of a log: appends right and wrong, batches, repetitions, and every way of reading."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from refold.domain.chat.events import MessageAdded
from refold.domain.errors import ConcurrencyError
from refold.domain.log.envelope import Meta
from refold.domain.log.ports import ANY_VERSION, NewEvents
from refold.domain.positions import Moment

from ..contract.writing import check_chain, check_order, everything
from .lives import LogLife
from .log_model import LogModel, Wanted

STREAMS = ("a", "b", "c", "d")
EXPECTATION = st.sampled_from(["right", "right", "right", "any", "stale", "future"])
TEXTS = st.lists(st.sampled_from(["x", "", "ü\x00", "text " * 60, "L" * 5_000]), min_size=1, max_size=4)
KEY = st.sampled_from([None, None, None, "k1", "k2"])
PART = st.tuples(st.sampled_from(STREAMS), EXPECTATION, TEXTS, KEY)


class LogMachine(LogLife):
    """Some streams; subclass it with `open_log`."""

    @initialize()
    def begin(self) -> None:
        """Start a life of new streams behind whatever is in the log."""
        self.begin_life()
        self.model = LogModel()
        self.start = self.log.now()
        # Moments of this life, how far each stream was then, and the time of the last event.
        self.moments: list[tuple[Moment, dict[str, int]]] = [(self.start, {})]
        self.times: dict[str, list[int]] = {}

    @rule(stream=st.sampled_from(STREAMS))
    def look_at_a_stream(self, stream: str) -> None:
        """Compute its digests again."""
        check_chain(self.log.read(self.name(stream)))

    def name(self, stream: str) -> str:
        """Return the name of a stream of this life."""
        return f"chat:{self.life}-{stream}"

    def root(self, stream: str) -> str:
        """Return the root that decides the slice: two streams share one, the others have their own."""
        return self.life if stream in "ab" else self.name(stream)

    def new(self, wanted: Wanted) -> NewEvents:
        """Put what is wanted in the words of the log."""
        events = tuple(MessageAdded(id="m", created_at=0.0, role="user", content=text) for text in wanted.texts)
        return NewEvents(
            stream=self.name(wanted.stream),
            expected_version=ANY_VERSION if wanted.expected is None else wanted.expected,
            events=events,
            metas=(Meta(idempotency_key=wanted.key),) * len(events),
            root=self.root(wanted.stream),
            idempotency_key=wanted.key,
        )

    def wanted(self, part: tuple[str, str, list[str], str | None]) -> Wanted:
        """Turn what was drawn into numbers."""
        stream, expectation, texts, key = part
        head = self.model.head(stream)
        expected = {"right": head, "any": None, "stale": max(0, head - 1) if head else 3, "future": head + 2}
        return Wanted(stream, expected[expectation], tuple(texts), key)

    @rule(parts=st.lists(PART, min_size=1, max_size=3, unique_by=lambda part: part[0]), wait=st.booleans())
    def append(self, parts: list[Any], wait: bool) -> None:
        """Append a batch: the answer, or the refusal, is what the model says."""
        batch = [self.wanted(part) for part in parts]
        future = self.log.append([self.new(one) for one in batch], wait=wait)
        refused = None if self.model.knows_key(batch) else self.model.refuses(batch)
        if refused is not None:
            error = future.exception(30)
            assert isinstance(error, ConcurrencyError), error
            assert error.actual == self.model.head(error.stream.rpartition("-")[2])
            return
        known = self.model.knows_key(batch)
        receipts = future.result(30)
        assert [receipt.replayed for receipt in receipts] == [known] * len(batch)
        answers = [[one.event.content for one in receipt.events] for receipt in receipts]
        assert answers == self.model.append(batch)
        if not known:
            for one, receipt in zip(batch, receipts, strict=True):
                self.times.setdefault(one.stream, []).extend(event.recorded_at for event in receipt.events)
        self.moments.append((self.log.now(), self.model.sizes()))

    @rule(stream=st.sampled_from(STREAMS), after=st.integers(0, 12), length=st.none() | st.integers(0, 12))
    def read(self, stream: str, after: int, length: int | None) -> None:
        """Read a range of a stream, with envelopes and without."""
        until = None if length is None else after + length
        wanted = self.model.streams.get(stream, [])[after:until]
        recorded = self.log.read(self.name(stream), after=after, until=until)
        assert [one.event.content for one in recorded] == wanted
        assert [one.version for one in recorded] == list(range(after + 1, after + 1 + len(wanted)))
        plain: list[Any] = self.log.read_events(self.name(stream), after=after, until=until)
        assert [event.content for event in plain] == wanted

    @rule(limit=st.sampled_from([1, 2, 5, 1_000]), number=st.integers(0, 100))
    def read_on(self, limit: int, number: int) -> None:
        """Read the log from a moment of this life to its end, by pages: everything that came behind it, once."""
        moment, sizes = self.moments[number % len(self.moments)]
        events = everything(self.log, after=moment, limit=limit)
        found = [(one.stream.rpartition("-")[2], one.version) for one in events]
        assert sorted(found) == sorted(fact for fact in self.model.order if fact[1] > sizes.get(fact[0], 0))
        if moment == self.start:
            check_order(events)

    @rule(stream=st.sampled_from(STREAMS), number=st.integers(0, 100))
    def version_at_a_moment(self, stream: str, number: int) -> None:
        """A stream at a moment is as far as it was then."""
        moment, sizes = self.moments[number % len(self.moments)]
        assert self.log.version_at(self.name(stream), moment) == sizes.get(stream, 0)
        assert self.log.version_at(self.name(stream), Moment.parse(str(moment))) == sizes.get(stream, 0)

    @rule(stream=st.sampled_from(STREAMS), number=st.integers(0, 100), shift=st.sampled_from([-1, 0, 1]))
    def version_at_a_time(self, stream: str, number: int, shift: int) -> None:
        """A stream at a time is as far as a look at all its times says."""
        times = self.times.get(stream, [])
        time = (times[number % len(times)] if times else 0) + shift
        assert self.log.version_at(self.name(stream), time) == sum(one <= time for one in times)

    def open_handles(self) -> None:
        """Look whether all is in the log that was opened again."""
        assert str(self.log.now()) == str(self.moments[-1][0])

    @invariant()
    def heads(self) -> None:
        """Every stream ends where the model says."""
        if hasattr(self, "log"):
            found = {stream: self.log.head(self.name(stream)) for stream in STREAMS}
            assert found == {stream: self.model.head(stream) for stream in STREAMS}

"""
The log on PostgreSQL: many processes write at the same time, on one server or on shards of it.

The log is 1,024 slices, each with its own order. A process commits in groups, over one connection; readers have their
own connections; writer and readers do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from ....domain.clock import REAL_SYSTEM, System
from ....domain.concurrency.locks import News
from ....domain.concurrency.promises import Settled
from ....domain.errors import (
    ConcurrencyError,
    DamagedError,
    InvalidInputError,
    LogWentBackError,
    RefoldError,
    StorageBusyError,
)
from ....domain.ids import SLICES, slice_of
from ....domain.log.envelope import Chain, Event, Meta, RecordedEvent, encode_payload
from ....domain.log.ports import (
    ANY_VERSION,
    KeyRow,
    NewEvents,
    Page,
    Pending,
    Range,
    Receipt,
    Remnant,
    StreamEnd,
    require_names,
)
from ....domain.positions import BEGINNING, Moment, Partition, require_kind
from ..acknowledged import Acknowledged, AcknowledgedEnd, is_small
from ..background import LogSnapshots
from ..codec import CODEC, Codec
from ..compression import DICTIONARY_EVENTS, erased_form
from ..erasure_watch import ERASURE_WATCH
from ..evidence import Evidence, require_boundary, require_ends, require_version, require_versions
from ..group_commit import GroupCommitter, Ticket
from ..records import ANY, Draft, Part, Request, draft_of, drafts_of, receipts_of
from ..row_faults import RETIRED
from .append import Appender, Begun, Interrupted
from .beside import PLACE, Segments, Snapshots
from .blocks import Blocks, OvertakenError, Sealer
from .connection import PostgresDatabase
from .dictionaries import Dictionaries
from .ends import Ends
from .erase import Eraser
from .page import Pager
from .planning import Answer
from .read import VERSION_MAX, PostgresPartition, Reader
from .schema import WAIT_BRIEFLY, distribute, prepare_schema
from .verify import damaged_rows, damaged_texts, doubtful_streams, key_rows, stream_ids
from .wire import BEGIN, COMMIT, PATIENCE_SECONDS, Call, Wire

# A check that no new row passes. While it is not there it costs nothing; it also stops those who are connected already.
RETIRE = f"ALTER TABLE event ADD CONSTRAINT {RETIRED} CHECK (false) NOT VALID"
REOPEN = f"ALTER TABLE event DROP CONSTRAINT IF EXISTS {RETIRED}"
# Appends wait while this many slices are locked, one after the other, in one round trip.
SLICES_AT_ONCE = 64
AWAIT_TIMES = 3
T = TypeVar("T")


Batch = Sequence[NewEvents]
LogTicket = Ticket[Batch, list[Receipt]]


class PostgresLog:
    """
    A log in a PostgreSQL database; see `refold.domain.log.ports.LiveLog` for what its methods promise.

    It creates its tables in the connection's current schema if there are none, unless `create` is false. With
    `read_only` it changes nothing. A call waits `patience_seconds` for a silent server, then has it cancel the
    statement, and connects once more.

    Raises:
        StorageUnavailableError: the database cannot be reached, or holds no log that this version understands.
    """

    has_slices = True

    def __init__(
        self,
        url: str,
        *,
        create: bool = True,
        read_only: bool = False,
        codec: Codec = CODEC,
        system: System = REAL_SYSTEM,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self.chain = Chain()
        self.database = PostgresDatabase(url, patience_seconds=patience_seconds, read_only=read_only)
        self._dictionaries = Dictionaries(self.database, "")
        self._compression = self._dictionaries.compression
        self._acknowledged = Acknowledged()
        self._blocks = Blocks(self._compression)
        self._appender = Appender(self.database, "", system, self._compression, self, self._blocks, self.chain)
        self.codec = codec
        self._reader = Reader(self.database, codec, self._compression, self._went_back, self.chain)
        self._ends = Ends(self.database)
        self._pager = Pager(self.database, self._ends, self._blocks)
        self._sealer = Sealer(self.database, self._compression, self._reader.check_rows)
        self._committer: GroupCommitter[Batch, list[Receipt]] = GroupCommitter(self._commit, self._commit_alone)
        self.news = News()
        table = Snapshots(self.database)
        self._snapshots = LogSnapshots(table, self.chain, self.database.where, lambda: self.news.count)
        self.evidence: Evidence | None = None
        try:
            may_create = create and not read_only
            if self.database.reading(lambda wire: prepare_schema(wire, self.database.where, create=may_create)):
                self._expect_cluster()
            self._dictionaries.use_newest()
            if not read_only:
                self._dictionaries.count(sum(self._pager.ends().values()), self._first_payloads)
        except BaseException:
            self.close()
            raise
        ERASURE_WATCH.add(self)

    @property
    def is_distributed(self) -> bool:
        """Whether the tables are distributed over the servers of a Citus cluster."""
        return self._ends.is_distributed

    # Writing

    def append(self, batch: Sequence[NewEvents], *, wait: bool = True) -> Pending[list[Receipt]]:
        if len(batch) != 1 and len({new.stream for new in batch}) != len(batch):
            return Settled(None, InvalidInputError("a stream may stand in a batch once: join its events"))
        return self._committer.submit(batch, wait=wait)

    def _commit_alone(self, batch: Batch) -> list[Receipt]:
        cached = self._appender.append_cached(batch)
        if isinstance(cached, list):
            self._note(cached, are_small=True)
            self._wake([cached])
            return cached
        answer = self._append([batch], cached)[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _commit(self, group: list[LogTicket]) -> None:
        batches = [ticket.request for ticket in group]
        cached = self._appender.append_cached([new for batch in batches for new in batch])
        if isinstance(cached, list):
            receipts = iter(cached)
            answers: Sequence[list[Receipt] | Exception] = [[next(receipts) for _ in batch] for batch in batches]
            self._note(cached, are_small=True)
            self._wake([cached])
        else:
            answers = self._append(batches, cached)
        for ticket, answer in zip(group, answers, strict=True):
            if isinstance(answer, Exception):
                ticket.future.set_exception(answer)
            else:
                ticket.future.set_result(answer)

    def _note(self, receipts: list[Receipt], *, are_small: bool) -> None:
        self._acknowledged.note(receipts, are_small=are_small)
        if self.evidence is not None:
            self.evidence.note(receipts)

    def use_evidence(self, evidence: Evidence) -> None:
        """Compare with this evidence what is read from now on."""
        self.evidence = self._snapshots.evidence = evidence
        self._reader.use_evidence(evidence)

    def segment_table(self) -> Segments:
        """Return the table for what the evidence keeps of segments."""
        return Segments(self.database, self._blocks)

    def _append(self, batches: Sequence[Batch], before: Interrupted | Begun | None) -> list[list[Receipt] | Exception]:
        refused: dict[int, Exception] = {}
        drafted: list[Batch] = []
        are_small: list[bool] = []
        receipts = _Receipts(drafted, self.read)

        def draft() -> list[Request]:
            requests = []
            for place, batch in enumerate(batches):
                try:
                    requests.append(self._request(batch))
                    drafted.append(batch)
                    are_small.append(is_small(requests[-1]))
                except (RefoldError, ValueError, TypeError, OverflowError) as error:
                    refused[place] = error
            return requests

        slices = {self._slice(new) for batch in batches for new in batch}
        answers = self._appender.append(slices, draft, receipts.foresee, before)
        # If the cached append accepted these requests, they can be drafted. Otherwise ids of events would go to other
        # events.
        assert not (refused and drafted and isinstance(before, Interrupted) and before.first_id)
        outcomes_drafted = receipts.of(answers)
        for outcome, small in zip(outcomes_drafted, are_small, strict=True):
            if not isinstance(outcome, Exception):
                self._note(outcome, are_small=small)
        made = iter(outcomes_drafted)
        outcomes = [refused[place] if place in refused else next(made) for place in range(len(batches))]
        self._wake(outcomes)
        return outcomes

    def _slice(self, new: NewEvents) -> int:
        known = self._appender.known_slice(new.stream)
        if known is not None:
            return known
        # A name that cannot be encoded must not fail here: the draft refuses it, and only its own request.
        return slice_of((new.root or new.stream).encode(errors="replace").decode())

    def _request(self, batch: Batch) -> Request:
        return Request([self._part(new) for new in batch])

    def _part(self, new: NewEvents) -> Part:
        self._check_names(new)
        drafts = drafts_of(new, self._compression)
        first = ANY if new.expected_version == ANY_VERSION else new.expected_version + 1
        key, digest = new.idempotency_key, new.expected_digest
        return Part(new.stream, first, drafts, self._slice(new), idempotency_key=key, expected_digest=digest)

    def _check_names(self, new: NewEvents) -> None:
        # The root matters only for a new stream.
        root = "" if self._appender.known_slice(new.stream) is not None else new.root
        names = f"{new.stream}{root}{new.idempotency_key}"
        try:
            names.encode()
        except UnicodeEncodeError as error:
            raise InvalidInputError(f"a name with {new.stream!r} holds a lone surrogate: {error}") from error
        require_names(new)

    def _wake(self, answers: Sequence[list[Receipt] | Exception]) -> None:
        """Wake callers that wait for news, and count the events that the dictionary needs."""
        self.news.announce()
        if not self._compression.newest:
            receipts = [receipt for answer in answers if isinstance(answer, list) for receipt in answer]
            events = sum(len(receipt.events) for receipt in receipts if not receipt.replayed)
            self._dictionaries.count(events, self._first_payloads)

    def _first_payloads(self) -> list[bytes]:
        # It imports the events of all kinds of contexts, which few processes need.
        from ....domain.erasure.skeleton import skeleton_of

        # A dictionary is kept for ever, and holds pieces of what it was trained with: so it gets no texts.
        page = self.read_all(after=BEGINNING, limit=DICTIONARY_EVENTS)
        return [encode_payload(skeleton_of(recorded.event)) for recorded in page.events]

    def copy_in(self, parts: Sequence[Part]) -> None:
        """
        Append events of another log, all or none, with the times that their parts give.

        Raises:
            ConcurrencyError: another process appends to this log, too.
        """
        slices = {part.slice for part in parts}
        (answer,) = self._committer.exclusively(lambda: self._appender.append_copies(slices, Request(parts)))
        if isinstance(answer, ConcurrencyError):
            raise answer
        self.news.announce()
        self._dictionaries.count(sum(len(part.drafts) for part in parts), self._first_payloads)

    def draft(self, tag: str, meta: Meta, payload: bytes) -> Draft:
        """Return an event, given by its payload, in the form that `copy_in` takes."""
        return draft_of(tag, meta, payload, self._compression)

    def erase(self, remnants: Sequence[Remnant], new: Sequence[NewEvents]) -> list[Receipt]:
        if self.is_distributed:
            raise InvalidInputError("nothing can be erased yet in a store on several servers: copy it to one server")
        parts = [self._part(one) for one in new]
        # A part without events locks the slice of its stream.
        of_slices = {self._slice_of(stream): stream for stream in {one.stream for one in remnants}}
        locked = [Part(stream, ANY, (), number) for number, stream in sorted(of_slices.items())]
        request = Request([*parts, *(part for part in locked if part.stream not in {one.stream for one in new})])

        def work(wire: Wire) -> None:
            if checks := self._appender.key_checks(erased_form(one.payload) for one in remnants):
                wire.run(*checks)
            Eraser(wire, self._compression, self._blocks).erase(remnants)

        (answer,) = self._committer.exclusively(lambda: self._appender.append_with([request], work))
        if isinstance(answer, ConcurrencyError):
            raise answer
        receipts = receipts_of(new, answer[: len(parts)], self.read)
        self._note(receipts, are_small=False)
        self._wake([receipts])
        return receipts

    def _slice_of(self, stream: str) -> int:
        ((number, _),) = self.database.ask(Call(PLACE, (stream.encode(),)))[0] or [(slice_of(stream), 0)]
        return int(number)

    def sealed_payload(self, stream: str, version: int, meta: Meta, payload: bytes) -> tuple[Meta, bytes]:
        return meta, payload

    def scrub(self) -> list[str]:
        self.forget()
        return self.database.scrub()

    def forget(self) -> None:
        self._acknowledged.forget_events()

    def require_open_keys(self, statement: str) -> None:
        """Run this statement in each append: it fails if a key, `{key}`, may encrypt no event any more."""
        self._appender.require_open_keys(statement)

    def await_appends(self) -> None:
        """
        Return when all appends have ended that began before.

        Raises:
            StorageBusyError: one of them takes too long.
        """
        for first in range(0, SLICES, SLICES_AT_ONCE):
            locks = self._appender.locks(range(first, min(first + SLICES_AT_ONCE, SLICES)))
            calls = [call for lock in locks for call in (BEGIN, lock, COMMIT)]
            for attempt in range(AWAIT_TIMES):
                try:
                    self.database.ask(*calls)
                    break
                except StorageBusyError:
                    # The server ends the transaction of a process that is stopped, which takes longer.
                    if attempt == AWAIT_TIMES - 1:
                        raise

    def distribute(self) -> None:
        """Distribute the tables over the servers of a Citus cluster, co-located by slice."""
        self.database.reading(lambda wire: distribute(wire, self.database.where))
        self._expect_cluster()

    def _expect_cluster(self) -> None:
        self._ends.is_distributed = True
        self._appender.distribute()

    def retire(self) -> None:
        """
        Refuse events from now on, from every process; returns when all transactions that write events have ended.

        Raises:
            StorageBusyError: one of them took too long.
        """
        self.database.ask(BEGIN, WAIT_BRIEFLY, Call(REOPEN), Call(RETIRE), COMMIT)

    def reopen(self) -> None:
        """Take events again after `retire`."""
        self.database.ask(BEGIN, WAIT_BRIEFLY, Call(REOPEN), COMMIT)

    def sealing(self) -> Iterator[int]:
        """
        Pack old events into blocks, which take less room, step by step; yield how many events each step packed.

        Others may write and read meanwhile, and any number of processes may do the same. If the
        iteration ends early, the rest is left for the next time.

        Raises:
            DamagedError: events cannot be read. Those of the other slices are packed before it is raised.
        """
        sealed, damage = self._sealer.sealed(), list[DamagedError]()
        for number, end in self._pager.ends().items():
            after = sealed.get(number, 0)
            try:
                while (until := self._sealer.seal(number, after, end)) > after:
                    yield until - after
                    after = until
            except OvertakenError:
                continue
            except DamagedError as error:
                damage.append(error)
        if damage:
            raise damage[0]

    # When the log went back

    def witness(self, number: int) -> AcknowledgedEnd | None:
        return self._acknowledged.witness(number)

    def went_back(self, witness: AcknowledgedEnd) -> Exception:
        return self._went_back(witness.stream, StreamEnd(witness.version, witness.digest))

    def check(self, wire: Wire) -> None:
        """
        Check that the dictionary with which rows are compressed still exists.

        Raises:
            LogWentBackError: it does not.
        """
        if not self._dictionaries.is_there(wire):
            where = self.database.where
            raise LogWentBackError(where, reason="the dictionary that its rows were compressed with is gone")

    def _went_back(self, stream: str, known: StreamEnd) -> LogWentBackError:
        self._reader.forget_places()
        self._appender.distrust()
        return self._acknowledged.went_back(self.database.where, self._reader, stream, known)

    # Reading

    def read(
        self, stream: str, *, after: int = 0, until: int | None = None, known: StreamEnd | None = None
    ) -> list[RecordedEvent]:
        wanted = Range(stream, after, VERSION_MAX if until is None else until)
        return self._reaching(wanted, lambda: self._reader.read_stream(wanted, known))

    def read_events(
        self, stream: str, *, after: int = 0, until: int | None = None, known: StreamEnd | None = None
    ) -> list[Event]:
        wanted = Range(stream, after, VERSION_MAX if until is None else until)
        return self._reaching(wanted, lambda: self._reader.read_events(wanted, known))

    def _reaching(self, wanted: Range, read: Callable[[], list[T]]) -> list[T]:
        """Return the events of a range, after requiring that none is missing at its end that is known."""
        if self.evidence is None:
            return read()
        reached = self._reader.known_version(wanted.stream)
        found = read()
        require_version(wanted.stream, max(wanted.after, 0) + len(found), min(wanted.until, reached))
        return found

    def read_ranges(self, ranges: Sequence[Range]) -> list[list[Event]]:
        if self.evidence is None:
            return self._reader.read_ranges(ranges)
        reached = {stream: self._reader.known_version(stream) for stream in {one.stream for one in ranges}}
        found = self._reader.read_ranges(ranges)
        require_versions(ranges, found, reached)
        return found

    def recorded_under(self, stream: str, key: str) -> list[RecordedEvent]:
        return self._reader.read_under(stream, key)

    def read_all(self, *, after: Moment, limit: int, until: Moment | None = None, undecodable: bool = False) -> Page:
        known = {} if self.evidence is None else self.evidence.ends()
        require_kind(after, has_slices=True)
        page = self._reader.read_page(self._pager, after, limit, until=until, undecodable=undecodable)
        if known and until is None and len(page.events) < limit:
            require_ends(self._ends.known, known)
        return page

    @property
    def location(self) -> str:
        return self.database.url

    def prepare_partitions(self) -> None:
        """Do nothing: every key begins with the slice."""

    def partition(self, partition: Partition) -> PostgresPartition:
        return PostgresPartition(Pager(self.database, self._ends, self._blocks, partition), self._reader)

    def head(self, stream: str) -> int:
        reached = self._reader.known_version(stream)
        found = self._reader.last_version(stream)
        require_version(stream, found, reached)
        return found

    def end(self, stream: str) -> StreamEnd:
        reached = self._reader.known_version(stream)
        found = self._reader.end(stream)
        require_version(stream, found.version, reached)
        return found

    def version_at(self, stream: str, moment: Moment | int) -> int:
        if isinstance(moment, Moment):
            require_kind(moment, has_slices=True)
        version = self._reader.last_version(stream, moment)
        if self.evidence is not None:
            require_boundary(partial(self.read, stream), version, partial(_is_in, moment))
        return version

    def now(self) -> Moment:
        return Moment.of(dict(self._pager.ends()))

    def wait_for_news(self, seen: Moment, *, timeout_seconds: float) -> None:
        self._ends.wait_beyond(seen, self.news, timeout_seconds)

    def streams(self, prefix: str = "", *, limit: int | None = None) -> list[str]:
        return stream_ids(self.database, prefix, limit)

    def files(self) -> Sequence[str]:
        return ()

    def damaged_files(self) -> Iterable[DamagedError]:
        return ()

    def damaged_texts(self) -> Iterable[DamagedError]:
        return damaged_texts(self.database, self._compression)

    def damaged_rows(self) -> Iterable[DamagedError]:
        return damaged_rows(self.database)

    def doubtful_streams(self) -> Iterable[str]:
        return doubtful_streams(self.database, self._blocks, self._sealer.sealed())

    def idempotency_keys(self) -> Iterable[KeyRow]:
        return key_rows(self.database)

    def snapshot(self, stream: str) -> bytes | None:
        return self._snapshots.read(stream)

    def keep_snapshot(self, stream: str, pack: Callable[[], bytes | None]) -> None:
        if not self.database.read_only:
            self._snapshots.keep(stream, pack)

    def streams_with_snapshot(self) -> list[str]:
        return self._snapshots.table.streams()

    def close(self) -> None:
        ERASURE_WATCH.discard(self)
        self._snapshots.close()
        self._committer.close()
        self._dictionaries.close()
        self.database.close()


class _Receipts:
    """Makes the receipts of batches, most of them while the server still commits."""

    def __init__(self, batches: Sequence[Batch], read: Callable[..., list[RecordedEvent]]) -> None:
        self._batches = batches
        self._read = read
        self._answers: Sequence[Answer] = ()
        self._made: list[list[Receipt] | Exception | None] = []

    def foresee(self, answers: list[Answer]) -> None:
        """Make the receipts for these answers, in case the commit succeeds."""
        self._answers = answers
        self._made = [
            self._of(batch, answer) if _is_new(answer) else None
            for batch, answer in zip(self._batches, answers, strict=True)
        ]

    def of(self, answers: Sequence[Answer]) -> list[list[Receipt] | Exception]:
        """Return the receipts for the answers after the commit."""
        made = self._made if self._answers is answers else [None] * len(answers)
        return [
            self._of(batch, answer) if known is None else known
            for batch, answer, known in zip(self._batches, answers, made, strict=True)
        ]

    def _of(self, batch: Batch, answer: Answer) -> list[Receipt] | Exception:
        if isinstance(answer, ConcurrencyError):
            return answer
        try:
            return receipts_of(batch, answer, self._read)
        except RefoldError as error:
            # The earlier call with this key may be another one, or damaged. The other requests of the group are
            # written.
            return error


def _is_in(moment: Moment | int, one: RecordedEvent) -> bool:
    """Return whether a moment includes an event."""
    if isinstance(moment, int):
        return one.recorded_at <= moment
    return one.position.number <= moment.head(one.position.slice)


def _is_new(answer: Answer) -> bool:
    return isinstance(answer, list) and all(isinstance(part, list) for part in answer)

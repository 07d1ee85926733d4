"""
The log on PostgreSQL: many processes write at the same time, on one server or on shards of it.

The log is 1,024 slices, each with its own order. A process commits in groups, over one connection; readers have their
own connections; writer and readers do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from ....domain.clock import REAL_SYSTEM, System
from ....domain.concurrency.locks import News
from ....domain.concurrency.promises import Settled
from ....domain.errors import ConcurrencyError, DamagedError, InvalidInputError, LogWentBackError, RefoldError
from ....domain.ids import slice_of
from ....domain.log.envelope import Chain, Event, Meta, RecordedEvent, encode_payload
from ....domain.log.ports import ANY_VERSION, KeyRow, NewEvents, Page, Pending, Range, Receipt, StreamEnd, require_names
from ....domain.positions import BEGINNING, Moment, Partition
from ..acknowledged import Acknowledged, Witness, is_small
from ..background import WaitingSnapshots
from ..codec import CODEC, Codec
from ..compression import DICTIONARY_EVENTS
from ..group_commit import GroupCommitter, Ticket
from ..records import ANY, Draft, Part, Request, draft_of, drafts_of, receipts_of
from ..row_faults import RETIRED
from .append import Appender, Begun, Interrupted
from .blocks import Blocks, OvertakenError, Sealer
from .connection import PostgresDatabase
from .dictionaries import Dictionaries
from .ends import Ends
from .page import Pager
from .planning import Answer
from .read import VERSION_MAX, PostgresPartition, Reader
from .schema import WAIT_BRIEFLY, distribute, prepare_schema
from .verify import damaged_rows, damaged_texts, doubtful_streams, key_rows, stream_ids
from .wire import BEGIN, COMMIT, PATIENCE_SECONDS, Call, Wire, int4

# The table is made with the first snapshot: a schema without it is whole.
MAKE_SNAPSHOTS = """
    CREATE TABLE IF NOT EXISTS snapshot (
        slice int NOT NULL, stream int NOT NULL, packed bytea NOT NULL, PRIMARY KEY (slice, stream))
"""
HAS_SNAPSHOTS = "SELECT to_regclass('snapshot')::text"
PLACE = "SELECT slice, key FROM stream WHERE id = $1"
READ_SNAPSHOT = "SELECT packed FROM snapshot WHERE slice = $1 AND stream = $2"
KEEP_SNAPSHOT = """
    INSERT INTO snapshot VALUES ($1, $2, $3) ON CONFLICT (slice, stream) DO UPDATE SET packed = excluded.packed
"""
WITH_SNAPSHOT = "SELECT s.id FROM snapshot AS p JOIN stream AS s ON s.slice = p.slice AND s.key = p.stream"

# A check that no new row passes. While it is not there it costs nothing; it also stops those who are connected already.
RETIRE = f"ALTER TABLE event ADD CONSTRAINT {RETIRED} CHECK (false) NOT VALID"
REOPEN = f"ALTER TABLE event DROP CONSTRAINT IF EXISTS {RETIRED}"
T = TypeVar("T")


Batch = Sequence[NewEvents]
LogTicket = Ticket[Batch, list[Receipt]]


class PostgresLog:
    """
    A log in a PostgreSQL database; see `refold.domain.log.ports.LiveLog` for what its methods promise.

    It creates its tables in the connection's current schema if there are none, unless `create` is false. No call waits
    for a silent server longer than `patience_seconds`.

    Raises:
        StorageUnavailableError: the database cannot be reached, or holds no log that this version understands.
    """

    has_slices = True

    def __init__(
        self,
        url: str,
        *,
        create: bool = True,
        codec: Codec = CODEC,
        system: System = REAL_SYSTEM,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self.chain = Chain()
        self.database = PostgresDatabase(url, patience_seconds=patience_seconds)
        self._dictionaries = Dictionaries(self.database, "")
        self._compression = self._dictionaries.compression
        self._acknowledged = Acknowledged()
        self._blocks = Blocks(self._compression)
        self._appender = Appender(self.database, "", system, self._compression, self, self._blocks, self.chain)
        self._reader = Reader(self.database, codec, self._compression, self._went_back, self.chain)
        self._ends = Ends(self.database)
        self._pager = Pager(self.database, self._ends, self._blocks)
        self._sealer = Sealer(self.database, self._compression, self._reader.check_rows)
        self._committer: GroupCommitter[Batch, list[Receipt]] = GroupCommitter(self._commit, self._commit_alone)
        self.news = News()
        self._snapshots = _Snapshots(self.database)
        self._waiting = WaitingSnapshots(self.database.where, self._snapshots.store, lambda: self.news.count)
        try:
            if self.database.reading(lambda wire: prepare_schema(wire, self.database.where, create=create)):
                self._expect_cluster()
            self._dictionaries.use_newest()
            self._dictionaries.count(sum(self._pager.ends().values()), self._first_payloads)
        except BaseException:
            self.close()
            raise

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
            self._acknowledged.note(cached, are_small=True)
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
            self._acknowledged.note(cached, are_small=True)
            self._wake([cached])
        else:
            answers = self._append(batches, cached)
        for ticket, answer in zip(group, answers, strict=True):
            if isinstance(answer, Exception):
                ticket.future.set_exception(answer)
            else:
                ticket.future.set_result(answer)

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
                self._acknowledged.note(outcome, are_small=small)
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
        page = self.read_all(after=BEGINNING, limit=DICTIONARY_EVENTS)
        return [encode_payload(recorded.event) for recorded in page.events]

    def copy_in(self, parts: Sequence[Part]) -> None:
        """
        Append events of another log, all or none, with the times that their parts give.

        Raises:
            ConcurrencyError: another process appends to this log, too.
        """
        slices = {part.slice for part in parts}
        (answer,) = self._committer.exclusively(lambda: self._appender.append(slices, lambda: [Request(parts)]))
        if isinstance(answer, ConcurrencyError):
            raise answer
        self.news.announce()
        self._dictionaries.count(sum(len(part.drafts) for part in parts), self._first_payloads)

    def draft(self, tag: str, meta: Meta, payload: bytes) -> Draft:
        """Return an event, given by its payload, in the form that `copy_in` takes."""
        return draft_of(tag, meta, payload, self._compression)

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

        Others may write and read meanwhile, and any number of processes may do the same. Whoever goes no further leaves
        the rest for the next time.

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

    def witness(self, number: int) -> Witness | None:
        return self._acknowledged.witness(number)

    def went_back(self, witness: Witness) -> Exception:
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
        return self._reader.read_stream(Range(stream, after, VERSION_MAX if until is None else until), known)

    def read_events(
        self, stream: str, *, after: int = 0, until: int | None = None, known: StreamEnd | None = None
    ) -> list[Event]:
        return self._reader.read_events(Range(stream, after, VERSION_MAX if until is None else until), known)

    def read_ranges(self, ranges: Sequence[Range]) -> list[list[Event]]:
        return self._reader.read_ranges(ranges)

    def recorded_under(self, stream: str, key: str) -> list[RecordedEvent]:
        return self._reader.read_under(stream, key)

    def read_all(self, *, after: Moment, limit: int, until: Moment | None = None, undecodable: bool = False) -> Page:
        return self._reader.read_page(self._pager, after, limit, until=until, undecodable=undecodable)

    @property
    def location(self) -> str:
        return self.database.url

    def prepare_partitions(self) -> None:
        """Do nothing: every key begins with the slice."""

    def partition(self, partition: Partition) -> PostgresPartition:
        return PostgresPartition(Pager(self.database, self._ends, self._blocks, partition), self._reader)

    def head(self, stream: str) -> int:
        return self._reader.last_version(stream)

    def end(self, stream: str) -> StreamEnd:
        return self._reader.end(stream)

    def version_at(self, stream: str, moment: Moment | int) -> int:
        return self._reader.last_version(stream, moment)

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
        return self._waiting.get(stream) or self._snapshots.read(stream)

    def keep_snapshot(self, stream: str, packed: bytes) -> None:
        self._waiting.put(stream, packed)

    def streams_with_snapshot(self) -> list[str]:
        return self._snapshots.streams()

    def close(self) -> None:
        self._waiting.close()
        self._committer.close()
        self._dictionaries.close()
        self.database.close()


class _Snapshots:
    """Reads and stores snapshots."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._is_there = False

    def _found(self) -> bool:
        if not self._is_there:
            ((table,),) = self._database.ask(Call(HAS_SNAPSHOTS))[0]
            self._is_there = table is not None
        return self._is_there

    def read(self, stream: str) -> bytes | None:
        """Return the snapshot of a stream, if there is one."""
        place = self._place(stream) if self._found() else None
        rows = self._database.ask(Call(READ_SNAPSHOT, place))[0] if place else []
        return bytes(rows[0][0]) if rows else None

    def store(self, stream: str, packed: bytes) -> None:
        """Store the snapshot of a stream; there is none for a stream that is gone."""
        if not self._found():
            self._database.transacting(lambda wire: wire.run(BEGIN, Call(MAKE_SNAPSHOTS), COMMIT))
        place = self._place(stream)
        if place:
            self._database.transacting(lambda wire: wire.run(BEGIN, Call(KEEP_SNAPSHOT, (*place, packed)), COMMIT))

    def streams(self) -> list[str]:
        """Return the streams that have one."""
        return [row[0] for row in self._database.ask(Call(WITH_SNAPSHOT))[0]] if self._found() else []

    def _place(self, stream: str) -> tuple[bytes, bytes] | None:
        rows = self._database.ask(Call(PLACE, (stream.encode(),)))[0]
        return (int4(rows[0][0]), int4(rows[0][1])) if rows else None


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


def _is_new(answer: Answer) -> bool:
    return isinstance(answer, list) and all(isinstance(part, list) for part in answer)

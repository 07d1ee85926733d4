"""
The log on PostgreSQL: many processes write at the same time, on one server or on shards of it.

The log is 1,024 slices, each with its own order. A process commits in groups, over one connection; readers have their
own connections; writer and readers do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from ....domain.clock import REAL_SYSTEM, System
from ....domain.errors import ConcurrencyError, DamagedError, InvalidInputError, LogWentBackError, StorageBusyError
from ....domain.ids import SLICES, slice_of
from ....domain.log.admission import require_names
from ....domain.log.envelope import Event, RecordedEvent, encode_payload
from ....domain.log.ports import NewEvents, Page, Range, Receipt, Remnant, StreamEnd
from ....domain.positions import BEGINNING, Moment, Partition, require_kind
from ..background import ERASURE_WATCH, LogSnapshots
from ..block_body import OvertakenError
from ..codec import CODEC, Codec
from ..compression import DICTIONARY_EVENTS, erased_form
from ..database_log import AcknowledgedEnd, Answer, Batch, joined
from ..evidence import require_ends, require_version
from ..records import ANY, Part, Request, part_of
from ..row_faults import RETIRED, new_mark
from .append import Appender, Interrupted, OpenedTransaction
from .blocks import Blocks, Sealer
from .connection import PostgresDatabase
from .dictionaries import Dictionaries
from .ends import Ends
from .erase import Eraser
from .page import Pager
from .read import PostgresPartition, Reader
from .schema import WAIT_BRIEFLY, distribute, prepare_schema
from .side_tables import Segments, Snapshots
from .stored_events import PLACE
from .verify import CheckedLog
from .wire import BEGIN, COMMIT, PATIENCE_SECONDS, Call, Wire

# A check that no new row passes. It costs nothing until it is there, and also stops processes that are connected.
RETIRE = "ALTER TABLE event ADD CONSTRAINT {} CHECK (false) NOT VALID"
REOPEN = "ALTER TABLE event DROP CONSTRAINT IF EXISTS {}"
MARKS = f"SELECT conname FROM pg_constraint WHERE conrelid = 'event'::regclass AND starts_with(conname, '{RETIRED}')"
# Appends wait while this many slices are locked, one after the other, in one round trip.
SLICES_AT_ONCE = 64
AWAIT_TIMES = 3


class PostgresLog(CheckedLog):
    """
    A log in a PostgreSQL database; see `refold.domain.log.ports.LiveLog` for what its methods promise.

    It creates its tables in the connection's current schema if there are none, unless `create` is false. With
    `read_only` it changes nothing. A call waits `patience_seconds` for a silent server, then has it cancel the
    statement, and connects once more.

    Raises:
        StorageUnavailableError: the database cannot be reached, or holds no log that this version understands.
    """

    has_slices = True
    _reader: Reader

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
        self.database = PostgresDatabase(url, patience_seconds=patience_seconds, read_only=read_only)
        self._dictionaries = Dictionaries(self.database)
        self._compression = self._dictionaries.compression
        super().__init__(codec, self._compression)
        self._blocks = Blocks(self._compression)
        self._appender = Appender(self.database, "", system, self._compression, self, self._blocks, self.chain)
        self._reader = Reader(self.database, codec, self._compression, self._went_back, self.chain)
        self._readers = (self._reader,)
        self._ends = Ends(self.database)
        self._pager = Pager(self.database, self._ends, self._blocks)
        self._sealer = Sealer(self.database, self._compression, self._reader.check_rows)
        table = Snapshots(self.database)
        self._snapshots = LogSnapshots(
            table, self.chain, self.database.where, lambda: self.news.count, read_only=read_only
        )
        try:
            where = self.database.where
            if self.database.reading(lambda wire: prepare_schema(wire, where, create=create, read_only=read_only)):
                self._expect_cluster()
            self._dictionaries.use_newest()
            if not read_only:
                # A reader of the whole log gets the error; contexts can be opened all the same.
                with suppress(DamagedError):
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

    def _commit(self, batches: Sequence[Batch]) -> Sequence[Answer]:
        cached = self._appender.append_cached(joined(batches))
        answers = self._shared_out(batches, cached) if isinstance(cached, list) else self._append(batches, cached)
        self._wake(answers)
        return answers

    def segment_table(self) -> Segments:
        """Return the table for what the evidence keeps of segments."""
        return Segments(self.database, self._blocks)

    def _append(self, batches: Sequence[Batch], before: Interrupted | OpenedTransaction | None) -> list[Answer]:
        drafted: list[Request | Exception] = []

        def draft() -> list[Request]:
            drafted.extend(map(self._drafted, batches))
            return [one for one in drafted if isinstance(one, Request)]

        slices = {self._slice(new) for batch in batches for new in batch}
        answers = self._appender.append(slices, draft, before)
        # If the cached append accepted these requests, they can be drafted. Otherwise ids of events would go to other
        # events.
        assert not (0 < len(answers) < len(batches) and isinstance(before, Interrupted) and before.first_id)
        return [*self._answered(batches, drafted, answers)]

    def _slice(self, new: NewEvents) -> int:
        known = self._appender.known_slice(new.stream)
        if known is not None:
            return known
        # A name that cannot be encoded must not fail here: the draft refuses it, and only its own request.
        return slice_of((new.root or new.stream).encode(errors="replace").decode())

    def _part(self, new: NewEvents) -> Part:
        self._check_names(new)
        return part_of(new, self._compression, lane=self._slice(new))

    def _check_names(self, new: NewEvents) -> None:
        # The root matters only for a new stream.
        root = "" if self._appender.known_slice(new.stream) is not None else new.root
        names = f"{new.stream}{root}{new.idempotency_key}"
        try:
            names.encode()
        except UnicodeEncodeError as error:
            raise InvalidInputError(f"a name with {new.stream!r} holds a lone surrogate: {error}") from error
        require_names(new)

    def _wake(self, answers: Sequence[Answer]) -> None:
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
        receipts = self._receipts(new, answer)
        self._wake([receipts])
        return receipts

    def _slice_of(self, stream: str) -> int:
        ((number, _),) = self.database.ask(Call(PLACE, (stream.encode(),)))[0] or [(slice_of(stream), 0)]
        return int(number)

    def scrub(self) -> list[str]:
        self.forget()
        return self.database.scrub()

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

    def retire(self, mark: str | None = None) -> str:
        """
        Refuse events from now on, from every process; return the mark that says so, by default a new one.

        It returns when all transactions that write events have ended.

        Raises:
            StorageBusyError: one of them took too long.
        """
        mark = mark or new_mark()
        self.database.ask(BEGIN, WAIT_BRIEFLY, Call(REOPEN.format(mark)), Call(RETIRE.format(mark)), COMMIT)
        return mark

    def reopen(self, mark: str | None = None) -> None:
        """Take away a mark of `retire`, by default all of them; without any, the log takes events again."""
        marks = [mark] if mark else [str(name) for (name,) in self.database.ask(Call(MARKS))[0]]
        self.database.ask(BEGIN, WAIT_BRIEFLY, *(Call(REOPEN.format(one)) for one in marks), COMMIT)

    def sealing(self) -> Iterator[int]:
        """
        Pack old events into blocks, which take less room, step by step; yield how many events each step packed.

        Others may write and read meanwhile, and any number of processes may do the same. If the iteration ends early,
        the rest is left for the next time.

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

    def _reached(self, stream: str) -> int:
        return self._reader.known_version(stream)

    def _read_ranges(self, ranges: Sequence[Range]) -> list[list[Event]]:
        return self._reader.read_ranges(ranges)

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

    def _last_version(self, stream: str) -> int:
        return self._reader.last_version(stream)

    def end(self, stream: str) -> StreamEnd:
        reached = self._reader.known_version(stream)
        found = self._reader.end(stream)
        require_version(stream, found.version, reached)
        return found

    def _version_at(self, stream: str, moment: Moment | int) -> int:
        return self._reader.last_version(stream, moment)

    def now(self) -> Moment:
        return Moment.of(dict(self._pager.ends()))

    def wait_for_news(self, seen: Moment, *, timeout_seconds: float) -> None:
        self._ends.wait_beyond(seen, self.news, timeout_seconds)

    def close(self) -> None:
        ERASURE_WATCH.discard(self)
        self._snapshots.close()
        self._committer.close()
        self._dictionaries.close()
        self.database.close()

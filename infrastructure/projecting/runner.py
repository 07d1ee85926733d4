"""
The runner: brings projections up to date, page by page.

A page is read once for all projections at the same moment and folded in memory. The rows and the new checkpoints of all
of them are stored in one transaction. If a runner is killed, only unstored rows are lost, and the next runner goes on
from the checkpoints. Two runners do no harm: the second one finds that a checkpoint has moved, and goes on from there.

With the checkpoint a mark is stored: the position and the digest of the last event that the projection saw. If a log
has lost its last events, it looks whole, and new events take their positions. The mark then contradicts the log. The
contradiction is stored permanently, as a trace, before a new mark replaces this one: nothing else shows the loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ...domain.canonical import require_unicode
from ...domain.errors import (
    DamagedError,
    InvalidInputError,
    NotFoundError,
    RefoldError,
    StorageBusyError,
    StorageClosedError,
    StorageError,
)
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import PagedLog
from ...domain.positions import BEGINNING, Moment
from ...projections.contract import Found, Projection, SearchQuery
from ..log.row_faults import NUMBER_MAX, MissingTableError
from .folding import Groups, Pages, Read, fold_one_by_one, fold_page
from .shape import require_projection, require_same_columns
from .store import Checkpoint, ProjectionStore, Save, SetAside, Where

if TYPE_CHECKING:
    from .fold_ahead import FoldingProcess

T = TypeVar("T")
PAGE_EVENTS = 2_048
# With fewer events, it is not worth it to start a process that folds ahead.
AHEAD_EVENTS_MIN = 100_000
# A helper folds this many pages at once, which halves the commits; each commit waits for the disk.
PAGES_AT_ONCE = 2
# At most this many pages that changed no row are read again after a crash. A checkpoint for each would cost more.
BARE_PAGES_MAX = 64
MARK, TRACE = "mark/", "trace/"
# How often a question is asked if the rows of its projection went away each time.
READS_MAX = 100
CATCH_UPS_MAX = 5


# The errors of projections, by name.
Failures = dict[str, Exception]


class _Stale(NamedTuple):
    """
    A projection that is not up to date: the moment that it has reached in some groups of slices, its stored checkpoint,
    and how many pages after that changed no row.
    """

    projection: Projection
    moment: Moment
    stored: Checkpoint
    groups: Groups
    bare_pages: int = 0

    def at(self, stored: Checkpoint) -> _Stale:
        """Return the same projection after a save."""
        return _Stale(self.projection, self.groups.of(stored.moment), stored, self.groups)

    def skipping(self, read: Read) -> _Stale:
        """Return the same projection after a page that changed no row, so that nothing was stored."""
        return self._replace(moment=read.page.moment, bare_pages=self.bare_pages + 1)


class ProjectionRunner:
    """
    Runs projections of one log in this process, on demand.

    If none are given, it runs those that every store keeps. They are imported with the first question: a program that
    asks none does not load the events of all kinds of contexts, which they fold.
    """

    def __init__(self, log: PagedLog, store: ProjectionStore, projections: Iterable[Projection] | None = None) -> None:
        self._log = log
        self._store = store
        self._lacks_builtin = projections is None
        self._by_name = {projection.name: projection for projection in projections or ()}
        # Projections whose marks were compared with the log; each process does this once.
        self._looked_back: set[str] = set()
        # Called after each page that a question folds: with the events that are folded, and those of the whole log.
        self.on_page: Callable[[int, int], object] | None = None
        # Projections that answered questions; their rows may lack events that were set aside.
        self.asked: dict[str, Projection] = {}

    @property
    def projections(self) -> dict[str, Projection]:
        """All projections, by name."""
        if self._lacks_builtin:
            from .builtin import PROJECTIONS

            # Two threads may both do this: the second one changes nothing.
            self._by_name.update((one.name, one) for one in PROJECTIONS)
            self._lacks_builtin = False
        return self._by_name

    def add(self, projection: Projection) -> None:
        """
        Add a projection to those that are run.

        Raises:
            InvalidInputError: it is no projection, its rows cannot be stored, their fields changed without the version,
                or there is a projection with this name already.
        """
        require_projection(projection)
        if projection.name in self.projections:
            raise InvalidInputError(f"there is a projection {projection.name!r} already: give it another name")
        require_same_columns(self._store, projection)
        self.projections[projection.name] = projection

    def named(self, name: str) -> Projection:
        """
        Return the projection of this name.

        Raises:
            NotFoundError: there is no such projection.
        """
        found = self.projections.get(require_unicode(name, "the name of a projection"))
        if found is None:
            raise NotFoundError(f"there is no projection {name!r}: there are {', '.join(self.projections)}")
        return found

    def catch_up(self, *projections: Projection) -> None:
        """
        Fold all events that these projections have not seen yet; projections at the same moment share each page.

        Events that are written meanwhile may be left for the next call. An error of a projection is raised when the
        others are up to date.
        """
        self.asked.update((projection.name, projection) for projection in projections)
        total = 0
        for _ in range(CATCH_UPS_MAX):
            failed: Failures = {}
            for moment in self.pages(*projections, failed=failed, helped=True):
                if self.on_page is not None:
                    total = max(total or self._log.now().events, moment.events)
                    self.on_page(moment.events, total)
            # An erasure drops a table of rows, and makes it again at once.
            if not any(isinstance(error, MissingTableError) for error in failed.values()):
                break
        for error in failed.values():
            raise error

    def read(self, *projections: Projection, ask: Callable[[ProjectionStore], T]) -> T:
        """
        Bring projections up to date, and return what `ask` makes of their rows.

        It asks again if rows went away in between: an erasure drops them, and so does a program with another version.
        """
        for left in reversed(range(READS_MAX)):
            self.catch_up(*projections)
            try:
                # No rows where there are events may be rows that went away.
                if (answer := ask(self._store)) or self._has_rows_of(projections):
                    return answer
            except RefoldError as error:
                # A table that went away may be there again by now.
                is_new = isinstance(error, MissingTableError) and left == READS_MAX - 1
                if not left or (self._has_rows_of(projections) and not is_new):
                    raise
        names = ", ".join(one.name for one in projections)
        raise StorageBusyError(
            f"the rows of {names} are dropped all the time: end programs with other versions of them"
        )

    def _has_rows_of(self, projections: Sequence[Projection]) -> bool:
        return (
            all(one.moment != BEGINNING for one in self._store.checkpoints(*projections)) or not self._log.now().events
        )

    def pages(
        self,
        *projections: Projection,
        until: Moment | None = None,
        at_once: int = 1,
        failed: Failures | None = None,
        groups: frozenset[int] | None = None,
        helped: bool = False,
    ) -> Iterator[Moment]:
        """
        Fold events that projections have not seen yet, `at_once` pages at a time; yield the moment reached after each.

        It stops at `until`. Without `until`, events that are written meanwhile may be left for the next call. With
        `failed`, an error of a projection is put there, and the others go on. With `groups` only events of these groups
        of slices are folded, while other runners may fold those of the others. With `helped` another process may fold
        pages ahead.
        """
        errors = {} if failed is None else failed
        own = Groups(groups, self._store.groups)
        due: dict[Moment, list[_Stale]] = {}
        for one in self._begun(projections, own, errors):
            due.setdefault(one.moment, []).append(one)
        # All of them end at the same moment, and share each page from then on.
        pages = Pages(self._log, until, own)
        if failed is None and errors:
            raise next(iter(errors.values()))
        helper: FoldingProcess | None = None
        # The loop is a generator of its own: Python has no handler for the line of a `try` within a `try`.
        try:
            helper = self._helper(due, pages) if helped else None
            yield from self._advanced(due, pages, at_once * PAGE_EVENTS, helper, errors, raises=failed is None)
        finally:
            if helper is not None:
                helper.end()

    def _advanced(
        self,
        due: dict[Moment, list[_Stale]],
        pages: Pages,
        limit: int,
        helper: FoldingProcess | None,
        errors: Failures,
        *,
        raises: bool,
    ) -> Iterator[Moment]:
        """Do what `pages` does, from the projections that are due on."""
        while due:
            moment, together = due.popitem()
            try:
                folded = self._folded_ahead(helper, together, moment)
                read, moved = folded or self._folded_here(pages, together, moment, limit, errors)
            except StorageClosedError:
                raise
            except Exception as error:
                errors.update((one.projection.name, error) for one in together)
                moved = []
            if raises and errors:
                raise next(iter(errors.values()))
            for one in moved:
                if not (read.is_last and one.moment.includes(read.page.moment)):
                    due.setdefault(one.moment, []).append(one)
            if moved:
                yield moved[0].moment

    def _begun(self, projections: Sequence[Projection], groups: Groups, failed: Failures) -> list[_Stale]:
        """Return the projections at their checkpoints, without those whose checkpoints cannot be read."""
        try:
            stored = self._store.checkpoints(*projections) if projections else []
        except DamagedError as error:
            if len(projections) > 1:
                return [done for one in projections for done in self._begun([one], groups, failed)]
            failed[projections[0].name] = error
            return []
        return [_Stale(one, groups.of(at.moment), at, groups) for one, at in zip(projections, stored, strict=True)]

    def _folded_here(
        self, pages: Pages, together: Sequence[_Stale], moment: Moment, limit: int, failed: Failures
    ) -> tuple[Read, list[_Stale]]:
        """Read the next page, fold it and store its rows; return it, and the projections that did not fail."""
        read = pages.read(moment, limit)
        # At the end of the log, only a checkpoint that is not stored yet is left to do.
        is_at_end = not read.page.events and moment.includes(read.page.moment)
        left = [one for one in together if not (is_at_end and one.groups.of(one.stored.moment) == moment)]
        return read, self._advance(left, read, failed)

    def _helper(self, due: Mapping[Moment, Sequence[_Stale]], pages: Pages) -> FoldingProcess | None:
        """Return a process that folds the pages ahead; None if there are too few of them, or no process can do it."""
        moment = next(iter(due), pages.until)
        if len(due) != 1 or pages.until.events - moment.events < AHEAD_EVENTS_MIN:
            return None
        from .fold_ahead import helper_for

        return helper_for(self._log, self._store, [one.projection for one in due[moment]], pages.until)

    def _folded_ahead(
        self, helper: FoldingProcess | None, together: Sequence[_Stale], moment: Moment
    ) -> tuple[Read, list[_Stale]] | None:
        """Store the next page as a helper folded it, and return it; None if it has to be read and folded here."""
        # The checkpoint shows whether an erasure dropped rows. Before the first page there is none, so it is read here.
        if helper is None or any(one.stored.moment == BEGINNING for one in together):
            return None
        folded = helper.after(moment, PAGES_AT_ONCE * PAGE_EVENTS)
        if folded is None:
            return None
        read = Read(folded.page, folded.is_last, {})
        moved: list[_Stale] = []
        left: list[_Stale] = []
        saves: list[Save] = []
        try:
            for due in together:
                rows = folded.rows(due.projection)
                if _is_bare(due, rows, read):
                    moved.append(due.skipping(read))
                else:
                    left.append(due)
                    saves.append(self._save_of(due, rows, read.page.events, read.page.moment))
            stored = self._store.save(*saves, seen=read.page.events) if saves else []
        except StorageClosedError:
            raise
        except Exception:
            # This process folds the page again: it fails again, and with all events of the page it can be handled.
            stored = [None]
        if None in stored:
            # Another runner may have come first, and rows that the helper read may be others now.
            helper.end()
            return None
        return read, moved + [due.at(one) for due, one in zip(left, stored, strict=True) if one is not None]

    def _advance(self, together: Sequence[_Stale], read: Read, failed: Failures) -> list[_Stale]:
        """Fold a page into projections, store their rows, and return the projections that did not fail."""
        moved: list[_Stale] = []
        saves: list[tuple[_Stale, Save]] = []
        for due in together:
            with noting(failed, due.projection):
                rows = None if read.undecodable else self._folded(due.projection, read.page.events)
                if rows is None:
                    moved.append(self._saved_one_by_one(due, read))
                elif _is_bare(due, rows, read):
                    moved.append(due.skipping(read))
                else:
                    saves.append((due, self._save_of(due, rows, read.page.events, read.page.moment)))
        return moved + self._saved(saves, read, failed)

    def _folded(self, projection: Projection, events: Sequence[RecordedEvent]) -> Mapping[str, Any] | None:
        """Return the rows that events change; None if an event cannot be folded."""
        try:
            return fold_page(projection, events, self._store)
        except (StorageError, DamagedError):
            # The stored rows cannot be read; the events are not the cause.
            raise
        except Exception:
            return None

    def _saved(self, saves: Sequence[tuple[_Stale, Save]], read: Read, failed: Failures) -> list[_Stale]:
        """Store the rows of a page in one transaction, or each alone if that fails; return those that did not fail."""
        try:
            stored = self._store_at(read.page.events, *(save for _, save in saves)) if saves else []
        except StorageClosedError:
            raise
        except Exception as error:
            if len(saves) > 1:
                return [done for one in saves for done in self._saved([one], read, failed)]
            ((due, _),) = saves
            with noting(failed, due.projection):
                if isinstance(error, StorageError | DamagedError):
                    raise
                return [self._saved_one_by_one(due, read)]
            return []
        return [due.at(one) for (due, _), one in zip(saves, stored, strict=True)]

    def _save_of(
        self,
        due: _Stale,
        rows: Mapping[str, Any],
        events: Sequence[RecordedEvent],
        after: Moment,
        aside: Sequence[SetAside] = (),
    ) -> Save:
        """Return the rows with the mark of the last event, and the events that were set aside, as they are stored."""
        name = due.projection.name
        if name not in self._looked_back:
            self._look_back(due.projection)
            self._looked_back.add(name)
        notes = {MARK + name: f"{events[-1].position} {events[-1].digest.hex()}"} if events else {}
        return Save(due.projection, rows, due.stored, after, notes, aside, divides=due.groups.numbers is not None)

    def _store_at(self, events: Sequence[RecordedEvent], *saves: Save) -> list[Checkpoint]:
        """Store the rows of these events; return the new checkpoints, or those of another runner that came first."""
        # If the last event of a slice is still in the log, so are those before it.
        seen = {one.position.slice: one for one in events}
        saved = self._store.save(*saves, seen=[*seen.values()])
        return [
            checkpoint or self._store.checkpoints(save.projection)[0]
            for save, checkpoint in zip(saves, saved, strict=True)
        ]

    def _look_back(self, projection: Projection) -> None:
        """Store a trace if the log contradicts the mark of a projection; the next mark would hide it."""
        mark = self._store.note(MARK + projection.name)
        reason = None if mark is None else _contradiction(self._log, mark, projection.name)
        # An older copy of both may have been put in place since the mark was read.
        if mark is not None and reason is not None and mark == self._store.note(MARK + projection.name):
            keep_trace(self._store, mark.partition(" ")[0], reason)

    def _saved_one_by_one(self, due: _Stale, read: Read) -> _Stale:
        """
        Store the rows of a page without the events that cannot be folded, and return the projection after that.

        A projection that stops at such an event stores the rows of the events before it.
        """
        projection, page = due.projection, read.page
        around = fold_one_by_one(projection, page.events, self._store, read.undecodable)
        if around.failure is None:
            save = self._save_of(due, around.rows, page.events, page.moment, around.aside)
            return due.at(*self._store_at(page.events, save))
        if around.folded:
            events = page.events[: around.folded]
            after = Moment.of(dict(due.moment.heads) | {one.position.slice: one.position.number for one in events})
            self._store_at(events, self._save_of(due, around.rows, events, after, around.aside))
        raise around.failure

    def rows(self, projection: Projection) -> list[Any]:
        """Bring a projection up to date, and return all its rows."""
        return self.read(projection, ask=lambda store: store.rows(projection))

    def page(
        self,
        projection: Projection,
        *,
        after: str = "",
        before: str | None = None,
        limit: int = NUMBER_MAX,
        where: Where | None = None,
    ) -> list[Any]:
        """Bring a projection up to date, and return some of its rows, ordered by key."""
        return self.read(
            projection, ask=lambda store: store.page(projection, after=after, before=before, limit=limit, where=where)
        )

    def rows_under(self, projections: Sequence[Projection], prefixes: Sequence[str]) -> list[Any]:
        """
        Bring projections up to date, and return their rows whose keys begin with one of `prefixes`.

        The rows come projection by projection and prefix by prefix, and within each ordered by key.
        """
        return self.read(*projections, ask=lambda _: self.stored_under(projections, prefixes))

    def stored_under(self, projections: Sequence[Projection], prefixes: Sequence[str]) -> list[Any]:
        """Return what `rows_under` returns, from the rows as they are: for a second question about the same answer."""
        return [row for one in projections for row in self._store.rows_under(one, *prefixes)]

    def stored(self, projection: Projection, keys: Iterable[str] | None = None) -> dict[str, Any]:
        """Return stored rows by key, all or those of `keys`, without bringing the projection up to date."""
        if keys is None:
            return {row.key: row for row in self._store.rows(projection)}
        return self._store.load(projection, keys)

    def search(self, projection: Projection, query: SearchQuery) -> list[Found]:
        """Bring a projection up to date, and return its rows that match a query, the best first."""
        return self.read(projection, ask=lambda store: store.search(projection, query))


def _is_bare(due: _Stale, rows: Mapping[str, Any], read: Read) -> bool:
    """Return whether a page changed no row, so that no checkpoint need be stored yet."""
    return not rows and not read.is_last and due.bare_pages < BARE_PAGES_MAX


@contextmanager
def noting(failed: Failures, projection: Projection) -> Iterator[None]:
    """Put an error of a projection into `failed`; an error of a closed store is raised."""
    try:
        yield
    except StorageClosedError:
        raise
    except Exception as error:
        failed[projection.name] = error


def contradictions(log: PagedLog, store: ProjectionStore) -> Iterator[tuple[str, str]]:
    """Yield the place of each mark that the log contradicts, and the reason."""
    for name, mark in store.notes(MARK).items():
        reason = _contradiction(log, mark, name.removeprefix(MARK))
        if reason is not None:
            yield mark.partition(" ")[0], reason


def keep_trace(store: ProjectionStore, where: str, reason: str) -> None:
    """Store permanently that the log once went further at some place than it does now."""
    store.set_note(TRACE + where, before=None, after=reason)


def traces(store: ProjectionStore) -> dict[str, str]:
    """Return the reasons of all stored traces, by place."""
    return {name.removeprefix(TRACE): reason for name, reason in store.notes(TRACE).items()}


def _contradiction(log: PagedLog, mark: str, name: str) -> str | None:
    where, _, digest = mark.partition(" ")
    try:
        ((lane, number),) = Moment.parse(where).heads
    except (InvalidInputError, ValueError):
        # An unreadable mark contradicts nothing, and the next mark replaces it.
        return None
    heads = dict(log.now().heads)
    if heads.get(lane, 0) < number:
        return f"the projection {name} has seen an event at it, and the log ends before it"
    try:
        # Read this event only: the next one may be damaged, or written by a newer version.
        before, until = (Moment.of({**heads, lane: end}) for end in (number - 1, number))
        found = log.read_all(after=before, limit=1, until=until, undecodable=True).events
    except (StorageError, DamagedError):
        # A reader of this event gets the error; a projection that is past it may go on.
        return None
    if not found or found[0].digest.hex() == digest:
        return None
    return f"the projection {name} has seen another event at it: the log was cut there or before, and written on"

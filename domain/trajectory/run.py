"""A run: one round of one agent, as a graph of what it asked, did, concluded and found."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..context.adopt import adopted_events
from ..context.attachment import Home
from ..context.journal import Journal
from ..context.read_only_views import ReadOnlyView
from ..context.view import Durability, Place
from ..errors import InvalidInputError
from ..log.ports import Log, NewEvents
from ..positions import Moment
from .comparing import TrajectoryDiff, compared
from .descriptions.run_descriptions import PortrayedRun
from .identity import RunId
from .rules.commands import NameVersion
from .state.fold import RunState

if TYPE_CHECKING:
    from typing import Self


class Run(PortrayedRun):
    """
    One round of one agent.

    `store.run(...)` gives one that is kept, `RunFactory().run(...)` a detached one, on a log in memory. Its methods
    may be called from any thread. Changing calls take `idempotency_key=` (a repetition gives the first result), those
    that change the graph `expected_version=` too.
    """

    def __init__(self, journal: Journal[RunState], home: Home, identity: RunId) -> None:
        self._journal, self._home, self.identity = journal, home, identity
        self._forget_shown()
        self._prepare_portraits()

    def _naming(self, name: str, version: int) -> NameVersion:
        return NameVersion(name, version)

    def at(self, moment: int | str | datetime | Moment) -> ReadOnlyRun:
        """
        Return the run as it was: at a version, a time, a position of the log, or a named version.

        Raises:
            NotFoundError: no such version or name.
            InvalidInputError: the text is none of these, or a time without a zone.
        """
        return ReadOnlyRun.of(self, self.version_at(moment))

    def diff(
        self, before: int | str | datetime | Moment, after: int | str | datetime | Moment | None = None
    ) -> TrajectoryDiff:
        """
        Return what is different in the graph between two moments, or between one and now.

        Raises:
            NotFoundError, InvalidInputError: as for `at`.
        """
        shown = self.graph() if after is None else self.at(after).graph()
        return compared(self.at(before).graph(), shown)

    def adopted_events(self, stream: str, *, root: str) -> list[NewEvents]:
        """
        Return what a store must append so that this detached run is there as `stream`, in the slice of its session.

        The rounds that it goes back over come along as what they are.

        Raises:
            InvalidInputError: that is another run's stream: which run it is, a run's first event says.
        """
        if stream != self.identity.stream:
            raise InvalidInputError(f"{self.id} can be adopted under its own id alone: store.adopt(run, run.id)")
        self.flush()
        return adopted_events(self._journal.log, self.stream, stream, root=self.session_id, keep_names=True)

    def attach(self, log: Log, place: Place, durability: Durability, unflushed: set[Journal[Any]]) -> None:
        """Go on in a store's log, which holds the same events; `store.adopt` does this."""
        super().attach(log, place._replace(root=self.session_id, actor=self.agent), durability, unflushed)

    @property
    def readonly(self) -> ReadOnlyRun:
        """A live view of this run that cannot be changed."""
        return ReadOnlyRun.of(self)


class ReadOnlyRun(ReadOnlyView, Run):
    """A run that can be read only: as it was at a version, or as it is, live."""

    @classmethod
    def of(cls, shown: Run, version: int | None = None) -> Self:
        """Return a view of a run: at a version, or live."""
        view = cls(shown._journal, shown._home, shown.identity)
        view._show(shown, version)
        if version is None:
            view._portraits = shown._portraits
        return view

    restore_previous_runs = portray_with = profiling = ReadOnlyView._change

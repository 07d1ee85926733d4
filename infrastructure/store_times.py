"""The part of a store that travels in time: the whole store at one moment, compared, branched, and named."""

from __future__ import annotations

from datetime import datetime

from ..domain.errors import InvalidInputError
from ..domain.moments import MomentNames
from ..domain.positions import Moment, Position
from .queries.at import StoreAt
from .queries.differences import ContextDifference, store_difference
from .queries.moments import LogEnd, cut_at
from .queries.what_if import WhatIf
from .store_answers import AnswersOfStore
from .store_contexts import ContextsOfStore


class TimesOfStore(ContextsOfStore, AnswersOfStore):
    """Looks at a store, whose contexts it opens, as it was."""

    _moments: MomentNames
    _end: LogEnd

    def flush(self) -> None:
        """Wait until everything queued is on disk."""
        raise NotImplementedError

    def at(self, moment: str | datetime | Moment | Position) -> StoreAt:
        """
        Return the whole store as it was: at a position of its log (`"pos:17"`, a Moment, an event's position), at a
        time, or at a named moment. All contexts are shown as of that one moment, to be read only.

        Raises:
            InvalidInputError: it is none of these; a version belongs to one context.
            NotFoundError: no moment has this name.
        """
        self.flush()
        return StoreAt(self, cut_at(moment, self._moments, self._end))

    def diff(
        self, before: str | datetime | Moment | Position, after: str | datetime | Moment | Position | None = None
    ) -> list[ContextDifference]:
        """
        Return which contexts are different at two moments, or at one and now, with what is known of each at both.

        Raises:
            InvalidInputError, NotFoundError: as for `at`.
        """
        return store_difference(self.at(before), self.at(self.log.now() if after is None else after))

    def what_if(self, moment: str | datetime | Moment | Position) -> WhatIf:
        """
        Return a way to branch several contexts as they were at one moment, in memory, and to keep the branches or not.

        Raises:
            InvalidInputError, NotFoundError: as for `at`.
        """
        self.flush()
        return WhatIf(self.log, cut_at(moment, self._moments, self._end))

    def name_moment(self, name: str, moment: str | datetime | Moment | Position | None = None) -> Moment:
        """
        Give a moment of the log, the present one by default, a name, and return it. A name that is given again moves.

        Raises:
            InvalidInputError: the name cannot be one, or the moment is a time: name a position.
            NotFoundError: no moment has the name that was given as the moment.
        """
        self.flush()
        cut = self._end.now() if moment is None else cut_at(moment, self._moments, self._end)
        if not isinstance(cut, Moment):
            raise InvalidInputError(f"{moment!r} is a time, and times need no name: give a position")
        self._moments.name(name, cut)
        return cut

    def moments(self) -> dict[str, Moment]:
        """Return the moments that have a name."""
        return self._moments.moments()

"""What was looked at, and what was found to be wrong."""

from __future__ import annotations

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """
    Something that is not as it should be: of what kind, where, and what is wrong.

    `kind` is `file`, `event`, `version`, `position`, `reference`, `text`, `row` or `projection`. `where` is an event as
    `stream@version`, several as `stream@first..last`, a position, a stored text, a stream, or the name of a projection.
    What can be made anew from the events, as projections can, is `repairable`.
    """

    kind: str
    where: str
    reason: str
    repairable: bool = False
    is_repaired: bool = False


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """
    How much was looked at, and the problems; none in a store that is whole.

    `left_out` are projections that could not be compared, since that takes room in a database that cannot be written.
    """

    streams: int
    events: int
    projections: int
    problems: tuple[Problem, ...]
    left_out: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong, or nothing any more."""
        return all(problem.is_repaired for problem in self.problems)

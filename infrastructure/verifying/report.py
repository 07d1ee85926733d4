"""The report of `verify`: what it looked at, and the problems that it found."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from ...domain.errors import DamagedError, StorageError


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


T = TypeVar("T")


def damage_of(error: Exception, what: str) -> DamagedError:
    """
    Return what an error in reading says of the bytes that were read; `what` names them where it does not.

    A value of another type, or a torn page, may raise anything, and looking for damage is no reason to fall over it.

    Raises:
        StorageError: the database is busy, closed or unreachable, which says nothing about what is stored in it.
    """
    if isinstance(error, DamagedError):
        return error
    if isinstance(error, StorageError) and type(error) is not StorageError:
        raise error
    return DamagedError(what, f"it cannot be read ({error or type(error).__name__})")


def asked(problems: list[Problem], what: str, ask: Callable[[], T]) -> T | None:
    """Return the answer to a question about the log; where there is none, add a problem and return None."""
    try:
        return ask()
    except Exception as error:
        damage = damage_of(error, what)
        problems.append(Problem("event", damage.what, damage.reason))
        return None


class Unreadable:
    """Versions that cannot be read; those that follow each other and have one reason are told of together."""

    def __init__(self) -> None:
        self.count = 0
        # Stream, reason, first and last version.
        self._runs: list[tuple[str, str, int, int]] = []

    def add(self, stream: str, version: int, error: DamagedError) -> None:
        """Note that a version cannot be read."""
        self.count += 1
        is_its_own = error.what == f"event {stream}@{version}"
        reason = error.reason if is_its_own else f"{error.what}: {error.reason}"
        if self._runs and (last := self._runs[-1])[:2] == (stream, reason) and last[3] == version - 1:
            self._runs[-1] = (stream, reason, last[2], version)
        else:
            self._runs.append((stream, reason, version, version))

    def problems(self) -> list[Problem]:
        """Return what is to be said of them."""
        return [
            Problem("event", f"{stream}@{first}" if first == last else f"{stream}@{first}..{last}", reason)
            for stream, reason, first, last in self._runs
        ]

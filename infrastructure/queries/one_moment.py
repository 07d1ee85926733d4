"""Answers that are made of several questions about rows, which may be dropped between two questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from ...domain.errors import RefoldError
from ...domain.positions import BEGINNING
from ...projections.contract import Projection
from ..projecting.runner import READS_MAX, ProjectionRunner
from ..projecting.store import Checkpoint, ProjectionStore

T = TypeVar("T")
# In this many attempts the rows must not change. After that they may have grown, since workers may store rows all the
# time. That rows are dropped and rebuilt within one attempt is then very unlikely.
STILL_READS = 3


def at_one_moment(
    runner: ProjectionRunner, projections: Sequence[Projection], ask: Callable[[ProjectionStore], T]
) -> T:
    """
    Bring projections up to date, and return what `ask` makes of their rows in several questions.

    It asks again if rows were stored or dropped in between. An erasure drops rows, and so does a program with another
    version of a projection: the answer would then lack the rows that later questions do not find, without an error.
    """
    for number in range(READS_MAX):
        reading, is_last = _Reading(projections, ask, may_grow=number >= STILL_READS), number == READS_MAX - 1
        try:
            answer = runner.read(*projections, ask=reading.answer)
        except RefoldError:
            if is_last or reading.is_of_one_moment:
                raise
            continue
        if is_last or reading.is_of_one_moment:
            return answer
    raise AssertionError("the loop returns or raises")


class _Reading(Generic[T]):
    """One attempt: the checkpoints when it began, and its questions."""

    def __init__(
        self, projections: Sequence[Projection], ask: Callable[[ProjectionStore], T], *, may_grow: bool
    ) -> None:
        self._projections, self._ask, self._may_grow = projections, ask, may_grow
        self._store: ProjectionStore | None = None
        self._before: list[Checkpoint] = []

    def answer(self, store: ProjectionStore) -> T:
        """Note the checkpoints, and ask."""
        self._store, self._before = store, store.checkpoints(*self._projections)
        return self._ask(store)

    @property
    def is_of_one_moment(self) -> bool:
        """Whether no rows went away since it began, and not only some of the projections had any."""
        if self._store is None:
            # It has not begun.
            return True
        after = self._store.checkpoints(*self._projections)
        if len({one.moment == BEGINNING for one in self._before}) > 1:
            return False
        grew = all(now.moment.includes(then.moment) for now, then in zip(after, self._before, strict=True))
        return after == self._before or (self._may_grow and grew)

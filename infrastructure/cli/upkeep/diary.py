"""What becomes of projections while they are kept up to date, in few words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ....domain.positions import Moment
from ...projecting.status import ProjectionStatus
from ...store import Store
from ..naming import counted

Standing = Mapping[str, ProjectionStatus]


class Diary:
    """How some projections of a store stood when it was begun, and how they have come on since."""

    def __init__(self, store: Store, names: Sequence[str]) -> None:
        self._store, self._names = store, frozenset(names)
        self._first = self._last = self._standing()

    def beginning(self) -> Iterator[str]:
        """Yield what is to be known at the beginning: what stands still, and what another process works on."""
        holders: dict[str, list[str]] = {}
        for name, status in self._first.items():
            if status.stopped_at is not None:
                yield f"{name} stands still: it cannot fold {status.stopped_at}: {status.error}"
            elif status.worker is not None:
                holders.setdefault(status.worker, []).append(name)
        for worker, held in holders.items():
            yield f"{self._those(held)}: held by {worker}, and taken over once that is gone"

    def news(self) -> str:
        """Return what was done since this was asked last; nothing where nothing was."""
        before, self._last = self._last, self._standing()
        return self._done(before, self._last)

    def sums(self) -> str:
        """Return what was done in all."""
        return self._done(self._first, self._standing()) or "there was nothing to do"

    def _standing(self) -> Standing:
        return {status.name: status for status in self._store.projections() if status.name in self._names}

    def _done(self, before: Standing, now: Standing) -> str:
        """Those that came on alike are told of together."""
        alike: dict[tuple[int, int], list[str]] = {}
        for name, status in now.items():
            events = _events(status) - _events(before[name])
            if events > 0:
                alike.setdefault((events, status.behind), []).append(name)
        return "; ".join(
            f"{self._those(names)}: {counted(events, 'event')}" + (f", {behind:,} behind" if behind else "")
            for (events, behind), names in alike.items()
        )

    def _those(self, names: Iterable[str]) -> str:
        names = list(names)
        return "all" if len(names) == len(self._names) > 1 else ", ".join(names)


def _events(status: ProjectionStatus) -> int:
    return Moment.parse(status.position).events

"""The three queues of steps: what comes before the main loop, in it, and after it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ...errors import DamagedError
from ...ordered_map import OrderedMap
from ..events import StepQueued

QUEUES = ("pre", "todo", "post")


class Steps(msgspec.Struct, frozen=True):
    """
    The steps of the three queues by the version that queued them: those that wait, the oldest first, and before them
    those that were given back, the last one first; and those that are taken.
    """

    waiting: dict[str, OrderedMap[int, StepQueued]] = msgspec.field(default_factory=dict)
    returned: dict[str, tuple[tuple[int, StepQueued], ...]] = msgspec.field(default_factory=dict)
    taken: OrderedMap[int, StepQueued] = msgspec.field(default_factory=OrderedMap)

    def count(self, queue: str) -> int:
        """Return how many steps a queue holds."""
        return len(self.waiting.get(queue, ())) + len(self.returned.get(queue, ()))

    def first(self, queue: str) -> tuple[int, StepQueued] | None:
        """Return the step that is taken next, and its version; None from an empty queue."""
        returned = self.returned.get(queue)
        if returned:
            return returned[0]
        waiting = self.waiting.get(queue)
        return waiting.first(1)[0] if waiting else None

    def all_in(self, queue: str) -> list[tuple[int, StepQueued]]:
        """Return the steps of a queue in the order in which they will be taken."""
        waiting = self.waiting.get(queue)
        return [*self.returned.get(queue, ()), *(waiting.items() if waiting else ())]

    def plus(self, version: int, step: StepQueued) -> Steps:
        """Return the queues with one more step at the end of its own."""
        held = self.waiting.get(step.queue) or OrderedMap()
        return msgspec.structs.replace(self, waiting={**self.waiting, step.queue: held.plus(version, step)})

    def without_first(self, queue: str) -> Steps:
        """Return the queues when the first step of one was taken."""
        found = self.first(queue)
        if found is None:
            raise DamagedError(f"the queue {queue!r} of a run", "a step was taken from it, and there was none")
        version, step = found
        taken = self.taken.plus(version, step)
        returned = self.returned.get(queue, ())
        if returned:
            return msgspec.structs.replace(self, taken=taken, returned={**self.returned, queue: returned[1:]})
        waiting = {**self.waiting, queue: self.waiting[queue].minus(version)}
        return msgspec.structs.replace(self, taken=taken, waiting=waiting)

    def given_back(self, version: int) -> Steps:
        """Return the queues when a step that was taken is the first of its own again."""
        step = self.taken.get(version)
        if step is None:
            raise DamagedError(f"step {version} of a run", "it was given back, and had not been taken")
        returned = ((version, step), *self.returned.get(step.queue, ()))
        return msgspec.structs.replace(
            self, taken=self.taken.minus(version), returned={**self.returned, step.queue: returned}
        )

    def without(self, queues: Iterable[str]) -> Steps:
        """Return the queues when some of them were cleared."""
        left = set(queues)
        return msgspec.structs.replace(
            self,
            waiting={name: held for name, held in self.waiting.items() if name not in left},
            returned={name: held for name, held in self.returned.items() if name not in left},
        )

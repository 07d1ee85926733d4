"""How steps get into the queues and out of them."""

from __future__ import annotations

from ...errors import InvalidInputError, NotFoundError
from ..events import StepQueued, StepRefused, StepReturned, StepsCleared, StepTaken
from ..state.fold import RunState
from ..state.steps import QUEUES
from .commands import ClearSteps, LoadSteps, QueueStep, ReturnStep, Step, TakeStep


def require_queue(queue: str) -> str:
    """
    Return the name of a queue.

    Raises:
        InvalidInputError: there is none of that name.
    """
    if queue not in QUEUES:
        raise InvalidInputError(f"TodoListManager: Invalid list type: {queue} (there are {', '.join(QUEUES)})")
    return queue


def queued(command: QueueStep, state: RunState) -> StepQueued | StepRefused:
    """
    Return the event that queues a step, or the one that refuses it.

    Raises:
        InvalidInputError: no such queue.
    """
    return _queued(require_queue(command.queue), command.step, command.capacity, state.steps.count(command.queue))


def loaded(command: LoadSteps, _state: RunState) -> list[StepsCleared | StepQueued | StepRefused]:
    """
    Return the events that fill queues anew; what is more than the capacity is refused, each by an event of its own.

    Raises:
        InvalidInputError: no such queue.
    """
    events: list[StepsCleared | StepQueued | StepRefused] = [
        StepsCleared(queues=tuple(require_queue(queue) for queue in command.queues))
    ]
    for queue, steps in command.queues.items():
        events += [_queued(queue, step, command.capacity, count) for count, step in enumerate(steps)]
    return events


def taken(command: TakeStep, state: RunState) -> list[StepTaken]:
    """
    Return the event that takes the next step of a queue; none where it is empty.

    Raises:
        InvalidInputError: no such queue.
    """
    first = state.steps.first(require_queue(command.queue))
    return [] if first is None else [StepTaken(queue=command.queue, step=first[0])]


def returned(command: ReturnStep, state: RunState) -> StepReturned:
    """
    Return the event that gives a step back.

    Raises:
        NotFoundError: no such step is taken.
    """
    step = state.steps.taken.get(command.step)
    if step is None:
        raise NotFoundError(f"no step of version {command.step} is taken: it was never, or has been given back")
    return StepReturned(queue=step.queue, step=command.step)


def cleared(command: ClearSteps, state: RunState) -> list[StepsCleared]:
    """
    Return the event that clears queues; none where they are empty.

    Raises:
        InvalidInputError: no such queue.
    """
    queues = tuple(queue for queue in map(require_queue, command.queues) if state.steps.count(queue))
    return [StepsCleared(queues=queues)] if queues else []


def _queued(queue: str, step: Step, capacity: int, count: int) -> StepQueued | StepRefused:
    if count < capacity:
        return StepQueued(queue=queue, name=step.name, params=step.params)
    return StepRefused(queue=queue, name=step.name, params=step.params, capacity=capacity)

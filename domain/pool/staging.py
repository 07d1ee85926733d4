"""
What hooks see before a change is recorded: the container as it will be, for their flow of control alone.

A hook that raises takes the change back by doing nothing: what it saw was never in the log. Everybody else goes on
seeing what is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .events import ContainerEvent
from .state.fold import ContainerState, Resolved, fold


class Stage:
    """A container's state while its hooks are told of a change, step by step."""

    def __init__(self, owner: object, state: ContainerState) -> None:
        self.owner, self.state = owner, state
        # A task that a hook started may outlive the change; it then sees what is, like everybody else.
        self.is_open = True
        self.process = os.getpid()

    def see(self, *events: ContainerEvent | Resolved) -> None:
        """Let the hooks that follow see the container behind `events`."""
        self.state = fold(self.state, events)


_STAGES: ContextVar[tuple[Stage, ...]] = ContextVar("refold_stages", default=())


def stage_of(owner: object) -> Stage | None:
    """Return the stage that is set for a container in this flow of control, if any."""
    for stage in reversed(_STAGES.get()):
        # A child that a hook forked is not told of the change either.
        if stage.owner is owner and stage.is_open and stage.process == os.getpid():
            return stage
    return None


@contextmanager
def staged(owner: object, state: ContainerState) -> Iterator[Stage]:
    """Set a stage for a container within the block."""
    stage = Stage(owner, state)
    token = _STAGES.set((*_STAGES.get(), stage))
    try:
        yield stage
    finally:
        stage.is_open = False
        _STAGES.reset(token)

"""The work of an agent in a run: the steps of its three queues, and its messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..canonical import Without, canonical_json, parse_json, require_unicode
from ..errors import InvalidInputError
from ..messages import message_to_dict
from .errors import RunStateError
from .events import StepQueued, StepRefused, StepTaken
from .rules.commands import ClearSteps, Close, LoadSteps, QueueStep, RecordMessages, ReturnStep, Step, TakeStep
from .rules.stepping import require_queue
from .run_edit import ShapedRun
from .run_view import QueuedStep
from .state.steps import QUEUES

STEPS_MAX = 100


class WorkingRun(ShapedRun):
    """A run whose steps are queued and taken, and whose messages are recorded."""

    # How many steps each queue holds at most; said here, so that it can be said of one run.
    steps_max: int = STEPS_MAX
    # What `init_todolist` fills the queues with where it is not told, so that it can be configured for one run.
    pre_workflow: Sequence[str | Mapping[str, Any]] = ()
    post_workflow: Sequence[str | Mapping[str, Any]] = ()

    def init_todolist(
        self,
        pre_workflow: Iterable[str | Mapping[str, Any]] | None = None,
        post_workflow: Iterable[str | Mapping[str, Any]] | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> list[str]:
        """
        Clear the queues `pre` and `post` and fill them; return the names of steps that had no room.

        A step is a name, or a dict with `name` and, where it has any, `params`. What is not given the run was made
        with, if with any. `todo` stays as it is. What has no room is refused, and each refusal recorded.

        Raises:
            RunStateError: both are empty (a RuntimeError), or the run is closed.
            InvalidInputError: a step without a name, or with parameters that are no JSON.
        """
        pre = self.pre_workflow if pre_workflow is None else pre_workflow
        post = self.post_workflow if post_workflow is None else post_workflow
        queues = {"pre": tuple(map(_step, pre)), "post": tuple(map(_step, post))}
        if not any(queues.values()):
            raise RunStateError("TodoListManager.init_todolist requires pre_workflow or post_workflow definitions.")
        command = LoadSteps(queues, self.steps_max)
        call = Without(command, "capacity")
        events = self._change(command, None, idempotency_key, catch_up=True, call=call).events
        return [event.name for event in events if isinstance(event, StepRefused)]

    def append_todo(
        self,
        name: str,
        params: Any = None,
        list_type: str = "todo",
        *,
        idempotency_key: str | None = None,
    ) -> bool:
        """
        Put a step at the end of a queue, and return whether there was room; that there was none is recorded too.

        Raises:
            InvalidInputError: no such queue, no name, or parameters that are no JSON.
            RunStateError: the run is closed.
        """
        command = QueueStep(require_queue(list_type), _step({"name": name, "params": params}), self.steps_max)
        call = Without(command, "capacity")
        events = self._change(command, None, idempotency_key, catch_up=True, call=call).events
        return any(isinstance(event, StepQueued) for event in events)

    def pop_todo(self, list_type: str = "todo", *, idempotency_key: str | None = None) -> QueuedStep | None:
        """
        Take the next step of a queue, the oldest or one that was given back; None from an empty one.

        Of two processes that take at the same time each gets another step.

        Raises:
            InvalidInputError: no such queue.
            RunStateError: the run is closed.
        """
        events = self._change(TakeStep(require_queue(list_type)), None, idempotency_key, catch_up=True).events
        taken = next((event for event in events if isinstance(event, StepTaken)), None)
        if taken is None:
            return None
        if taken.step > self.version:
            # It was taken under this key by somebody else, of whom this view has not heard.
            self.refresh()
        (queued,) = self._journal.events(after=taken.step - 1, until=taken.step)
        assert isinstance(queued, StepQueued)
        return QueuedStep(queued.name, parse_json(queued.params), taken.step)

    def return_step(self, step: QueuedStep | int, *, idempotency_key: str | None = None) -> None:
        """
        Give a step back that `pop_todo` gave: it is the first of its queue again.

        Raises:
            NotFoundError: it is not taken, or was given back already.
            RunStateError: the run is closed.
        """
        version = step.version if isinstance(step, QueuedStep) else step
        self._change(ReturnStep(version), None, idempotency_key, catch_up=True)

    def clear_steps(self, *list_types: str, idempotency_key: str | None = None) -> None:
        """
        Let all steps leave some queues, or all three.

        Raises:
            InvalidInputError: no such queue.
            ConcurrencyError: another writer came first.
        """
        command = ClearSteps(tuple(map(require_queue, list_types or QUEUES)))
        self._change(command, None, idempotency_key, catch_up=False)

    def record_messages(self, *messages: Any, idempotency_key: str | None = None) -> None:
        """
        Record messages of the dialogue, of any make, system messages too: all of them or none.

        Raises:
            InvalidInputError: one of them is no message, or holds what is no JSON.
        """
        records = tuple(
            canonical_json(message_to_dict(message), what=f"message {index}") for index, message in enumerate(messages)
        )
        if records:
            self._change(RecordMessages(records), None, idempotency_key, catch_up=True)

    def close(self, reason: str | None = None, *, idempotency_key: str | None = None) -> None:
        """End the run: no node, edge, pointer or step comes any more. Nodes that are there can still be corrected."""
        self._change(Close(reason), None, idempotency_key, catch_up=True)


def _step(given: str | Mapping[str, Any]) -> Step:
    definition = {"name": given} if isinstance(given, str) else given
    name = definition.get("name") if isinstance(definition, Mapping) else None
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"a step is a name, or a dict with one under 'name', not {given!r}")
    params = definition.get("params")
    stored = b"" if params is None else canonical_json(params, what=f"the parameters of the step {name!r}")
    return Step(require_unicode(name, "the name of a step"), stored)

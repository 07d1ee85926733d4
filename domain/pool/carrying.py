"""
Carrying a change out: its hooks are asked, it is recorded, and where something came between, asked and recorded anew.

What may wait for a disk is done in a thread, so that the loop goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ..concurrency.threads import finished_in_thread, in_thread
from ..context.journal import CATCH_UPS_MAX, Journal, Outcome
from ..context.transaction import current_transaction
from ..errors import ConcurrencyError
from ..log.envelope import RecordedEvent
from .changes import Change, staged
from .commands import Command
from .state import ContainerState

if TYPE_CHECKING:
    from .container import Container

R = TypeVar("R")


async def carried_out(
    container: Container[Any],
    journal: Journal[ContainerState],
    change: Change,
    expected_version: int | None,
    key: str | None,
) -> Outcome:
    """
    Ask the hooks of a container, if it has any for this, and record a change.

    Raises:
        ConcurrencyError: another writer came first, and it is an edit, or strict by `expected_version`.
        whatever a hook raises: then nothing was recorded.
    """
    before = await repeated(journal, change, key)
    if before is not None:
        return before
    came_between: tuple[RecordedEvent, ...] = ()
    for attempt in range(CATCH_UPS_MAX):
        state, command = await _prepared(container, journal, change)
        expected = state.version if expected_version is None else expected_version
        if expected == state.version and any(container.has_hooks(name) for name in change.asked):
            # What the rules refuse no hook hears of.
            container.decider.decide(command, state)
            with staged(container, state) as stage:
                await change.announce(container, stage)
            expected = _version_told(journal.state, state)
        record = partial(journal.execute, command, call=change.call, expected_version=expected, idempotency_key=key)
        try:
            outcome = await _waiting(container, journal, record)
        except ConcurrencyError:
            # Where only this view went on, while its hooks were asked, nobody else came first.
            is_behind = journal.version == expected
            is_final = expected_version is not None or (is_behind and not change.catches_up)
            if is_final or attempt == CATCH_UPS_MAX - 1:
                raise
            came_between += await in_thread(journal.refresh) if is_behind else ()
            continue
        journal.came_between = came_between
        return outcome
    raise AssertionError("the loop returns or raises")


async def repeated(journal: Journal[ContainerState], change: Change, key: str | None) -> Outcome | None:
    """Return what was recorded by a change under its key, if it was: what it did then may not be possible any more."""
    open_transaction = current_transaction(journal.log)
    has_key = key is not None if open_transaction is None else open_transaction.idempotency_key is not None
    return await finished_in_thread(partial(journal.repeated, change.call, key)) if has_key else None


async def _prepared(
    container: Container[Any], journal: Journal[ContainerState], change: Change
) -> tuple[ContainerState, Command]:
    def prepare() -> tuple[ContainerState, Command]:
        state = journal.state
        return state, change.prepare(container, state)

    # Most changes need the state alone: a thread would cost more than all of it.
    is_at_hand = journal.is_loaded and not change.is_long
    return prepare() if is_at_hand else await _waiting(container, journal, prepare)


def _version_told(now: ContainerState, told: ContainerState) -> int:
    """Return the version on which what the hooks were told holds: one of them may have given a version a name."""
    is_same = now.items is told.items and (now.limit, now.tags) == (told.limit, told.tags)
    return now.version if is_same else told.version


async def _waiting(container: Container[Any], journal: Journal[ContainerState], work: Callable[[], R]) -> R:
    """Do what may wait for a disk in a thread; where there is none to wait for, right here."""
    may_wait = not container.is_detached and (journal.durability == "commit" or not journal.is_loaded)
    return await finished_in_thread(work) if may_wait else work()

"""Branching: one event that begins a container where another one stands (SPEC P3, P4.14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..context.attachment import Home
from ..context.journal import Journal
from ..context.view import Place
from ..errors import ConcurrencyError, InvalidInputError
from ..ids import stream_id
from ..spans import Segment
from ..totals import Totals
from .commands import Begin
from .events import BranchedEvent
from .read_only import ReadOnly
from .state import ContainerState, fold

if TYPE_CHECKING:
    from .container import Container


def branch_of(
    parent: Container[Any], limit: int | None, context_id: str | None, key: str | None
) -> tuple[Journal[ContainerState], Home]:
    """
    Begin a branch of what `parent` shows, and return what it stands on.

    Raises:
        InvalidInputError: the id cannot be one or is taken.
    """
    # What a branch names must not come after it on disk.
    parent.flush()
    event = _branched(parent, limit)
    home = parent.home
    stream = stream_id(parent.kind.name, context_id or home.child_id(parent.stream, parent.shown_state.ancestry, key))
    journal: Journal[ContainerState] = Journal(
        home.log,
        Place(stream, event.root, event.agent),
        parent.decider,
        version=0,
        unflushed=home.unflushed,
        base=fold(parent.recorded_state, (event,)),
    )
    version = parent._at_version if isinstance(parent, ReadOnly) else None
    try:
        call = ("branch", parent.stream, version, limit)
        journal.execute(Begin(event), call=call, idempotency_key=key, catch_up=False)
    except ConcurrencyError as error:
        raise InvalidInputError(f"{stream} exists already: branch under another id") from error
    # That a container exists is never queued: everything that is queued on it hangs on that.
    journal.durability = home.durability
    return journal, home


def _branched(parent: Container[Any], limit: int | None) -> BranchedEvent:
    state = parent.recorded_state
    opened = state.opened
    if opened is None:
        raise InvalidInputError(f"{parent.stream}@{parent.version} is before it began: branch a later version")
    total = Totals()
    kept = state.items.values()
    for held in kept if limit is None else kept[-limit:]:
        total += held.totals
    return parent.kind.branched(
        parent=parent.stream,
        version=parent.version,
        lineage=(*state.ancestry, Segment(parent.stream, parent.version)),
        root=parent.root,
        limit=limit,
        tags=state.tags,
        change=total,
        user=opened.user,
        session=opened.session,
        agent=opened.agent,
    )

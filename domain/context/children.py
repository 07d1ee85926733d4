"""Forks and branches: a child of a context begins with one event, which names its parent."""

from __future__ import annotations

from typing import Any, TypeVar

from ..errors import ConcurrencyError
from ..ids import split_stream_id, stream_id
from .context import Attachment
from .decider import Decider
from .folded_stream import Place
from .journal import Journal
from .transaction import child_exists

S = TypeVar("S")


def begin_child(
    attachment: Attachment,
    decider: Decider[S],
    event: Any,
    base: S,
    *,
    begin: object,
    call: object,
    context_id: str | None,
    key: str | None,
) -> Journal[S]:
    """
    Record a child's first event, `event`, by the command `begin`, and return its journal; `base` is its first state.

    Raises:
        InvalidInputError: the id is malformed or taken.
    """
    kind = split_stream_id(event.lineage[-1].stream)[0]
    stream = stream_id(kind, attachment.child_id(event.lineage, key) if context_id is None else context_id)
    place = Place(stream, event.root, event.agent)
    journal = Journal(attachment.log, place, decider, version=0, unflushed=attachment.unflushed, base=base)
    try:
        journal.execute(begin, call=call, idempotency_key=key, catch_up=False)
    except ConcurrencyError as error:
        if error.stream != stream:
            raise
        raise child_exists(stream) from error
    # The first event is never queued, because all queued events of the context depend on it.
    journal.durability = attachment.durability
    return journal

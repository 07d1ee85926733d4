"""The other context of a merge, as seen from the log of the receiving context."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, get_args

from ..arguments import require_instance
from ..context.adopt import adopted_copy
from ..context.context import Attachment
from ..context.folded_stream import Place
from ..context.journal import Journal
from ..context.transaction import current_or_new_transaction, log_within
from ..errors import InvalidInputError
from ..spans import Segment
from .item_events import MADE_UP, as_given
from .rules.commands import Merge, MergeRule, MergeSource
from .rules.decide import CHAT
from .rules.merging import fork_point
from .state.fold import ChatState
from .state.loading import complete
from .state.sequence import Items
from .view import ChatView


@contextmanager
def merge_source_at(
    attachment: Attachment,
    place: Place,
    other: ChatView[Any],
    key: str | None,
    is_wanted: Callable[[MergeSource], bool] = lambda _: True,
) -> Iterator[tuple[MergeSource, str | None]]:
    """
    Yield the other context of a merge into the chat at `place`, and the idempotency key for the event of the merge.

    A context in another log is adopted if `is_wanted` returns true: its events and the merge are one transaction. The
    transaction takes the key then, and the event of the merge gets none.
    """
    state = other._source.settled()
    if other._attachment.log is attachment.log:
        yield _side(other.stream_id, state), key
        return
    system = attachment.system
    copy = adopted_copy(
        other._attachment.log, other.stream_id, into=attachment.log, beside=place.stream, root=place.root, system=system
    )
    events = copy.log.read_events(copy.stream, until=other.version)
    side = _side(copy.stream, CHAT.fold(CHAT.initial_state, complete(copy.log, events)))
    if not is_wanted(side):
        yield side, key
        return
    with current_or_new_transaction(attachment.log, idempotency_key=key) as current:
        for new in copy.events:
            current.add(new)
        yield side, None


def require_chat(other: object) -> None:
    """
    Check the other context of a merge.

    Raises:
        InvalidInputError: it is no chat.
    """
    require_instance(other, ChatView, "the other context", "give a chat, as `store.chat(id)` returns it")


def require_merge(other: object, base: str | None, rule: str) -> None:
    """
    Check the arguments of a merge.

    Raises:
        InvalidInputError: `other` is no chat, or there is no such base or rule.
    """
    require_chat(other)
    if base not in ("auto", None):
        raise InvalidInputError(f"base is {base!r}: take 'auto' or None")
    if rule not in get_args(MergeRule):
        raise InvalidInputError(f"on_conflict is {rule!r}: take 'ours', 'theirs' or 'newest'")


def merge_source_identity(other: ChatView[Any], attachment: Attachment) -> tuple[object, ...]:
    """
    Return values that identify the other context, for comparing repeated calls.

    The id of a detached context means nothing in another log, so its items are added.
    """
    is_nameless = other.is_detached and other._attachment.log is not attachment.log
    held = [as_given(item, *MADE_UP) for item in other._state.items] if is_nameless else None
    return other.stream_id, other._version_asked, held


def _side(stream: str, state: ChatState) -> MergeSource:
    # The version of this state: another thread may have changed the other context since.
    return MergeSource(stream, state.version, state.items, state.ancestry)


def merge_with(side: MergeSource, writer: Journal[ChatState], *, has_base: bool, **about: Any) -> Merge:
    """Return the command that merges the other side; with `has_base` from the last version that both share."""
    base = None
    if has_base:
        ours = (*writer.state.ancestry, Segment(writer.place.stream, writer.version))
        base = fork_point(ours, (*side.ancestry, Segment(side.stream, side.version)))
    base_items = None if base is None else items_at(base, writer)
    return Merge(stream=writer.place.stream, other=side, base=base, base_items=base_items, **about)


def items_at(base: Segment, journal: Journal[ChatState]) -> Items:
    """Return the items of a version of this context or of one of its ancestors."""
    if base.stream == journal.place.stream:
        return journal.past(base.version).items
    # The fork and its parent's events may belong to the open transaction.
    log = log_within(journal.log)
    events = log.read_events(base.stream, until=base.version)
    return CHAT.fold(CHAT.initial_state, complete(log, events)).items

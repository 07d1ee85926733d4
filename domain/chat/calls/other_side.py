"""The other context of a merge, seen from the log of the one that takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...context.adopt import adopted_copy
from ...context.transaction import current_or_new_transaction
from ..rules.commands import OtherSide
from ..rules.decide import CHAT
from ..state.fold import ChatState
from ..state.loading import complete
from .home import ChatHome
from .reading import ChatView
from .writing import MADE_UP, LiveSource, as_given


@contextmanager
def seen_from(
    home: ChatHome, stream: str, root: str, other: ChatView, key: str | None, is_wanted: Callable[[OtherSide], bool]
) -> Iterator[tuple[OtherSide, str | None]]:
    """
    Yield the other side of a merge into `stream`, and the idempotency key that is left for the merge itself.

    A context of another log is adopted on the way, if it `is_wanted`: its events and the merge are one transaction,
    which bears the key.
    """
    source = other._source
    if source.home.is_shared_with(home):
        source.settle()
        yield _side(source.stream, source.version, source.state), key
        return
    source.settle()
    copy = adopted_copy(source.home.log, source.stream, beside=stream, root=root, system=home.system)
    events = copy.log.read_events(copy.stream, until=source.version)
    state = CHAT.fold(CHAT.initial_state, complete(copy.log, events))
    side = _side(copy.stream, source.version, state)
    if not is_wanted(side):
        yield side, key
        return
    with current_or_new_transaction(home.log, idempotency_key=key) as current:
        for new in copy.events:
            current.add(new)
        yield side, None


def named_as_given(view: ChatView) -> tuple[object, ...]:
    """Return what stands for a context in the fingerprint of a call: its name, and its version if one was given."""
    source = view._source
    return source.stream, None if isinstance(source, LiveSource) else source.version


def other_as_given(other: ChatView, home: ChatHome) -> tuple[object, ...]:
    """
    Return the same for one that may lie elsewhere; a detached one, whose name says nothing there, with what it holds.
    """
    source = other._source
    is_nameless = source.home.is_detached and not source.home.is_shared_with(home)
    held = [as_given(item, *MADE_UP) for item in source.state.items] if is_nameless else None
    return (*named_as_given(other), held)


def _side(stream: str, version: int, state: ChatState) -> OtherSide:
    return OtherSide(stream, version, state.items, state.ancestry)

"""Who is let in: the budget, and who makes room (SPEC A2.2, A2.3, A2.6, A2.16)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import asdict

from ...spans import Ref, Span, spans_of
from ...totals import Totals
from ..events import WindowAdded, WindowDropped, WindowEvent, WindowEvicted, WindowReplaced
from ..items import QUARTERS_PER_TOKEN, Held
from ..state.fold import WindowState
from .commands import Incoming


def admitted(incoming: Incoming, old: Sequence[Held], state: WindowState) -> list[WindowEvent]:
    """Return the events of an item that wants to come in, in the place of `old` if there are any."""
    quarters = state.held.quarters - sum(held.quarters for held in old) + incoming.quarters
    leaving = _leaving(incoming, quarters, old, state)
    if leaving is None:
        tokens = quarters // QUARTERS_PER_TOKEN
        return [WindowDropped(**asdict(incoming), tokens=tokens, max_tokens=state.max_tokens)]
    if not leaving:
        return [_arrived(incoming, old, state.held.quarters)]
    left = state.held.quarters - sum(held.quarters for held in leaving)
    return [evicted(leaving, state.held.quarters, how="room"), _arrived(incoming, old, left)]


def _leaving(incoming: Incoming, quarters: int, old: Collection[Held], state: WindowState) -> list[Held] | None:
    """
    Return who makes room where the window would hold `quarters`: nobody, or None where that is not enough.

    What is shown last leaves first: the lowest priority, and of that the newest. So the beginning of the prompt stays
    as it is, and who came first has the better right, as in the seed. Only what matters less than the item leaves.
    """
    excess = quarters - (QUARTERS_PER_TOKEN * (state.max_tokens + 1) - 1)
    if excess <= 0:
        return []
    if state.policy != "evict_lower_priority":
        return None
    lower = sorted(priority for priority in state.by_priority if priority < incoming.priority)
    groups = [group for priority in lower if (group := state.by_priority.get(priority)) is not None]
    # Nothing leaves for an item that will not fit all the same.
    if sum(group.quarters for group in groups) < excess:
        return None
    leaving: list[Held] = []
    for held in (held for group in groups for held in reversed(group.in_order()) if held not in old):
        leaving.append(held)
        excess -= held.quarters
        if excess <= 0:
            return leaving
    return None


def added(incoming: Incoming, before: int) -> WindowAdded:
    """Return the event of an item that comes to those of `before` quarters."""
    return WindowAdded(**asdict(incoming), change=change_of(before, before + incoming.quarters, 1))


def _arrived(incoming: Incoming, old: Sequence[Held], before: int) -> WindowEvent:
    if not old:
        return added(incoming, before)
    after = before - sum(held.quarters for held in old) + incoming.quarters
    return WindowReplaced(**asdict(incoming), old=named(old), change=change_of(before, after, 1 - len(old)))


def evicted(leaving: Sequence[Held], before: int, *, how: str, reason: str | None = None) -> WindowEvicted:
    """Return the event of items that leave a window of `before` quarters."""
    after = before - sum(held.quarters for held in leaving)
    return WindowEvicted(items=named(leaving), change=change_of(before, after, -len(leaving)), how=how, reason=reason)


def named(items: Sequence[Held], stream: str = "") -> tuple[Span, ...]:
    """Return how an event names items."""
    return spans_of(Ref(held.version, stream) for held in items)


def change_of(before: int, after: int, items: int) -> Totals:
    """
    Return the change from one size in quarters to another; it counts whole tokens, as the window does (SPEC A2.5).
    """
    return Totals(items, 0, after // QUARTERS_PER_TOKEN - before // QUARTERS_PER_TOKEN)

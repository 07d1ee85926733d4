"""Summaries: which items are summarised, which stay, and how to undo a summary."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...arguments import require_optional, require_whole
from ...errors import DecisionRefusedError, NotFoundError
from .. import events as chat
from ..pairing import pair_calls
from ..state.fold import ChatState
from ..state.item_table import totals_of
from ..state.sequence import Items
from .commands import Summarize, UndoSummary
from .edits import spans_by_age, with_partners
from .thinking import last_thinking, leads
from .truncation import begins_answer


class SummaryPlan(msgspec.Struct, frozen=True):
    """
    The plan of a summary.

    `items` are summarised, in this order. `prior` are the earlier summaries that it includes, `before` is the first
    item after it that stays, and `created_at` its time.
    """

    items: tuple[chat.ChatItemEvent, ...]
    prior: tuple[chat.MessageAdded, ...]
    before: str
    created_at: float


def plan_summary(items: Items, keep_recent_turns: int, keep_items: int | None = None) -> SummaryPlan | None:
    """
    Return the plan of a summary, or None if there is nothing to summarise.

    It covers everything before the `keep_recent_turns`-th last user message, or before the last `keep_items` items and
    the answer that they begin in, except handoffs, config updates, instructions, the last user message, pinned items,
    calls whose output stays, and thinking whose answer stays. Earlier summaries are included in the new one.

    Raises:
        InvalidInputError: a negative number of turns, or no item is to stay.
    """
    require_whole(keep_recent_turns, "keep_recent_turns")
    shown = list(items)
    cut = _turn_at(shown, keep_recent_turns) if keep_items is None else _answer_at(shown, keep_items)
    if cut is None:
        return None
    covered = _covered(items, shown, cut)
    folded = tuple(item for item in covered if not chat.is_summary(item))
    if not folded:
        return None
    prior = tuple(item for item in covered if isinstance(item, chat.MessageAdded) and chat.is_summary(item))
    return SummaryPlan(folded, prior, shown[cut].id, shown[cut - 1].created_at)


def _turn_at(shown: Sequence[chat.ChatItemEvent], keep: int) -> int | None:
    users = [place for place, item in enumerate(shown) if chat.is_user(item)]
    # With 0 this is users[0]: then the turns from the first user message on are all kept.
    return users[-keep] if len(users) > keep else None


def _answer_at(shown: Sequence[chat.ChatItemEvent], keep: int) -> int | None:
    """Return the place of the first of the last items, or of the answer that it belongs to, which stays whole."""
    cut = len(shown) - require_whole(keep, "keep_items", least=1)
    if cut <= 0:
        return None
    pairs = pair_calls(shown)
    partners = (pairs.partner(place) for place in range(cut, len(shown)))
    cut = min([cut, *(place for place in partners if place is not None)])
    is_call = isinstance(shown[cut], chat.FunctionCalled)
    while is_call and cut and isinstance(shown[cut - 1], chat.FunctionCalled):
        cut -= 1
    if is_call and cut and begins_answer(shown[cut - 1]):
        cut -= 1
    while cut and leads(shown[cut - 1], shown[cut]):
        cut -= 1
    return cut


def _covered(items: Items, shown: Sequence[chat.ChatItemEvent], cut: int) -> list[chat.ChatItemEvent]:
    """Return the items before the place `cut` that may leave the view, earlier summaries among them."""
    pairs, thinking = pair_calls(shown), last_thinking(shown)
    order = items.order()
    question = max((place for place, item in enumerate(shown) if chat.is_user(item)), default=-1)
    waiting = [
        place
        for place, item in enumerate(shown)
        if place >= cut
        or place == question
        or isinstance(item, chat.ABOUT_CONVERSATION)
        or chat.is_instructions(item)
        or items.is_pinned(order[place])
    ]
    staying: set[int] = set()
    while waiting:
        place = waiting.pop()
        if place in staying:
            continue
        staying.add(place)
        # A call and its output stay or leave together, and so do thinking and what it led to.
        partner = pairs.partner(place)
        waiting += [] if partner is None else [partner]
        waiting += [] if (before := thinking[place]) is None else [before]
        waiting += [place + 1] if place < cut and thinking[place + 1] == place else []
    return [item for place, item in enumerate(shown[:cut]) if place not in staying]


def decide_summary(command: Summarize, state: ChatState) -> list[chat.ChatEvent]:
    """
    Return the event that replaces items by their summary.

    Raises:
        DecisionRefusedError: one of the items was evicted or pinned while the summary was written.
    """
    items = state.items
    folded = [_summarizable(command, item_id, items) for item_id in command.folded]
    parted = set(with_partners(items, folded)).difference(folded)
    if parted:
        # The output of a call arrived meanwhile; without the call it would be alone.
        raise DecisionRefusedError(_why_refused(command.stream, items.item_table.items[min(parted)].id))
    before = items.visible_ordinal(command.before)
    if before is None:
        raise DecisionRefusedError(_why_refused(command.stream, command.before))
    return [
        chat.Summarized(
            item=command.summary,
            before=items.ref(before),
            folded=spans_by_age(items, folded),
            change=totals_of(command.summary) - items.total_of(folded),
            model=command.model,
        )
    ]


def _summarizable(command: Summarize, item_id: str, items: Items) -> int:
    ordinal = items.visible_ordinal(item_id)
    if ordinal is None or items.is_pinned(ordinal):
        raise DecisionRefusedError(_why_refused(command.stream, item_id))
    return ordinal


def _why_refused(stream: str, item_id: str) -> str:
    return f"item {item_id!r} of {stream} was added, evicted or pinned while the summary was written: summarise again"


def undo_summary(command: UndoSummary, state: ChatState) -> list[chat.ChatEvent]:
    """
    Return the event that removes a summary, without an id the last one, and puts back the summarised items.

    Raises:
        NotFoundError: no such summary is in the view, or `summarize` did not make it.
    """
    items = state.items
    folded = {summary: ordinals for summary, ordinals in items.folded().items() if items.shows(summary)}
    wanted = require_optional(command.summary_id, "the summary")
    summary = max(folded, default=None) if wanted is None else items.visible_ordinal(wanted)
    if summary is None or summary not in folded:
        which = "no summary" if wanted is None else f"no summary {wanted!r}"
        raise NotFoundError(f"{command.stream} shows {which} that could be undone")
    back = with_partners(items, folded[summary], are_gone=True)
    change = items.total_of(back) - totals_of(items.item_table.items[summary])
    return [chat.SummaryUndone(summary=items.ref(summary), items=spans_by_age(items, back), change=change)]

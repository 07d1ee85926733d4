"""
What an edit did, in words: what, how many items, why, from where.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...domain.chat.events import (
    ChatItemEvent,
    Cleared,
    ConflictResolved,
    EditEvent,
    Forked,
    InstructionsReplaced,
    ItemInserted,
    ItemsEvicted,
    ItemsPinned,
    ItemsRestored,
    ItemsUnpinned,
    Merged,
    Summarized,
    SummaryUndone,
    Totals,
)
from ...domain.chat.spans import Span
from .naming import count_of, counted, places_of, source_of
from .speaking import body_of, speaker_of

__all__ = ["edit_summary"]

FORKS = {"full": "everything", "filtered": "the last turns", "brief": "nothing", "copy": "a copy"}


def edit_summary(event: EditEvent) -> str:
    """
    Return what an edit did, in one sentence.
    """
    match event:
        case ItemInserted():
            return f"before {source_of(event.before.stream, event.before.version)}: {_said(event.item)}"
        case InstructionsReplaced():
            return f"in the place of {_items(event.replaced)}: {_said(event.item)}"
        case ItemsEvicted() | ItemsRestored():
            how = f"by {event.how}" if isinstance(event, ItemsEvicted) and event.how != "evict" else ""
            return _joined([_items(event.items), _tokens(event.change), how, _why(event.reason)])
        case ItemsPinned() | ItemsUnpinned():
            return _joined([_items(event.items), _why(event.reason)])
        case Cleared():
            return _joined([counted(-event.change.items, "item"), _tokens(event.change), _why(event.reason)])
        case Summarized():
            by = f"by {event.model}" if event.model else ""
            return _joined([_items(event.folded), by]) + f": {_said(event.item)}"
        case SummaryUndone():
            summary = source_of(event.summary.stream, event.summary.version)
            return f"{_items(event.items)} back in the place of the summary {summary}"
        case Forked() | Merged() | ConflictResolved():
            return _of_two(event)


def _of_two(event: Forked | Merged | ConflictResolved) -> str:
    match event:
        case Forked():
            carried = FORKS.get(event.how, event.how)
            if event.carried:
                carried += f": {_items(event.carried)}"
            config = "instructions and tools in force" if event.config else ""
            return _joined([f"from {source_of(event.parent, event.version)}", carried, config])
        case Merged(how="summary"):
            return f"{source_of(event.source, event.version)}, {_items(event.told)} told by a summary"
        case Merged():
            placed = [span for placement in event.placed for span in placement.items]
            base = source_of(event.base.stream, event.base.version) if event.base else ""
            return _joined([
                f"{source_of(event.source, event.version)}",
                "its result" if event.how == "result" else "",
                _items(placed) if placed else "no items",
                f"since {base}" if base else "",
                f"stays here though evicted there: {_items(event.evicted)}" if event.evicted else "",
            ])  # fmt: skip
        case ConflictResolved():
            sides = f"ours {places_of(event.ours)}, theirs {places_of(event.theirs)}"
            return f"{event.kind}: {event.kept} kept, as {event.rule!r} wants it; {sides}"


def _said(item: ChatItemEvent) -> str:
    return f"{speaker_of(item)}: {body_of(item)}"


def _items(spans: Sequence[Span]) -> str:
    return f"{counted(count_of(spans), 'item')} ({places_of(spans)})"


def _tokens(change: Totals) -> str:
    return f"about {abs(change.tokens):,} tokens"


def _why(reason: str | None) -> str:
    return f"because: {reason}" if reason else ""


def _joined(parts: Iterable[str]) -> str:
    return ", ".join(part for part in parts if part)

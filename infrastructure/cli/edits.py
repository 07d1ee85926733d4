"""What an edit did, in words: what, how many items, why, from where."""

from __future__ import annotations

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
)
from .naming import because, counted, joined, named, places_of, sized, source_of
from .speaking import body_of, speaker_of

FORKS = {"full": "everything", "filtered": "the last turns", "brief": "nothing", "copy": "a copy"}


def edit_summary(event: EditEvent) -> str:
    """Return what an edit did, in one sentence."""
    match event:
        case ItemInserted():
            return f"before {source_of(event.before.stream, event.before.version)}: {_said(event.item)}"
        case InstructionsReplaced():
            return f"in the place of {named(event.replaced)}: {_said(event.item)}"
        case ItemsEvicted() | ItemsRestored():
            how = f"by {event.how}" if isinstance(event, ItemsEvicted) and event.how != "evict" else ""
            return joined([named(event.items), sized(event.change), how, because(event.reason)])
        case ItemsPinned() | ItemsUnpinned():
            return joined([named(event.items), because(event.reason)])
        case Cleared():
            return joined([counted(-event.change.items, "item"), sized(event.change), because(event.reason)])
        case Summarized():
            by = f"by {event.model}" if event.model else ""
            return joined([named(event.folded), by]) + f": {_said(event.item)}"
        case SummaryUndone():
            summary = source_of(event.summary.stream, event.summary.version)
            return f"{named(event.items)} back in the place of the summary {summary}"
        case Forked() | Merged() | ConflictResolved():
            return _of_two(event)


def _of_two(event: Forked | Merged | ConflictResolved) -> str:
    match event:
        case Forked():
            carried = FORKS.get(event.how, event.how)
            if event.carried:
                carried += f": {named(event.carried)}"
            config = "instructions and tools in force" if event.config else ""
            return joined([f"from {source_of(event.parent, event.version)}", carried, config])
        case Merged(how="summary"):
            return f"{source_of(event.source, event.version)}, {named(event.told)} told by a summary"
        case Merged():
            placed = [span for placement in event.placed for span in placement.items]
            base = source_of(event.base.stream, event.base.version) if event.base else ""
            return joined([
                f"{source_of(event.source, event.version)}",
                "its result" if event.how == "result" else "",
                named(placed) if placed else "no items",
                f"since {base}" if base else "",
                f"stays here though evicted there: {named(event.evicted)}" if event.evicted else "",
            ])  # fmt: skip
        case ConflictResolved():
            sides = f"ours {places_of(event.ours)}, theirs {places_of(event.theirs)}"
            return f"{event.kind}: {event.kept} kept, as {event.rule!r} wants it; {sides}"


def _said(item: ChatItemEvent) -> str:
    return f"{speaker_of(item)}: {body_of(item)}"

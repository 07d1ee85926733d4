"""The commands of a chat context, for which `decide` returns events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from ...context.decider import NameVersion
from ...named_events import Resolved
from ...spans import Segment
from ..events import ChatItemEvent, Forked, FunctionCalled, FunctionReturned, MessageAdded, Opened, StateSaved
from ..state.fold import ReferencedItem
from ..state.sequence import Items
from ..tokens import DEFAULT

MergeRule = Literal["ours", "theirs", "newest"]


class Open(msgspec.Struct, frozen=True):
    """Create the context."""

    opened: Opened


class Begin(msgspec.Struct, frozen=True):
    """
    Create the context as a fork, with messages of its own if there are any.

    This and other commands may hold a text that was made from recorded texts. `erasures` is the version of the erasures
    (`erasure.foreign_erasures`) at which those were read.
    """

    forked: Forked | Resolved[ReferencedItem]
    messages: tuple[MessageAdded, ...] = ()
    erasures: int | None = None


class AddItems(msgspec.Struct, frozen=True):
    """
    Put items at the end, in this order, all or none.

    `fresh` means that their ids were generated for this call. `new_at` is a version up to which the chat never held any
    of them, so that the state of that version need not be read.
    """

    stream: str
    items: tuple[ChatItemEvent, ...]
    fresh: bool = False
    new_at: int = -1


class AnswerCall(msgspec.Struct, frozen=True):
    """Add the output of a call, once; `call` is its call id or its item's id, and the output gets its name and id."""

    stream: str
    call: str
    output: FunctionReturned


class DecideCall(msgspec.Struct, frozen=True):
    """
    Ask for the approval of a call, or decide on it; `call` is its call id or its item's id.

    `output` is the output of a rejected call, `changed` the item of a changed one, both without its name and call id.
    """

    stream: str
    call: str
    state: Literal["requested", "approved", "changed", "rejected"]
    by: str | None
    reason: str | None = None
    output: FunctionReturned | None = None
    changed: FunctionCalled | None = None


class WritePiece(msgspec.Struct, frozen=True):
    """
    Add text to a message that is written piece by piece, behind its first `start` characters.

    Text that the message has already is not added again: a piece whose call was interrupted may be sent again.
    The last piece has `is_last`. `incomplete` is then the reason why more should have come, or None.
    """

    stream: str
    item_id: str
    start: int
    text: str
    is_last: bool = False
    incomplete: str | None = None
    metrics: bytes = b""


class SaveStates(msgspec.Struct, frozen=True):
    """Save data of a framework, in this order, all or none."""

    saved: tuple[StateSaved, ...]


class InsertItems(msgspec.Struct, frozen=True):
    """Put each item at the place that its time gives it, or all directly before the item `before`."""

    stream: str
    items: tuple[ChatItemEvent, ...]
    before: str | None = None


class ReplaceInstructions(msgspec.Struct, frozen=True):
    """Put a system message in the place of all system messages."""

    stream: str
    item: MessageAdded


class EvictItems(msgspec.Struct, frozen=True):
    """
    Take items out of the view; with `partners` a call, its output and the thinking that led to it leave together, and
    none that is pinned. Without it exactly these leave, as a framework deletes them.
    """

    stream: str
    ids: tuple[str, ...]
    reason: str | None = None
    partners: bool = True


class RestoreItems(msgspec.Struct, frozen=True):
    """
    Put items back into the view; without ids those that left last.

    Without `partners` neither outputs of calls, nor calls of outputs, nor thinking come along.
    """

    stream: str
    ids: tuple[str, ...] | None = None
    reason: str | None = None
    partners: bool = True


class PinItems(msgspec.Struct, frozen=True):
    """Pin items, so that no policy evicts them, or unpin them."""

    stream: str
    ids: tuple[str, ...]
    is_pinned: bool
    reason: str | None = None


class Clear(msgspec.Struct, frozen=True):
    """Take everything out of the view."""

    reason: str | None = None


class Truncate(msgspec.Struct, frozen=True):
    """
    Take the oldest items out of the view until the limits hold; `counter` counts the tokens of a text.

    Whole turns leave, or, without `whole_turns`, single items, each call with its output.
    """

    max_items: int | None = None
    max_tokens: int | None = None
    reason: str | None = None
    counter: Callable[[str], int] = DEFAULT
    whole_turns: bool = True


class Summarize(msgspec.Struct, frozen=True):
    """Replace items by their summary; `before` is the first item that is not summarised."""

    stream: str
    folded: tuple[str, ...]
    before: str
    summary: MessageAdded
    model: str | None = None
    erasures: int | None = None


class UndoSummary(msgspec.Struct, frozen=True):
    """Take a summary, without an id the last one, out of the view, and put back the items that it summarises."""

    stream: str
    summary_id: str | None = None


class MergeSource(msgspec.Struct, frozen=True):
    """The other context of a merge, at one version; `ancestry` has its ancestors, its parent last."""

    stream: str
    version: int
    items: Items
    ancestry: tuple[Segment, ...] = ()


class Merge(msgspec.Struct, frozen=True):
    """
    Add the items that another context has and this one never held.

    `base` is the last version that both share, or None. With `how` "result" only the other's last answer is added, with
    the given `agent_id`. `instructions` decides whether items that set instructions or tools are added, `rule` which
    side wins if both changed the same thing.
    """

    stream: str
    other: MergeSource
    base: Segment | None = None
    base_items: Items | None = None
    how: Literal["full", "result"] = "full"
    instructions: bool = False
    rule: MergeRule = "ours"
    agent_id: str | None = None


class AddOtherSummary(msgspec.Struct, frozen=True):
    """Add a message that summarises another context."""

    other: MergeSource
    summary: MessageAdded
    erasures: int | None = None


ChatCommand = (
    AddItems
    | Open
    | Begin
    | AnswerCall
    | DecideCall
    | WritePiece
    | NameVersion
    | SaveStates
    | InsertItems
    | ReplaceInstructions
    | EvictItems
    | RestoreItems
    | PinItems
    | Clear
    | Truncate
    | Summarize
    | UndoSummary
    | Merge
    | AddOtherSummary
)

"""The commands of a chat context, which `decide` turns into events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from ...spans import Segment
from ..events import ChatItemEvent, Forked, MessageAdded, Opened
from ..state.fold import Resolved
from ..state.sequence import Items
from ..tokens import DEFAULT

MergeRule = Literal["ours", "theirs", "newest"]


class Open(msgspec.Struct, frozen=True):
    """Bring the context into being."""

    opened: Opened


class Begin(msgspec.Struct, frozen=True):
    """Bring the context into being as a fork, with messages of its own where it has some."""

    forked: Forked | Resolved
    messages: tuple[MessageAdded, ...] = ()


class AddItems(msgspec.Struct, frozen=True):
    """Put items at the end, in this order, all or none; `fresh` says that their ids were drawn for them just now."""

    stream: str
    items: tuple[ChatItemEvent, ...]
    fresh: bool = False


class NameVersion(msgspec.Struct, frozen=True):
    """Give a version a name."""

    name: str
    version: int


class InsertItems(msgspec.Struct, frozen=True):
    """Put items where their time belongs."""

    stream: str
    items: tuple[ChatItemEvent, ...]


class ReplaceInstructions(msgspec.Struct, frozen=True):
    """Put a system message in the place of all there are."""

    stream: str
    item: MessageAdded


class EvictItems(msgspec.Struct, frozen=True):
    """Take items out of the view."""

    stream: str
    ids: tuple[str, ...]
    reason: str | None = None


class RestoreItems(msgspec.Struct, frozen=True):
    """Put items back into the view; without ids those that left last."""

    stream: str
    ids: tuple[str, ...] | None = None
    reason: str | None = None


class PinItems(msgspec.Struct, frozen=True):
    """Let no policy evict items, or let them go again."""

    stream: str
    ids: tuple[str, ...]
    is_pinned: bool
    reason: str | None = None


class Clear(msgspec.Struct, frozen=True):
    """Take everything out of the view."""

    reason: str | None = None


class Truncate(msgspec.Struct, frozen=True):
    """Take the oldest items out of the view until limits hold; `counter` says how tokens are counted."""

    max_items: int | None = None
    max_tokens: int | None = None
    reason: str | None = None
    counter: Callable[[str], int] = DEFAULT


class Summarize(msgspec.Struct, frozen=True):
    """Put a summary in the place of the items that it tells; `before` is the first that it does not."""

    stream: str
    folded: tuple[str, ...]
    before: str
    summary: MessageAdded
    model: str | None = None


class UndoSummary(msgspec.Struct, frozen=True):
    """Take a summary, the last one without an id, out of the view, and put back what it tells."""

    stream: str
    summary_id: str | None = None


class OtherSide(msgspec.Struct, frozen=True):
    """The other context of a merge, at one version; `ancestry` is its lineage, its parent last."""

    stream: str
    version: int
    items: Items
    ancestry: tuple[Segment, ...] = ()


class Merge(msgspec.Struct, frozen=True):
    """
    Take what another context has and this one has not.

    `base` is the point at which both were the same, None where there is none. `how` "result" takes the other's
    last answer alone, stamped with `agent_id`. `instructions` says whether what sets instructions or tools comes
    along; `rule` which side wins where both changed the same.
    """

    stream: str
    other: OtherSide
    base: Segment | None = None
    base_items: Items | None = None
    how: Literal["full", "result"] = "full"
    instructions: bool = False
    rule: MergeRule = "ours"
    agent_id: str | None = None


class TellOther(msgspec.Struct, frozen=True):
    """Add a message that tells what another context holds."""

    other: OtherSide
    summary: MessageAdded


# All but the append, which takes a shorter way.
Decision = (
    Open
    | Begin
    | NameVersion
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
    | TellOther
)
ChatCommand = AddItems | Decision

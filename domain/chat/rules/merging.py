"""
Merging two contexts: which items are added, where they go, and how conflicts are resolved.

A merge names items by the stream and version of the event that created them. An item that this context ever held is not
added again, evicted or not. So a second merge adds nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

import msgspec

from ...named_events import Resolved
from ...spans import OWN, Ref, Segment, Span, spans_of
from .. import events as chat
from ..pairing import is_spoken, pair_calls
from ..state.fold import ChatState, Completed, ReferencedItem
from ..state.sequence import Items
from .commands import AddOtherSummary, Merge, MergeRule
from .edits import ByTime, evicted, spans_by_age


def fork_point(ours: Sequence[Segment], theirs: Sequence[Segment]) -> Segment | None:
    """
    Return the last version that two contexts share, or None.

    Each context is given as its ancestors, the root first, followed by the context itself.
    """
    common: Segment | None = None
    for own, other in zip(ours, theirs, strict=False):
        if own.stream != other.stream:
            break
        common = Segment(own.stream, min(own.version, other.version))
        if own.version != other.version:
            break
    return common


def merge(command: Merge, state: ChatState) -> list[Completed]:
    """
    Return the events that add the other context's items that this one never held; none if there are none.

    Each item goes to the place that its time gives it; items that are here keep their order. Items that set
    instructions or tools are left out unless the command asks for them.
    """
    other, ours = command.other, state.items
    wanted = _new_ordinals(command, state)
    conflicts: list[chat.ChatEvent] = []
    winning, ahead = set[int](), dict[int, int]()
    if command.how == "full":
        config = _Config(command, state, wanted)
        summaries = _Summaries(command, state, wanted)
        conflicts = [*config.conflicts, *summaries.conflicts]
        wanted = [ordinal for ordinal in wanted if ordinal not in config.left_out | summaries.left_out]
        conflicts += _stranded(command, wanted, ours)
        conflicts += _superseded(command, wanted, ours)
        winning, ahead = config.winning, config.ahead
    if not wanted and (not conflicts or _is_known(command, conflicts, state)):
        return []
    taken = _placed(command, wanted, ours, winning, ahead)
    event = chat.Merged(
        source=other.stream,
        version=other.version,
        how=command.how,
        base=command.base,
        placed=tuple(chat.Placement(before, spans_of(one.ref for one in group)) for before, group in taken),
        evicted=_evicted_there(command, ours),
        agent_id=command.agent_id,
        change=other.items.total_of(wanted),
        extents=chat.extents_of(
            (_ref_here(command, ordinal), other.items.item_table.items[ordinal]) for ordinal in wanted
        ),
    )
    return [Resolved(event, tuple(one for _, group in taken for one in group)), *conflicts]


def add_other_summary(command: AddOtherSummary, state: ChatState) -> list[Completed]:
    """Return the events that add a summary of the other context; none if that version was summarised before."""
    other = command.other
    if state.merged.get((other.stream, "summary")) == other.version:
        return []
    spans = spans_by_age(other.items, other.items.order())
    summarised = tuple(msgspec.structs.replace(span, stream=span.stream or other.stream) for span in spans)
    merged = chat.Merged(source=other.stream, version=other.version, how="summary", told=summarised)
    return [Resolved(merged, ()), command.summary]


def _new_ordinals(command: Merge, state: ChatState) -> list[int]:
    other = command.other.items
    order: Sequence[int] = other.order()
    if command.how == "result":
        answers = [o for o in order if is_spoken(other.item_table.items[o])]
        order = answers[-1:]
    return [ordinal for ordinal in order if state.items.ordinal(other.item_table.items[ordinal].id) is None]


def _is_known(command: Merge, conflicts: Sequence[chat.ChatEvent], state: ChatState) -> bool:
    """Whether this version was merged before, and merging it again would change nothing."""
    changes_nothing = all(isinstance(event, chat.ConflictResolved) for event in conflicts)
    return changes_nothing and state.merged.get((command.other.stream, command.how)) == command.other.version


def _stranded(command: Merge, wanted: Sequence[int], ours: Items) -> list[chat.ChatEvent]:
    """Evict at once the added outputs whose calls were evicted here, since a call and its output stay together."""
    other, coming = command.other.items, set(wanted)
    stranded = []
    for output, call in _calls_of_outputs(other).items():
        here = ours.ordinal(other.item_table.items[call].id)
        if output in coming and here is not None and not ours.shows(here):
            stranded.append(output)
    if not stranded:
        return []
    named, change = _spans_here(command, stranded), -other.total_of(stranded)
    return [chat.ItemsEvicted(items=named, change=change, how="merge", reason="its call had left the view")]


def _superseded(command: Merge, wanted: Sequence[int], ours: Items) -> list[chat.ChatEvent]:
    """
    Evict calls that wait here and that a person changed there: the added call has the new arguments.

    Otherwise an output for the new arguments would answer the old call, since both have one call id. If the call was
    answered here meanwhile, the added call leaves instead, unless it was answered as well: nobody is to run it now.
    """
    other, coming = command.other.items, set(wanted)
    changed = {
        ordinal: item.call_id
        for ordinal, approval in (other.edits.approvals if other.edits else {}).items()
        if ordinal in coming
        and approval.state == "changed"
        and isinstance(item := other.item_table.items[ordinal], chat.FunctionCalled)
    }
    if not changed:
        return []
    order = ours.order()
    answered = {order[call] for call in pair_calls(ours).output_of}
    late = _answered_meanwhile(other, changed, {ours.item_table.items[ordinal].id for ordinal in answered})
    superseded = {call_id for there, call_id in changed.items() if there not in late}
    leaving = [
        ordinal
        for ordinal in order
        if isinstance(item := ours.item_table.items[ordinal], chat.FunctionCalled)
        and item.call_id in superseded
        and ordinal not in answered
        and not ours.is_pinned(ordinal)
    ]
    reason = "its arguments were changed in the other context"
    events: list[chat.ChatEvent] = [evicted(ours, leaving, how="change", reason=reason)] if leaving else []
    if late:
        named, change = _spans_here(command, late), -other.total_of(late)
        events.append(chat.ItemsEvicted(items=named, change=change, how="merge", reason="the call was answered here"))
    return events


def _answered_meanwhile(other: Items, changed: Mapping[int, str], answered: Set[str]) -> list[int]:
    """Return the changed calls that wait in the other context, and whose original call was `answered` here."""
    ran = set(_calls_of_outputs(other).values())
    before = [
        other.item_table.items[o] for o, how in (other.edits.gone.items() if other.edits else ()) if how.how == "change"
    ]
    settled = {one.call_id for one in before if isinstance(one, chat.FunctionCalled) and one.id in answered}
    return [ordinal for ordinal, call_id in changed.items() if ordinal not in ran and call_id in settled]


def _calls_of_outputs(items: Items) -> dict[int, int]:
    order = items.order()
    return {order[output]: order[call] for output, call in pair_calls(items).call_of.items()}


def _ref_here(command: Merge, ordinal: int) -> Ref:
    """Return the name of an item of the other context in events of this stream."""
    ref = command.other.items.ref(ordinal)
    stream = ref.stream or command.other.stream
    return Ref(ref.version, OWN if stream == command.stream else stream)


def _spans_here(command: Merge, ordinals: Iterable[int]) -> tuple[Span, ...]:
    refs = (_ref_here(command, ordinal) for ordinal in ordinals)
    return spans_of(sorted(refs, key=lambda ref: (ref.stream, ref.version)))


def _placed(
    command: Merge, wanted: Iterable[int], ours: Items, winning: set[int], ahead: Mapping[int, int]
) -> list[tuple[Ref | None, list[ReferencedItem]]]:
    """
    Return the new items, grouped by their places. Winners go to the end: the last one is in force.

    `ahead` maps a new item to the item of this context before which it must go.
    """
    items = command.other.items.item_table.items
    if command.how == "result":
        return [(None, [_taken_item(command, ordinal) for ordinal in wanted])]
    by_time, calls = ByTime(ours), _calls_of_outputs(command.other.items)

    def time(ordinal: int) -> float:
        # Clocks differ, so an output gets at least the time of its call: it never goes before the call.
        return max(items[one].created_at for one in (ordinal, calls.get(ordinal, ordinal)))

    groups: list[tuple[Ref | None, list[ReferencedItem]]] = []
    for ordinal in sorted(wanted, key=lambda ordinal: (ordinal in winning, time(ordinal))):
        call_here = ours.visible_ordinal(items[calls[ordinal]].id) if ordinal in calls else None
        before = (
            None if ordinal in winning else by_time.before(time(ordinal), behind=call_here, ahead=ahead.get(ordinal))
        )
        if not groups or groups[-1][0] != before:
            groups.append((before, []))
        groups[-1][1].append(_taken_item(command, ordinal))
    return groups


def _taken_item(command: Merge, ordinal: int) -> ReferencedItem:
    item = command.other.items.item_table.items[ordinal]
    if command.agent_id is not None:
        item = chat.with_agent(item, command.agent_id)
    return ReferencedItem(_ref_here(command, ordinal), item)


def _evicted_there(command: Merge, ours: Items) -> tuple[Span, ...]:
    """Return the items that left the other side since the base and are still here: they stay, but are named."""
    other, base = command.other.items, command.base_items
    if command.how != "full" or base is None or other.edits is None:
        return ()
    gone = []
    for ordinal in other.edits.gone:
        item_id = other.item_table.items[ordinal].id
        if base.visible_ordinal(item_id) is not None:
            here = ours.visible_ordinal(item_id)
            gone += [] if here is None else [here]
    return spans_by_age(ours, gone)


class _Config:
    """
    The items that set instructions or tools: those of the other side that are left out, and the places of the others.

    Items of this side that the other side has seen, and all before these, are no conflict. Without a conflict, the
    other side's items behind the last one that it has seen go to the end. Each of the others goes `ahead` of the next
    item that it has seen.
    """

    def __init__(self, command: Merge, state: ChatState, wanted: Sequence[int]) -> None:
        self.conflicts: list[chat.ChatEvent] = []
        self.winning: set[int] = set()
        self.ahead: dict[int, int] = {}
        other, ours = command.other.items, state.items
        theirs = [o for o in wanted if chat.sets_config(other.item_table.items[o])]
        own = _config_since_base(command, ours)
        seen = [other.ordinal(ours.item_table.items[o].id) is not None for o in own]
        unseen = own[len(own) - seen[::-1].index(True) :] if True in seen else own
        takes = command.instructions
        if theirs and unseen and command.base is not None:
            kept = _winner(command.rule, ours, unseen, other, theirs)
            takes = kept == "theirs"
            self.conflicts = [_conflict("config", command, ours, unseen, theirs, kept)]
            self.winning = set(theirs) if takes else set()
        elif own and takes and command.base is not None:
            self._place_theirs(ours, own, other, theirs)
        self.left_out = set() if takes else set(theirs)

    def _place_theirs(self, ours: Items, own: Sequence[int], other: Items, theirs: Sequence[int]) -> None:
        places = {ordinal: place for place, ordinal in enumerate(other.order())}
        seen = {other.visible_ordinal(ours.item_table.items[here].id): here for here in own}
        seen_at = sorted((places[there], here) for there, here in seen.items() if there is not None)
        for ordinal in theirs:
            behind = [here for place, here in seen_at if place > places[ordinal]]
            if behind:
                self.ahead[ordinal] = behind[0]
            else:
                self.winning.add(ordinal)


class _Summaries:
    """Summaries of the same items on both sides, and the side that wins."""

    def __init__(self, command: Merge, state: ChatState, wanted: Sequence[int]) -> None:
        self.conflicts: list[chat.ChatEvent] = []
        self.left_out: set[int] = set()
        other, ours = command.other.items, state.items
        folded_here, folded_there = _folded_ids(ours), _folded_ids(other)
        theirs = [o for o in wanted if chat.is_summary(other.item_table.items[o]) and folded_there.get(o)]
        both = [
            (mine, o) for o in theirs for mine, ids in folded_here.items() if ids & folded_there[o] and ours.shows(mine)
        ]
        if not both:
            return
        own = sorted({mine for mine, _ in both})
        clashing = sorted({o for _, o in both})
        kept = _winner(command.rule, ours, own, other, clashing)
        # A summary stays if an item of it would be nowhere else: it was never here, or the winner does not cover it.
        if kept == "ours":
            clashing = [o for o in clashing if all(ours.ordinal(one) is not None for one in folded_there[o])]
        else:
            folded = set[str]().union(*(folded_there[o] for o in clashing))
            own = [mine for mine in own if folded_here[mine] <= folded]
        if not (own and clashing):
            return
        self.conflicts = [_conflict("summary", command, ours, own, clashing, kept)]
        if kept == "ours":
            self.left_out = set(clashing)
        else:
            self.conflicts.append(evicted(ours, own, how="merge", reason="the other side's summary was kept"))


def _folded_ids(items: Items) -> dict[int, set[str]]:
    known = items.item_table.items
    return {summary: {known[ordinal].id for ordinal in ordinals} for summary, ordinals in items.folded().items()}


def _config_since_base(command: Merge, ours: Items) -> list[int]:
    base = command.base_items
    return [
        ordinal
        for ordinal in ours.order()
        if chat.sets_config(item := ours.item_table.items[ordinal]) and (base is None or base.ordinal(item.id) is None)
    ]


def _winner(rule: MergeRule, ours: Items, own: Sequence[int], other: Items, theirs: Sequence[int]) -> str:
    if rule != "newest":
        return rule
    newest_here = max(ours.item_table.items[ordinal].created_at for ordinal in own)
    newest_there = max(other.item_table.items[ordinal].created_at for ordinal in theirs)
    return "theirs" if newest_there > newest_here else "ours"


def _conflict(
    kind: str, command: Merge, ours: Items, own: Sequence[int], theirs: Sequence[int], kept: str
) -> chat.ConflictResolved:
    return chat.ConflictResolved(
        kind=kind,
        source=command.other.stream,
        ours=spans_by_age(ours, own),
        theirs=_spans_here(command, theirs),
        rule=command.rule,
        kept=kept,
    )

"""The items of a context, printed as `refold show` prints them, for every kind of context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from shlex import quote
from typing import Any, Literal, NamedTuple

import click
from msgspec.structs import replace

from ...domain.chat.describe import thoughts_of
from ...domain.chat.events import ChatItemEvent, FunctionCalled, FunctionReturned
from ...domain.chat.pairing import Approval, pair_calls
from ...domain.clock import REAL_SYSTEM
from ...domain.context.address import Reference
from ...domain.context.description import Departure, counted, source_of
from ...domain.errors import NotFoundError
from ...domain.ids import split_stream_id
from ...domain.kinds import KINDS
from ..queries.origins import Item, event_at, id_of
from ..store import Store
from ..views.contexts import ItemView, RunView, View, entry_shapes, head_shape, view_of
from ..views.shapes import Entry
from .args import stream_of
from .lines import Row, about, body_of, print_rows, speaker_of
from .render import (
    absolute,
    date_and_age,
    display_width,
    escaped,
    is_cut_short,
    one_line,
    paint,
    print_json,
    terminal_width,
    wrapped,
)


def view_in(
    store: Store, reference: Reference, moment: str | None = None, kinds: tuple[str, ...] = KINDS
) -> ItemView | RunView:
    """
    Return the context of a reference, at the moment in the reference or else at `moment`.

    Raises:
        NotFoundError: there is no such context, version or name.
        InvalidInputError: several contexts match, or the context is of another kind.
    """
    return view_of(store, stream_of(store, reference.context, kinds), next(iter(reference.moments), moment))


def item_view_in(store: Store, reference: Reference, moment: str | None, kind: str) -> ItemView:
    """
    Return the context of a kind that holds items, as `view_in` does.

    Raises:
        NotFoundError, InvalidInputError: as for `view_in`.
    """
    view = view_in(store, reference, moment, (kind,))
    assert not isinstance(view, RunView), f"a {kind} holds items"
    return view


class Shown(NamedTuple):
    """
    A version of a context, and the items of it that are printed; for items that left it, also how they left.

    `extent` says which items: all, the last ones, or a selection.
    """

    view: ItemView
    entries: Sequence[Entry]
    left: Sequence[Departure] | None
    extent: Literal["all", "tail", "part"]


def shown_of(
    view: ItemView,
    *,
    evicted: bool,
    tail: int | None,
    names: Sequence[str] = (),
    is_wanted: Callable[[Item], bool] | None = None,
) -> Shown:
    """
    Return the items to print: the present items, or with `evicted` those that left.

    They can be limited to those that `is_wanted` accepts, that have one of the `names`, and to the last `tail`.

    Raises:
        NotFoundError: no item has one of the names.
    """
    is_part = bool(names) or is_wanted is not None
    pairs: list[tuple[Entry, Departure | None]]
    pairs = [*view.evicted()] if evicted else [(entry, None) for entry in view.entries(tail=None if is_part else tail)]
    if is_wanted is not None:
        pairs = [pair for pair in pairs if is_wanted(pair[0].item)]
    if names:
        pairs = [pair for name in names for pair in _pairs_named(view, pairs, name)]
    pairs = pairs[-tail:] if tail else pairs
    left = [one for _, one in pairs if one is not None] if evicted else None
    return Shown(view, [entry for entry, _ in pairs], left, "part" if is_part else "tail" if tail else "all")


def _pairs_named(
    view: ItemView, pairs: list[tuple[Entry, Departure | None]], name: str
) -> list[tuple[Entry, Departure | None]]:
    found = [pair for pair in pairs if id_of(pair[0].item) == name]
    # Ids come first, because an id may look like a place.
    found = found or [pair for pair in pairs if name in (pair[0].place, pair[0].recorded.reference)]
    if not found:
        kind, context = split_stream_id(view.stream)
        way_out = f"`refold {kind} show {quote(context)}` lists those there are"
        raise NotFoundError(f"{view.stream}@{view.version} has no item {name!r}: {way_out}")
    return found


def print_shown(shown: Shown, *, ids: bool, as_json: bool) -> None:
    """Print items for people or as JSON; with `ids` the id of each, too."""
    if as_json:
        print_json(_shape(shown))
        return
    print_head(shown.view, _counts(shown))
    older = [entry.happened_at for entry in shown.entries if entry.is_older]
    if older:
        times = " to ".join(absolute(moment) for moment in sorted({min(older), max(older)}))
        _print_dim(f"older items happened {times}, before they were recorded")
    print_rows(_rows(shown, ids))


def _rows(shown: Shown, ids: bool) -> list[Row]:
    items = [entry.item for entry in shown.entries]
    pairs = pair_calls(item for item in items if isinstance(item, ChatItemEvent))
    numbers = {call: number for number, call in enumerate(sorted(pairs.output_of))}
    rows = []
    for index, entry in enumerate(shown.entries):
        call = pairs.call_of.get(index)
        body = _body(shown, _named_as_called(entry, None if call is None else items[call]))
        # Directly under the only call of an answer, an output needs no name of its call.
        is_alone = call == index - 1 and not isinstance(items[max(0, index - 2)], FunctionCalled)
        if call is not None and not (is_alone or (call == index - 1 and index == 1)):
            body = f"{shown.entries[call].place} {body}"
        rows.append(
            Row(
                entry,
                body,
                _notes(shown, index, ids),
                thoughts="\n".join(thoughts_of(entry.item)) if isinstance(entry.item, ChatItemEvent) else "",
                pair=numbers.get(index if call is None else call),
                is_answer=call is not None,
            )
        )
    return rows


def print_head(view: View, counts: str) -> None:
    """Print the context, its version, the time of that version, and the counts."""
    last = event_at(view.log, view.stream, view.version)
    version = f"@{view.version}" if view.version == view.head else f"@{view.version} of {view.head}"
    when = date_and_age(last.recorded_at, REAL_SYSTEM.now()) if last else "before it was opened"
    name, about = f"{escaped(view.stream)} {version}", f"{when}  {counts}"
    if not is_cut_short() or display_width(name) + display_width(about) + 2 <= terminal_width():
        click.echo(paint(name, "bold") + "  " + paint(about, "dim"))
    else:
        click.echo(paint(name, "bold"))
        _print_dim(f"{when}\n{counts}" if display_width(about) > terminal_width() else about)


def _print_dim(text: str) -> None:
    for line in wrapped(text, terminal_width()) if is_cut_short() else [text]:
        click.echo(paint(line, "dim"))


def _shape(shown: Shown) -> dict[str, Any]:
    return {**head_shape(shown.view), **shown.view.settings, "items": entry_shapes(shown.entries, shown.left)}


def _counts(shown: Shown) -> str:
    counts = counted(len(shown.entries), "item")
    if shown.left is not None:
        return f"{counts} that left the view"
    if shown.extent != "all":
        return f"the last {counts}" if shown.extent == "tail" else counts
    limit = shown.view.settings.get("limit")
    within = f" of at most {limit:,}" if limit else ""
    return f"{counts}{within}, about {shown.view.tokens:,} tokens"


def _named_as_called(entry: Entry, call: Item | None) -> Entry:
    """Return an output that came without a name, as LangChain's may, under the name of its call."""
    item = entry.item
    if isinstance(item, FunctionReturned) and not item.name and isinstance(call, FunctionCalled):
        return entry._replace(item=replace(item, name=call.name))
    return entry


def _body(shown: Shown, entry: Entry) -> str:
    """
    Return the text of an item.

    A pool is listed by descriptions, as a model sees it when it chooses; an item that was named is shown in full.
    """
    is_catalogue = shown.view.stream.startswith("pool:") and shown.extent != "part"
    return about(entry.item) if is_catalogue else body_of(entry.item)


def _approval(approval: Approval) -> str:
    said = "approval requested" if approval.state == "requested" else approval.state
    return " ".join([said, *([f"by {approval.by}"] if approval.by else [])]) + (
        f": {approval.because}" if approval.because else ""
    )


def _notes(shown: Shown, index: int, ids: bool) -> str:
    """Return the remarks below an item: its description, its id, a pin, a missing output, how it left."""
    entry = shown.entries[index]
    description = about(entry.item)
    notes = [description] if description and description != _body(shown, entry) else []
    # The id is not repeated if it is already in front of the item, as in a pool.
    notes += [f"id {id_of(entry.item)}"] if ids and id_of(entry.item) not in (None, speaker_of(entry.item)) else []
    if ids and isinstance(entry.item, FunctionCalled | FunctionReturned):
        notes.append(f"call id {entry.item.call_id}")
    notes += ["pinned"] if entry.is_pinned else []
    notes += ["no output yet"] if entry.is_pending else []
    notes += [_approval(entry.approval)] if entry.approval is not None and shown.left is None else []
    if shown.left is not None:
        left = shown.left[index]
        notes.append(f"{left.how} {source_of('', left.version)}" + (f": {left.reason}" if left.reason else ""))
    return one_line(", ".join(notes))

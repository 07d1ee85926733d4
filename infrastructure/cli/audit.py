"""`refold audit`: the changes of the items of a context, or of a node, with actor, time and reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from ...domain.context.address import Reference
from ...domain.context.description import because, joined, place_of
from ...domain.errors import InvalidInputError, first_named
from ...domain.ids import split_stream_id
from ...domain.trajectory.events import MessageRecorded
from ...domain.trajectory.identity import RunId
from ...domain.trajectory.nodes import DATA, parse_node_name
from ..queries.audit import AuditEntry, of_actor
from ..queries.node_audit import SeveralNodesError, is_node_name, node_changes
from ..queries.origins import Item
from ..store import Store
from ..views.answer_shapes import change_shape, view_changes
from . import args
from .completion import named_contexts, offered_items
from .damaged_log import IsAfter
from .lines import print_events, summary_of, text_with_role, view_in
from .render import cut, is_cut_short, json_text, one_line, paged, print_json_list, prints_json

PLACES_SHOWN_MAX = 10
LINES_AT_ONCE = 512
# The old value is cut to this width, to leave room on the line for the new one.
OLD_WIDTH = 40
# For these attributes the whole event is described.
WHOLE_EVENTS = ("opened", "merged")
# Words for the reasons that are recorded if the user gave none.
REASONS = {
    "limit": "to make room",
    "room": "to make room",
    "evict": "",
    "truncate": "by truncate",
    "merge": "by merge",
}


def changes_of(store: Store, name: str, attribute: str | None, where: Mapping[str, Any]) -> list[AuditEntry]:
    """
    Return the changes of a node; `where` gives its user, session and run, as far as they are known.

    Raises:
        NotFoundError: there is no such node, or it never had that attribute.
        InvalidInputError: there are several such nodes; the message says where.
    """
    try:
        found = store.audit_node(name, attribute, **where)
    except SeveralNodesError as error:
        raise InvalidInputError(_several(name, error.runs)) from error
    return node_changes(store.log, name, found)


def _several(name: str, runs: Sequence[RunId]) -> str:
    is_data = parse_node_name(name).type in DATA
    options = "--session and --user" if is_data else "--session, --user, --round and --sub"
    places = [f"session {run.session_id!r} of {run.user_id!r}" if is_data else _id(run) for run in runs]
    return f"there is {name!r} in {first_named(places, PLACES_SHOWN_MAX)}: say which with {options}"


def _id(run: RunId) -> str:
    return split_stream_id(run.stream)[1]


def _subject(ctx: click.Context, param: click.Parameter, value: str) -> Reference | str:
    """Return the name of a node, or a context and a moment."""
    text = args.checked_text(value)
    found = text if is_node_name(text) else args.reference(ctx, param, text)
    assert found is not None
    return found


@click.command("audit")
@args.argument(
    "subject",
    help="The context, and a version to end at; or a node, by its name Type(label).",
    metavar="CTX[@V]|NODE",
    callback=_subject,
    shell_complete=named_contexts,
)
@args.text(
    "--item",
    metavar="ITEM",
    help="Only the changes of this item: an id, a key or a call id, or the place that `refold show` "
    "prints next to it (@3, other@3); in a run, a node or a step.",
    shell_complete=offered_items,
)
@args.text(
    "--attribute",
    "--attr",
    metavar="A",
    help="Only the changes of this attribute: of a node, or of the items and settings of a context.",
)
@args.text("--who", metavar="A", help="Only the changes by this actor.")
@args.after_option("the changes")
@args.text("--session", "session_id", metavar="S", help="The session of the node, if several have such a node.")
@args.text("--user", "user_id", metavar="U", help="The user of the session.")
@args.number("--round", "run_id", least=0, help="The round of the node, from 0; for a query, an action or a state.")
@args.number(
    "--sub", "sub_id", least=0, help="The agent of the node, 0 for the main one; for a query, an action or a state."
)
@args.answer_options
@paged
def command(
    subject: Reference | str, item: str | None, attribute: str | None, who: str | None, after: str | None, **where: Any
) -> None:
    """
    List the changes of the items of a context (up to V), oldest first: who made them, when, why, from what, to what.

    + marks an item that was added, - one that left the view, ~ one that was changed. ITEM is an id or a key, or the
    @version that `refold show` prints beside an item. A fork has the changes since the fork; its parent has the earlier
    ones.

    NODE is a node of a run, `Type(label)`: every change of its attributes, in all rounds of its session. Data are the
    same node in all of them. Where several sessions, or runs, have such a node, the options say which is meant.

    With --json: an array of {position, stream, version, recorded_at, actor, correlation_id, causation, type, item:
    {stream, version, id}, attribute, old, new, reason}. Without attribute old and new are the item, null where it was
    not there; with one they are what was changed of it or, where item is null, of the context.
    """
    _check(subject, item, where)
    if isinstance(subject, str):
        name = subject
        found, is_later = args.answered(
            lambda store: (changes_of(store, name, attribute, where), IsAfter(store, after))
        )
        changes = iter(found if who is None else of_actor(found, who, subject))
        _print(filter(lambda change: is_later(change.recorded), changes))
        return
    with args.reading() as store:
        view = view_in(store, subject)
        changes = view_changes(view, item, attribute)
        if who is not None:
            changes = iter(of_actor(changes, who, view.stream))
        is_later = IsAfter(store, after)
        _print(filter(lambda change: is_later(change.recorded), changes))


def _check(subject: Reference | str, item: str | None, where: Mapping[str, Any]) -> None:
    is_node = isinstance(subject, str)
    if is_node and item:
        raise args.usage_error("--item goes with a context, and this is a node")
    if not is_node and any(value is not None for value in where.values()):
        raise args.usage_error("--session, --user, --round and --sub go with a NODE, like 'Table(orders)'")


def _print(changes: Iterator[AuditEntry]) -> None:
    if prints_json():
        print_json_list(map(change_shape, changes))
    else:
        print_events(((change.recorded, _line_of(change)) for change in changes), LINES_AT_ONCE)


def _line_of(change: AuditEntry) -> str:
    """Return a change on one line: its subject, its reason, and the new or old value."""
    why = _why(change)
    if change.attribute in WHOLE_EVENTS:
        return joined([summary_of(change.recorded.event), why])
    about = " ".join(part for part in (_mark(change), _label(change), f"({why})" if why else "") if part)
    old, new = _text(change.old), _text(change.new)
    if isinstance(change.recorded.event, MessageRecorded):
        # The record of a message has more fields than are shown here.
        new = summary_of(change.recorded.event)
    if change.old is None:
        return one_line(f"{about}: {new}")
    if change.new is None and change.attribute is None:
        return one_line(f"{about}: {old}")
    was = cut(one_line(old), OLD_WIDTH) if is_cut_short() else old
    return one_line(f"{about}: {was} -> {new}")


def _why(change: AuditEntry) -> str:
    causation = change.recorded.meta.causation
    reason = REASONS.get(change.reason or "", because(change.reason))
    return one_line(joined([reason, f"follows from {causation.removeprefix('chat:')}" if causation else ""]))


def _mark(change: AuditEntry) -> str:
    if change.attribute is not None:
        return ""
    return "+" if change.old is None else "-" if change.new is None else "~"


def _label(change: AuditEntry) -> str:
    """Return the label of a change: the item's name, if its user gave one, its place, and the changed attribute."""
    stream = change.recorded.stream
    place = "" if change.ref is None else place_of(change.ref, stream)
    name = "" if change.name is None or stream.startswith("chat:") else change.name
    return " ".join(part for part in (name, place, change.attribute or "") if part)


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, Item):
        return text_with_role(value)
    # An empty text is shown as JSON, to be visible.
    return value if isinstance(value, str) and value else json_text(value)

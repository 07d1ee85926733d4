"""
The answers of the tools, as plain data in the shapes of `--json` of the command line.

Long ones come page by page: an answer with a cursor has more, and a cursor names the version it belongs to, so that all
pages are of one version whatever is written meanwhile; only a search has no version.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, get_args

from ....domain.chat.context import ChatContext
from ....domain.chat.events import ConflictResolved, Forked, Merged
from ....domain.chat.items import ChatItem
from ....domain.chat.rules.commands import MergeRule
from ....domain.chat.view import ChatView
from ....domain.context.address import Reference, parse_moment, parse_reference
from ....domain.errors import ConcurrencyError, InvalidInputError, LimitExceededError
from ....domain.ids import split_stream_id, stream_id
from ....domain.kinds import KINDS
from ...context_streams import stream_named
from ...inspector.parameters import Parameters
from ...queries.audit import AuditEntry
from ...queries.node_audit import is_node_name, node_changes
from ...store import Store
from ...views.answer_shapes import change_shape, difference_shape, gone_shape, hit_shape, run_shape, view_changes
from ...views.changes import after, changed_shape, evicted_shape, forked_shape, merged_shape, named_items
from ...views.contexts import RunView, entry_shapes, head_shape, view_at
from ...views.differences import Side, changes_between, changes_shape
from ...views.shapes import Shape

PAGE_ITEMS = 50
PAGE_ITEMS_MAX = 500
# Texts of an answer are cut to this many characters, unless the caller asks for another number.
TEXT = 4_000
TEXT_MAX = 100_000
# A page ends before it has more characters of JSON than this, but has one item at least.
ANSWER_MAX = 400_000
# Fields that name a thing or give its time or kind; NAME_LENGTH characters of them are never cut.
NAMING = frozenset(
    {
        "context", "kind", "stream", "id", "item_id", "call_id", "key", "position", "recorded_at", "at", "created_at",
        "type", "role", "name", "label", "attribute", "reference", "parent", "how", "state", "actor", "user", "session",
        "agent", "agent_id", "causation", "correlation_id", "node", "source", "target", "root", "initial", "pointers",
    }
)  # fmt: skip
NAME_LENGTH = 300
HITS_MAX = 1_000
MESSAGES_MAX = 100
MESSAGES_TEXT_MAX = 1_000_000
NAMED_MAX = 1_000
CURSOR = re.compile(r"([0-9]{1,18}):([0-9]{1,18})", re.ASCII)
LISTS = ("added", "removed", "changed", "moved", "nodes_added", "nodes_removed", "edges_added", "edges_removed")


def view_answer(store: Store, given: Parameters) -> Shape:
    """Return the last items of a context, or those before them; of a run its graph."""
    address, (version, skip) = given.required("context"), _place(given)
    if version is not None:
        address = f"{parse_reference(address).context}@{version}"
    view = view_at(store, address)
    if isinstance(view, RunView):
        return _whole(_cut(run_shape(view), _text_max(given)))
    limit = given.whole("limit", PAGE_ITEMS, 1, PAGE_ITEMS_MAX)
    if given.flag("evicted"):
        pairs = view.evicted(tail=limit + 1, skip=skip)
        shapes = entry_shapes((entry for entry, _ in pairs), (left for _, left in pairs))
    else:
        shapes = entry_shapes(view.entries(tail=limit + 1, skip=skip))
    # The newest items come first to a reader who needs the end, but each page is in the order of the context.
    page = list(_fitting((_cut(shape, _text_max(given)) for shape in reversed(shapes)), limit))[::-1]
    more = f"{view.version}:{skip + len(page)}" if len(page) < len(shapes) else None
    return {**head_shape(view), **view.settings, "items": page, "cursor": more}


def history_answer(store: Store, given: Parameters) -> Shape:
    """Return the changes of a context up to a version, or of a node, oldest first."""
    subject, (version, start) = given.required("context"), _place(given)
    if is_node_name(subject):
        changes: Iterator[AuditEntry] = iter(
            node_changes(store.log, subject, store.audit_node(subject, given.text("attribute")))
        )
        stream = subject
    else:
        view = view_at(store, subject if version is None else f"{parse_reference(subject).context}@{version}")
        stream, version = view.stream, view.version
        changes = view_changes(view, given.text("item"), given.text("attribute"))
    limit = given.whole("limit", PAGE_ITEMS, 1, PAGE_ITEMS_MAX)
    found = list(islice(changes, start, start + limit + 1))
    page = list(_fitting((_cut(change_shape(one), _text_max(given)) for one in found), limit))
    more = f"{version or 0}:{start + len(page)}" if len(page) < len(found) else None
    return {"subject": stream, "changes": page, "cursor": more}


def diff_answer(store: Store, given: Parameters) -> Shape:
    """Return the differences between two versions; long lists are cut, and `numbers` says how long they are."""
    before, after_ = (view_at(store, address) for address in _two_sides(given.required("context"), given.text("other")))
    if isinstance(before, RunView) or isinstance(after_, RunView):
        if not (isinstance(before, RunView) and isinstance(after_, RunView)):
            raise InvalidInputError("a run can be compared with a run only: the others hold items, and no graph")
        differences = difference_shape(after_.run.diff(before.run), before, after_)
        shape = {"from": head_shape(before), "to": head_shape(after_), **differences}
    else:
        sides = Side(before, before.entries()), Side(after_, after_.entries())
        shape = changes_shape(*sides, changes_between(sides[0].entries, sides[1].entries))
    limit, most = given.whole("limit", PAGE_ITEMS, 1, PAGE_ITEMS_MAX), _text_max(given)
    lists = {name: value for name, value in shape.items() if name in LISTS}
    cut = {name: list(_fitting((_cut(one, most) for one in value), limit)) for name, value in lists.items()}
    return _whole({**shape, **cut, "numbers": {name: len(value) for name, value in lists.items()}})


def search_answer(store: Store, given: Parameters) -> Shape:
    """Return the items with all words, the best first."""
    kind, context = given.text("kind"), given.text("context")
    if context is not None and kind is None:
        # A name without a kind means the same context as in the other tools.
        context = stream_named(store.log, context)
    _, start = _place(given)
    limit = given.whole("limit", PAGE_ITEMS, 1, PAGE_ITEMS_MAX)
    end = min(start + limit + 1, HITS_MAX)
    hits = store.search(given.required("query"), kind=kind, context=context, limit=end)[start:]
    page = list(_fitting(map(hit_shape, hits), limit))
    return {"hits": page, "cursor": f"0:{start + len(page)}" if len(page) < len(hits) else None}


def why_gone_answer(store: Store, given: Parameters) -> Shape:
    """Return whether an item is in a context, and how it left."""
    stream, item = stream_named(store.log, _now(given, "context")), given.required("item")
    return gone_shape(store.why_gone(stream, f"{stream}{item}" if item.startswith("@") else item))


def append_answer(store: Store, given: Parameters) -> Shape:
    """Append messages to a chat, all or none."""
    messages = given.many("messages", MESSAGES_MAX)
    _limited("the characters of messages in a call", _length(messages), MESSAGES_TEXT_MAX)
    name, expected, key = _now(given, "context"), _expected(given), given.text("idempotency_key")
    if given.flag("create") and (made := _made_with(store, _id_of_chat(name), messages, expected, key)):
        return made
    chat = _chat(store, name)
    return _appended_shape(chat, chat.add_messages(messages, expected_version=expected, idempotency_key=key))


def _made_with(store: Store, new: str, messages: list[Any], expected: int | None, key: str | None) -> Shape | None:
    """
    Make a chat with its first messages, both or neither; None if there is one.

    Raises:
        ConcurrencyError: there is none, and a version of it was expected.
    """
    stream = stream_id("chat", new)
    while not store.log.head(stream):
        if expected:
            raise ConcurrencyError(stream, expected=expected, actual=0)
        # If another caller makes the same chat meanwhile, nothing is recorded, and the messages come behind theirs.
        with suppress(ConcurrencyError):
            with store.transaction(idempotency_key=key):
                chat = store.chat(new)
                # The chat may exist by now, with messages of another caller.
                items = chat.add_messages(messages, expected_version=None if expected is None else 1)
            return _appended_shape(chat, items)
    return None


def _appended_shape(chat: ChatContext, items: Iterable[ChatItem]) -> Shape:
    return changed_shape(chat, {"item_ids": [item.id for item in items]})


def fork_answer(store: Store, given: Parameters) -> Shape:
    """Make a chat that begins as another one is, or was."""
    view, new = _chat_at(store, given.required("context")), _id_of_chat(given.required("new"))
    turns, brief, key = given.whole("turns", 0, 1), given.text("brief"), given.text("idempotency_key")
    task, agent = given.text("task"), given.text("agent")
    if turns and brief:
        raise InvalidInputError("turns and brief exclude each other: give one of them")
    if task and not brief:
        raise InvalidInputError("task goes with brief, which are the new instructions")
    how = "filtered" if turns else "brief" if brief else "full"
    if brief:
        child = view.fork_brief(brief, task, agent, context_id=new, idempotency_key=key)
    elif turns:
        child = view.fork_filtered(turns, context_id=new, agent=agent, idempotency_key=key)
    else:
        child = view.fork(new, agent=agent, idempotency_key=key)
    begun = child._state.opened
    version = begun.version if isinstance(begun, Forked) else view.version
    return changed_shape(child, forked_shape(view.stream_id, version, how, child.recorded_items().totals))


def merge_answer(store: Store, given: Parameters) -> Shape:
    """Take what one chat has into another one."""
    source, target = _chat_at(store, given.required("source")), _chat(store, _now(given, "into"))
    if source.id == target.id:
        raise InvalidInputError(f"{target.stream_id} cannot be merged into itself: name two chats")
    how, rule = given.text("how") or "full", given.text("on_conflict") or "ours"
    if how not in ("full", "result"):
        raise InvalidInputError(f"how is {how!r}: give full or result")
    version, expected, key = target.version, _expected(given), given.text("idempotency_key")
    options: dict[str, Any] = {"expected_version": expected, "idempotency_key": key}
    if how == "result":
        asyncio.run(target.merge_result(source, **options))
    else:
        instructions = given.flag("instructions")
        asyncio.run(target.merge(source, instructions=instructions, on_conflict=_rule(rule), **options))
    merged, conflicts = (_made_by(store, target, version, key, kind) for kind in (Merged, ConflictResolved))
    return changed_shape(target, merged_shape(source, how, merged, conflicts))


def _made_by(store: Store, chat: ChatContext, version: int, key: str | None, kind: type[Any]) -> list[Any]:
    """Return the events of a type that a call recorded; for a repeated call, those of the first time."""
    if key is None:
        return after(chat, version, kind)
    return [one.event for one in store.log.recorded_under(chat.stream_id, key) if isinstance(one.event, kind)]


def evict_answer(store: Store, given: Parameters) -> Shape:
    """Take items out of the view of a chat."""
    chat = _chat(store, _now(given, "context"))
    named = named_items(chat, given.texts("items", NAMED_MAX))
    eviction = chat.evict(named, reason=given.text("reason"), expected_version=_expected(given))
    return changed_shape(chat, evicted_shape(eviction))


def restore_answer(store: Store, given: Parameters) -> Shape:
    """Put items back into the view; without items those that left it last."""
    chat = _chat(store, _now(given, "context"))
    before = chat.estimated_tokens()
    named = named_items(chat, given.texts("items", NAMED_MAX)) if "items" in given.by_name else None
    back = chat.restore(named, reason=given.text("reason"), expected_version=_expected(given))
    return changed_shape(chat, {"item_ids": back, "tokens": chat.estimated_tokens() - before})


def _place(given: Parameters) -> tuple[int | None, int]:
    """Return the version and the place in the list at which a page begins, as the cursor says; without one None, 0."""
    cursor = given.text("cursor")
    if cursor is None:
        return None, 0
    found = CURSOR.fullmatch(cursor)
    if found is None:
        raise InvalidInputError(f"{cursor!r} is no cursor: give the one of the answer before, with the same arguments")
    return int(found[1]), int(found[2])


def _two_sides(address: str, other: str | None) -> tuple[str, str]:
    found = parse_reference(address)
    if other is None and found.is_range:
        start, end = found.ends
        return f"{found.context}@{start}", f"{found.context}@{end}" if end else found.context
    if other is None or found.is_range:
        raise InvalidInputError("give a range as context, as support@3..5; or two contexts, as context and other")
    return address, other


def _now(given: Parameters, name: str) -> str:
    """Return the name of a context that must be given without a moment."""
    found: Reference = parse_reference(given.required(name))
    if found.moments:
        raise InvalidInputError(f"{given.text(name)!r} is the past, which stays as it was: leave out @V, or fork it")
    return found.context


def _chat(store: Store, name: str) -> ChatContext:
    stream = stream_named(store.log, name)
    kind, context_id = split_stream_id(stream)
    if kind != "chat":
        raise InvalidInputError(f"{stream} is no chat: this tool changes chats only")
    return store.chat(context_id, create=False)


def _id_of_chat(name: str) -> str:
    """Return the id of a chat that may be new."""
    kind, colon, _ = name.partition(":")
    if colon and kind in KINDS and kind != "chat":
        raise InvalidInputError(f"{name} is no chat: this tool changes chats only")
    return name.removeprefix("chat:")


def _chat_at(store: Store, address: str) -> ChatView[Any]:
    found = parse_moment(address)
    chat = _chat(store, found.context)
    # Without a moment it is the chat itself, so a repeated call is the same call, whatever was added since.
    return chat.at(found.moment) if found.moment else chat


def _expected(given: Parameters) -> int | None:
    return given.whole("expected_version", 0) if "expected_version" in given.by_name else None


def _rule(text: str) -> MergeRule:
    for rule in get_args(MergeRule):
        if text == rule:
            found: MergeRule = rule
            return found
    raise InvalidInputError(f"on_conflict is {text!r}: give {', '.join(get_args(MergeRule))}")


def _text_max(given: Parameters) -> int:
    return given.whole("text_max", TEXT, 1, TEXT_MAX)


def _cut(shape: Shape, most: int) -> Shape:
    """Return plain data with long texts cut; then `cut` is the number of characters that were left out."""
    left_out = 0

    def cut(value: Any, name: str) -> Any:
        nonlocal left_out
        if isinstance(value, str):
            # A name that is cut names nothing; contents may have fields of any length that are called so.
            end = max(most, NAME_LENGTH) if name in NAMING else most
            left_out += max(0, len(value) - end)
            return value[:end]
        if isinstance(value, Mapping):
            return {field: cut(one, field) for field, one in value.items()}
        return [cut(one, name) for one in value] if isinstance(value, list | tuple) else value

    found: Shape = cut(shape, "")
    return {**found, "cut": left_out} if left_out else found


def _fitting(shapes: Iterable[Shape], limit: int) -> Iterator[Shape]:
    """Yield the first shapes that fit into a page, one at least."""
    size = 0
    for number, shape in enumerate(islice(shapes, limit)):
        size += _length(shape)
        if number and size > ANSWER_MAX:
            return
        yield shape


def _whole(shape: Shape) -> Shape:
    """
    Return an answer that has no pages.

    Raises:
        LimitExceededError: it is too long.
    """
    # Without pages there is no smaller answer to give, so it may be twice as long as a page.
    _limited("the characters of an answer without pages", _length(shape), ANSWER_MAX * 2)
    return shape


def _length(plain: Any) -> int:
    """Return the characters of JSON, as it is sent: without escapes, which are six times as long."""
    return len(json.dumps(plain, ensure_ascii=False))


def _limited(limit: str, actual: int, allowed: int) -> None:
    if actual > allowed:
        raise LimitExceededError(limit, allowed=allowed, actual=actual)

"""The tools that an agent calls: a line about each, its arguments, and its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_args

from ....domain.chat.rules.commands import MergeRule
from ....domain.errors import InvalidInputError
from ...inspector.parameters import Parameters
from ...store import Store
from ...views.shapes import Shape
from .answers import (
    MESSAGES_MAX,
    NAMED_MAX,
    PAGE_ITEMS,
    PAGE_ITEMS_MAX,
    TEXT,
    TEXT_MAX,
    append_answer,
    diff_answer,
    evict_answer,
    fork_answer,
    history_answer,
    merge_answer,
    restore_answer,
    search_answer,
    view_answer,
    why_gone_answer,
)

Schema = dict[str, Any]


def _text(about: str, **more: Any) -> Schema:
    return {"type": "string", "description": about, **more}


def _number(about: str, most: int, default: int | None = None) -> Schema:
    fallback = {} if default is None else {"default": default}
    return {"type": "integer", "minimum": 1, "maximum": most, "description": about, **fallback}


ADDRESS = (
    "a context, as support or chat:support; with @ and a moment its past: support@3 (a version), support@-2 (counted"
    " from the end), support@2026-11-21T10:00:00Z (a time), support@before-refund (the name of a version)"
)
CHAT = _text("the chat, as support or chat:support")
ITEM = "an item: its id, or the place where it was added, as @3 or other@3"
ITEMS = {"type": "array", "items": _text(ITEM), "maxItems": NAMED_MAX}
REASON = _text("the reason, which is kept in the log")
EXPECTED = {"type": "integer", "minimum": 0, "description": "refuse the change if the chat is at another version"}
KEY = _text("a text of your own that is new for each change: a call that is repeated with it changes nothing")
PAGE = {
    "limit": _number("how many at most", PAGE_ITEMS_MAX, PAGE_ITEMS),
    "cursor": _text("the cursor of the answer before, for the next page"),
    "text_max": _number("cut texts to this many characters; the answer says how many were left out", TEXT_MAX, TEXT),
}


class Tool(NamedTuple):
    """A tool: its answer to a call, a line about it, its arguments, and those of them that must be given."""

    answer: Callable[[Store, Parameters], Shape]
    about: str
    arguments: Mapping[str, Schema]
    required: tuple[str, ...] = ()
    writes: bool = False

    def schema(self) -> Schema:
        """Return the JSON Schema of the arguments."""
        needed = {"required": list(self.required)} if self.required else {}
        return {"type": "object", "properties": dict(self.arguments), **needed, "additionalProperties": False}

    def call(self, store: Store, given: Mapping[str, Any]) -> Shape:
        """
        Return the answer.

        Raises:
            InvalidInputError: an argument is unknown, missing or invalid.
            RefoldError: as the answer says.
        """
        unknown = next((name for name in given if name not in self.arguments), None)
        if unknown is not None:
            raise InvalidInputError(f"there is no argument {unknown!r}: there are {', '.join(self.arguments)}")
        return self.answer(store, Parameters({name: value for name, value in given.items() if value is not None}, ()))


TOOLS: Mapping[str, Tool] = {
    "context_view": Tool(
        view_answer,
        "Show what a context (a chat, queue, pool, window, memory or run) holds, now or at a moment of its past: its"
        " last items, each with its version, time and actor. A cursor leads to the items before them.",
        {"context": _text(ADDRESS), "evicted": {"type": "boolean", "description": "the items that left, and why"},
         **PAGE},
        ("context",),
    ),
    "context_history": Tool(
        history_answer,
        "List what became of the items of a context, or of a node of a run, oldest first: who changed them when, from"
        " what, to what, and why.",
        {"context": _text(f"{ADDRESS}; or a node, as Table(orders)"), "item": _text(f"only of {ITEM}"),
         "attribute": _text("only of this attribute"), **PAGE},
        ("context",),
    ),
    "context_diff": Tool(
        diff_answer,
        "Compare two versions of a context, or two contexts: the items that were added, removed, changed or moved.",
        {"context": _text("a range of versions, as support@3..5; or the first of two: " + ADDRESS),
         "other": _text("the second of two"), "limit": PAGE["limit"], "text_max": PAGE["text_max"]},
        ("context",),
    ),
    "context_search": Tool(
        search_answer,
        'Find the items in which all words stand, the best first; what left the view is found as well. "In quotes"'
        " finds words side by side, begin* the beginning of a word. A page is of the moment of its call.",
        {"query": _text("the words"), "kind": _text("only contexts of this kind"),
         "context": _text("only this context, with its past"), "limit": PAGE["limit"], "cursor": PAGE["cursor"]},
        ("query",),
    ),
    "why_gone": Tool(
        why_gone_answer,
        "Say why an item is not in the view of a context: the event that took it out, who did it, and the reason.",
        {"context": _text("the context, as support or chat:support"), "item": _text(ITEM)},
        ("context", "item"),
    ),
    "context_append": Tool(
        append_answer,
        "Append messages to a chat, all or none. A message has role and content, in the form of any provider; calls of"
        " tools and their outputs are messages, too.",
        {"context": CHAT, "messages": {"type": "array", "items": {"type": "object"}, "minItems": 1,
         "maxItems": MESSAGES_MAX, "description": 'as [{"role": "user", "content": "Hello."}]'},
         "create": {"type": "boolean", "default": False, "description": "make the chat if there is none"},
         "expected_version": EXPECTED, "idempotency_key": KEY},
        ("context", "messages"),
        writes=True,
    ),
    "context_fork": Tool(
        fork_answer,
        "Make a chat that begins as another one is, or was at a moment, and goes its own way. The other stays as it"
        " is.",
        {"context": _text(ADDRESS), "new": _text("the id of the new chat"),
         "turns": _number("begin with the instructions and the last turns only", 1_000_000),
         "brief": _text("begin with no items; this is the new instructions"),
         "task": _text("with brief: the first user message"), "agent": _text("the agent of the new chat"),
         "idempotency_key": KEY},
        ("context", "new"),
        writes=True,
    ),
    "context_merge": Tool(
        merge_answer,
        "Take what one chat has, or had at a moment, and another never had. Nothing is taken twice.",
        {"source": _text(ADDRESS), "into": _text("the chat that gets the items"),
         "how": _text("full: all new items, each at the place of its time; result: only the last answer, at the end",
                      enum=["full", "result"], default="full"),
         "on_conflict": _text("the side that wins if both changed the same", enum=[*get_args(MergeRule)],
                              default="ours"),
         "instructions": {"type": "boolean", "default": False, "description": "merge instructions and tools, too"},
         "expected_version": EXPECTED, "idempotency_key": KEY},
        ("source", "into"),
        writes=True,
    ),
    "context_evict": Tool(
        evict_answer,
        "Take items out of the view of a chat, so that no model is sent them; a call goes together with its output."
        " They stay in the past, and context_restore brings them back.",
        {"context": CHAT, "items": {**ITEMS, "minItems": 1}, "reason": REASON, "expected_version": EXPECTED},
        ("context", "items"),
        writes=True,
    ),
    "context_restore": Tool(
        restore_answer,
        "Put items back into the view of a chat, each into its place; without items those that left it last.",
        {"context": CHAT, "items": ITEMS, "reason": REASON, "expected_version": EXPECTED},
        ("context",),
        writes=True,
    ),
}  # fmt: skip


def offered(*, write: bool) -> Mapping[str, Tool]:
    """Return the tools that are offered: without `write` those that only read."""
    return {name: tool for name, tool in TOOLS.items() if write or not tool.writes}

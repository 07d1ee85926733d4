"""
The table of the page's questions, the OpenAPI description that is made from it and from the table of changes, and the
twins of the page's addresses.

An address of the page with `.json` at its end is what the page shows there, as the answer to one of the questions. So
it has the same shape, and redaction and caching are the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...domain.context.address import parse_reference
from ...domain.errors import NotFoundError
from ...domain.ids import split_stream_id
from ...domain.kinds import KINDS
from ..context_streams import stream_named, streams_named
from ..store import Store
from . import answers
from .changes import CHANGES, CONFLICT, INSTRUCTIONS, preview_answer
from .item_answers import (
    audit_answer,
    diff_answer,
    items_answer,
    left_answer,
    pieces_answer,
    pins_answer,
    replay_answer,
    view_answer,
    why_answer,
)
from .jobs import TASKS, Action
from .log_answers import event_answer, histogram_answer, log_answer
from .parameters import Parameters

# Parameters that are a context, with or without a version.
SIDES = ("before", "after")


class Question(NamedTuple):
    """A question: its answer to a request, a line about it, and its parameters, each with a line about it."""

    answer: Callable[[Store, Parameters], Any]
    about: str
    parameters: Mapping[str, str]
    lasting: tuple[str, ...] = ()

    def is_lasting(self, given: Parameters) -> bool:
        """Return whether the answer never changes: the question names versions, and later ones do not count."""
        return bool(self.lasting) and all(_names_version(given, name) for name in self.lasting)


def _names_version(given: Parameters, name: str) -> bool:
    if name == "ref":
        return bool(given.refs)
    _, at, version = str(given.by_name.get(name, "")).rpartition("@")
    # A number alone is a version or a position; in one of SIDES it is the name of a context, whose version changes.
    return version.isdigit() and bool(at or name not in SIDES)


CONTEXT, VERSION = "a context, as `chat:support-42`", "a version; the newest one if it is left out"
QUESTIONS: dict[str, Question] = {
    "contexts": Question(
        answers.contexts_answer,
        "The contexts, by kind and id, a page at a time.",
        {"kind": "only this kind; several with commas", "user": "only of this user", "session": "only of this session",
         "agent": "only of this agent", "limit": "how many at most", "cursor": "the cursor of the page before"},
    ),
    "context": Question(
        answers.context_answer,
        "One context: its versions with times and actors, and from which to which version each item was in its view.",
        {"context": CONTEXT, "version": "where the window is, if there are too many items for one answer"},
    ),
    "intervals": Question(
        answers.intervals_answer, "The window of versions around one, of a context with too many items for one answer.",
        {"context": CONTEXT, "version": VERSION, "whole": "1: also the first items of a very long view"},
    ),
    "items": Question(
        items_answer, "Items by the events that recorded them.", {"ref": "STREAM@VERSION, once for each item",
        "whole": "1: the texts in full"}, ("ref",),
    ),
    "view": Question(
        view_answer, "The items of a context at a version, of any kind that holds items.",
        {"context": CONTEXT, "version": VERSION, "tail": "only so many, the last ones",
         "skip": "leave out so many at the end"},
    ),
    "left": Question(
        left_answer, "The items that left a context, how and why.",
        {"context": CONTEXT, "version": VERSION, "limit": "how many at most",
         "skip": "leave out so many of the newest"}, ("version",),
    ),
    "diff": Question(
        diff_answer, "The items, or the nodes of a run, that differ between two versions.",
        {"before": "a context, and a moment, as `support-42@3`", "after": "the same"}, ("before", "after"),
    ),
    "why": Question(why_answer, "Why an item is not in the view.", {"context": CONTEXT, "item": "its id"}),
    "audit": Question(
        audit_answer, "Every change of a context and of its items.", {"context": CONTEXT, "item": "only of this item"},
    ),
    "pieces": Question(
        pieces_answer, "A message that was written piece by piece: each text with its version.",
        {"event": "STREAM@VERSION"},
    ),
    "pins": Question(pins_answer, "The pinned items of a chat, each with its versions.", {"context": "a chat"}),
    "replay": Question(
        replay_answer,
        "The prompts of a chat under another policy, call by call; with `seen` both prompts of one, by origins.",
        {"context": "a chat", "policy": "all, tokens:N or items:N", "seen": "the version of a call"},
    ),
    "preview": Question(
        preview_answer, "What a merge of two chats would do; nothing is recorded.",
        {"source": "the chat to take from, at a version as `chat:side@3`", "target": "the chat to change",
         "on_conflict": CONFLICT, "instructions": INSTRUCTIONS},
    ),
    "lineage": Question(
        answers.lineage_answer, "Forks and merges in the order of drawing.",
        {"context": "only the family of this context", "limit": "how many points at most"},
    ),
    "graph": Question(answers.graph_answer, "The graph of a run, with places for its nodes.",
        {"context": "a run", "version": VERSION, "attributes": "only these attributes of the nodes, with commas"},
        ("version",),
    ),
    "node": Question(
        answers.node_answer, "Every change of the attributes of a node.",
        {"name": "as Table(orders)", "attribute": "only this one", "user": "of a session of this user",
         "session": "of this session", "round": "of this round", "sub": "of this agent"},
    ),
    "nodes": Question(
        answers.nodes_answer, "The nodes of all runs as they are now, by type and run, a page at a time.",
        {"type": "only of this type, as Table", "label": "only with this label", "user": "only of this user",
         "session": "only of this session", "limit": "how many at most", "cursor": "the cursor of the page before"},
    ),
    "log": Question(
        log_answer, "Events as lines.",
        {"row": "from this line on", "pos": "from the event at this position on", "after": "after this moment",
         "limit": "how many at most",
         "context": "only of this context", "type": "a tag, or the first part of one", "actor": "only by this actor",
         "q": "only with this text"},
    ),
    "event": Question(
        event_answer, "One event in full, with the chain of its causes.",
        {"event": "STREAM@VERSION, or its position"}, ("event",),
    ),
    "histogram": Question(histogram_answer, "The log in buckets.", {"buckets": "how many at most"}),
    "projection": Question(
        answers.projection_answer, "One projection and its rows, a page at a time.",
        {"name": "its name", "under": "only rows whose keys begin so", "limit": "how many rows at most",
         "cursor": "the cursor of the page before"},
    ),
    "projections": Question(answers.projections_answer, "The projections and how far each is behind.", {}),
    "search": Question(
        answers.search_answer, "Items with all words.",
        {"q": "the words", "kind": "only this kind", "context": "only this context", "limit": "how many at most"},
    ),
    "usage": Question(
        answers.usage_answer, "Tokens and costs.", {"by": "some of day, agent, model, context, user, with commas"},
    ),
    "approvals": Question(answers.approvals_answer, "The calls that wait for a person.", {}),
    "moments": Question(answers.moments_answer, "The named moments of the store.", {}),
    "resolve": Question(
        answers.resolve_answer, "The version that an address means.",
        {"context": CONTEXT, "at": "a version, a time, a name, an item or a call"},
    ),
}  # fmt: skip
ACTIONS: dict[str, Action] = {**CHANGES, **TASKS}
# The shapes may get more fields; none changes its meaning or goes.
API_VERSION = "1"
REQUIRED = {
    "context": ("context", "view", "left", "why", "audit", "pins", "replay", "graph", "resolve", "intervals"),
    "ref": ("items",), "before": ("diff",), "after": ("diff",), "item": ("why",), "name": ("node", "projection"),
    "event": ("event", "pieces"), "q": ("search",), "at": ("resolve",),
    "policy": ("replay",), "source": ("preview",), "target": ("preview",),
}  # fmt: skip
FAULT = {"description": "The request cannot be answered: {error, message}."}


def openapi() -> dict[str, Any]:
    """Return the description as plain data."""
    paths: dict[str, Any] = {
        f"/api/{path}": {
            "get": {
                "summary": question.about,
                "parameters": [_parameter(path, name, about) for name, about in question.parameters.items()],
                "responses": _responses(),
            }
        }
        for path, question in QUESTIONS.items()
    }
    for path, change in ACTIONS.items():
        fields = {name: {"type": "string", "description": about} for name, about in change.fields.items()}
        content = {"application/json": {"schema": {"type": "object", "properties": fields}}}
        token = {
            "name": "x-refold-token", "in": "header", "required": True, "schema": {"type": "string"},
            "description": "the token in the answer of /api/meta",
        }  # fmt: skip
        paths[f"/api/{path}"] = {
            "post": {
                "summary": change.about,
                "parameters": [token] if change.needs_token else [],
                "requestBody": {"content": content, "required": True},
                "responses": {
                    **_responses(),
                    "403": {"description": "Read-only, or a wrong token."},
                },
            }
        }
    paths["/api/meta"] = {"get": {"summary": "The store that is shown.", "responses": _responses()}}
    paths["/api/jobs"] = {"get": {"summary": "Rebuilds and checks that were started here.", "responses": _responses()}}
    paths["/api/tail"] = {
        "get": {
            "summary": "News as server-sent events: `news` with {heads, events, recorded_at}; `job` with a job as in"
            " /api/jobs; `folding` with {done, total}; `fault` with {message}.",
            "parameters": [_parameter("tail", "after", "the moment that was seen last")],
            "responses": {"200": {"description": "An endless stream.", "content": {"text/event-stream": {}}}},
        }
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Refold Inspector",
            "version": API_VERSION,
            "description": "Questions about a store.",
        },
        "paths": paths,
    }


def _parameter(path: str, name: str, about: str) -> dict[str, Any]:
    return {
        "name": name, "in": "query", "description": about, "required": path in REQUIRED.get(name, ()),
        "schema": {"type": "string"},
    }  # fmt: skip


def _responses() -> dict[str, Any]:
    answer = {"description": "The answer.", "content": {"application/json": {}}}
    return {"200": answer, **dict.fromkeys(("400", "404", "500", "503"), FAULT)}


ENDING = ".json"
# The question of each screen that needs nothing of its address but the parameters.
SCREENS = {
    "": "contexts", "log": "log", "graph": "lineage", "usage": "usage", "approvals": "approvals",
    "projections": "projections", "search": "search", "n": "nodes",
}  # fmt: skip
TABS = {"log": "log", "left": "left", "replay": "replay", "tokens": "context"}
# The kinds that /pools lists; the page has the same in home.js.
POOLS = "pool,queue"
# Parameters whose names in addresses of the page differ from those in questions.
RENAMED = {"ctx": "context", "call": "seen"}
NODE = re.compile(r"(?P<name>.*\))(@\d+)?", re.DOTALL)
Asked = tuple[str, dict[str, str]]


def question_of(store: Store, path: str, given: Mapping[str, str]) -> Asked | None:
    """
    Return the question of a twin, with its parameters; None if the path is no twin, but a context whose id ends so.

    `path` has no slash at its beginning.

    Raises:
        InvalidInputError: the address of a context is malformed.
        NotFoundError: the page has no such screen, or there is no such context.
    """
    screen, _, name = path.removesuffix(ENDING).partition("/")
    parameters = {RENAMED.get(key, key): value for key, value in given.items()}
    match screen:
        case "c" if name:
            is_named = "@" not in name and streams_named(store.log, name + ENDING, KINDS)
            return None if is_named else _of_context(store, name, parameters)
        case "diff" if "..." in name:
            before, _, after = name.partition("...")
            return "diff", {"before": before, "after": after}
        case "e" if name:
            return "event", {"event": name}
        case "n" if found := NODE.fullmatch(name):
            # The history is that of all versions; the context of the page says only from where one came.
            return "node", {**parameters, "name": found["name"]}
        case "projections" if name:
            return "projection", {**parameters, "name": name}
        case "pools" if not name:
            return "contexts", {"kind": POOLS, **parameters}
        case _ if screen in SCREENS and not name:
            return SCREENS[screen], parameters
    raise NotFoundError(f"the page has no address /{path.removesuffix(ENDING)}")


def _of_context(store: Store, name: str, given: Mapping[str, str]) -> Asked:
    reference = parse_reference(name)
    context = stream_named(store.log, reference.context)
    if reference.is_range:
        first, last = reference.ends
        return "diff", {"before": f"{context}@{first}", "after": f"{context}@{last}" if last else context}
    question = TABS.get(given.get("tab", ""), "graph" if split_stream_id(context)[0] == "run" else "view")
    moment = reference.moment if question in ("view", "left", "graph") else None
    return question, {**given, "context": context, "version": moment or ""}

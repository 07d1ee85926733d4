"""The changes that the page can make, if the server was started for it: each is one of the store's own calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...domain.errors import InvalidInputError
from ...domain.ids import split_stream_id
from ...domain.log.envelope import acting
from ..context_streams import context_named
from ..store import Store
from .merges import ACTOR, CONFLICT, INSTRUCTIONS, merge
from .parameters import Parameters


class Change(NamedTuple):
    """A change: what makes it, a line about it, and its fields, each with a line about it."""

    make: Callable[[Store, Parameters], Any]
    about: str
    fields: Mapping[str, str]
    needs_token: bool = True


def _fork(store: Store, given: Parameters) -> dict[str, Any]:
    chat = store.chat(_chat_id(store, given.required("context")), create=False)
    version = given.whole("version", chat.version, 1)
    with acting(actor=given.text("actor") or ACTOR):
        child = (chat if version == chat.version else chat.at(version)).fork(given.required("name"))
    return {"context": child.stream_id, "version": child.version}


def _decide(store: Store, given: Parameters) -> dict[str, Any]:
    chat = store.chat(_chat_id(store, given.required("context")), create=False)
    call, decision = given.required("call_id"), given.required("decision")
    decide = {"approve": chat.approvals.approve, "reject": chat.approvals.reject}.get(decision)
    if decide is None:
        raise InvalidInputError(f"the decision is {decision!r}: give approve or reject")
    decide(call, by=given.text("actor") or ACTOR, because=given.text("because"))
    return {"context": chat.stream_id, "version": chat.version}


def _chat_id(store: Store, name: str) -> str:
    return split_stream_id(context_named(store.log, name, ("chat",)))[1]


CHANGES: dict[str, Change] = {
    "fork": Change(
        _fork, "Fork a chat at a version.",
        {"context": "the chat", "version": "the version; the newest one if it is left out", "name": "the new chat's id",
         "actor": "who does it"},
    ),
    "merge": Change(
        merge, "Merge a chat into another one.",
        {"source": "the chat to take from, at a version as `chat:side@3`", "target": "the chat to change",
         "on_conflict": CONFLICT, "instructions": INSTRUCTIONS, "actor": "who does it",
         "version": "refuse it unless this is still the newest version of the target"},
    ),
    "decide": Change(
        _decide, "Approve or reject a call.",
        {"context": "the chat", "call_id": "the call", "decision": "approve or reject", "because": "why",
         "actor": "who does it"},
    ),
}  # fmt: skip

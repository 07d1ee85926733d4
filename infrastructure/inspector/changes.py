"""The changes that the page can make, if the server was started for it: each is one of the store's own calls."""

from __future__ import annotations

from ...domain.errors import InvalidInputError
from ...domain.log.envelope import acting
from ..views.shapes import Shape
from .jobs import Action, Jobs
from .merges import ACTOR, CONFLICT, INSTRUCTIONS, chat_named, merge
from .parameters import Parameters


def _fork(jobs: Jobs, given: Parameters) -> Shape:
    chat = chat_named(jobs.store, given.required("context"))
    version = given.whole("version", chat.version, 1)
    with acting(actor=given.text("actor") or ACTOR):
        child = (chat if version == chat.version else chat.at(version)).fork(given.required("name"))
    return {"context": child.stream_id, "version": child.version}


def _decide(jobs: Jobs, given: Parameters) -> Shape:
    chat = chat_named(jobs.store, given.required("context"))
    call, decision = given.required("call_id"), given.required("decision")
    decide = {"approve": chat.approvals.approve, "reject": chat.approvals.reject}.get(decision)
    if decide is None:
        raise InvalidInputError(f"the decision is {decision!r}: give approve or reject")
    decide(call, by=given.text("actor") or ACTOR, because=given.text("because"))
    return {"context": chat.stream_id, "version": chat.version}


CHANGES: dict[str, Action] = {
    "fork": Action(
        _fork, "Fork a chat at a version.",
        {"context": "the chat", "version": "the version; the newest one if it is left out", "name": "the new chat's id",
         "actor": "who does it"},
    ),
    "merge": Action(
        lambda jobs, given: merge(jobs.store, given), "Merge a chat into another one.",
        {"source": "the chat to take from, at a version as `chat:side@3`", "target": "the chat to change",
         "on_conflict": CONFLICT, "instructions": INSTRUCTIONS, "actor": "who does it",
         "version": "refuse it unless this is still the newest version of the target"},
    ),
    "decide": Action(
        _decide, "Approve or reject a call.",
        {"context": "the chat", "call_id": "the call", "decision": "approve or reject", "because": "why",
         "actor": "who does it"},
    ),
}  # fmt: skip

"""
Transcripts as runs: a round for each question, an action for each call, a conclusion for each text, and the data that
calls returned.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ...domain.arguments import require_functions
from ...domain.canonical import canonical_json, require_json
from ...domain.chat.events import ChatItemEvent, FunctionCalled, FunctionReturned, MessageAdded, is_user
from ...domain.errors import InvalidInputError, RefusedError
from ...domain.formats.openai.receive import shape_messages
from ...domain.formats.receive import as_plain_data
from ...domain.formats.send import Batch, arguments_of, turns_of
from ...domain.log.admission import JSON_DEPTH_MAX, is_deeper
from ...domain.log.envelope import acting
from ...domain.messages import message_to_dict
from ...domain.trajectory.events import MessageRecorded, QueryRegistered
from ...domain.trajectory.identity import RunId
from ...domain.trajectory.run import Run
from ..exchange.event_files import Progress
from ..exchange.rehearsal import require_projectable, store_above
from ..store import Store
from .runs import ImportedContext, ImportReport
from .runs import Run as Transcript

# The fields that a record of a message has; other fields of a message are kept beside them.
RECORD_FIELDS = ("role", "content", "name", "id", "tool_calls", "tool_call_id")
FAILURE = re.compile(r"\s*error\b", re.IGNORECASE)
# Less than JSON_DEPTH_MAX, because the data are nested in the attributes of a node.
DATA_DEPTH_MAX = JSON_DEPTH_MAX - 10
_JSON = msgspec.json.Decoder()
# The user of sessions for which no user is given.
USER = "import"
RESULT = "tool result"
# Characters of a call's arguments in the label of its data; longer arguments get a digest, to be distinct.
ARGUMENTS_SHOWN_MAX = 200


class Round(msgspec.Struct, kw_only=True):
    """
    A question as it was sent, and the texts and batches of calls that answer it.

    `records` are its messages as a run records them; the first round also has those before the first question.
    """

    query: Any
    turns: list[MessageAdded | Batch] = msgspec.field(default_factory=list)
    records: list[dict[str, Any]] = msgspec.field(default_factory=list)


def rounds_of(messages: Sequence[Any], *, session_id: str) -> list[Round]:
    """
    Return the rounds of a transcript of OpenAI messages.

    Raises:
        InvalidInputError: a value is not a message, or cannot be stored; or there is no question.
    """
    plain = [as_plain_data(message) for message in messages]
    groups = shape_messages(plain, context_id=session_id, created_at=0.0)
    rounds: list[Round] = []
    before: list[dict[str, Any]] = []
    for index, (message, group) in enumerate(zip(plain, groups, strict=True)):
        if message["role"] == "user":
            rounds.append(Round(query=message.get("content"), records=[] if rounds else before))
        record = _record(message, group[0])
        require_json(record, what=f"messages[{index}]")
        (rounds[-1].records if rounds else before).append(record)
    if not rounds:
        raise InvalidInputError("the transcript has no message of a user: a run begins with a query")
    _share_out([item for group in groups for item in group], rounds)
    return rounds


def _share_out(items: list[ChatItemEvent], rounds: list[Round]) -> None:
    """Give each round its turns; turns before the first question are in no graph."""
    number = -1
    for turn in turns_of(items):
        if is_user(turn):
            number += 1
        elif number >= 0:
            rounds[number].turns.append(turn)


def _record(message: Mapping[str, Any], item: ChatItemEvent) -> dict[str, Any]:
    """Return the record of a message, which has everything that the message has."""
    known = {name: message[name] for name in RECORD_FIELDS if name in message}
    rest = {name: value for name, value in message.items() if name not in RECORD_FIELDS}
    if isinstance(item, FunctionReturned):
        # Messages of the old role "function" have no id, and get the id of the call that they answer.
        known |= {"role": "tool", "name": item.name, "tool_call_id": item.call_id}
        known["status"] = "error" if is_failure(item) else "success"
    elif known["role"] == "developer":
        known["role"] = "system"
    if known["role"] != message["role"]:
        rest["role"] = message["role"]
    return message_to_dict({**known, "additional_kwargs": rest})


def is_failure(returned: FunctionReturned) -> bool:
    """Return whether a call failed; OpenAI messages have no field for this, so it is read from the text."""
    if returned.is_error or FAILURE.match(returned.output):
        return True
    said = parsed_data(returned.output)
    return isinstance(said, dict) and bool(said.get("error"))


def parsed_data(text: str) -> dict[str, Any] | list[Any] | None:
    """Return the JSON object or array in a text; None if it is empty, or the text is something else."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value = _JSON.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    # Data that are nested too deeply cannot be stored as such, and stay a text.
    is_data = isinstance(value, dict | list) and value and not is_deeper(value, DATA_DEPTH_MAX)
    return value if is_data else None


class _Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A round that is recorded as a run, unless it was recorded before."""

    identity: RunId
    round: Round
    is_there: bool
    agent: str | None = None
    tools: tuple[tuple[str, dict[str, Any]], ...] = ()
    beside: Mapping[str, Any] = {}


def record_transcript(
    store: Store,
    messages: Sequence[Any],
    *,
    user_id: str,
    session_id: str,
    agent: str | None = None,
    tools: Sequence[Mapping[str, Any]] = (),
    attributes: Mapping[str, Any] | None = None,
) -> list[Run]:
    """
    Record a transcript of OpenAI messages as runs of a session, and return them: one for each message of the user.

    Each round is one transaction. Rounds that were recorded before are left as they are, so that a transcript may be
    recorded again, also after rounds were added to it. `tools` are definitions in OpenAI's form; `attributes` is data
    about the transcript. Both are kept with the first round.

    Raises:
        InvalidInputError: a value is not a message, a tool or JSON; there is no question; or a round differs from the
            recorded one. Nothing was written.
    """
    planned = _planned(store, messages, RunId(user_id, session_id), agent, tools, attributes or {})
    _rehearse(store, planned)
    return [_written(store, plan) for plan in planned]


def import_as_runs(
    store: Store, transcripts: Sequence[Transcript], *, user: str | None = None, progress: Progress | None = None
) -> ImportReport:
    """
    Record transcripts that were read from files as runs, each as a session with the name that its context would have.

    `progress` is called with the transcripts recorded so far and their number.

    Raises:
        InvalidInputError: as for `record_transcript`; nothing was written.
        ConcurrencyError, StorageError: the rounds before the one with the error are recorded; import them again.
    """
    require_functions(progress=progress)
    plans = [_planned_file(store, one, user or USER) for one in transcripts]
    for one, planned in zip(transcripts, plans, strict=True):
        try:
            _rehearse(store, planned)
        except RefusedError as error:
            raise InvalidInputError(f"{one.where}: {error}") from error
    done: list[ImportedContext] = []
    for number, planned in enumerate(plans, 1):
        with acting(actor="import"):
            done += [_outcome(_written(store, plan), plan) for plan in planned]
        if progress is not None:
            progress(number, len(plans))
    return ImportReport(contexts=tuple(done))


# Comparing with what is there


def _planned_file(store: Store, transcript: Transcript, user: str) -> list[_Plan]:
    beside = {"source": transcript.source, **transcript.attributes}
    # A field "tools" that is not a list has no definitions, and is kept as an attribute.
    tools = beside.pop("tools") if isinstance(beside.get("tools"), list) else ()
    try:
        return _planned(store, transcript.messages, RunId(user, transcript.context_id), None, tools, beside)
    except InvalidInputError as error:
        raise InvalidInputError(f"{transcript.where}: {error}") from error


def _planned(
    store: Store,
    messages: Sequence[Any],
    first: RunId,
    agent: str | None,
    tools: Sequence[Mapping[str, Any]],
    beside: Mapping[str, Any],
) -> list[_Plan]:
    rounds = rounds_of(messages, session_id=first.session_id)
    require_json(dict(beside), what="what lies beside the messages")
    defined = tuple(_tool(number, tool) for number, tool in enumerate(tools))
    identities = [first._replace(run_id=number) for number, _ in enumerate(rounds)]
    return [
        _Plan(
            identity=identity,
            round=one,
            is_there=_is_there(store, identity, one),
            agent=agent,
            tools=() if identity.run_id else defined,
            beside={} if identity.run_id else beside,
        )
        for identity, one in zip(identities, rounds, strict=True)
    ]


def _tool(number: int, definition: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name of a tool, and the attributes of its node."""
    function = definition.get("function", definition) if isinstance(definition, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"tool {number} (from 0): expected an object with the name of a function")
    require_json(definition, what=f"tool {number} (from 0)")
    description, params = function.get("description") or "", function.get("parameters")
    return name, {"description": description, "tool_params": params, "tool_returns": None}


def _is_there(store: Store, identity: RunId, one: Round) -> bool:
    if not store.log.head(identity.stream):
        return False
    events = store.log.read_events(identity.stream)
    recorded = [event.record for event in events if isinstance(event, MessageRecorded)]
    wanted = [canonical_json(record, what="a message") for record in one.records]
    if not recorded and not any(isinstance(event, QueryRegistered) for event in events):
        # The run was opened but never used, so the round can be recorded in it.
        return False
    # Messages that were recorded in the run afterwards need not be in the transcript.
    if recorded[: len(wanted)] != wanted:
        raise InvalidInputError(
            f"round {identity.run_id} (from 0) differs from the run {identity.stream!r} that is there: record it in "
            "another session, or import the file with another --prefix"
        )
    return True


def _outcome(run: Run, plan: _Plan) -> ImportedContext:
    if plan.is_there:
        return ImportedContext(id=run.id, outcome="unchanged", messages=0, items=0)
    nodes = sum(node.run_id == run.run_id for node in run.graph().nodes.values())
    return ImportedContext(id=run.id, outcome="added", messages=len(plan.round.records), items=nodes)


# Writing


def _rehearse(store: Store, planned: Sequence[_Plan]) -> None:
    """Record rounds in memory, so that an error in the last round comes before the first one is written."""
    above = store_above(store)
    for plan in planned:
        # A run that was only opened is left out, because the store in memory cannot continue it.
        if not store.log.head(plan.identity.stream):
            _written(above, plan)
            require_projectable(above.log, plan.identity.stream)


def _written(store: Store, plan: _Plan) -> Run:
    if plan.is_there:
        return store.run(*plan.identity, create=False)
    extra: dict[str, Any] = {"attributes": dict(plan.beside)} if plan.beside else {}
    with store.transaction():
        run = store.run(*plan.identity, agent=plan.agent)
        run.record_messages(*plan.round.records)
        query = run.register_query(plan.round.query, **extra)
        for name, fields in plan.tools:
            run.register_node("Tool", predecessor_node=[query], edge_type="find_relevant_tool", label=name, **fields)
        _record_turns(run, query, plan.round.turns)
    return run


def _record_turns(run: Run, query: str, turns: Sequence[MessageAdded | Batch]) -> None:
    """Register conclusions and actions; each follows from the turn before, which may be several parallel calls."""
    ends = [query]
    for turn in turns:
        if isinstance(turn, list):
            after = ends
            ends = [_record_call(run, after, call, returned) for call, returned in turn]
        elif text := _text(turn):
            ends = [run.register_node("State", "", ends, state=text)]


def _record_call(run: Run, after: list[str], call: FunctionCalled, returned: FunctionReturned | None) -> str:
    params = arguments_of(call.arguments)
    action = run.register_node(
        "Action",
        f"call of {call.name}",
        after,
        # The type is given, because there is no default type for an edge between two actions.
        "triggers",
        action=call.name,
        params=params,
        output=None if returned is None else returned.output,
        success=None if returned is None else not is_failure(returned),
        call_id=call.call_id,
    )
    data = None if returned is None or is_failure(returned) else parsed_data(returned.output)
    if data is not None:
        # The label depends on the call, so that the same call in a later round has the same data node.
        run.register_node(
            "Knowledge", "", [action], label=_label(call.name, params), knowledge_type=RESULT, knowledge_content=data
        )
    return action


def _label(name: str, params: Mapping[str, Any]) -> str:
    arguments = canonical_json(params, what="the arguments").decode()
    if len(arguments) > ARGUMENTS_SHOWN_MAX:
        digest = hashlib.blake2b(arguments.encode(), digest_size=6).hexdigest()
        arguments = f"{arguments[:ARGUMENTS_SHOWN_MAX]}... {digest}"
    return f"{name}({arguments})"


def _text(message: MessageAdded) -> str:
    return "\n".join(part for part in message.parts if isinstance(part, str))

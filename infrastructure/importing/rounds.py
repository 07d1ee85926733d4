"""The rounds of a transcript: each message of the user begins one, and what follows belongs to it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ...domain.canonical import canonical_json
from ...domain.chat.events import ChatItemEvent, FunctionReturned, MessageAdded
from ...domain.errors import InvalidInputError
from ...domain.formats.openai.receive import as_plain_data, shape_messages
from ...domain.formats.send import Batch, turns_of
from ...domain.log.admission import JSON_DEPTH_MAX, is_deeper
from ...domain.messages import message_to_dict

# What a record of a message has fields for; anything else is kept beside them.
RECORD_FIELDS = ("role", "content", "name", "id", "tool_calls", "tool_call_id")
FAILURE = re.compile(r"\s*error\b", re.IGNORECASE)
# It lies within the attributes of a node.
DATA_DEPTH_MAX = JSON_DEPTH_MAX - 10
_JSON = msgspec.json.Decoder()


class Round(msgspec.Struct, kw_only=True):
    """
    A question as it was sent, and the texts and batches of calls that answer it.

    `records` are its messages as a run records them, those before the first question among the first round's.
    """

    query: Any
    turns: list[MessageAdded | Batch] = msgspec.field(default_factory=list)
    records: list[dict[str, Any]] = msgspec.field(default_factory=list)


def rounds_of(messages: Sequence[Any], *, session_id: str) -> list[Round]:
    """
    Return the rounds of a transcript of OpenAI messages.

    Raises:
        InvalidInputError: something is no message, or cannot be stored; or nobody asks anything.
    """
    plain = [as_plain_data(message) for message in messages]
    groups = shape_messages(plain, context_id=session_id, created_at=0.0)
    rounds: list[Round] = []
    before: list[dict[str, Any]] = []
    for index, (message, group) in enumerate(zip(plain, groups, strict=True)):
        if message["role"] == "user":
            rounds.append(Round(query=message.get("content"), records=[] if rounds else before))
        record = _record(message, group[0])
        canonical_json(record, what=f"message {index} (from 0)")
        (rounds[-1].records if rounds else before).append(record)
    if not rounds:
        raise InvalidInputError("the transcript has no message of a user: a run begins with a query")
    _share_out([item for group in groups for item in group], rounds)
    return rounds


def _share_out(items: list[ChatItemEvent], rounds: list[Round]) -> None:
    """Give each round its turns; what is said before the first question is in no graph."""
    number = -1
    for turn in turns_of(items):
        if isinstance(turn, MessageAdded) and turn.role == "user":
            number += 1
        elif number >= 0:
            rounds[number].turns.append(turn)


def _record(message: Mapping[str, Any], item: ChatItemEvent) -> dict[str, Any]:
    """Return a message's record, in which nothing of the message is missing."""
    known = {name: message[name] for name in RECORD_FIELDS if name in message}
    rest = {name: value for name, value in message.items() if name not in RECORD_FIELDS}
    if isinstance(item, FunctionReturned):
        # Messages of the old role "function" have no id: that of the call they answer is theirs.
        known |= {"role": "tool", "name": item.name, "tool_call_id": item.call_id}
        known["status"] = "error" if is_failure(item) else "success"
    elif known["role"] == "developer":
        known["role"] = "system"
    if known["role"] != message["role"]:
        rest["role"] = message["role"]
    return message_to_dict({**known, "additional_kwargs": rest})


def is_failure(returned: FunctionReturned) -> bool:
    """Return whether a call failed: OpenAI messages have no field for it, so the text counts that says so."""
    if returned.is_error or FAILURE.match(returned.output):
        return True
    said = parsed_data(returned.output)
    return isinstance(said, dict) and bool(said.get("error"))


def parsed_data(text: str) -> dict[str, Any] | list[Any] | None:
    """Return the JSON object or array that a text is, if there is anything in it, else None."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value = _JSON.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    # What cannot be stored as data is still a text.
    is_data = isinstance(value, dict | list) and value and not is_deeper(value, DATA_DEPTH_MAX)
    return value if is_data else None

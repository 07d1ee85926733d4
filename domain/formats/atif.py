"""
Trajectories in the Agent Trajectory Interchange Format (ATIF), versions 1.0 to 1.8.

A step of an agent is its message, its calls, and what they returned. Items have no place for some fields of a step,
such as token ids: they are kept beside the items.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..chat.events import ChatItemEvent, FunctionCalled, FunctionReturned, MessageAdded
from ..chat.pairing import is_of_model, pair_calls
from ..chat.usage import metrics_of, put_usage, usage_of
from ..errors import InvalidInputError
from .documents import DocumentForm
from .parts import Call, Part, Picture, Result, parts_of, picture_at, read_parts, role_of, time_text
from .receive import Fields, Receiver, as_text
from .send import arguments_of

VERSION = "ATIF-v1.8"
KNOWN = re.compile(r"ATIF-v1\.[0-8]")
ROLES = {"system": "system", "user": "user", "agent": "assistant"}
SOURCES = {"system": "system", "user": "user", "assistant": "agent", "tool": "system"}
IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
COUNTS = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens", "cached_tokens": "cached_tokens"}
ANYONE = {"name": "refold", "version": "unknown"}

Step = dict[str, Any]


class AtifForm(DocumentForm):
    """A step, without its number, which follows from its place."""

    name = "atif"
    fields = ("steps",)

    def is_document(self, entry: Mapping[str, Any]) -> bool:
        return isinstance(entry.get("steps"), list) and str(entry.get("schema_version")).startswith("ATIF")

    def is_message(self, entry: Mapping[str, Any]) -> bool:
        """Return whether a value is a step; a step alone looks like any other object."""
        return False

    def messages_in(self, document: Mapping[str, Any]) -> list[Step]:
        """
        Return the steps of a trajectory.

        Raises:
            InvalidInputError: it is of a newer version, or its steps are not numbered from 1.
        """
        version = document.get("schema_version")
        if not KNOWN.fullmatch(str(version)):
            raise InvalidInputError(f"schema_version: found {version!r}, expected ATIF-v1.0 to {VERSION}")
        steps = []
        for number, step in enumerate(document["steps"], 1):
            fields = Fields(f"steps[{number - 1}]", step)
            if step.get("step_id") != number:
                raise fields.unexpected_value("step_id", step.get("step_id"), str(number))
            steps.append({name: value for name, value in step.items() if name != "step_id"})
        return steps

    def read(self, message: Step, into: Receiver) -> None:
        fields = Fields("a step", message)
        role = ROLES.get(str(message.get("source")))
        if role is None:
            raise fields.unexpected_value("source", message.get("source"), f"one of {', '.join(ROLES)}")
        said = message.get("message")
        calls = [_call(Fields("a step", call, "tool_calls")) for call in fields.several("tool_calls")]
        results = list(_results(fields.inner("observation"), {call.call_id: call.name for call in calls}))
        shown: list[Part] = [said] if isinstance(said, str) else [_part(part) for part in fields.several("message")]
        if said != "" or not (calls or results):
            read_parts(role, shown, into, "a step")
        if calls or results:
            read_parts(role, [*calls, *results], into, "a step")
        _complete(fields, into)

    def write(self, items: Sequence[ChatItemEvent]) -> Step | None:
        parts = list(parts_of(items))
        calls = [part for part in parts if isinstance(part, Call)]
        results = [part for part in parts if isinstance(part, Result)]
        shown = [part for part in parts if isinstance(part, str | Picture)]
        step: Step = {"timestamp": time_text(items[0]), "source": SOURCES[role_of(items)], "message": _message(shown)}
        if isinstance(items[0], MessageAdded) and items[0].role == "developer":
            step["extra"] = {"role": "developer"}
        if step["source"] == "agent":
            step |= _used(items)
        if calls:
            step["tool_calls"] = [
                {"tool_call_id": call.call_id, "function_name": call.name, "arguments": arguments_of(call.arguments)}
                for call in calls
            ]
        known = {call.call_id for call in calls}
        return step | ({"observation": {"results": [_result(one, known) for one in results]}} if results else {})

    def grouped(self, items: Sequence[ChatItemEvent]) -> list[list[int]]:
        """Return the indexes of the items of each step: what an agent said, its calls, and their outputs."""
        output_of = pair_calls(items).output_of
        called_at = {output: call for call, output in output_of.items()}
        groups: list[list[int]] = []
        group_of: dict[int, list[int]] = {}
        for index, item in enumerate(items):
            if isinstance(item, FunctionReturned) and index in called_at:
                group_of[called_at[index]].append(index)
            elif isinstance(item, FunctionCalled):
                if not (groups and index and is_of_model(items[index - 1])):
                    groups.append([])
                groups[-1].append(index)
                group_of[index] = groups[-1]
            elif isinstance(item, MessageAdded | FunctionReturned):
                groups.append([index])
        return groups

    def document(self, messages: Sequence[Step], context_id: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the trajectory with these steps; `attributes` are its fields at its import, or the agent alone."""
        steps = [{"step_id": number, **step} for number, step in enumerate(messages, 1)]
        if str(attributes.get("schema_version")).startswith("ATIF"):
            return {**attributes, "steps": steps}
        agent = attributes.get("agent", ANYONE)
        return {"schema_version": VERSION, "trajectory_id": context_id, "agent": agent, "steps": steps}


def _call(fields: Fields) -> Call:
    arguments = as_text(fields.value.get("arguments") or {}, "the arguments of a call")
    return Call(fields.text("function_name"), arguments, fields.text("tool_call_id"))


def _results(observation: Fields, names: Mapping[str | None, str]) -> Iterator[Result]:
    for listed in observation.several("results"):
        result = Fields("a step", listed, "observation.results")
        content = result.value.get("content")
        output = "" if content is None else content if isinstance(content, str) else as_text(content, "a result")
        call_id = None if result.value.get("source_call_id") is None else result.text("source_call_id")
        failed = result.inner("extra").value.get("is_error") is True
        yield Result(names.get(call_id, ""), output, call_id, is_error=failed)


def _part(part: Any) -> Part:
    fields = Fields("a step", part, "message")
    if part.get("type") == "text":
        return fields.text("text")
    return picture_at(fields.inner("source").value.get("path")) if part.get("type") == "image" else None


def _complete(fields: Fields, into: Receiver) -> None:
    """Give the items of a step its time, and the first item of an agent's step the usage."""
    step = fields.value
    at = _time_in(step.get("timestamp"))
    if at is not None:
        into.items[:] = [msgspec.structs.replace(item, created_at=at) for item in into.items]
    first, counted = into.items[0], fields.inner("metrics").value
    if isinstance(first, MessageAdded) and (step.get("extra") or {}) == {"role": "developer"}:
        into.items[0] = msgspec.structs.replace(first, role="developer")
    used = {ours: counted[theirs] for theirs, ours in COUNTS.items() if isinstance(counted.get(theirs), int)}
    cost = {"cost": counted["cost_usd"]} if isinstance(counted.get("cost_usd"), int | float) else {}
    model = {"model": step["model_name"]} if isinstance(step.get("model_name"), str) else {}
    given = metrics_of(None, None, **used, **cost, **model) if used or cost or model else None
    if step.get("source") == "agent":
        put_usage(into.items, given, what="the metrics of a step")


def _message(shown: Sequence[str | Picture]) -> str | list[dict[str, Any]]:
    if not shown:
        return ""
    if len(shown) == 1 and isinstance(shown[0], str):
        return shown[0]
    return [_content(part) for part in shown]


def _content(part: str | Picture) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if part.data is not None or part.media_type not in IMAGES:
        return {"type": "text", "text": f"[An image of the type {part.media_type} is left out]"}
    return {"type": "image", "source": {"media_type": part.media_type, "path": part.url}}


def _result(result: Result, known: set[str | None]) -> dict[str, Any]:
    # The format requires that a result names a call of its own step.
    place = {"source_call_id": result.call_id} if result.call_id in known else {}
    return {**place, "content": result.output, **({"extra": {"is_error": True}} if result.is_error else {})}


def _used(items: Sequence[ChatItemEvent]) -> dict[str, Any]:
    usage = usage_of(items[0])
    counts = {theirs: getattr(usage, ours) for theirs, ours in COUNTS.items() if getattr(usage, ours)}
    cost = {} if usage.cost is None else {"cost_usd": float(usage.cost)}
    named = {"model_name": usage.model} if usage.model else {}
    return named | ({"metrics": counts | cost} if counts or cost else {})


def _time_in(text: Any) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
        # In UTC it may be before the first year, or after the last one.
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None

"""
The rules of Gemini's generateContent (SPEC X3): each rule that a request breaks is a line of text.

Written from the provider's errors, not from the converter.
"""

import base64
import itertools
import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
KINDS = ("text", "inline_data", "file_data", "function_call", "function_response")


def faults(
    contents: Sequence[dict[str, Any]], *, signed: bool = False, declared: Collection[str] | None = None
) -> list[str]:
    """
    Return the faults of a request; `signed` requires signatures, as newer models do, and `declared` are the names of
    the functions that the request declares.
    """
    found = [*_unwritable(contents), *_order(contents)]
    for index, content in enumerate(contents):
        lines = [*_parts(content), *_calls(contents, index, signed=signed)]
        found += [f"contents.{index}: {line}" for line in lines]
    names = {call["name"] for content in contents for call in _of(content, "function_call")}
    if declared is not None and names - {*declared}:
        found.append(f"undeclared names: {sorted(names - {*declared})}")
    return found


def kind_of(content: dict[str, Any]) -> str:
    """Return the kind of turn that a content is: of the model, of the user, or of responses."""
    if content["role"] == "model":
        return "model"
    return "responses" if _of(content, "function_response") else "user"


def _of(content: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [part[kind] for part in content["parts"] if kind in part]


def _unwritable(contents: Any) -> Iterator[str]:
    try:
        json.dumps(contents, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        yield f"the request cannot be written as JSON: {error}"


def _order(contents: Sequence[dict[str, Any]]) -> Iterator[str]:
    kinds = [kind_of(content) for content in contents]
    if not kinds:
        yield "contents are not specified"
        return
    if kinds[0] != "user":
        yield "the first turn must be the user's"
    if kinds[-1] == "model":
        yield "the last turn must be the user's or a function response"
    if any(one == other for one, other in itertools.pairwise(kinds)):
        yield "turns of one kind must be one content"
    if any(content["role"] not in ("user", "model") for content in contents):
        yield "use a valid role: user, model"


def _parts(content: dict[str, Any]) -> Iterator[str]:
    if not content["parts"]:
        yield "must include at least one parts field"
    for part in content["parts"]:
        if sum(kind in part for kind in KINDS) != 1:
            yield "required oneof field data must have one initialized field"
        if part.get("text") == "":
            yield "must have a text parameter"
        if "/" not in part.get("inline_data", {"mime_type": "/"})["mime_type"]:
            yield "inline_data must have a mime_type"
        if "/" not in part.get("file_data", {"mime_type": "/"})["mime_type"]:
            yield "file_data must have a mime_type"
        try:
            base64.b64decode(part.get("thought_signature", ""), validate=True)
            base64.b64decode(part.get("inline_data", {"data": ""})["data"], validate=True)
        except ValueError:
            yield "bytes must be base64"
    if _of(content, "function_response") and len(_of(content, "function_response")) < len(content["parts"]):
        yield "a function response turn must hold nothing else"


def _calls(contents: Sequence[dict[str, Any]], index: int, *, signed: bool) -> Iterator[str]:
    content = contents[index]
    calls, responses = _of(content, "function_call"), _of(content, "function_response")
    asked = _of(contents[index - 1], "function_call") if index else []
    if len(asked) != len(responses):
        yield "the number of function response parts must equal the number of function call parts of the turn before"
    elif [(call.get("id"), call["name"]) for call in asked] != [(said.get("id"), said["name"]) for said in responses]:
        yield "function responses must answer the calls of the turn before"
    if calls and content["role"] != "model":
        yield "function calls are the model's"
    if calls and index + 1 == len(contents):
        yield "function calls without function responses"
    if calls and (not index or kind_of(contents[index - 1]) == "model"):
        yield "a function call turn must come after a user turn or a function response turn"
    ids = [call["id"] for call in calls if "id" in call]
    if len({*ids}) < len(ids):
        yield "equal ids in one content"
    if any(not NAME.fullmatch(call["name"]) for call in calls + responses):
        yield "invalid function name"
    if any(not isinstance(call["args"], dict) for call in calls):
        yield "args must be an object"
    if (
        signed
        and calls
        and not next(part for part in content["parts"] if "function_call" in part).get("thought_signature")
    ):
        yield "function call is missing a thought_signature"

"""
The rules of OpenAI's APIs, written from their documents and their errors (SPEC X3); they share no code with the
converters.

`faults` is for the messages of chat completions, `responses_faults` for the input of the Responses API. Both describe
the faults in words; an empty list means that the API would accept the request.
"""

import re
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
SPEAKER = re.compile(r"[^\s<|\\/>]{1,64}")
CHAT_PARTS = {
    "system": {"text"},
    "developer": {"text"},
    "tool": {"text"},
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
}
RESPONSES_PARTS = {
    "system": {"input_text", "input_image", "input_file"},
    "developer": {"input_text", "input_image", "input_file"},
    "user": {"input_text", "input_image", "input_file"},
    "assistant": {"output_text", "refusal"},
}
ID_STARTS = {"message": "msg", "function_call": "fc", "reasoning": "rs"}
CALLS, OUTPUTS = "function_call", "function_call_output"


def faults(messages: list[dict[str, Any]]) -> list[str]:
    """Return the faults for which chat completions would refuse these messages."""
    found: list[str] = []
    awaited: list[str] = []
    legacy: str | None = None
    for index, message in enumerate(messages):
        where = f"message {index}"
        role = message.get("role")
        if role == "tool":
            found += _tool_faults(where, message, awaited)
        elif awaited:
            found.append(f"{where}: {role} comes before the outputs of {awaited}")
            awaited = []
        if role == "function" and message.get("name") != legacy:
            found.append(f"{where}: no function_call of {message.get('name')!r} right before")
        legacy = (message.get("function_call") or {}).get("name") if role == "assistant" else None
        found += _message_faults(where, message)
        if role == "assistant" and "tool_calls" in message:
            found += _call_faults(where, message["tool_calls"])
            awaited = [call.get("id") for call in message["tool_calls"] or []]
    if awaited:
        found.append(f"at the end: no outputs of {awaited}")
    return found


def _tool_faults(where: str, message: dict[str, Any], awaited: list[str]) -> list[str]:
    call_id = message.get("tool_call_id")
    if call_id not in awaited:
        return [f"{where}: no call {call_id!r} waits for this output"]
    awaited.remove(call_id)
    return []


def _message_faults(where: str, message: dict[str, Any]) -> list[str]:
    role, content = message.get("role"), message.get("content")
    if role == "function":
        return [] if content is None or isinstance(content, str) else [f"{where}: content of a function is text"]
    if role not in CHAT_PARTS:
        return [f"{where}: no role {role!r}"]
    found = _content_faults(where, content, CHAT_PARTS[role])
    if role == "assistant" and content is None:
        found = [] if any(map(message.get, ("tool_calls", "function_call", "refusal", "audio"))) else found
    name = message.get("name", "x")
    if role != "tool" and not (isinstance(name, str) and SPEAKER.fullmatch(name)):
        found.append(f"{where}: bad name {name!r}")
    return found


def _content_faults(where: str, content: Any, kinds: set[str]) -> list[str]:
    if isinstance(content, str):
        return []
    if not isinstance(content, list):
        return [f"{where}: content is {type(content).__name__}"]
    if not content:
        return [f"{where}: content is an empty list"]
    found = [f"{where}: no {part.get('type')!r} here" for part in content if part.get("type") not in kinds]
    for part in content:
        image = part.get("image_url")
        url = image.get("url") if isinstance(image, dict) else image
        if isinstance(url, str) and url.startswith("data:") and ";base64," not in url:
            found.append(f"{where}: image data without its type")
    return found


def _call_faults(where: str, calls: Any) -> list[str]:
    if not isinstance(calls, list) or not calls:
        return [f"{where}: tool_calls is empty"]
    found = []
    for call in calls:
        called = call.get("function") or call.get("custom") or {}
        if not NAME.fullmatch(called.get("name", "")):
            found.append(f"{where}: bad function name {called.get('name')!r}")
        if not 0 < len(call.get("id") or "") <= 40:
            found.append(f"{where}: bad call id {call.get('id')!r}")
    ids = [call.get("id") for call in calls]
    return found if len(ids) == len(set(ids)) else [*found, f"{where}: a call id twice in {ids}"]


def responses_faults(items: list[dict[str, Any]]) -> list[str]:
    """Return the faults for which the Responses API would refuse this input."""
    found = [fault for index, item in enumerate(items) for fault in _item_faults(f"item {index}", item)]
    asked = [item.get("call_id") for item in items if item.get("type") == CALLS]
    answered: list[Any] = []
    waiting: set[Any] = set()
    for index, item in enumerate(items):
        if item.get("type") == CALLS:
            waiting.add(item.get("call_id"))
        if item.get("type") == OUTPUTS:
            answered.append(item.get("call_id"))
            if item.get("call_id") not in waiting:
                found.append(f"item {index}: no call {item.get('call_id')!r} before this output")
    for what, ids in (("call", asked), ("output", answered), ("item", [i["id"] for i in items if i.get("id")])):
        found += [f"the {what} id {one!r} twice" for one in {one for one in ids if ids.count(one) > 1}]
    found += [f"no output for call {one!r}" for one in set(asked) - set(answered)]
    for item, after in zip(items, [*items[1:], {"type": OUTPUTS}], strict=False):
        is_of_user = after.get("type") == OUTPUTS or after.get("role", "assistant") != "assistant"
        if item.get("type") == "reasoning" and is_of_user:
            found.append("reasoning without the item that it led to")
    return found


def _item_faults(where: str, item: dict[str, Any]) -> list[str]:
    kind, known = item.get("type", "message"), item.get("id")
    if known is not None and not (known.startswith(ID_STARTS.get(kind, "")) and len(known) <= 64):
        return [f"{where}: bad id {known!r} of a {kind}"]
    if kind in (CALLS, OUTPUTS):
        found = [] if 0 < len(item.get("call_id") or "") <= 64 else [f"{where}: bad call id {item.get('call_id')!r}"]
        if kind == CALLS and not NAME.fullmatch(item.get("name", "")):
            found.append(f"{where}: bad function name {item.get('name')!r}")
        return found if kind == CALLS else [*found, *_output_faults(where, item.get("output"))]
    if kind != "message":
        return []
    role = item.get("role")
    if role not in RESPONSES_PARTS:
        return [f"{where}: no role {role!r}"]
    return _content_faults(where, item.get("content"), RESPONSES_PARTS[role])


def _output_faults(where: str, output: Any) -> list[str]:
    return _content_faults(where, output, RESPONSES_PARTS["user"])

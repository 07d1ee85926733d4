"""
The seed's conversion to Anthropic messages (SPEC V10), and what Refold repairs in it, each repair a switch.

V10.2 instructions whole and in force; V10.4 images that would be refused, as text; V10.5 arguments always an object;
V10.7 an output ends a batch; V10.8 a call without output is answered; V10.10 no blank text or error, and a user's
message first; V10.12 repeated ids renamed, outputs paired by occurrence; X3 a user's message last.
"""

from collections.abc import Collection, Sequence
from typing import Any

from .plain_items import Item
from .seed_items import NO_OUTPUT, arguments_of, failure, outputs_by_occurrence, system_of
from .switches import explanation

NUMBERS = ("V10.2", "V10.4", "V10.5", "V10.7", "V10.8", "V10.10", "V10.12", "X3")
DUMMY_FIRST, DUMMY_LAST = "(empty)", "."
BLANK_ERROR = "[The call failed without a message]"
Message = dict[str, Any]


def explain(items: Sequence[Item], *, recorded: Any, ours: Any) -> list[str]:
    """Return the deviations that lead from a recorded answer to ours, both as (messages, system)."""
    return explanation(lambda on: modelled(items, on), NUMBERS, recorded=recorded, ours=ours)


def modelled(items: Sequence[Item], on: Collection[str]) -> Any:
    """Return what the seed answers, with the repairs that are `on`."""
    try:
        messages = _answered(_drafted(items, on), items, on)
    except ValueError as error:
        return failure(error)
    return [_ended(_merged(messages), on), system_of(items, on, "V10.2")]


def _drafted(items: Sequence[Item], on: Collection[str]) -> list[Message]:
    messages: list[Message] = []
    # Whether the next call joins the calls before it; a message ends a batch, even one with neither text nor image.
    is_open = False
    for place, item in enumerate(items):
        if item["type"] == "message" and item["role"] in ("user", "assistant"):
            is_open = False
            content = _content(item, on)
            if content or "V10.10" not in on:
                messages.append({"role": item["role"], "content": content})
        elif item["type"] == "function_call":
            use = {"type": "tool_use", "id": item["call_id"], "name": item["name"], "place": place}
            use["input"] = arguments_of(item["arguments"], repaired="V10.5" in on)
            if is_open:
                messages[-1]["content"].append(use)
            else:
                messages.append({"role": "assistant", "content": [use]})
            is_open = True
        elif item["type"] == "function_call_output" and "V10.7" in on:
            is_open = False
    return messages


def _content(item: Item, on: Collection[str]) -> Any:
    content = item["content"]
    parts = [content] if isinstance(content, str) else content
    texts = [part for part in parts if isinstance(part, str) and ("V10.10" not in on or part.strip())]
    images = [_image(part, item, on) for part in parts if not isinstance(part, str)]
    if not images and len(texts) == 1 and (len(parts) == 1 or "V10.10" in on):
        return texts[0]
    blocks = images + [{"type": "text", "text": text} for text in texts]
    # A text that replaces an image is a text: if it is alone, it is the whole content.
    return blocks[0]["text"] if [block["type"] for block in blocks] == ["text"] else blocks


def _image(part: dict[str, str], item: Item, on: Collection[str]) -> dict[str, Any]:
    url = part["image"]
    where = "" if url.startswith("data:") else f": {url}"
    if "V10.4" in on and item["role"] == "assistant":
        why = f"an assistant's message cannot hold one{where}"
        return {"type": "text", "text": f"[Image {part['id']} is left out: {why}]"}
    if where:
        return {"type": "image", "source": {"type": "url", "url": url}}
    header, data = url.split(",", 1)
    return {"type": "image", "source": {"type": "base64", "media_type": header[5:].split(";")[0], "data": data}}


def _answered(messages: list[Message], items: Sequence[Item], on: Collection[str]) -> list[Message]:
    by_id = {item["call_id"]: item for item in items if item["type"] == "function_call_output"}
    by_place = outputs_by_occurrence(items)
    answered, taken = [], set()
    for message in messages:
        answered.append(message)
        results: dict[Any, dict[str, Any]] = {}
        for use in message["content"] if isinstance(message["content"], list) else []:
            if use["type"] != "tool_use":
                continue
            place, wanted = use.pop("place"), use["id"]
            # The seed takes each result once, also if a later message calls under the same id.
            output = by_place.get(place) if "V10.12" in on else by_id.pop(wanted, None)
            if "V10.12" in on and wanted in taken:
                use["id"] = next(f"{wanted}_{n}" for n in range(2, len(items) + 2) if f"{wanted}_{n}" not in taken)
            taken.add(use["id"])
            if output is None and "V10.8" in on:
                output = NO_OUTPUT
            if output is not None:
                is_said = "V10.10" not in on or not output["is_error"] or output["output"].strip()
                results[use["id"]] = {"type": "tool_result", "tool_use_id": use["id"], "is_error": output["is_error"],
                                      "content": output["output"] if is_said else BLANK_ERROR}  # fmt: skip
        if results:
            answered.append({"role": "user", "content": [*results.values()]})
    return answered


def _merged(messages: list[Message]) -> list[Message]:
    merged: list[Message] = []
    for message in messages:
        if merged and merged[-1]["role"] == message["role"]:
            merged[-1]["content"] = _blocks(merged[-1]["content"]) + _blocks(message["content"])
        else:
            merged.append(message)
    return merged


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _ended(messages: list[Message], on: Collection[str]) -> list[Message]:
    if "V10.10" in on and (not messages or messages[0]["role"] == "assistant"):
        messages.insert(0, {"role": "user", "content": DUMMY_FIRST})
    if "X3" in on and messages and messages[-1]["role"] == "assistant":
        messages.append({"role": "user", "content": DUMMY_LAST})
    return messages

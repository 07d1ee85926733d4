"""
The seed's conversion to Google contents (SPEC V11), and what Refold repairs in it, each repair a switch.

V11.2 instructions whole and in force; V11.3 neighbours of one kind are one content; V11.4 addresses of images are
sent; V11.5 calls have ids, and arguments are an object; V11.6 a signature kept by name goes to one call; V11.7 a
batch is one content, and its outputs the one behind it; V11.8 an error is said to be one; X3 no empty texts, and a
user's content first and last.
"""

import binascii
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from .plain_items import Item
from .seed_items import NO_OUTPUT, arguments_of, failure, outputs_by_occurrence, system_of
from .switches import explanation

NUMBERS = ("V11.2", "V11.3", "V11.4", "V11.5", "V11.6", "V11.7", "V11.8", "X3")
STANDARD = str.maketrans("-_", "+/")
DUMMY_FIRST, DUMMY_LAST = "(empty)", "."
Content = dict[str, Any]


class ValidationError(ValueError):
    """In the model, an error in the place of pydantic's of the same name."""


def explain(
    items: Sequence[Item], *, recorded: Any, ours: Any, thought_signatures: Mapping[str, str] | None = None
) -> list[str]:
    """
    Return the deviations that lead from a recorded answer to ours, both as (contents, system).

    `thought_signatures` are base64. Only the kind of a recorded error is compared, because pydantic writes its text.
    """
    recorded = {"__error__": recorded["__error__"]} if "__error__" in recorded else _in_standard_base64(recorded)
    named = thought_signatures or {}
    return explanation(lambda on: modelled(items, on, named), NUMBERS, recorded=recorded, ours=ours)


def _in_standard_base64(recorded: Any) -> Any:
    """The recording was written with the alphabet for URLs; the bytes are the same."""
    contents, system = recorded
    return [[{**one, "parts": [_standard(part) for part in one["parts"]]} for one in contents], system]


def _standard(part: dict[str, Any]) -> dict[str, Any]:
    if "inline_data" in part:
        part = {**part, "inline_data": {**part["inline_data"], "data": part["inline_data"]["data"].translate(STANDARD)}}
    if "thought_signature" in part:
        part = {**part, "thought_signature": part["thought_signature"].translate(STANDARD)}
    return part


def modelled(items: Sequence[Item], on: Collection[str], named: Mapping[str, str]) -> Any:
    """Return what the seed answers, with the repairs that are `on`."""
    try:
        contents = _drafted(items, on)
    except ValueError as error:
        return {"__error__": failure(error)["__error__"]}
    _sign(contents, items, on, named)
    if "V11.7" in on:
        contents = _grouped(contents, items, on)
    if "X3" in on:
        contents = _without_empties(contents)
    if "V11.3" in on:
        contents = _merged(contents)
    contents = _ended(contents, on)
    return [[{"parts": one["parts"], "role": one["role"]} for one in contents], system_of(items, on, "V11.2")]


def _drafted(items: Sequence[Item], on: Collection[str]) -> list[Content]:
    contents: list[Content] = []
    taken: set[str] = set()
    for place, item in enumerate(items):
        if item["type"] == "message" and item["role"] in ("user", "assistant"):
            role = "user" if item["role"] == "user" else "model"
            contents.append({"kind": role, "role": role, "parts": _parts(item, on), "place": place})
        elif item["type"] == "function_call":
            part = {"function_call": _call(item, taken, on)}
            contents.append({"kind": "call", "role": "model", "parts": [part], "place": place})
        elif item["type"] == "function_call_output":
            response = _response(item, {"name": item["name"], "id": item["call_id"]}, on)
            contents.append({"kind": "responses", "role": "user", "parts": [response], "place": place})
    return contents


def _call(item: Item, taken: set[str], on: Collection[str]) -> dict[str, Any]:
    args = arguments_of(item["arguments"], repaired="V11.5" in on)
    if not isinstance(args, dict):
        raise ValidationError("args")
    call = {"name": item["name"], "args": args}
    return {**call, "id": _free(item["call_id"], taken)} if "V11.5" in on else call


def _free(call_id: str, taken: set[str]) -> str:
    number, free = 1, call_id
    while free in taken:
        number += 1
        free = f"{call_id}_{number}"
    taken.add(free)
    return free


def _parts(item: Item, on: Collection[str]) -> list[dict[str, Any]]:
    content = item["content"]
    parts: list[dict[str, Any]] = []
    for part in [content] if isinstance(content, str) else content:
        if isinstance(part, str):
            parts.append({"text": part})
        elif part["image"].startswith("data:"):
            header, data = part["image"].split(",", 1)
            parts.append({"inline_data": {"data": data, "mime_type": header[5:].split(";")[0]}})
        elif "V11.4" in on:
            ending = part["image"].partition("?")[0].rpartition(".")[2].lower()
            kind = ending if ending in ("png", "gif", "webp") else "jpeg"
            parts.append({"file_data": {"file_uri": part["image"], "mime_type": f"image/{kind}"}})
    return parts


def _response(output: Mapping[str, Any], call: Mapping[str, Any], on: Collection[str]) -> dict[str, Any]:
    kind = "error" if "V11.8" in on and output["is_error"] else "output"
    response = {"name": call["name"], "response": {kind: output["output"]}}
    return {"function_response": {**response, "id": call["id"]} if "V11.5" in on else response}


def _sign(contents: list[Content], items: Sequence[Item], on: Collection[str], named: Mapping[str, str]) -> None:
    newest: dict[str, Content] = {}
    last = ""
    in_batch: set[str] = set()
    for content in contents:
        if content["kind"] == "call":
            in_batch = in_batch if last == "call" else set()
            item = items[content["place"]]
            own = (item["metadata"] or {}).get("thought_signature")
            if _is_base64(own):
                content["parts"][0]["thought_signature"] = own
            elif own is None and item["name"] in named and "V11.6" not in on:
                content["parts"][0]["thought_signature"] = named[item["name"]]
            if item["name"] not in in_batch:
                newest[item["name"]] = content
            in_batch.add(item["name"])
        last = content["kind"]
    for name, content in newest.items() if "V11.6" in on else ():
        if name in named and "thought_signature" not in (items[content["place"]]["metadata"] or {}):
            content["parts"][0]["thought_signature"] = named[name]


def _is_base64(text: Any) -> bool:
    try:
        return bool(text and binascii.a2b_base64(text.translate(STANDARD), strict_mode=True))
    except ValueError:
        return False


def _grouped(contents: list[Content], items: Sequence[Item], on: Collection[str]) -> list[Content]:
    outputs = outputs_by_occurrence(items)
    grouped: list[Content] = []
    last = ""
    for content in contents:
        if content["kind"] == "call":
            call = content["parts"][0]["function_call"]
            response = _response(outputs.get(content["place"], NO_OUTPUT), {"id": "", **call}, on)
            if last != "call":
                grouped.append({**content, "kind": "model", "parts": []})
                grouped.append({"kind": "responses", "role": "user", "parts": []})
            grouped[-2]["parts"] += content["parts"]
            grouped[-1]["parts"].append(response)
        elif content["kind"] != "responses":
            grouped.append(content)
        last = content["kind"]
    return grouped


def _without_empties(contents: list[Content]) -> list[Content]:
    kept = [{**one, "parts": [part for part in one["parts"] if part.get("text") != ""]} for one in contents]
    return [one for one in kept if one["parts"]]


def _merged(contents: list[Content]) -> list[Content]:
    merged: list[Content] = []
    for content in contents:
        if merged and merged[-1]["kind"] == content["kind"]:
            merged[-1] = {**content, "parts": merged[-1]["parts"] + content["parts"]}
        else:
            merged.append(content)
    return merged


def _ended(contents: list[Content], on: Collection[str]) -> list[Content]:
    if "X3" not in on:
        return contents
    if not contents or contents[0]["role"] == "model":
        contents.insert(0, {"role": "user", "parts": [{"text": DUMMY_FIRST}]})
    if contents[-1]["role"] == "model":
        contents.append({"role": "user", "parts": [{"text": DUMMY_LAST}]})
    return contents

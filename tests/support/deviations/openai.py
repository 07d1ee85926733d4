"""
Computes Refold's OpenAI messages from the recorded messages of the seed: one function for each deviation of SPEC V9.

First each message of the seed is paired with the items from which it was made. A deviation then takes the list of pairs
and returns the repaired list. It shares no code with the converter. `repaired_messages` applies all of them in turn.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .switches import UNEXPLAINED

Item = dict[str, Any]
Message = dict[str, Any]

NO_OUTPUT = "[No output was recorded for this call; it may or may not have run]"


class Told(NamedTuple):
    """Items, by their indexes, and the message that the seed made of them, if any."""

    indexes: tuple[int, ...]
    message: Message | None


Row = list[Told]
Deviation = Callable[[Sequence[Item], Row], Row]


def explain(items: Sequence[Item], *, recorded: Any, ours: Any) -> list[str]:
    """
    Return the numbers of the deviations that lead from a recorded answer to ours: none where they are equal,
    `unexplained` where they lead elsewhere.
    """
    repaired, numbers = repaired_messages(items, recorded)
    return numbers if repaired == ours else [UNEXPLAINED]


def repaired_messages(items: Sequence[Item], recorded: Sequence[Message]) -> tuple[list[Message], list[str]]:
    """Return the messages that Refold gives for these items, and the numbers of the deviations that made them so."""
    try:
        row = _beside(items, recorded)
    except IndexError:
        return list(recorded), []
    numbers: list[str] = []
    for number, deviation in DEVIATIONS:
        repaired = deviation(items, row)
        changed = [told.message for told in repaired if told.message] != [told.message for told in row if told.message]
        numbers += [number] if changed and number not in numbers else []
        row = repaired
    return [told.message for told in row if told.message is not None], numbers


def _beside(items: Sequence[Item], recorded: Sequence[Message]) -> Row:
    """The seed leaves out later instructions, handoffs and config updates, and joins consecutive calls."""
    left = list(recorded)
    row: Row = []
    index = 0
    while index < len(items):
        end = index + 1
        if items[index]["type"] == "function_call":
            while end < len(items) and items[end]["type"] == "function_call":
                end += 1
        is_told = items[index]["type"] in ("message", "function_call", "function_call_output")
        is_later = _instructs(items[index]) and any(map(_instructs, items[:index]))
        row.append(Told(tuple(range(index, end)), left.pop(0) if is_told and not is_later else None))
        index = end
    if left:
        raise IndexError("the seed has no more messages than its items")
    return row


def _instructs(item: Item) -> bool:
    return item["type"] == "message" and item["role"] in ("system", "developer")


def last_instructions_win(items: Sequence[Item], row: Row) -> Row:
    """V9.5: the instructions in force, which are the last ones, come first instead of the first ones."""
    if sum(map(_instructs, items)) < 2:
        return row
    return [_with_content(told, items, _in_force(items)) for told in row]


def config_instructions_are_sent(items: Sequence[Item], row: Row) -> Row:
    """V9.7: if there is no system message, the instructions of a config update come before all messages."""
    if any(map(_instructs, items)) or not _in_force(items):
        return row
    return [Told((), {"role": "system", "content": _in_force(items)}), *row]


def instructions_are_text(items: Sequence[Item], row: Row) -> Row:
    """
    V9.2: only images of users are sent. Instructions lose their images, and in an answer a text replaces an image. An
    empty list of parts is refused, so it becomes an empty text.
    """
    repaired = []
    for told in row:
        message = told.message
        if message and isinstance(message.get("content"), list):
            parts = [_told_part(items[told.indexes[0]], n, part) for n, part in enumerate(message["content"])]
            message = {**message, "content": [part for part in parts if part] or ""}
        repaired.append(Told(told.indexes, message))
    return repaired


def _told_part(item: Item, place: int, part: dict[str, Any]) -> dict[str, Any] | None:
    if part["type"] == "text" or item["role"] == "user":
        return part
    if item["role"] != "assistant":
        return None
    image = item["content"][place]["id"]
    return {"type": "text", "text": f"[Image {image} is left out: images are taken from users only]"}


def _with_content(told: Told, items: Sequence[Item], content: str | None) -> Told:
    if told.message is None or not told.indexes or not _instructs(items[told.indexes[0]]):
        return told
    return Told(told.indexes, {**told.message, "content": content})


def _in_force(items: Sequence[Item]) -> str | None:
    for item in reversed(items):
        if _instructs(item):
            content = item["content"]
            return content if isinstance(content, str) else " ".join(p for p in content if isinstance(p, str))
        if item["type"] == "agent_config_update" and item["instructions"] is not None:
            return str(item["instructions"])
    return None


def silent_items_part_no_calls(items: Sequence[Item], row: Row) -> Row:
    """V9.8: calls with only handoffs and config updates between them are one message."""
    repaired: Row = []
    for told in row:
        if told.message is None and not _instructs(items[told.indexes[0]]):
            continue
        last = repaired[-1].message if repaired else None
        if told.message and last and "tool_calls" in told.message and "tool_calls" in last:
            calls = [*last["tool_calls"], *told.message["tool_calls"]]
            repaired[-1] = Told(repaired[-1].indexes + told.indexes, {**last, "tool_calls": calls})
        else:
            repaired.append(told)
    return repaired


def outputs_follow_their_calls(items: Sequence[Item], row: Row) -> Row:
    """
    V9.11: outputs come directly after the message of their call, in their order. Outputs that answer no call are left
    out, and a call without output gets a fixed text. Ids are unique within a message.
    """
    answers = _answers(items, row)
    repaired: Row = []
    for told in row:
        if not told.message or "tool_calls" not in told.message:
            is_output = told.message is not None and told.message["role"] == "tool"
            repaired += [] if is_output else [told]
            continue
        ids = _distinct([call["id"] for call in told.message["tool_calls"]])
        calls = [{**call, "id": made} for call, made in zip(told.message["tool_calls"], ids, strict=True)]
        repaired.append(Told(told.indexes, {**told.message, "tool_calls": calls}))
        behind = sorted(
            (answers.get(index, len(items)), place, made)
            for place, (index, made) in enumerate(zip(told.indexes, ids, strict=True))
        )
        for output, _, made in behind:
            content = items[output]["output"] if output < len(items) else NO_OUTPUT
            repaired.append(Told((), {"role": "tool", "tool_call_id": made, "content": content}))
    return repaired


def _answers(items: Sequence[Item], row: Row) -> dict[int, int]:
    """
    Pair by occurrence: an output answers the first call with its id that still waits, in the last batch with such a
    call.
    """
    batches = [told.indexes for told in row if told.message and "tool_calls" in told.message]
    answers: dict[int, int] = {}
    for place, item in enumerate(items):
        if item["type"] != "function_call_output":
            continue
        for batch in reversed([batch for batch in batches if batch[0] < place]):
            waiting = [i for i in batch if items[i]["call_id"] == item["call_id"] and i not in answers]
            if waiting:
                answers[waiting[0]] = place
                break
    return answers


def _distinct(ids: Sequence[str]) -> list[str]:
    made: list[str] = []
    for one in ids:
        wanted = one if 0 < len(one) <= 40 else "call_" + hashlib.blake2b(one.encode(), digest_size=12).hexdigest()
        names = [wanted, *(f"{wanted[: 40 - len(f'-{n}')]}-{n}" for n in range(2, len(ids) + 2))]
        made.append(next(name for name in names if name not in made))
    return made


def function_names_are_spelt(items: Sequence[Item], row: Row) -> Row:
    """V9.11: a function's name has letters, digits, `_` and `-` only, 64 at most."""
    repaired = []
    for told in row:
        message = told.message
        if message and "tool_calls" in message:
            message = {**message, "tool_calls": [_spelt(call) for call in message["tool_calls"]]}
        repaired.append(Told(told.indexes, message))
    return repaired


def _spelt(call: dict[str, Any]) -> dict[str, Any]:
    name = re.sub("[^a-zA-Z0-9_-]", "_", call["function"]["name"])[:64] or "_"
    return {**call, "function": {**call["function"], "name": name}}


DEVIATIONS: Sequence[tuple[str, Deviation]] = (
    ("V9.5", last_instructions_win),
    ("V9.2", instructions_are_text),
    ("V9.7", config_instructions_are_sent),
    ("V9.8", silent_items_part_no_calls),
    ("V9.11", outputs_follow_their_calls),
    ("V9.11", function_names_are_spelt),
)
NUMBERS = ("V9.2", "V9.5", "V9.7", "V9.8", "V9.11")

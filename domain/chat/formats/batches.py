"""
What conversions to providers have in common: the turns of a context, unique call ids, arguments as an object.

Providers want the calls that a model made at once in one turn, and their outputs in the next. Which calls those
are is read from the order of the items: a row of calls that no message and no output interrupts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import msgspec

from ..events import ChatItemEvent, FunctionCalled, FunctionReturned, MessageAdded
from ..pairing import pair_calls

# What is sent where a provider insists on something that did not happen.
DUMMY_FIRST = "(empty)"
DUMMY_LAST = "."
NO_OUTPUT = "No output was recorded for this call."

Batch = list[tuple[FunctionCalled, FunctionReturned | None]]


def turns_of(items: Iterable[ChatItemEvent]) -> Iterator[MessageAdded | Batch]:
    """
    Yield the messages of users and assistants, and the batches of calls, each call with its output or None.

    An output that answers no call is in no turn, and an output that came late is with its call.
    """
    listed = list(items)
    output_of = pair_calls(listed).output_of
    batch: Batch = []
    is_open = False
    for index, item in enumerate(listed):
        kind = type(item)
        if kind is FunctionCalled:
            if batch and not is_open:
                yield batch
                batch = []
            place = output_of.get(index)
            batch.append((item, None if place is None else listed[place]))  # type: ignore[arg-type]  # as paired
            is_open = True
        elif kind is FunctionReturned:
            is_open = False
        elif kind is MessageAdded and item.role in ("user", "assistant"):  # type: ignore[union-attr]  # just asked
            if batch:
                yield batch
                batch = []
            yield item  # type: ignore[misc]  # just asked
    if batch:
        yield batch


class Listener(Protocol):
    """A conversation in a provider's form, as far as it goes."""

    def ask(self, batch: Batch, /) -> None:
        """Add calls that were made at once, and their outputs."""

    def say(self, message: MessageAdded, /) -> None:
        """Add a message."""


def tell(listener: Listener, items: Iterable[ChatItemEvent]) -> None:
    """Tell a conversation all turns of a context, in order."""
    for turn in turns_of(items):
        if isinstance(turn, list):
            listener.ask(turn)
        else:
            listener.say(turn)


class UniqueIds:
    """
    Gives each call an id of its own: its own id where that is free, else with the next free number behind it.

    What comes later changes no id that was given, so that the beginning of a conversion stays as it is.
    """

    def __init__(self, cleaned: Callable[[str], str]) -> None:
        self._cleaned = cleaned
        self._taken: dict[str, int] = {}

    def take(self, call_id: str) -> str:
        """Return the id under which to send the next call that was recorded under `call_id`."""
        wanted = self._cleaned(call_id)
        taken = self._taken
        if wanted not in taken:
            taken[wanted] = 1
            return wanted
        number = taken[wanted] + 1
        while (renamed := f"{wanted}_{number}") in taken:
            number += 1
        taken[wanted] = number
        taken[renamed] = 1
        return renamed


_JSON = msgspec.json.Decoder()


def arguments_of(text: str) -> dict[str, Any]:
    """
    Return the arguments of a call as the object that providers want (SPEC V10.5, V11.5).

    No text and `null` are no arguments. What is no JSON object is handed over as it stands, as `arguments`.
    """
    if text == "{}":
        return {}
    try:
        value = _JSON.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return {"arguments": text} if text.strip() else {}
    if isinstance(value, dict):
        return value
    return {} if value is None else {"arguments": text}

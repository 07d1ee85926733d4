"""
Values of channels, as JSON objects.

A value that is JSON is kept as it is, so that people and tools can read it. Any other value is kept as the bytes that
the serializer of LangGraph makes of it, and comes back through the allowlist of that serializer. There is no pickle.
"""

from __future__ import annotations

import json
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener

from ....domain.canonical import JSON_VALUES, is_json
from ....domain.errors import DamagedError, InvalidInputError

# These kinds of events of the serializer mean that it returned something else than was saved.
BLOCKED = frozenset({"msgpack_blocked", "msgpack_method_blocked"})
# The name of the serializer's fallback, which a program may have allowed.
PICKLE = "pickle"

Packed = dict[str, Any]


class ThreadId(str):
    """
    The id of a thread in a config that the saver returned, which LangGraph hands on through a run.

    It also says from which checkpoint the run may branch off, and which chat, as `stream@version`, had the messages
    that the run was given: what others add afterwards stays in the view. For everybody else it is a plain text, and so
    are its copies and what is saved of it: programs compare, store and send configs, and would see a further key.
    """

    is_plain_text = True
    may_fork = ""
    seen = ""

    def __eq__(self, other: object) -> bool:
        # The other one may have rules of its own for texts.
        return str(self) == other

    __hash__ = str.__hash__

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


def too_deep(what: str) -> InvalidInputError:
    """Return the error about a value with so many others in it that none can be looked at."""
    return InvalidInputError(f"{what} cannot be saved: it is nested too deeply, or holds itself")


def copied(value: Any) -> Any:
    """Return a copy of a value; quick for JSON."""
    kind = type(value)
    if kind in JSON_VALUES:
        return value
    if kind is list:
        return [copied(inner) for inner in value] if value else []
    if kind is dict:
        return {key: copied(inner) for key, inner in value.items()} if value else {}
    return deepcopy(value)


class Values:
    """
    Packs values with a serializer, and unpacks them.

    `compare_last` is how many of the last saved messages are compared with those of the graph; None for all.
    """

    def __init__(self, serde: SerializerProtocol, compare_last: int | None = None) -> None:
        self._serde, self.compare_last = serde, compare_last

    def pack(self, value: Any, what: str, *, is_ordered: bool = True) -> Packed:
        """
        Return a value as a JSON object; `what` names it in errors.

        Raises:
            InvalidInputError: neither JSON nor the serializer can keep it, or the serializer would not load it.
        """
        try:
            return self._packed(value, what, is_ordered)
        except RecursionError as error:
            raise too_deep(what) from error

    def _packed(self, value: Any, what: str, is_ordered: bool) -> Packed:
        if is_json(value):
            if is_ordered and not _is_sorted(value):
                # Stored JSON has sorted keys; a text keeps the order that a graph may rely on.
                return {"text": json.dumps(value, ensure_ascii=False, separators=(",", ":"))}
            return {"json": copied(value)}
        try:
            kind, data = self._serde.dumps_typed(value)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"{what} cannot be saved: {error}") from error
        if kind == PICKLE:
            raise InvalidInputError(
                f"{what} could be saved by pickle only, which can run any code: give it a plain type"
            )
        packed = {"type": kind, "base64": b64encode(data).decode()}
        if _is_strict(self._serde):
            self.unpack(packed, what)
        return packed

    def unpack(self, packed: Packed, what: str) -> Any:
        """
        Return the value that was packed; `what` names it in errors.

        Raises:
            InvalidInputError: a type in it is not in the allowlist of the serializer.
            DamagedError: it is no packed value.
        """
        if "json" in packed:
            # The caller may change it.
            return copied(packed["json"])
        if "text" in packed:
            return json.loads(packed["text"])
        try:
            typed = (packed["type"], b64decode(packed["base64"]))
            if typed[0] == PICKLE:
                # None was saved, but who may write to the database may have put one there.
                raise ValueError("a pickle, which can run any code")
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedError(what, f"it is no saved value ({error})") from error
        with refusing_blocked(what, "add {} to allowed_msgpack_modules"):
            return self._serde.loads_typed(typed)


def _is_sorted(value: Any) -> bool:
    if type(value) is dict:
        keys = list(value)
        return keys == sorted(keys) and all(map(_is_sorted, value.values()))
    return all(map(_is_sorted, value)) if type(value) is list else True


def _is_strict(serde: SerializerProtocol) -> bool:
    """Return whether a serializer has an allowlist; it refuses what it cannot load again before it is saved."""
    return getattr(serde, "_allowed_msgpack_modules", True) is not True


@contextmanager
def refusing_blocked(what: str, cure: str) -> Iterator[None]:
    """
    Refuse what the serializer blocks in this thread: it only warns, and returns the plain data instead.

    Raises:
        InvalidInputError: a type is not in its allowlist; `cure` says what to do about these.
    """
    blocked: set[str] = set()
    here = threading.get_ident()

    def note_blocked(event: SerdeEvent) -> None:
        if event["kind"] in BLOCKED and threading.get_ident() == here:
            blocked.add(f"{event['module']}.{event['name']}")

    stop = register_serde_event_listener(note_blocked)
    try:
        yield
    finally:
        stop()
    if blocked:
        raise InvalidInputError(f"{what} has a type that may not be loaded: {cure.format(', '.join(sorted(blocked)))}")

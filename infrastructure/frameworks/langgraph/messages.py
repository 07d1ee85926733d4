"""
Messages of LangChain as items of a chat, and copies of those that a thread has.

The plain form of a message is its fields without those that have their default. A message with anything in it that is
no JSON, or of a class of the user's, keeps besides what the serializer of LangGraph makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    ChatMessageChunk,
    FunctionMessage,
    FunctionMessageChunk,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)
from pydantic import BaseModel

from ....domain.canonical import JSON_VALUES, is_json
from ....domain.chat.events import ChatItemEvent
from ....domain.chat.pieces import is_erased
from ....domain.concurrency.collector import uncollected
from ....domain.errors import DamagedError
from ..conversation import Conversation, Message
from .form import MODEL, READ, LangChainForm
from .values import Values, copied, too_deep

CLASSES: dict[str, type[BaseMessage]] = {
    "human": HumanMessage,
    "ai": AIMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
    "chat": ChatMessage,
    "function": FunctionMessage,
    "remove": RemoveMessage,
    "AIMessageChunk": AIMessageChunk,
    "HumanMessageChunk": HumanMessageChunk,
    "SystemMessageChunk": SystemMessageChunk,
    "ToolMessageChunk": ToolMessageChunk,
    "ChatMessageChunk": ChatMessageChunk,
    "FunctionMessageChunk": FunctionMessageChunk,
}
# Fields that are left out of the plain form while they have this value.
DEFAULTS: dict[str, Any] = {
    "additional_kwargs": {},
    "response_metadata": {},
    "name": None,
    "id": None,
    "tool_calls": [],
    "invalid_tool_calls": [],
    "tool_call_chunks": [],
    "usage_metadata": None,
    "artifact": None,
    "status": "success",
    "chunk_position": None,
}
# The field of a plain message that has the bytes of the serializer.
WHOLE = "serialized"


def is_messages(value: Any) -> bool:
    """Return whether a value is a list of messages, and of nothing else."""
    # Ten thousand messages are of a few types.
    return type(value) is list and all(issubclass(kind, BaseMessage) for kind in set(map(type, value)))


def plain_of(message: BaseMessage, values: Values) -> Message:
    """
    Return the plain form of a message.

    Raises:
        InvalidInputError: it holds a value that cannot be saved.
    """
    try:
        return _plain_of(message, values)
    except RecursionError as error:
        raise too_deep(f"the message {message.id!r}") from error


def _plain_of(message: BaseMessage, values: Values) -> Message:
    fields, extra = message.__dict__, message.__pydantic_extra__
    if extra:
        fields = fields | extra
    # The type first: a value of another class may refuse to be compared. Without a call for each field, of which a
    # message has ten, a first save takes a tenth less.
    plain = {
        name: value
        for name, value in fields.items()
        if name not in DEFAULTS or type(value) is not type(DEFAULTS[name]) or value != DEFAULTS[name]
    }
    if CLASSES.get(message.type) is type(message) and is_json(plain) and WHOLE not in plain:
        for name, value in plain.items():
            if type(value) not in JSON_VALUES:
                plain[name] = copied(value)
        return plain
    packed = values.pack(message, f"the message {message.id!r}")
    # A message is read back from `packed` alone; the other fields are for its items: calls, names, usage.
    shown = {name: plain[name] for name in READ if name in plain and is_json(plain[name])}
    about = plain.get("response_metadata")
    if isinstance(about, dict):
        shown["response_metadata"] = {name: about[name] for name in MODEL if isinstance(about.get(name), str)}
    return {"type": "human", **shown, WHOLE: packed}


class Row(NamedTuple):
    """The content of a message. Rows share the containers in them, so that nobody may change or hand them out."""

    kind: type[BaseMessage]
    fields: dict[str, Any]
    extra: dict[str, Any] | None

    def made(self) -> BaseMessage:
        """Return a new message; it shares nothing with the row."""
        fields = self.fields.copy()
        for name, value in self.fields.items():
            if type(value) not in JSON_VALUES:
                fields[name] = copied(value)
        return _new_message(self.kind, fields, copied(self.extra))


def message_of(plain: Message, values: Values) -> BaseMessage:
    """
    Return the message that has this plain form, which belongs to it from now on.

    Raises:
        InvalidInputError: a type in it may not be loaded.
        DamagedError: it is no message.
    """
    if WHOLE in plain:
        message: BaseMessage = values.unpack(plain[WHOLE], f"the message {plain.get('id')!r}")
        return message
    # As `_new_message` of `_row_from`, with fewer steps: 10,000 messages are loaded at once.
    known = _fields_of_type(plain)
    fields = known.defaults | plain
    for name, make in known.containers:
        if name not in plain:
            fields[name] = make()
    return _new_message(known.kind, fields, {} if known.names.issuperset(plain) else _taken_extra(fields, known))


# The slots of a pydantic model: to set them takes two thirds of the time that `object.__setattr__` takes.
_put_fields, _put_names, _put_extra, _put_private = (
    BaseModel.__dict__[slot].__set__
    for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


def _new_message(kind: type[BaseMessage], fields: dict[str, Any], extra: dict[str, Any] | None) -> BaseMessage:
    # The constructor of pydantic validates and looks for defaults, and 10,000 messages are loaded at once.
    made: BaseMessage = object.__new__(kind)
    _put_fields(made, fields)
    _put_names(made, set(fields))
    _put_extra(made, extra)
    _put_private(made, None)
    return made


def _row_of(message: BaseMessage) -> Row:
    return Row(type(message), copied(message.__dict__), copied(message.__pydantic_extra__))


def _row_from(plain: Message) -> Row:
    known = _fields_of_type(plain)
    fields = known.defaults | plain
    return Row(known.kind, fields, {} if known.names.issuperset(plain) else _taken_extra(fields, known))


class Fields(NamedTuple):
    """
    A class of messages and the names of its fields, with the defaults of those that have one, and what makes a new
    default of those that can change.
    """

    kind: type[BaseMessage]
    names: frozenset[str]
    defaults: dict[str, Any]
    containers: tuple[tuple[str, Callable[[], Any]], ...]


def _fields_of(kind: type[BaseMessage]) -> Fields:
    fields = kind.model_fields
    optional = {name: field for name, field in fields.items() if not field.is_required()}
    defaults = {name: field.get_default(call_default_factory=True) for name, field in optional.items()}
    changing = {name: value for name, value in defaults.items() if type(value) not in JSON_VALUES}
    makes = [(name, partial(copied, value) if value else type(value)) for name, value in changing.items()]
    return Fields(kind, frozenset(fields), defaults, tuple(makes))


_FIELDS = {name: _fields_of(kind) for name, kind in CLASSES.items()}


def _fields_of_type(plain: Message) -> Fields:
    named = str(plain.get("type"))
    known = _FIELDS.get(named)
    if known is None:
        raise DamagedError(f"the message {plain.get('id')!r}", f"LangChain has no messages of type {named!r}")
    return known


def _taken_extra(fields: dict[str, Any], known: Fields) -> dict[str, Any]:
    return {name: fields.pop(name) for name in fields.keys() - known.names}


CONVERSATION = Conversation(LangChainForm())


def messages_of(
    items: Sequence[ChatItemEvent], values: Values, count: int | None = None
) -> tuple[list[BaseMessage], int]:
    """
    Return the messages of items, as new objects, and how many of them were recorded as messages of LangChain.

    With `count` these are only the first ones.

    Raises:
        InvalidInputError: a type in one may not be loaded.
        DamagedError: one is no message.
    """
    messages: list[BaseMessage] = []
    own = 0
    with uncollected(len(items)):
        for one in islice(CONVERSATION.each(items), count):
            messages.append(message_of(one.message, values))
            own += one.is_own
    return messages, own


def require_shown(place: str, items: Sequence[ChatItemEvent], shown: int, count: int) -> None:
    """
    Require that the items at a place show as many messages as a checkpoint has there.

    Where texts were erased it may be others: nothing is left of a message of thinking alone, or of an output without a
    call, and a call of others may belong to the message before it now.

    Raises:
        DamagedError: they show more or fewer, and nothing was erased.
    """
    if shown != count and not any(map(is_erased, items)):
        raise DamagedError(place, f"a checkpoint has {count} messages there, and it shows {shown}")


class Copies:
    """
    The messages of a thread as they were saved or loaded last; nobody else holds these copies.

    Those that were loaded are made of their items, which nobody can change, until messages are compared with them.
    Where only the last ones are compared (`Values.compare_last`), the messages themselves are remembered, too.
    """

    def __init__(self, items: Sequence[ChatItemEvent] = (), count: int = 0) -> None:
        """Hold the messages of these items; so many they are."""
        self._items, self._count = items, count
        self._kinds: list[type[BaseMessage]] = []
        self._fields: list[dict[str, Any]] = []
        self._extras: list[dict[str, Any] | None] = []
        # By index: the messages that are no JSON, in the form that was saved; they may come back as something else.
        self._serialized: dict[int, Message] = {}
        # The messages that were handed out or saved last, as the graph has them; None if nobody asks for them.
        self._given: list[BaseMessage] | None = None

    def __len__(self) -> int:
        return self._count

    def add(self, messages: Sequence[BaseMessage], plain: Sequence[Message]) -> None:
        """Remember messages that follow, each with its plain form, which belongs to these copies from now on."""
        with uncollected(len(messages)):
            for message, saved in zip(messages, plain, strict=True):
                row = _row_of(message) if WHOLE in saved else _row_from(saved)
                # A message may lack fields that have a default.
                is_same = _are_equal(row.fields, message.__dict__) and _are_equal(row.extra, message.__pydantic_extra__)
                self._add(row if is_same else _row_of(message), saved)
                self._count += 1
        if self._given is not None:
            self._given += messages

    def _add(self, row: Row, saved: Message) -> None:
        if WHOLE in saved:
            self._serialized[len(self._fields)] = saved
        self._kinds.append(row.kind)
        self._fields.append(row.fields)
        self._extras.append(row.extra)

    def _read(self, values: Values) -> None:
        items, self._items = self._items, ()
        # The collector takes three quarters of the time otherwise, since the messages are there already.
        with uncollected(len(items)):
            for one in CONVERSATION.each(items) if items else ():
                saved = one.message
                self._add(_row_of(message_of(saved, values)) if WHOLE in saved else _row_from(saved), saved)

    def begin(self, messages: Sequence[BaseMessage], values: Values) -> bool:
        """
        Return whether a list begins with all of these, none of them changed.

        A program may change a message in place, so the fields are compared, in a few calls for all messages.
        """
        if len(messages) < self._count:
            return False
        self._read(values)
        if values.compare_last is None:
            return self._are_kept(messages, 0)
        is_kept = self._are_kept(
            messages, max(0, self._count - values.compare_last) if self._are_given(messages) else 0
        )
        if is_kept and not self._given:
            self._given = list(messages[: self._count])
        return is_kept

    def _are_given(self, messages: Sequence[BaseMessage]) -> bool:
        """Return whether a list begins with the messages that were handed out or saved last."""
        given, self._given = self._given, None
        if given is None or len(given) != self._count or (given and given[0] is not messages[0]):
            return False
        # Lists of one length are compared in one call, which does not touch an object that is in both of them; to copy
        # a list touches all.
        given += messages[self._count :]
        is_same = _are_equal(given, messages)
        del given[self._count :]
        self._given = given if is_same else None
        return is_same

    def _are_kept(self, messages: Sequence[BaseMessage], start: int) -> bool:
        """Return whether a list begins with all of these from `start` on."""
        given = messages[start : self._count]
        if list(map(type, given)) != self._kinds[start:]:
            return False
        # Few messages have anything else than their fields.
        extras, held = [message.__pydantic_extra__ for message in given], self._extras[start:]
        if (any(extras) or any(held)) and not _are_equal(extras, held):
            return False
        return _are_equal([message.__dict__ for message in given], self._fields[start:])

    def messages(self, count: int, values: Values) -> list[BaseMessage]:
        """Return the first messages, as new objects."""
        if self._items:
            messages = messages_of(self._items, values, count)[0]
        else:
            rows = zip(islice(self._kinds, count), self._fields, self._extras, strict=False)
            messages = [Row(*row).made() for row in rows]
            for index, saved in self._serialized.items():
                if index < count:
                    messages[index] = message_of(saved, values)
        return self.handed_out(messages, values)

    def handed_out(self, messages: list[BaseMessage], values: Values) -> list[BaseMessage]:
        """Remember messages that are handed out, if these are all and only the last ones are compared; return them."""
        if values.compare_last is not None and len(messages) == self._count:
            self._given = list(messages)
        return messages

    def first(self, count: int, values: Values) -> Copies:
        """Return the first of these as copies of their own."""
        self._read(values)
        copies = Copies(count=count)
        copies._kinds, copies._fields, copies._extras = self._kinds[:count], self._fields[:count], self._extras[:count]
        copies._serialized = {index: saved for index, saved in self._serialized.items() if index < count}
        return copies


def _are_equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:
        # Values may be of any class, and an array compares its elements.
        return False

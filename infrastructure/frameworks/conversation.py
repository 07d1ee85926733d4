"""
A conversation of a framework, kept as a chat.

Each message becomes items, once, and comes back as it was. A form says how a framework writes messages; data for which
items have no field is kept as a patch beside the first item of a message (`Origin.rest`), under the form's name. So a
framework can read items that another one recorded: it gets them in its own form, without the patch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import msgspec

from ...domain.canonical import canonical_json, json_in_order
from ...domain.chat.context import ChatContext
from ...domain.chat.events import ChatItemEvent, FunctionCalled, FunctionReturned, Origin, is_apart
from ...domain.chat.rules.commands import EvictItems, InsertItems
from ...domain.chat.state.sequence import Items
from ...domain.chat.usage import has_usage, usage_of, without_usage
from ...domain.chat.view import ChatView
from ...domain.clock import REAL_SYSTEM
from ...domain.errors import InvalidInputError
from ...domain.formats.messages import named_outputs
from ...domain.formats.openai.source_shape import grouped, rest_of
from ...domain.formats.receive import Receiver
from ...domain.formats.source_json import Patch, difference, is_same, patched

Message = dict[str, Any]
# The data beside a message that is one item and needs no patch.
ONE: dict[str, Any] = {"items": 1}
Grouping = Callable[[Sequence[ChatItemEvent]], list[list[int]]]
# Whether another chat has counted the usage of the message with an id.
IsCounted = Callable[[str], bool]


@contextmanager
def kept_as_json(what: str) -> Iterator[None]:
    """
    Make JSON of what a framework gives, in this block.

    Raises:
        InvalidInputError: that is not possible.
    """
    try:
        yield
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInputError(f"{what} cannot be kept as JSON: {error}") from error


class Form(Protocol):
    """The form in which a framework writes messages, as JSON objects."""

    @property
    def name(self) -> str:
        """The name of the framework."""

    def read(self, message: Message, into: Receiver) -> None:
        """
        Add the items of a message.

        Raises:
            InvalidInputError: it is no message of this form.
        """

    def write(self, items: Sequence[ChatItemEvent]) -> Message | None:
        """
        Return the message that consists of these items; None if the framework has no such message.

        The items may come from anywhere, but no other form recorded them as apart. No value is a number or a boolean,
        unless it is the same for each message.
        """


class ViewMessage(NamedTuple):
    """A message in the view, with the ids of its items, the index behind them, and whether it is of this form."""

    message: Message
    item_ids: tuple[str, ...]
    end: int
    is_own: bool


class Group(NamedTuple):
    """The items of a message, the index behind them, and what is kept beside them."""

    items: list[ChatItemEvent]
    end: int
    beside: dict[str, Any]


class Conversation:
    """A chat, read and written in the form of a framework."""

    def __init__(self, form: Form, grouped: Grouping | None = None) -> None:
        """
        Read and write in `form`.

        With `grouped`, which returns the indexes of the items of each message, all items that others recorded are in
        messages; without it, those that another framework can use.
        """
        self._form, self._grouped = form, grouped
        # Most messages are one item without a patch; a long chat has many of them.
        self._simple = _stored(form.name, ONE)
        self._simple_origin = Origin(rest=self._simple)

    def messages(self, chat: ChatView[Any]) -> list[Message]:
        """Return the messages in the view of a chat."""
        return [kept.message for kept in self.each(chat.recorded_items())]

    def kept(self, items: Sequence[ChatItemEvent], start: int = 0) -> list[ViewMessage]:
        """Return the messages of items, beginning with the item `start`, which begins a message."""
        return list(self.each(items, start))

    def each(self, items: Sequence[ChatItemEvent], start: int = 0) -> Iterator[ViewMessage]:
        """Yield the messages of items, as `kept` returns them."""
        write = self._form.write
        # Items are read one by one from a list, which is quicker than from a view.
        for group in self._groups(list(items), start):
            one = group.items
            if group.beside is ONE:
                # Nearly all messages of a long chat are one item without a patch: this halves the time of a load.
                message = write(one)
                if message is not None:
                    yield ViewMessage(message, (one[0].id,), group.end, True)
                continue
            message = self._written(group)
            if message is not None:
                yield ViewMessage(message, tuple([item.id for item in one]), group.end, bool(group.beside))

    def begins(self, item: ChatItemEvent) -> bool:
        """Return whether a message that was recorded in this form begins with the item."""
        return bool(self._beside(item).get("items"))

    def items_in(self, first: ChatItemEvent) -> int:
        """Return the number of items of the message that begins with this one; 1 if another form recorded it."""
        return int(self._beside(first).get("items", 1))

    def with_ids(self, items: Sequence[ChatItemEvent], ids: Sequence[str]) -> list[ChatItemEvent]:
        """Return the items of a message under other ids."""
        renamed = [msgspec.structs.replace(item, id=name) for item, name in zip(items, ids, strict=True)]
        beside = dict(self._beside(renamed[0]))
        if "others" in beside:
            rest = _stored(self._form.name, beside | {"others": list(ids[1:])})
            origin = msgspec.structs.replace(renamed[0].origin or Origin(), rest=rest)
            renamed[0] = msgspec.structs.replace(renamed[0], origin=origin)
        return renamed

    def items_of(
        self,
        messages: Iterable[Message],
        held: Items | None = None,
        is_counted: IsCounted | None = None,
        leaving: Mapping[str, ChatItemEvent] = MappingProxyType({}),
    ) -> list[list[ChatItemEvent]]:
        """
        Return the items of each message. The first item of a message has its id, unless the chat `held` one with it.

        Messages that are counted elsewhere have no usage, and neither have those whose usage the first item of the
        message has that they take the place of: the one in `leaving` under their id, or else the held one.

        Raises:
            InvalidInputError: a message is none of this form, or cannot be kept as JSON.
        """
        taken: set[str] = set()
        return [self._read(message, held, taken, is_counted, leaving) for message in messages]

    def add(
        self,
        chat: ChatContext,
        messages: Iterable[Message],
        *,
        expected_version: int | None = None,
        is_counted: IsCounted | None = None,
    ) -> None:
        """
        Put messages at the end of a chat, all or none; those that are counted elsewhere without their usage.

        Raises:
            InvalidInputError: a message is none of this form.
            ConcurrencyError: the chat is not at `expected_version`.
        """
        groups = self.items_of(messages, chat._state.items, is_counted)
        items = [item for group in groups for item in group]
        if items:
            chat.record_items(items, expected_version=expected_version)

    def add_named(self, chat: ChatContext, messages: Iterable[Message]) -> list[ChatItemEvent]:
        """
        Put messages at the end of a chat, with the names of the calls that outputs belong to, and return the items.

        Raises:
            InvalidInputError: a message is none of this form.
            ConcurrencyError: somebody else has changed the chat.
        """
        return self.add_items(chat, self.items_of(messages, chat._state.items))

    def add_items(self, chat: ChatContext, groups: Iterable[Iterable[ChatItemEvent]]) -> list[ChatItemEvent]:
        """Put the items of messages at the end of a chat, as `add_named` does."""
        items = named_outputs([item for group in groups for item in group], chat._state.items)
        if items:
            chat.record_items(items, expected_version=chat.version)
        return items

    def show(
        self,
        chat: ChatContext,
        messages: Sequence[Message],
        *,
        reason: str | None = None,
        is_counted: IsCounted | None = None,
    ) -> None:
        """
        Edit a chat so that its view has exactly these messages, in this order.

        Messages that are in the view already stay as they are. The others leave or come; call it in a transaction, so
        that all of it happens or nothing.
        """
        held = chat.recorded_items()
        kept = self.kept(held)
        stay = _common(kept, messages)
        gone = [one for place, one in enumerate(kept) if place not in stay]
        leaving = [item_id for one in gone for item_id in one.item_ids]
        places = {index: place for place, index in stay.items()}
        missing = [index for index in range(len(messages)) if index not in places]
        before = {one.message["id"]: held[one.end - len(one.item_ids)] for one in gone if one.message.get("id")}
        groups = self.items_of([messages[index] for index in missing], held, is_counted, before)
        made = dict(zip(missing, groups, strict=True))
        # New messages come directly before the next message that stays, or at the end if none follows.
        new: dict[int | None, list[ChatItemEvent]] = {}
        following: int | None = None
        for index in range(len(messages) - 1, -1, -1):
            following = places.get(index, following)
            new.setdefault(following, [])[:0] = made.get(index, [])
        for place, items in new.items():
            if items and place is None:
                chat.record_items(items)
            elif items and place is not None:
                chat._record(InsertItems(chat.stream_id, tuple(items), kept[place].item_ids[0]))
        if leaving:
            # A framework may keep an output without its call for a while: the conversions take care of that.
            chat._record(EvictItems(chat.stream_id, tuple(leaving), reason, partners=False))

    def _read(
        self,
        message: Message,
        held: Items | None,
        taken: set[str],
        is_counted: IsCounted | None,
        leaving: Mapping[str, ChatItemEvent],
    ) -> list[ChatItemEvent]:
        given = message.get("id")
        ordinal = held.ordinal(given) if held is not None and isinstance(given, str) else None
        is_free = isinstance(given, str) and given not in taken and ordinal is None
        receiver = Receiver(REAL_SYSTEM, first_id=given if given and is_free else None)
        self._form.read(message, receiver)
        # A changed message is recorded again, but the model gave its answer once.
        earlier = held.item_table.items[ordinal] if held is not None and ordinal is not None else None
        before = leaving.get(given, earlier) if isinstance(given, str) else None
        is_repeated = before is not None and _has_same_usage(before, receiver.items)
        if is_repeated or (is_counted and given and any(map(has_usage, receiver.items)) and is_counted(given)):
            receiver.items[:] = map(without_usage, receiver.items)
        first, *others = receiver.items
        if given and is_free:
            taken.add(given)
            if first.id != given:
                # A form may read with a receiver of its own.
                first = msgspec.structs.replace(first, id=given)
        plain = self._form.write([first, *others])
        if is_same(plain, message):
            patch: Patch = {}
            if not others and not is_apart(first):
                # Most messages are like this one, and share the data beside them.
                return [msgspec.structs.replace(first, origin=self._simple_origin)]
        else:
            patch = difference(plain, message)
            if not is_same(patched(plain, patch), message):
                patch = {"is": message}
        beside: dict[str, Any] = {"items": 1 + len(others)} | ({"patch": patch} if patch else {})
        if others:
            # If one of these items leaves, an item of another message may come to its place.
            beside["others"] = [item.id for item in others]
        rest = _stored(self._form.name, beside) if patch or others else self._simple
        # A form may say that an item is apart: other providers are not sent it.
        made = [msgspec.structs.replace(item, origin=Origin(starts=False, apart=is_apart(item))) for item in others]
        return [msgspec.structs.replace(first, origin=Origin(rest=rest, apart=is_apart(first))), *made]

    def _groups(self, items: list[ChatItemEvent], start: int) -> Iterator[Group]:
        """Yield the items of each message: those of this form as they came, the others grouped as in other formats."""
        foreign, simple = start, self._simple
        while start < len(items):
            item = items[start]
            origin = item.origin
            if origin is not None and origin.rest == simple:
                if foreign < start:
                    yield from self._foreign_groups(items, foreign, start)
                start = foreign = start + 1
                yield Group([item], start, ONE)
                continue
            beside = self._beside(item)
            count = beside.get("items", 0)
            end = start + 1
            if count:
                if foreign < start:
                    yield from self._foreign_groups(items, foreign, start)
                others = beside.get("others")
                while end < min(len(items), start + count) and is_later_part(items[end]):
                    if others is not None and items[end].id not in others:
                        break
                    end += 1
                yield Group(items[start:end], end, beside)
                foreign = end
            start = end
        yield from self._foreign_groups(items, foreign, start)

    def _foreign_groups(self, items: Sequence[ChatItemEvent], start: int, end: int) -> Iterator[Group]:
        for group in self._grouped(items[start:end]) if self._grouped else _sound_groups(items, start, end):
            yield Group([items[start + index] for index in group], start + group[-1] + 1, {})

    def _written(self, group: Group) -> Message | None:
        plain = self._form.write(group.items)
        # A message that has lost an item is not the recorded one, so its patch does not apply.
        is_whole = group.beside.get("items") == len(group.items)
        message: Message | None = patched(plain, group.beside.get("patch", {})) if is_whole else plain
        return message

    def _beside(self, item: ChatItemEvent) -> dict[str, Any]:
        if item.origin is None or not item.origin.rest:
            return {}
        if item.origin.rest == self._simple:
            return ONE
        found = rest_of(item).get(self._form.name)
        return found if isinstance(found, dict) else {}


def _stored(form: str, beside: dict[str, Any]) -> bytes:
    # In the given order: the cache of a provider applies only to a request that begins with the same bytes.
    return json_in_order({form: beside}, what=f"a message of {form}")


def _sound_groups(items: Sequence[ChatItemEvent], start: int, end: int) -> Iterator[list[int]]:
    """
    Yield the indexes, from `start`, of the items of each message that another framework can use.

    Only its own framework can send an item that is apart again, and may keep an output whose call left the view.
    """
    # Reasoning may stand between a call and the message that it belongs to, so it is left out first.
    places = [place for place in range(start, end) if not is_apart(items[place])]
    for group in grouped([items[place] for place in places]):
        first = places[group[0]]
        if not isinstance(items[first], FunctionReturned) or is_called(items, first):
            yield [places[index] - start for index in group]


def _has_same_usage(before: ChatItemEvent, items: Sequence[ChatItemEvent]) -> bool:
    """Return whether one of the items has the usage that an earlier one has."""
    return has_usage(before) and any(has_usage(item) and usage_of(item) == usage_of(before) for item in items)


def is_called(items: Sequence[ChatItemEvent], place: int) -> bool:
    """Return whether the call of the output at this place is before it."""
    wanted = getattr(items[place], "call_id", None)
    before = (items[index] for index in range(place - 1, -1, -1))
    return any(isinstance(item, FunctionCalled) and item.call_id == wanted for item in before)


def is_later_part(item: ChatItemEvent) -> bool:
    """Return whether an item belongs to the message of the item before it."""
    return item.origin is not None and not item.origin.starts and not item.origin.rest


def _common(kept: Sequence[ViewMessage], messages: Sequence[Message]) -> dict[int, int]:
    """Return places of messages that stay, each with its index in the new list; both orders agree."""
    stay: dict[int, int] = {}
    index = 0
    waiting = {canonical_json(message, what="a message"): number for number, message in enumerate(messages)}
    for place, one in enumerate(kept):
        if index < len(messages) and is_same(one.message, messages[index]):
            stay[place], index = index, index + 1
        elif (found := waiting.get(canonical_json(one.message, what="a message"), -1)) >= index:
            stay[place], index = found, found + 1
    return stay

"""
The usage of a model: tokens that its provider counted, the model, and the cost.

It is stored as open JSON: in the `metrics` of a message, in the `metadata` of a call. Names of fields are read as
OpenAI, Anthropic, Google, LangChain and LiteLLM write them, so that the usage object of a client is stored as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import msgspec

from ..canonical import canonical_json, parse_json
from ..errors import InvalidInputError
from .events import ChatItemEvent, FunctionCalled, MessageAdded
from .pairing import is_of_model

# Each tuple lists the names that different providers give to the same field.
MODEL = ("model", "model_name", "model_id", "model_version")
READ = ("input_tokens", "prompt_tokens", "prompt_token_count", "promptTokenCount")
WRITTEN = ("output_tokens", "completion_tokens", "candidates_token_count", "candidatesTokenCount")
CACHED = (
    "cached_tokens", "cache_read_input_tokens", "cached_content_token_count", "cachedContentTokenCount", "cache_read",
)  # fmt: skip
COST = ("cost", "total_cost", "cost_usd", "costUSD")
COUNTS = ("usage", "token_usage", "usage_metadata")
DETAILS = ("input_tokens_details", "prompt_tokens_details", "input_token_details")
# Anthropic counts the tokens that it read from the cache, or wrote to it, beside `input_tokens`; others include them.
BESIDE_INPUT = ("cache_read_input_tokens", "cache_creation_input_tokens")
# Google counts the tokens of thoughts beside those of the answer.
BESIDE_OUTPUT = ("thoughts_token_count", "thoughtsTokenCount")
KNOWN = frozenset((*MODEL, *READ, *WRITTEN, *CACHED, *COST, *DETAILS, *BESIDE_INPUT, *BESIDE_OUTPUT))
# A larger value cannot be a number of tokens, or of billionths of a dollar, and is not counted.
COUNT_MAX = 1 << 40
NANOS = 1_000_000_000


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """
    The usage of one call of a model; 0 and None are "not given".

    `input_tokens` includes `cached_tokens`, those that came from the provider's cache. `cost` is in US dollars.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    model: str | None = None
    cost: Decimal | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            input_tokens: int = 0,
            output_tokens: int = 0,
            cached_tokens: int = 0,
            model: str | None = None,
            cost: Decimal | float | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        # An invalid cost is refused later, when it is to be stored.
        if isinstance(self.cost, int | float) and (cost := _cost(self.cost)) is not None:
            msgspec.structs.force_setattr(self, "cost", cost)


NO_USAGE = Usage()


def usage_in(about: Mapping[str, Any]) -> Usage:
    """Return the usage in open JSON about an item; whatever is not a number of tokens is left out."""
    if not about:
        return NO_USAGE
    places = [_mapping(about.get(name)) for name in COUNTS] + [about]
    read, written = _count(places, READ), _count(places, WRITTEN)
    if any("input_tokens" in place for place in places):
        read += sum(_count(places, (name,)) for name in BESIDE_INPUT)
    details = [_mapping(place.get(name)) for place in places for name in DETAILS]
    return Usage(
        input_tokens=read,
        output_tokens=written + _count(places, BESIDE_OUTPUT),
        cached_tokens=_count([*places, *details], CACHED),
        model=next((name for name in _values([*reversed(places)], MODEL) if isinstance(name, str) and name), None),
        cost=next((cost for cost in map(_cost, _values(places, COST)) if cost is not None), None),
    )


def usage_of(item: ChatItemEvent) -> Usage:
    """Return the usage that an item has: given by its caller, or in the message from which it was imported."""
    found = usage_in(_stored(item))
    if found == NO_USAGE and item.origin is not None and b'sage"' in item.origin.rest:
        return usage_in(_imported(_mapping(parse_json(item.origin.rest))))
    return found


def _imported(rest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of an imported message beside its content: see `source_shape` of each provider."""
    anthropic = _mapping(rest.get("anthropic"))
    whole = _mapping(anthropic.get("whole", rest.get("whole")))
    fields = whole or _mapping(anthropic.get("message")) or _mapping(_mapping(rest.get("message")).get("set"))
    if anthropic.get("continues"):
        # A piece of a message repeats the usage of the whole message, which counts at its first piece.
        return {name: fields[name] for name in MODEL if name in fields}
    # If the last piece of a message has another usage, it is kept beside the first piece.
    return {**fields, "usage": rest["usage"]} if "usage" in rest else fields


def is_usage(about: Mapping[str, Any]) -> bool:
    """Return whether a mapping has a field of a usage, under the name of any provider."""
    return not KNOWN.isdisjoint(about)


def metrics_of(given: Mapping[str, Any] | None = None, usage: object = None, **named: Any) -> dict[str, Any] | None:
    """
    Return the open JSON that stores a usage beside what was `given`; None if there is nothing to store.

    `usage` is a Usage, a mapping, or the usage object of a client; `named` are fields of a Usage, which come first.

    Raises:
        InvalidInputError: a count is not a number from 0 to COUNT_MAX, the model no text, or the cost no amount; or
            `usage` has no field that any provider gives a usage.
    """
    counts = _plain(usage)
    about: dict[str, Any] = {name: counts.pop(name) for name in ("model", "cost") if name in counts}
    about |= {name: named.pop(name) for name in ("model", "cost") if named.get(name) is not None}
    counts |= {name: count for name, count in named.items() if count is not None}
    for name, count in counts.items():
        if name in Usage.__struct_fields__ and not (type(count) is int and 0 <= count <= COUNT_MAX):
            raise InvalidInputError(f"{name} is {count!r}: it is a number of tokens, from 0 to {COUNT_MAX:,}")
    if not isinstance(about.get("model", ""), str):
        raise InvalidInputError(f"model is {about['model']!r}: it is the name of a model")
    if "cost" in about:
        cost = _cost(about["cost"])
        if cost is None:
            raise InvalidInputError(f"cost is {about['cost']!r}: it is in US dollars, from 0 to {COUNT_MAX // NANOS:,}")
        about["cost"] = float(cost)
    return {**(given or {}), **about, **({"usage": counts} if counts else {})} or None


def put_usage(items: list[ChatItemEvent], used: Mapping[str, Any] | None, *, what: str) -> None:
    """
    Store the usage of an answer with the first of its items that the model wrote, and its model with the others.

    Data that such an item has stored already stays there. `what` names the usage in the error.

    Raises:
        InvalidInputError: it is not JSON.
    """
    about = dict(used or {})
    for index, item in enumerate(items):
        if about and is_of_model(item):
            items[index] = _storing(item, canonical_json({**_stored(item), **about}, what=what))
            about = {"model": about["model"]} if about.get("model") else {}


def has_usage(item: ChatItemEvent) -> bool:
    """Return whether the field that stores an item's usage holds any data."""
    return bool(_stored(item))


def without_usage(item: ChatItemEvent) -> ChatItemEvent:
    """Return an item without its usage and all else in the field that stores it, but for the model."""
    model = _stored(item).get("model")
    return _storing(item, canonical_json({"model": model}, what="the model") if model else b"")


def _stored(item: ChatItemEvent) -> Mapping[str, Any]:
    """Return the data in the field that stores an item's usage; it may hold other data, too."""
    match item:
        case MessageAdded(metrics=given) | FunctionCalled(metadata=given) if given:
            return _mapping(parse_json(given))
    return {}


def _storing(item: ChatItemEvent, stored: bytes) -> ChatItemEvent:
    """Return an item with other data in that field; an item without such a field is returned unchanged."""
    match item:
        case MessageAdded():
            return msgspec.structs.replace(item, metrics=stored)
        case FunctionCalled():
            return msgspec.structs.replace(item, metadata=stored)
    return item


def _plain(usage: object) -> dict[str, Any]:
    if usage is None:
        return {}
    if isinstance(usage, Usage):
        fields = ((name, getattr(usage, name)) for name in usage.__struct_fields__)
        return {name: value for name, value in fields if value}
    plain: Any = usage
    if hasattr(usage, "model_dump"):
        plain = usage.model_dump(mode="json", exclude_none=True)
    elif not isinstance(usage, Mapping):
        # An object without attributes of its own has its fields elsewhere.
        plain = getattr(usage, "__dict__", None) or None
    if not isinstance(plain, Mapping) or (plain and not is_usage(plain)):
        raise InvalidInputError(
            f"usage is {usage!r}: give a Usage, a dict, or the usage object of a client, with fields such as "
            "`input_tokens` or `prompt_tokens`"
        )
    return {name: value for name, value in plain.items() if value is not None}


def _values(places: list[Mapping[str, Any]], names: tuple[str, ...]) -> Iterator[Any]:
    return (place[name] for place in places if place for name in names if name in place)


def _count(places: list[Mapping[str, Any]], names: tuple[str, ...]) -> int:
    found = (count for count in _values(places, names) if type(count) is int and 0 < count <= COUNT_MAX)
    return next(found, 0)


def _cost(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        cost = Decimal(str(value))
    except InvalidOperation:
        return None
    return cost if cost.is_finite() and 0 <= cost <= Decimal(COUNT_MAX) / NANOS else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}

"""How large an item is, and what of a window's settings and items can be recorded at all."""

from __future__ import annotations

import math
import operator
from typing import Any, Literal

from ..canonical import require_unicode
from ..chat.tokens import TokenCounter
from ..errors import InvalidInputError, RefusedError
from .items import QUARTERS_PER_TOKEN, ContextItem
from .rules import Incoming

AdmissionPolicy = Literal["first_come", "evict_lower_priority"]

# The seed counts a character as a quarter of a token, and twenty for what `build` puts around an item.
CHARACTERS_AROUND = 20
LARGEST = 2**63 - 1


class NotAnItemError(RefusedError, TypeError):
    """Something else than a ContextItem of texts was to be put into a window."""


def section_of(item: ContextItem) -> str:
    """Return the section of `build()` that shows an item."""
    return f"[{item.key} (source: {item.source})]\n{item.value}"


def quarters_of(item: ContextItem, counter: TokenCounter | None) -> int:
    """
    Return the size of an item in quarters of a token: the seed's estimate, or what `counter` says of its section and
    the blank line behind it.

    Raises:
        InvalidInputError: the counter gives no number of tokens.
    """
    if counter is None:
        return len(item.key) + len(item.value) + len(item.source) + CHARACTERS_AROUND
    tokens = counter(f"{section_of(item)}\n\n")
    if not isinstance(tokens, int) or tokens < 0:
        raise InvalidInputError(f"the counter gave {tokens!r} for item {item.key!r}: it is to return a whole number")
    return tokens * QUARTERS_PER_TOKEN


def incoming_of(item: object, counter: TokenCounter | None) -> Incoming:
    """
    Return an item as it can be recorded.

    Raises:
        TypeError: it is no ContextItem, or its key, value or source is no text.
        InvalidInputError: a text that is no Unicode, or a priority that is no number.
    """
    if not isinstance(item, ContextItem):
        raise NotAnItemError(f"a ContextWindow takes ContextItem instances, not {type(item).__name__!r}")
    priority = _priority_of(item)
    key, value, source = (_text_of(item, field) for field in ("key", "value", "source"))
    return Incoming(key, value, source, priority, quarters_of(item, counter))


def _text_of(item: ContextItem, field: str) -> str:
    text = getattr(item, field)
    if not isinstance(text, str):
        raise NotAnItemError(f"the {field} of item {item.key!r} is {type(text).__name__}: take a text")
    # Of a class derived from str the text alone is kept.
    return require_unicode(str.__str__(text), f"the {field} of item {item.key!r}")


def _priority_of(item: ContextItem) -> int | float:
    priority: object = item.priority
    if isinstance(priority, int) and _is_storable(priority):
        return int(priority)
    if isinstance(priority, float) and not math.isnan(priority):
        return float(priority)
    raise InvalidInputError(f"the priority of item {item.key!r} is {priority!r}: take a whole number")


def require_max_tokens(max_tokens: Any) -> int:
    """
    Return a budget as a number; 0 and less let nothing in.

    Raises:
        InvalidInputError: it is no whole number.
    """
    try:
        number = operator.index(max_tokens)
    except TypeError as error:
        raise InvalidInputError(f"max_tokens is {max_tokens!r}: take a whole number") from error
    if not _is_storable(number):
        raise InvalidInputError(f"max_tokens is {max_tokens!r}, which is more than 64 bits hold")
    return number


def require_policy(policy: str) -> AdmissionPolicy:
    """
    Return `policy` if there is one of that name.

    Raises:
        InvalidInputError: there is none.
    """
    if policy == "first_come":
        return "first_come"
    if policy == "evict_lower_priority":
        return "evict_lower_priority"
    raise InvalidInputError(f"policy is {policy!r}: take 'first_come' or 'evict_lower_priority'")


def _is_storable(number: int) -> bool:
    return -LARGEST <= number <= LARGEST

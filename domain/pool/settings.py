"""The settings of queues and pools: how many items there may be, and by which tags global hooks choose."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from ..canonical import require_unicode
from ..errors import InvalidInputError, RefusedError
from .rules.commands import Kind

# What an integer of an event can hold on every log.
LIMIT_MAX = 2**63 - 1


class NotALimitError(RefusedError, TypeError):
    """The limit of a queue or a pool was to be something else than a whole number."""


def require_limit(limit: Any, kind: Kind) -> int | None:
    """
    Return a limit as a number, or None, which a pool may have for "no limit".

    Raises:
        InvalidInputError: it is less than 1 (SPEC P2.1), or too large.
        TypeError: it is no whole number (SPEC P2.2).
    """
    if limit is None and kind.name == "pool":
        return None
    try:
        number = int(operator.index(limit))
    except TypeError as error:
        raise NotALimitError(f"the limit of a {kind.name} is {limit!r}: take a whole number") from error
    if number < 1:
        raise InvalidInputError("limit must be >= 1")
    if number > LIMIT_MAX:
        raise InvalidInputError(f"limit must be <= {LIMIT_MAX}")
    return number


def require_tags(tags: Iterable[str] | None) -> tuple[str, ...]:
    """
    Return tags, each once, sorted.

    Raises:
        InvalidInputError: a tag is no text.
    """
    if not isinstance(tags, Iterable | None):
        raise InvalidInputError(f"the tags are {tags!r}: take a list of texts")
    given = frozenset(tags or ())
    for tag in given:
        if not isinstance(tag, str):
            raise InvalidInputError(f"the tag {tag!r} is no text")
        require_unicode(tag, "a tag")
    return tuple(sorted(given))

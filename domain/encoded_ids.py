"""Ids of contexts made from names that others chose: what an id cannot hold is percent-encoded, reversibly."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from .canonical import require_unicode
from .errors import InvalidInputError
from .streams import ID_BYTES_MAX

# The percent sign itself, what addresses need, a dot behind a dot, and control characters (see `stream_id`).
RESERVED = re.compile("[%@\x00-\x1f\x7f-\x9f]|(?<=\\.)\\.")


def encoded_id(name: str, what: str) -> str:
    """
    Return the id of the context that belongs to `name`; `what` names it in the error.

    Raises:
        InvalidInputError: it is empty, no Unicode, or longer than an id can be.
    """
    encoded = RESERVED.sub(_percent_encoded, require_unicode(name, what))
    size = len(encoded.encode())
    if not 1 <= size <= ID_BYTES_MAX:
        raise InvalidInputError(
            f"{what} takes {size} bytes as the id of a context, and 1 to {ID_BYTES_MAX} are allowed"
        )
    return encoded


def decoded_id(context_id: str) -> str:
    """Return the name that `encoded_id` was given."""
    return unquote(context_id)


def _percent_encoded(found: re.Match[str]) -> str:
    return "%2E" if found[0] == "." else quote(found[0], safe="")

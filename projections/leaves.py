"""The texts that a JSON value is made of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def leaves_of(value: Any) -> Iterator[str]:
    """Yield the texts, numbers and keys that a JSON value is made of, in their order."""
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            for key, inner in reversed(value.items()):
                pending += (inner, key)
        elif isinstance(value, list):
            pending += reversed(value)
        else:
            yield json.dumps(value)

"""JSON that others wrote, in files that may be anything: how much of one is read, and how deep it may be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..domain.errors import InvalidInputError
from ..domain.log.admission import JSON_DEPTH_MAX, is_deeper

FILE_BYTES_MAX = 512 * 1024 * 1024


def read_bounded(path: Path) -> bytes:
    """
    Return what is in a file.

    Raises:
        InvalidInputError: it is larger than FILE_BYTES_MAX; some files have no end, such as devices.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise InvalidInputError(f"{path} is over FILE_BYTES_MAX, {FILE_BYTES_MAX:,}: divide it")
    return data


def parse_foreign(text: str | bytes, **options: Any) -> Any:
    """
    Return the value of a JSON text; `options` are those of `json.loads`.

    Raises:
        JSONDecodeError, UnicodeDecodeError: it is not JSON.
        RecursionError: it is nested deeper than JSON_DEPTH_MAX.
    """
    value = json.loads(text, **options)
    # Whoever goes through a value takes several of the calls that Python lets nest for each level of it.
    if is_deeper(value, JSON_DEPTH_MAX):
        raise RecursionError(f"its values are nested too deeply: JSON_DEPTH_MAX is {JSON_DEPTH_MAX}")
    return value

"""
From a file to JSON values: one document, or JSON Lines.

Whatever is wrong with the file is said in one sentence, with line and column where there is one.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, NoReturn

from ...domain.errors import InvalidInputError
from ...domain.log.admission import JSON_DEPTH_MAX
from ..files import parse_foreign, read_bounded

SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


class Document:
    """
    What a file holds: one value, or one per line (`lines` then has their numbers, from 1).

    `may_hold_surrogates` is false where no text can hold a lone one: UTF-8 has none, so it takes an escape.
    """

    def __init__(self, values: list[Any], text: str, lines: list[int] | None = None) -> None:
        self.values, self.lines = values, lines
        self.may_hold_surrogates = SURROGATE_ESCAPE.search(text) is not None


def read_document(path: Path) -> Document:
    """
    Return the JSON values in a file.

    Raises:
        InvalidInputError: the file is missing, unreadable, too large, empty, not UTF-8 or not JSON, or nested deeper
            than JSON_DEPTH_MAX.
    """
    text = _read_text(path)
    if not text.strip():
        raise InvalidInputError(f"{path} is empty: expected JSON or JSON Lines")
    try:
        return Document([_parse(text)], text)
    except json.JSONDecodeError as error:
        lines = _json_lines(path, text)
        if lines is None:
            raise InvalidInputError(
                f"{path} is not JSON: {_fault(error)} at line {error.lineno}, column {error.colno}"
            ) from error
        return lines
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{path}: {_fault(error)}") from error


def _read_text(path: Path) -> str:
    try:
        # A mark at the beginning, as some editors write it, is not part of the text.
        return read_bounded(path).decode("utf-8-sig")
    except FileNotFoundError as error:
        raise InvalidInputError(f"there is no file {path}: check the name") from error
    except IsADirectoryError as error:
        raise InvalidInputError(f"{path} is a folder: name a file in it") from error
    except PermissionError as error:
        raise InvalidInputError(f"{path} may not be read: check its rights") from error
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"{path} is not UTF-8 text (byte {error.start} is {error.object[error.start]:#04x}): convert it first"
        ) from error
    except InvalidInputError:
        raise
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _json_lines(path: Path, text: str) -> Document | None:
    """Return the values of JSON Lines; None where the first line is no value, so that it is a broken document."""
    values: list[Any] = []
    numbers: list[int] = []
    # Not splitlines(): it also splits at characters that may stand within a JSON text.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            values.append(_parse(line))
        except json.JSONDecodeError as error:
            if not values:
                return None
            raise InvalidInputError(
                f"{path} is not JSON Lines: {_fault(error)} at line {number}, column {error.colno}"
            ) from error
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(f"{path}, line {number}: {_fault(error)}") from error
        numbers.append(number)
    return Document(values, text, numbers)


def _parse(text: str) -> Any:
    return parse_foreign(text, parse_constant=_refuse_constant, object_pairs_hook=_object)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value: write null, or a number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        # The last one would win, and the others be lost without a word.
        raise ValueError(f"an object has the key {twice!r} twice: rename one")
    return made


def _fault(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return error.msg[:1].lower() + error.msg[1:]
    if isinstance(error, RecursionError):
        return f"its values are nested too deeply: JSON_DEPTH_MAX is {JSON_DEPTH_MAX}"
    return str(error)

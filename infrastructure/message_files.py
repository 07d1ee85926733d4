"""Files of messages, `{"messages": [...]}`, replaced as a whole so that no reader sees half a file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..domain.arguments import require_path
from ..domain.errors import InvalidInputError
from ..domain.messages import Message, clean_messages, message_from_dict, message_to_dict
from .files import parse_foreign, read_bounded, replace_files


def write_messages_file(path: str | os.PathLike[str], messages: Iterable[Any], *, clean: bool = True) -> None:
    """
    Write messages of any type to a file, and create its folder if needed; `clean=False` writes all of them.

    Raises:
        InvalidInputError: one of them is not a message, or cannot be written as JSON; nothing was written.
    """
    target = require_path(path)
    data = _encoded(clean_messages(messages) if clean else list(messages), target)
    replace_files({target: data})


def _encoded(messages: list[Any], path: Path) -> bytes:
    records = []
    for index, message in enumerate(messages):
        try:
            records.append(message_to_dict(message))
            json.dumps(records[-1], ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInputError(f"message {index} cannot be written to {path}: {error}") from error
    return json.dumps({"messages": records}, indent=2, ensure_ascii=False).encode()


def read_messages_file(path: str | os.PathLike[str], *, clean: bool = True) -> list[Message]:
    """
    Return the messages of a file, cleaned; none for a file that is missing or not JSON.

    `clean=False` returns all of them, system messages too. It leaves out records of unknown types.

    Raises:
        InvalidInputError: it is JSON, but neither a list of messages nor an object that has one; it is too large, or
            nested too deeply; or a record cannot be read, and the error has its index.
    """
    try:
        held = parse_foreign(read_bounded(require_path(path)))
    except InvalidInputError:
        raise
    except (FileNotFoundError, ValueError):
        return []
    except RecursionError as error:
        raise InvalidInputError(f"{path} cannot be read: {error}") from error
    records = held.get("messages", []) if isinstance(held, dict) else held
    if not isinstance(records, list):
        raise InvalidInputError(f'{path} holds no messages: it should be {{"messages": [...]}}')
    read = (_message(record, index, path) for index, record in enumerate(records))
    messages = [message for message in read if message is not None]
    return clean_messages(messages) if clean else messages


def _message(record: Any, index: int, path: str | os.PathLike[str]) -> Message | None:
    try:
        return message_from_dict(record)
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{path}: message {index} is no record of a message: {error}") from error

"""
The runs of files, checked: whatever can be wrong with a file is found here, before a store is touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ...domain.canonical import canonical_json
from ...domain.chat.events import ChatItemEvent
from ...domain.chat.formats.openai_shape import shape_messages
from ...domain.errors import InvalidInputError
from ...domain.streams import stream_id
from ...domain.system import REAL_SYSTEM
from .formats import Conversation, Format, conversations_in, safe_id
from .reading import read_document
from .surrogates import first_surrogate, replace_surrogates

__all__ = ["Run", "read_runs"]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """
    A conversation that may become, or already is, the context `context_id`.

    `where` names it in errors; `groups` are the items of each of its messages; `attributes` is what its source
    said beside them.
    """

    where: str
    source: str
    context_id: str
    messages: list[Any]
    groups: list[list[ChatItemEvent]]
    attributes: dict[str, Any]


def read_runs(
    paths: Sequence[str | Path], *, format: Format = "auto", prefix: str | None = None, mend_surrogates: bool = False
) -> list[Run]:
    """
    Return the runs of files, each named `PREFIX-KEY`.

    `prefix` is the file's name without its ending where none is given; the key is the run's own, or its number.

    Raises:
        InvalidInputError: a file cannot be taken; the error names the file, and as far as it goes the run, the
            message's index and the field, and says what was expected there.
    """
    if prefix is not None and (not prefix or prefix.startswith("-")):
        raise InvalidInputError(f"the prefix {prefix!r} cannot begin a context's id: begin with a letter or digit")
    runs = [run for path in paths for run in _runs_of(Path(path), format, prefix, mend_surrogates)]
    _require_own_ids(runs)
    return runs


def _runs_of(path: Path, format: Format, prefix: str | None, mend: bool) -> list[Run]:
    document = read_document(path)
    try:
        conversations = conversations_in(document, format)
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error}") from error
    if document.may_hold_surrogates:
        conversations = [_in_unicode(path, one, mend) for one in conversations]
    first = safe_id(path.stem) if prefix is None else prefix
    return [_run(path, one, f"{first}-{one.key}") for one in conversations]


def _run(path: Path, conversation: Conversation, context_id: str) -> Run:
    where = f"{path}, run {conversation.number}"
    messages, attributes = conversation.messages, conversation.attributes
    try:
        stream_id("chat", context_id)
        canonical_json(attributes, what="what lies beside the messages")
        groups = shape_messages(messages, context_id=context_id, created_at=REAL_SYSTEM.now())
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}, {error}") from error
    return Run(
        where=where,
        # A file's name need not be text.
        source=replace_surrogates(path.name),
        context_id=context_id,
        messages=messages,
        groups=groups,
        attributes=attributes,
    )


def _in_unicode(path: Path, conversation: Conversation, mend: bool) -> Conversation:
    messages, attributes = conversation.messages, conversation.attributes
    if mend:
        return msgspec.structs.replace(
            conversation, messages=replace_surrogates(messages), attributes=replace_surrogates(attributes)
        )
    places = [(f"message {index} (from 0), ", message) for index, message in enumerate(messages)]
    for place, value in [*places, ("", attributes)]:
        found = first_surrogate(value)
        if found is not None:
            raise InvalidInputError(
                f"{path}, run {conversation.number}, {place}field {found.path}: a lone surrogate "
                f"(U+{found.code:04X}) at index {found.offset}, which is not Unicode text: "
                "--replace-surrogates puts U+FFFD in its place"
            )
    return conversation


def _require_own_ids(runs: Sequence[Run]) -> None:
    seen: dict[str, Run] = {}
    for run in runs:
        other = seen.setdefault(run.context_id, run)
        if other is not run:
            raise InvalidInputError(
                f"{other.where} and {run.where} would both be the context {run.context_id!r}: "
                "import them one by one, each with a --prefix of its own"
            )

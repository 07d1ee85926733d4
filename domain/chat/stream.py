"""
A message that is written piece by piece, such as the answer of a model while it comes.

It is one item from its first text on. The text is recorded in pieces, so that others can read it while it
grows, and so that a crash leaves the message as far as it came. Pieces end behind a word where they can, so that a
search finds every word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from types import TracebackType
from typing import Any, Self

import msgspec

from ..canonical import canonical_json, parse_json, require_unicode
from ..clock import System
from ..concurrency.threads import in_thread, in_thread_or_here
from ..errors import DecisionRefusedError, InvalidInputError, RefoldError
from .events import UNFINISHED, MessageAdded, is_instructions
from .item_events import make_event
from .roles import ChatRole
from .rules.commands import AddItems, WritePiece
from .usage import Usage, metrics_of

# A piece is recorded when it has this size in UTF-8, or when the last piece is this old. Even with the delta that
# completes it, its event is usually below the size of a large text, which takes six statements instead of one.
PIECE_BYTES_MAX = 3_840
PIECE_SECONDS = 0.25
LAST_BLANK = re.compile(r".*\s", re.DOTALL)


class MessageStream:
    """
    A message that is being written: `with chat.stream("assistant") as out: out.write(delta)`.

    The message is in the context from the first text on, so that a request made in the block does not hold it. Leaving
    the block completes the message; an exception leaves it incomplete, with the exception as the reason. It is for one
    thread or task. In an event loop use `async with` and `await out.awrite(delta)`.
    """

    def __init__(
        self, record: Callable[..., Any], place: str, role: ChatRole | str, agent_id: str | None, system: System
    ) -> None:
        begun = make_event(
            MessageAdded,
            id=system.new_id("msg_"),
            created_at=0.0,
            agent_id=agent_id,
            role=role,
            content=[""],
            interrupted=True,
            incomplete=UNFINISHED,
        )
        if is_instructions(begun):
            raise InvalidInputError(f"a message of the role {role!r} is in force as a whole: use add_message")
        self._record, self._place, self._begun, self._system = record, place, begun, system
        # The number of recorded characters, and the texts after them, which wait. One attribute, so that an interrupt
        # cannot change the one without the other.
        self._kept: tuple[int, list[str]] = (0, [])
        self._bytes = 0
        # The time of the last piece; None before the first text.
        self._recorded_at: float | None = None
        # The usage in its stored form; empty if none was given.
        self._metrics = b""
        # Whether the block is entered; None before it.
        self._is_open: bool | None = None

    def __repr__(self) -> str:
        recorded, waiting = self._kept
        length = recorded + sum(map(len, waiting))
        return f"MessageStream({self.message_id!r}, length={length}, is_open={bool(self._is_open)})"

    @property
    def message_id(self) -> str:
        """The id of the message."""
        return self._begun.id

    def write(self, text: str) -> None:
        """
        Add text. It is recorded at once if nearly 4 KB wait or the last piece is 250 ms old, else with a later piece.

        Raises:
            InvalidInputError: it is not a text, or holds a lone surrogate.
            DecisionRefusedError: the block was left, or the message is not written any more.
            StorageError: the database refused; the text waits for the next piece.
        """
        if self._add(text):
            self._record_words()

    async def awrite(self, text: str) -> None:
        """`write()` for a running event loop: a piece is recorded in a thread."""
        if self._add(text):
            await in_thread(self._record_words)

    def flush(self) -> None:
        """Record all that waits now, such as before a long pause."""
        text = "".join(self._kept[1])
        if text:
            self._begin()
            self._write(text, len(text))

    def use(
        self,
        usage: Usage | Mapping[str, Any] | object = None,
        *,
        model: str | None = None,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cached_tokens: int | None = None,
        cost: float | Decimal | None = None,
    ) -> None:
        """
        Say what the call of the model used, with the arguments of `add_message`; it is recorded with the last piece.

        Raises:
            InvalidInputError: a count or the cost is none, or the usage is not JSON.
        """
        counts = {"input_tokens": input_tokens, "output_tokens": output_tokens, "cached_tokens": cached_tokens}
        used = metrics_of(parse_json(self._metrics), usage, model=model, cost=cost, **counts)
        # Refused here and not at the end of the block, where the text that waits would be lost.
        self._metrics = canonical_json(used, what="the usage of the message") if used else b""

    def __enter__(self) -> Self:
        if self._is_open is not None:
            raise DecisionRefusedError(f"message {self.message_id!r} was written: begin another stream")
        self._is_open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_open = False
        length, waiting = self._kept
        if self._recorded_at is None and not waiting and not self._metrics:
            return
        text, reason = "".join(waiting), None if error is None else _reason(error)
        last = WritePiece(
            self._place, self.message_id, length, text, is_last=True, incomplete=reason, metrics=self._metrics
        )
        try:
            self._begin()
            self._record(last, catch_up=True)
            self._kept = (length + len(text), [])
        except RefoldError as fault:
            if error is None:
                raise
            # The caller must see the first error; the message itself shows that it has no end.
            error.add_note(f"the end of message {self.message_id!r} was not recorded: {fault}")

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await in_thread_or_here(self.__exit__, kind, error, traceback)

    def _add(self, text: str) -> bool:
        """Keep a text, and return whether there is something to record."""
        if not self._is_open:
            raise DecisionRefusedError(f"message {self.message_id!r} is not open: write within the block of its stream")
        # Most texts are ASCII, and a model sends thousands.
        is_plain = type(text) is str and text.isascii()
        if text if is_plain else require_unicode(text, "a piece of a message"):
            self._kept[1].append(text)
        self._bytes += len(text) if is_plain else len(text.encode())
        return self._bytes > 0 and (self._recorded_at is None or self._is_due)

    @property
    def _is_due(self) -> bool:
        """Whether a piece is due, some time after the message began."""
        # The time of day may have been set back.
        return self._bytes >= PIECE_BYTES_MAX or abs(self._system.now() - (self._recorded_at or 0.0)) >= PIECE_SECONDS

    def _begin(self) -> None:
        """Add the message, if it is not there."""
        if self._recorded_at is None:
            begun = msgspec.structs.replace(self._begun, created_at=self._system.now())
            self._record(AddItems(self._place, (begun,)), catch_up=True)
            self._recorded_at = self._system.now()

    def _record_words(self) -> None:
        """Begin the message, and record what waits if it is due, up to the last blank if there is one."""
        self._begin()
        # Another task may have begun the message meanwhile, or recorded the text that waited.
        if not self._is_due:
            return
        text = "".join(self._kept[1])
        blank = LAST_BLANK.match(text)
        self._write(text, len(text) if blank is None else blank.end())

    def _write(self, text: str, end: int) -> None:
        """Record the first `end` characters of the text that waits."""
        length = self._kept[0]
        # After an interrupt the piece may be recorded already: then it is sent again, and adds nothing.
        self._record(WritePiece(self._place, self.message_id, length, text[:end]), catch_up=True)
        rest = text[end:]
        self._kept = (length + end, [rest] if rest else [])
        self._bytes = len(rest.encode())
        self._recorded_at = self._system.now()


def _reason(error: BaseException) -> str:
    """Return the type and the text of an error, without lone surrogates, as of the name of a file."""
    try:
        text = str(error)
    except Exception:  # Whatever the caller's class raises there, the message must end.
        text = ""
    return f"{type(error).__name__}: {text}".rstrip(": ").encode(errors="replace").decode()

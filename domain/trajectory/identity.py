"""The identity of a run: one round of one agent, in a session of a user."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

from ..context.context import Attachment
from ..errors import InvalidInputError
from ..ids import encoded_id, split_stream_id, stream_id

KIND = "run"
# An id has at most 255 bytes, and Python refuses to parse a number of thousands of digits.
ID = re.compile("(?P<user>[^/]+)/(?P<session>[^/]+)/(?P<round>[0-9]{1,255})/(?P<sub>[0-9]{1,255})")


class RunId(NamedTuple):
    """`run_id` counts the rounds of a session from 0; `sub_id` is 0 for the main agent, 1 and up for sub-agents."""

    user_id: str
    session_id: str
    run_id: int = 0
    sub_id: int = 0

    @property
    def stream(self) -> str:
        """
        The stream of the run: its parts, percent-encoded where necessary, with `/` between them.

        Raises:
            InvalidInputError: a part is not valid.
        """
        for what, number in (("run_id", self.run_id), ("sub_id", self.sub_id)):
            if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                raise InvalidInputError(f"{what} is {number!r}: it is a number from 0 on")
        return stream_id(KIND, f"{split_stream_id(self.session_prefix)[1]}{self.run_id}/{self.sub_id}")

    @property
    def session_prefix(self) -> str:
        """
        The prefix of the streams of all rounds and agents of the session.

        Raises:
            InvalidInputError: a part is not valid.
        """
        texts = (("user_id", self.user_id), ("session_id", self.session_id))
        for what, text in texts:
            if not isinstance(text, str):
                raise InvalidInputError(f"{what} is {text!r}: it is a text")
        parts = [encoded_id(text, f"the {what} {text!r}").replace("/", "%2F") for what, text in texts]
        return f"{KIND}:{'/'.join(parts)}/"


def run_id_of(context_id: str) -> RunId:
    """
    Return the identity of a run from its id as a context.

    Raises:
        InvalidInputError: it is not the id of a run.
    """
    found = ID.fullmatch(context_id)
    if found is None:
        raise InvalidInputError(f"{context_id!r} is not the id of a run: that is USER/SESSION/ROUND/SUB")
    return RunId(unquote(found["user"]), unquote(found["session"]), int(found["round"]), int(found["sub"]))


def is_run_id(context_id: str) -> bool:
    """Return whether a context's id is the id of a run."""
    return ID.fullmatch(context_id) is not None


def flush_streams(attachment: Attachment, *streams: str) -> None:
    """
    Wait until all events that were queued for some streams in this process are in the log.

    The object that queued them may be gone, and the next object for the run must see these events.

    Raises:
        ConcurrencyError, StorageError: queued events were not recorded.
    """
    for journal in list(attachment.unflushed or ()):
        if journal.place.stream in streams:
            journal.flush()

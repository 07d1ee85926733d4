"""
Keys and columns that several projections share.

A key holds a version with leading zeros, so that keys sort in the order of versions. A key holds the digest of a text
that may have any length and characters; a column holds the text itself. The rows of a session, a round, a run or a
node are a range of keys, because the key of a vertex is its run's stream and its version, as events name it.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

from ..domain.errors import InvalidInputError
from ..domain.ids import split_stream_id
from ..domain.log.admission import NUMBER_MAX
from ..domain.log.envelope import RecordedEvent
from ..domain.spans import Ref
from ..domain.trajectory.identity import KIND, RunId, run_id_of

VERSION_DIGITS = 10
DIGEST_BYTES = 12
# Enough for the streams of a page: events that follow each other are about the same few runs.
STREAMS_KEPT_MAX = 1_024


def version_key(stream: str, version: int) -> str:
    """Return the key of a version of a stream; the keys of a stream are in the order of versions."""
    # `zfill` takes half the time of a format with leading zeros, and a fold asks for several keys of each event.
    return f"{stream}@{str(version).zfill(VERSION_DIGITS)}"


def vertex_key(stream: str, ref: Ref) -> str:
    """Return the key of a vertex that an event of `stream` names."""
    return version_key(ref.stream or stream, ref.version)


def envelope_columns(event: RecordedEvent) -> dict[str, Any]:
    """Return the columns for where, when and by whom an event was recorded; an empty text is "not given"."""
    meta, position = event.meta, event.position
    return {
        "lane": position.slice,
        "number": position.number,
        "recorded_at": event.recorded_at,
        "actor": meta.actor or "",
        "cause": meta.causation or "",
        "correlation_id": meta.correlation_id or "",
    }


def place_in(key: str) -> tuple[str, int]:
    """Return the stream and the version in the key of a vertex, or in the reference of an event."""
    ref = Ref.parse(key)
    return ref.stream, ref.version


def stream_in(key: str) -> str:
    """Return the stream in the key of a vertex; a graph has tens of thousands of keys, so nothing else is read."""
    return key.rpartition("@")[0]


def reference_of(key: str) -> str:
    """Return `stream@version` of the event that registered the vertex with this key."""
    return str(Ref.parse(key))


def digest_of(text: str) -> str:
    """Return the digest of a text, for use in a key."""
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()


@lru_cache(STREAMS_KEPT_MAX)
def run_of(stream: str) -> RunId | None:
    """Return the run of a stream; None if the stream is not the stream of a run."""
    kind, context_id = split_stream_id(stream)
    if kind != KIND:
        return None
    try:
        identity = run_id_of(context_id)
        is_named_so = identity.stream == stream
    except InvalidInputError:
        return None
    return identity if is_named_so and max(identity.run_id, identity.sub_id) <= NUMBER_MAX else None


def runs_prefix(user_id: str, session_id: str, run_id: int | None, sub_id: int | None) -> str:
    """
    Return the prefix of the keys of all vertices of a session, of a round, or of one agent's round.

    Raises:
        InvalidInputError: a part that cannot be one.
    """
    stream = RunId(user_id, session_id, run_id or 0, sub_id or 0).stream
    if run_id is None:
        return stream.rsplit("/", 2)[0] + "/"
    return stream.rsplit("/", 1)[0] + "/" if sub_id is None else stream + "@"

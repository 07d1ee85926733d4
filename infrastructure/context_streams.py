"""
Opening contexts of a log: looking for a context, creating it if it is missing, and checking that it is the right one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from ..domain.canonical import require_unicode
from ..domain.context.adopt import names_in, streams_in_fields
from ..domain.context.decider import Decider
from ..domain.context.folded_stream import Durability, Place, require_durability
from ..domain.context.journal import OPENING, Journal
from ..domain.errors import ConcurrencyError, ContextNotFoundError, DamagedError, InvalidInputError
from ..domain.ids import split_stream_id, stream_id
from ..domain.kinds import KINDS
from ..domain.log.envelope import NAME_THE_WRITER, Event
from ..domain.log.gate import opening_allowed
from ..domain.log.ports import LiveLog, Log, NewEvents
from ..domain.spans import Span

IDENTITY = ("user", "session", "agent")
# The fields of first events that hold a text of the caller.
GIVEN = (*IDENTITY, "source")
# A misspelt name is compared with at most COMPARED_MAX names that begin with the same COMMON_LETTERS letters.
COMMON_LETTERS = 2
COMPARED_MAX, ALIKE = 1_000, 0.8


def context_named(log: Log, name: str, kinds: Sequence[str] = KINDS) -> str:
    """
    Return the stream of the context with this name, among those of some kinds.

    Raises:
        ContextNotFoundError: there is none.
        InvalidInputError: there are several, of different kinds.
    """
    streams = streams_named(log, name, kinds)
    if len(streams) > 1:
        raise InvalidInputError(f"{name!r} can mean {' or '.join(streams)}: write it with its kind in front")
    if not streams:
        raise ContextNotFoundError(name, () if kinds is KINDS else kinds)
    return streams[0]


def stream_named(log: Log, name: str) -> str:
    """
    Return the stream of a context by its name; without its kind it is a chat's, or the only one of that name.

    Raises:
        NotFoundError: there is none.
        InvalidInputError: there are several, of different kinds, and none is a chat.
    """
    found = streams_named(log, name, KINDS)
    return found[0] if found and found[0].startswith("chat:") else context_named(log, name)


def streams_named(log: Log, name: str, kinds: Sequence[str]) -> list[str]:
    """
    Return the existing streams, of some kinds, that a name can mean.

    Raises:
        InvalidInputError: the name is no text.
    """
    require_unicode(name, "the name of a context")
    # A whole name means what it says, also where `chat:a` is the id of another chat.
    if name.partition(":")[0] in kinds and log.head(name):
        return [name]
    return [stream for stream in (f"{kind}:{name}" for kind in kinds) if log.head(stream)]


def names_begun(log: LiveLog, begun: str, kinds: Iterable[str] = KINDS, *, limit: int) -> Iterator[str]:
    """Yield the names of contexts that begin with a text, with their kind if it has one; `limit` of each kind."""
    kind, colon, _ = begun.partition(":")
    if colon and kind in KINDS:
        yield from log.streams(begun, limit=limit)
        return
    for kind in kinds:
        yield from (split_stream_id(stream)[1] for stream in log.streams(f"{kind}:{begun}", limit=limit))


def names_alike(log: LiveLog, name: str, kinds: Iterable[str], limit: int) -> list[str]:
    """Return those of the compared names of contexts that are most like a misspelt one, the nearest first."""
    from difflib import get_close_matches

    kind, colon, _ = name.partition(":")
    given = len(kind) + 1 if colon and kind in KINDS else 0
    others = names_begun(log, name[: given + COMMON_LETTERS], kinds, limit=COMPARED_MAX)
    return get_close_matches(name, dict.fromkeys(others), limit, cutoff=ALIKE)


def named_versions(event: Any, stream: str) -> Iterator[tuple[str, int]]:
    """
    Yield the streams that an event of `stream` names, its own included, each with the last version that it names.

    Raises:
        DamagedError: a list of items in it is malformed.
    """
    for other in streams_in_fields(event):
        yield other, 1
    for named in names_in(event):
        # Only the ends of runs are read: a list from a file or a damaged event may be of any length.
        last = max((run.stop - 1 for run in named.ranges()), default=0) if isinstance(named, Span) else named.version
        yield named.stream or stream, max(last, 1)


class Opening(NamedTuple):
    """
    A context to open: its kind, its first event if it is new, and the command that records this event.

    If the context exists, its first event must have the same value in each field of `settled` that is given here.
    """

    kind: str
    decider: Decider[Any]
    first: Any
    begin: Callable[[Any], object]
    settled: tuple[str, ...] = IDENTITY


def open_journal(
    log: LiveLog,
    context_id: str,
    wanted: Opening,
    *,
    create: bool,
    durability: Durability,
    unflushed: set[Journal[Any]],
) -> Journal[Any]:
    """
    Return the journal of a context, created if needed.

    Raises:
        InvalidInputError: the id is invalid, or the context has another user, session or agent.
        NotFoundError: it does not exist and `create` is False.
        NotAllowedError: the gate of the log says no.
    """
    with opening_allowed(log, stream_id(wanted.kind, context_id)):
        return _opened(log, context_id, wanted, create, durability, unflushed)


def _opened(
    log: LiveLog, context_id: str, wanted: Opening, create: bool, durability: Durability, unflushed: set[Journal[Any]]
) -> Journal[Any]:
    stream = stream_id(wanted.kind, context_id)
    version, digest = log.end(stream)
    texts = [(field, given) for field in GIVEN if (given := getattr(wanted.first, field, None)) is not None]
    plain = {field: require_unicode(given, f"the {field} of {stream}") for field, given in texts}
    first = msgspec.structs.replace(wanted.first, **plain)
    if version:
        first = _checked(log, stream, wanted)
    elif not create:
        raise ContextNotFoundError(context_id, [wanted.kind])
    # A stream of another program may begin with any event.
    place = Place(stream, root_of(first, stream), getattr(first, "agent", None))
    journal: Journal[Any] = Journal(log, place, wanted.decider, version=version, digest=digest, unflushed=unflushed)
    if not version:
        try:
            journal.execute(wanted.begin(first), call=OPENING, catch_up=False)
        except ConcurrencyError:
            # Another writer created it at the same moment, so only open it.
            _checked(log, stream, wanted)
            journal.forget()
    # The creation of a context is never queued: all its queued events depend on it.
    journal.durability = require_durability(durability)
    return journal


def root_of(first: msgspec.Struct, stream: str) -> str:
    """
    Return the text that decides the slice of a stream with this first event: its root, else its session, else its id.
    """
    root: str = getattr(first, "root", None) or getattr(first, "session", None) or split_stream_id(stream)[1]
    return root


def first_event(log: Log, stream: str) -> Event:
    """
    Return the first event of a stream that has events.

    Raises:
        DamagedError: it is missing.
    """
    found = log.read_events(stream, until=1)
    if not found:
        raise DamagedError(f"event {stream}@1", "it is missing")
    return found[0]


def _checked(log: LiveLog, stream: str, wanted: Opening) -> Any:
    first = first_event(log, stream)
    for field in wanted.settled:
        given, kept = getattr(wanted.first, field), getattr(first, field, None)
        if given is not None and given != kept:
            way_out = NAME_THE_WRITER if field == "agent" else "leave it out"
            raise InvalidInputError(f"{stream} was opened with {field} {kept!r}, not {given!r}: {way_out}")
    return first


def missing_streams(log: Log, parts: Sequence[NewEvents], adopted: str) -> list[NewEvents]:
    """
    Return the streams that must be written for `adopted`: an earlier round of a run may already exist.

    Raises:
        InvalidInputError: a stream exists with other events.
        ConcurrencyError: `adopted` exists.
    """
    if head := log.head(adopted):
        raise ConcurrencyError(adopted, expected=0, actual=head, remedy="adopt the context under another id")
    missing: list[NewEvents] = []
    for new in parts:
        here = [] if new.stream == adopted else log.read_events(new.stream, until=len(new.events))
        if not here:
            missing.append(new)
        elif here != list(new.events):
            raise InvalidInputError(f"{new.stream} is here already, with other events than {adopted} goes back over")
    return missing

"""
The events of a store about what was erased or archived, what must be kept, and what is kept for how long.

They are events of a stream of their own, so their actors and times are recorded, too. No event of it ever has texts of
a context, or the name of a user: of a user it has a salted hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain, pairwise
from typing import Annotated, Any, TypeVar

import msgspec

from ..concurrency.known_types import known
from ..context.description import RANGES_SHOWN_MAX, Change, because, counted, in_pairs, joined
from ..errors import InvalidInputError, first_named
from ..ids import require_name
from ..log.admission import StreamName, VersionName, one_of
from ..log.envelope import Meta, TaggedEvent, current_meta
from ..log.ports import Log, NewEvents
from ..positions import Position
from ..spans import Span

STREAM = "store:erasures"
SEAL_BYTES = 16
SUBJECT_BYTES = 16
# An event has at most so many seals, so that reading it back takes little memory.
SEALS_MAX = 65_536
# Up to this many archived contexts are looked up one by one.
LOOKED_AT = 64
_encode = msgspec.msgpack.Encoder().encode


class ErasedVersions(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """
    Versions of a stream whose texts were erased, as runs (see `refold.domain.spans`), and a seal for each, in order.

    A seal is a hash of what is in the place of the event now.
    """

    stream: StreamName
    runs: bytes
    seals: bytes

    def require_admissible(self) -> None:
        """Raise InvalidInputError if there is not one seal for each version."""
        span = Span(self.stream, self.runs)
        span.require_admissible()
        if len(self.seals) != SEAL_BYTES * sum(map(len, span.ranges())):
            raise InvalidInputError(f"it does not have one seal for each version of {self.stream!r}")

    def versions(self) -> Iterator[tuple[int, bytes]]:
        """Yield the versions, ascending, each with its seal."""
        named = chain.from_iterable(Span(self.stream, self.runs).ranges())
        bounds = range(0, len(self.seals) + 1, SEAL_BYTES)
        return zip(named, (self.seals[start:end] for start, end in pairwise(bounds)), strict=True)


class StoreErased(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="store.erased.v1"):
    """
    Texts were erased, because of `why`: `erasure` is the id of the call, which may record several of these events.

    `scope` is what was asked for; `whole` are the contexts that were erased whole, those of others have events that
    named the user or were made of what was erased. `subject` is the hash of a user's name with `salt`. The texts of an
    archive are in the file of this name and hash, and can come back.
    """

    erasure: str
    scope: Annotated[str, one_of("user", "context", "item", "archive")]
    why: str
    erased: tuple[ErasedVersions, ...]
    subject: bytes = b""
    salt: bytes = b""
    file: str = ""
    hash: bytes = b""
    whole: tuple[StreamName, ...] = ()


class StoreUnarchived(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="store.unarchived.v1"):
    """
    The texts of archived contexts are in the log again, but for those that were erased meanwhile.

    `erasure` is the id of this call, which ends with an `ErasureFinished` as well. `erased` are events of which a part
    had been erased before they were archived.
    """

    erasure: str
    contexts: tuple[StreamName, ...]
    erased: tuple[ErasedVersions, ...] = ()


class ErasureFinished(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="store.erasure_finished.v1"):
    """
    The texts of an erasure or an archive are gone from all that is made from events, except from the places in
    `unreached`; those that were unarchived are there again.
    """

    erasure: str
    unreached: tuple[str, ...] = ()


class ContextHeld(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="store.held.v1"):
    """Nothing of a context may be erased until it is released."""

    context: StreamName
    why: str


class ContextReleased(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="store.released.v1"):
    """A context may be erased again."""

    context: StreamName
    why: str


class RetentionSet(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="store.retention_set.v1"):
    """
    Contexts are erased `days` days after their last event, those that match; the same name again changes the policy.

    A context matches if its kind, agent and source are these, where they are given, if the hash of its user with `salt`
    is `user`, and if it has the `tag`: a tag of a queue or pool, or an attribute of a chat, as "name" or "name=value".
    """

    name: VersionName
    days: int
    why: str
    kind: str | None = None
    agent: str | None = None
    source: str | None = None
    user: bytes = b""
    salt: bytes = b""
    tag: str | None = None


class RetentionEnded(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="store.retention_ended.v1"):
    """The policy of this name does not apply any more."""

    name: VersionName
    why: str


ErasureEvent = (
    StoreErased | StoreUnarchived | ErasureFinished | ContextHeld | ContextReleased | RetentionSet | RetentionEnded
)
# An event that names erased ones by their seals.
Recorded = TypeVar("Recorded", StoreErased, StoreUnarchived)
_DECODER: msgspec.msgpack.Decoder[ErasureEvent] = msgspec.msgpack.Decoder(known(ErasureEvent))


def describe(event: ErasureEvent) -> Change:
    """Return what an event says, without hashes and seals: an erasure has one for each of its events."""
    match event:
        case StoreErased(scope=scope, erased=erased, file=file, why=why):
            count = sum(len(one.seals) for one in erased) // SEAL_BYTES
            what = f"{scope}: {counted(count, 'event')} of {_named([one.stream for one in erased])}"
            words = joined([what, file and f"in {file}", because(why)])
        case StoreUnarchived(contexts=contexts):
            words = _named(contexts)
        case ErasureFinished(erasure=erasure, unreached=unreached):
            words = joined([erasure, f"not reached: {'; '.join(unreached)}" if unreached else ""])
        case ContextHeld(context=context, why=why) | ContextReleased(context=context, why=why):
            words = joined([context, because(why)])
        case RetentionSet(name=name, days=days, why=why):
            of = in_pairs(
                kind=event.kind, user=event.user and "[hashed]", agent=event.agent, source=event.source, tag=event.tag
            )
            words = joined([f"{name}: after {counted(days, 'day')}", of, because(why)])
        case RetentionEnded(name=name, why=why):
            words = joined([name, because(why)])
    return Change(lambda _: words)


def _named(contexts: Sequence[str]) -> str:
    """Return how many contexts there are, and the names of the first few."""
    return f"{counted(len(contexts), 'context')} ({first_named(contexts, RANGES_SHOWN_MAX)})"


def seal_of(
    before: bytes,
    digest: bytes,
    place: tuple[str, int, Position],
    recorded_at: int,
    meta: Meta,
    payload: bytes,
) -> bytes:
    """
    Return the seal of an event whose texts were erased: `payload` and `meta` are what is left of it, `digest` is that
    of the event as it was recorded, `before` that of the event before it.

    It binds both digests, so that neither event can be changed without it. `place` is stream, version and position.
    """
    stream, version, position = place
    covered = (
        before, digest, stream, version, position.slice, position.number, recorded_at,
        meta.actor, meta.correlation_id, meta.causation, meta.idempotency_key, meta.key_id, meta.fingerprint, payload,
    )  # fmt: skip
    return blake2b(_encode(covered), digest_size=SEAL_BYTES, person=b"refold.erased").digest()


def subject_hash(name: str, salt: bytes) -> bytes:
    """Return the hash of a user's name: it confirms a name that is known, and reveals none."""
    return blake2b(name.encode(), key=salt, digest_size=SUBJECT_BYTES).digest()


def contexts_owned(events: Iterable[object], user: str) -> set[str]:
    """Return the contexts that a user owned, by earlier erasures of the user: they do not name the user any more."""
    return {
        stream
        for event in map(decoded, events)
        if isinstance(event, StoreErased) and event.salt and event.subject == subject_hash(user, event.salt)
        for stream in event.whole
    }


def erased_events(about: Recorded, seals: Iterable[tuple[str, int, bytes]]) -> list[Recorded]:
    """Return the events of an erasure, given stream, version and seal of each erased event; `about` has the rest."""
    events: list[Recorded] = []
    listed = sorted(seals)
    for start in range(0, len(listed), SEALS_MAX):
        by_stream: dict[str, list[tuple[int, bytes]]] = {}
        for stream, version, seal in listed[start : start + SEALS_MAX]:
            by_stream.setdefault(stream, []).append((version, seal))
        erased = tuple(
            ErasedVersions(stream, Span.of(stream, [one[0] for one in some]).runs, b"".join(one[1] for one in some))
            for stream, some in by_stream.items()
        )
        events.append(msgspec.structs.replace(about, erased=erased))
    return events


class Archive(msgspec.Struct, frozen=True):
    """The file that has the texts of a context: its name and hash, the id of the call, and why."""

    file: str
    hash: bytes
    id: str
    why: str


class Erasures(msgspec.Struct, frozen=True):
    """
    The state of these events: which contexts are held and why, the policies by name, the ids of what began and did not
    finish, and where the texts of archived contexts are.
    """

    held: dict[str, str] = {}
    policies: dict[str, RetentionSet] = {}
    unfinished: dict[str, None] = {}
    archives: dict[str, Archive] = {}


def decoded(event: Any) -> Any:
    """Return one of these events; a log that is copied leaves them as the bytes in which they are stored."""
    return _DECODER.decode(event) if isinstance(event, msgspec.Raw) else event


def fold(state: Erasures, events: Iterable[ErasureEvent]) -> Erasures:
    """Return the state after `events`."""
    held, policies, unfinished = dict(state.held), dict(state.policies), dict(state.unfinished)
    archives = dict(state.archives)
    for event in events:
        match event:
            case StoreErased(erasure=erasure, erased=erased):
                unfinished[erasure] = None
                if event.scope == "archive":
                    archives.update((one.stream, Archive(event.file, event.hash, erasure, event.why)) for one in erased)
            case StoreUnarchived(erasure=erasure, contexts=contexts):
                unfinished[erasure] = None
                for context in contexts:
                    archives.pop(context, None)
            case ErasureFinished(erasure=erasure):
                unfinished.pop(erasure, None)
            case ContextHeld(context=context, why=why):
                held[context] = why
            case ContextReleased(context=context):
                held.pop(context, None)
            case RetentionSet(name=name):
                policies[name] = event
            case RetentionEnded(name=name):
                policies.pop(name, None)
    return Erasures(held, policies, unfinished, archives)


def archives_in(log: Log) -> dict[str, Archive]:
    """Return the archives of the contexts that a log has; where an earlier moment was restored, some are not there."""
    archives = fold(Erasures(), map(decoded, log.read_events(STREAM))).archives
    # If few are archived, reading the names of all contexts costs more than looking up each of these.
    there = {*log.streams()} if len(archives) > LOOKED_AT else {one for one in archives if log.head(one)}
    return {context: archive for context, archive in archives.items() if context in there}


def require_unarchived(log: Log) -> None:
    """
    Require that no context of a log is archived: a copy has digests of its own, which an archive does not match.

    Raises:
        InvalidInputError: one is.
    """
    for context, archive in archives_in(log).items():
        raise InvalidInputError(f"{context} is archived in {archive.file}: unarchive it before the store is copied")


def decide(command: ErasureEvent, state: Erasures) -> Sequence[ErasureEvent]:
    """
    Return the event itself, or nothing where it changes nothing.

    Raises:
        InvalidInputError: the name of a policy is invalid.
    """
    match command:
        case ContextHeld(context=context, why=why) if state.held.get(context) == why:
            return []
        case ContextReleased(context=context) if context not in state.held:
            return []
        case RetentionSet(name=name):
            require_name(name, "policy")
        case RetentionEnded(name=name) if name not in state.policies:
            return []
    return [command]


class Seals:
    """
    The seals of a log, by which its readers know what is in the place of an erased event.

    They are read when a reader meets an event that does not match its digest, so that they cost nothing before; and
    again when one is met that is not named yet, since others may have erased since. Any number of threads may use it.
    """

    def __init__(self) -> None:
        # For each stream the versions of each event that names some, the newest last. Replaced as a whole.
        self._named: dict[str, list[ErasedVersions]] = {}

    def has(self, stream: str, version: int, seal: bytes) -> bool:
        """Return whether this is the newest known seal of an event."""
        for erased in reversed(self._named.get(stream, ())):
            place = 0
            for run in Span(stream, erased.runs).ranges():
                if version in run:
                    start = SEAL_BYTES * (place + version - run.start)
                    return erased.seals[start : start + SEAL_BYTES] == seal
                place += len(run)
        return False

    def has_after_reading(
        self, stream: str, version: int, seal: bytes, read_erasures: Callable[[], Iterable[object]]
    ) -> bool:
        """Return the same after the erasures were read again, unless it is known. No event of erasures is erased."""
        if stream == STREAM:
            return False
        if not self.has(stream, version, seal):
            self.learn(read_erasures())
        return self.has(stream, version, seal)

    def learn(self, events: Iterable[object]) -> None:
        """Take the seals of these events, which are all of the stream, in its order."""
        named: dict[str, list[ErasedVersions]] = {}
        for event in map(decoded, events):
            if isinstance(event, StoreErased | StoreUnarchived):
                for erased in event.erased:
                    named.setdefault(erased.stream, []).append(erased)
        self._named = named


def events_of_store(events: Sequence[ErasureEvent], version: int) -> NewEvents:
    """Return events of the store as an append behind a version of them."""
    metas = (current_meta(default_actor=None, idempotency_key=None),) * len(events)
    return NewEvents(stream=STREAM, expected_version=version, events=tuple(events), metas=metas, root=STREAM)

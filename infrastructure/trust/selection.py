"""
The selection of an erasure: the events of a user, a context or an item, and the events that were made from them.

Events that only name erased items, such as forks and merges, do not have their texts, and stay. Summaries, and copies
of a configuration in a fork, repeat the texts, so they are erased as well. Any other event with the same text is
reported, and so is the user's name in a text or a name that stays.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from hashlib import blake2b
from itertools import chain
from typing import Any, NamedTuple, Protocol, runtime_checkable

import msgspec

from ...domain.chat import events as chat
from ...domain.context.description import counted
from ...domain.erasure.events import STREAM, seal_of
from ...domain.erasure.skeleton import Mask, meta_skeleton, persons_skeleton, skeleton_of
from ...domain.errors import KeyDestroyedError, KeyMissingError, NotFoundError
from ...domain.ids import VERSION_MAX
from ...domain.kinds import KINDS
from ...domain.log.envelope import NO_DIGEST, Event, Meta, RecordedEvent, Undecodable, encode_payload
from ...domain.log.ports import LiveLog, Remnant
from ...domain.memory.events import MemoryRemembered
from ...domain.pool.events import AddedEvent, PoolConflictResolved
from ...domain.positions import BEGINNING
from ...domain.spans import Ref, Segment, Span
from ...domain.trajectory import events as run
from ...domain.trajectory.nodes import DATA, node_name
from ...domain.window.events import WindowItemEvent
from ...projections.contract import Projection
from ...projections.json_texts import leaves_of

PAGE_EVENTS = 2_048
# Shorter texts are the same in many contexts by chance.
COPY_CHARACTERS_MIN = 24
COPIES_MAX = 100
MENTIONS_MAX = 100
HASH_BYTES = 16


class Sealed(NamedTuple):
    """The rest of an event, and the seal under which an erasure names it."""

    remnant: Remnant
    seal: bytes
    recorded: RecordedEvent


@runtime_checkable
class ReadsWithoutKeys(Protocol):
    """A log that encrypts what it stores, and may have lost some of its keys."""

    def read_without_keys(self, stream: str, *, after: int, until: int) -> list[RecordedEvent]:
        """Return the events of `read`; an event whose key is gone comes as an `Undecodable`, with the reason."""


class Selection:
    """
    The events to be erased: whole streams, to which all of `mask` applies, and single versions of other streams.

    Events of `archived` streams are selected even if the log has none of their texts, so that these cannot come back.
    """

    def __init__(self, log: LiveLog, mask: Mask, *, archived: Collection[str] = ()) -> None:
        self._log, self.mask, self.archived = log, mask, archived
        self.whole: set[str] = set()
        # The last version to erase of a whole stream; without one, events that others record meanwhile are erased, too.
        self.ends: dict[str, int] = {}
        # The references of events that nobody can read, as their keys are gone; if this is None, they raise an error.
        self.lost: set[str] | None = None
        self.versions: dict[str, set[int]] = {}
        # Events that name the user in streams of others: the versions by stream.
        self.naming: dict[str, set[int]] = {}
        # In an encrypted store: the user's new key, and the streams that get it, as their older keys are destroyed.
        self.new_key, self.renewed = "", set[str]()
        # Other events with the same texts as erased ones.
        self.copies: list[str] = []
        self.copied = 0
        # Events that have the user's name in a text or a name that stays.
        self.mentions: list[str] = []
        self.mentioned = 0
        # The hashes of all longer texts to be erased, and whether those of the selected events are among them yet.
        self._texts, self._has_texts = set[bytes](), False
        # Items that were made of erased ones, and that a later event adds: by stream, and by version or id.
        self._made: set[tuple[str, int | str]] = set()
        # The erased nodes, by run and name; and the earlier rounds of each run, whose nodes it may meet again.
        self._nodes: set[tuple[str, str]] = set()
        self._rounds: dict[str, set[str]] = {}
        # `complete` has read the log up to here; and whether it found whole streams whose texts it did not know before.
        self._moment, self._found_streams = BEGINNING, False
        self._name = (mask.user or "").lower().encode()
        name = rf"(?<!\w){re.escape(mask.user or '')}(?!\w)"
        self._user = None if mask.user is None else re.compile(name, re.IGNORECASE)

    def has(self, stream: str, version: int) -> bool:
        """Return whether an event is to be erased."""
        is_in_whole = stream in self.whole and version <= self.ends.get(stream, version)
        return is_in_whole or version in self.versions.get(stream, ())

    def take_whole(self, streams: Set[str]) -> None:
        """Select whole streams; if one of them is new, `complete` reads the log from its beginning again."""
        if streams <= self.whole:
            return
        self.whole |= streams
        self._begin_again()

    def _begin_again(self) -> None:
        self._moment, self._found_streams, self._has_texts = BEGINNING, False, False
        self.copied = self.mentioned = 0
        self.copies, self.mentions = [], []

    def add(self, stream: str, version: int) -> None:
        """Select an event."""
        self.versions.setdefault(stream, set()).add(version)

    @property
    def streams(self) -> list[str]:
        """The streams that have something to erase."""
        return sorted({*self.whole, *self.versions, *self.naming})

    def sealed(self) -> Iterator[Sealed]:
        """Yield what is left of each event that has something to be erased, with its seal."""
        for stream in self.streams:
            end = (self.ends.get(stream) or self._log.head(stream)) if stream in self.whole else 0
            if end:
                yield from self._sealed(stream, 1, end)
            named = self.versions.get(stream, set()) | self.naming.get(stream, set())
            wanted = sorted(version for version in named if version > end)
            for found in Span.of(stream, wanted).ranges() if wanted else ():
                yield from self._sealed(stream, found.start, found.stop - 1)

    def _sealed(self, stream: str, first: int, last: int) -> Iterator[Sealed]:
        before = NO_DIGEST
        for start in range(first, last + 1, PAGE_EVENTS):
            # The first event needs the digest of the one before it.
            after = start - 2 if start == first and start > 1 else start - 1
            for recorded in self._read(stream, after, min(last, start + PAGE_EVENTS - 1)):
                if isinstance(recorded.event, Undecodable) and self.lost is not None:
                    self.lost.add(recorded.reference)
                elif recorded.version >= first:
                    left = self._left(recorded, before)
                    if left is not None:
                        yield left
                before = recorded.digest

    def _read(self, stream: str, after: int, until: int) -> list[RecordedEvent]:
        try:
            return self._log.read(stream, after=after, until=until)
        except (KeyDestroyedError, KeyMissingError):
            if self.lost is None or not isinstance(self._log, ReadsWithoutKeys):
                raise
            return self._log.read_without_keys(stream, after=after, until=until)

    def _left(self, recorded: RecordedEvent, before: bytes) -> Sealed | None:
        stream, version = recorded.stream, recorded.version
        event, meta = self._without_texts(recorded)
        is_changed = event is not recorded.event or meta != recorded.meta
        is_away = stream in self.archived and self.has(stream, version)
        if not (is_changed or is_away or self._is_under_old_key(recorded)):
            return None
        meta, payload = self._log.sealed_payload(stream, version, meta, encode_payload(event))
        place = (stream, version, recorded.position)
        seal = seal_of(before, recorded.digest, place, recorded.recorded_at, meta, payload)
        return Sealed(Remnant(stream, version, recorded.digest, event, meta, payload), seal, recorded)

    def _without_texts(self, recorded: RecordedEvent) -> tuple[Event, Meta]:
        """Return an event and its envelope as they are when the texts are erased."""
        mask = self.mask if recorded.stream in self.whole else self.mask._replace(salt=b"")
        is_named = self.has(recorded.stream, recorded.version)
        event = skeleton_of(recorded.event, mask) if is_named else recorded.event
        event = persons_skeleton(event, mask)
        return event, meta_skeleton(recorded.meta, mask, is_erased=event is not recorded.event)

    def _is_under_old_key(self, recorded: RecordedEvent) -> bool:
        """Return whether an event of an encrypted store needs a key that is to be destroyed."""
        return recorded.stream in self.renewed and recorded.meta.key_id != self.new_key

    def unreached(self) -> Iterator[str]:
        """Say how many selected events nobody can read, and how many events still have the user's name."""
        if self.lost:
            what = "whose keys are gone from the table data_key: erase again if they come back from a copy"
            yield f"{counted(len(self.lost), 'event')} {what}"
        if self.mentioned:
            yield f"the user's name in {counted(self.mentioned, 'event')}, in names or in texts of others"

    # What else has these texts

    def complete(self) -> None:
        """
        Read the log, and select the events that were made from selected ones. Note other events with the same texts,
        and events that still have the user's name. The next call goes on where this one ended.

        The order of the log makes one reading enough: a summary comes after the items that it summarises, and a summary
        of summaries after those. A context that the user opens meanwhile takes another one, as its texts may have
        copies anywhere.
        """
        self._read_on()
        if self._found_streams:
            self._begin_again()
            self._read_on()

    def _read_on(self) -> None:
        if not self._has_texts:
            self._texts |= {_hash(text) for one in self.sealed() for text in _erased_texts(one)}
            self._has_texts = True
        while (page := self._log.read_all(after=self._moment, limit=PAGE_EVENTS, undecodable=True)).events:
            for recorded in page.events:
                self._examine(recorded)
                self._find_name(recorded)
            self._moment = page.moment

    def _examine(self, recorded: RecordedEvent) -> None:
        stream, version, event, texts = recorded.stream, recorded.version, recorded.event, self._texts
        # The events of erasures have the seals by which all others are read, so nothing in them changes.
        if stream == STREAM or isinstance(event, Undecodable):
            return
        if isinstance(event, run.RoundsRestored):
            self._rounds[stream] = {one.stream for one in event.rounds}
        if self.has(stream, version):
            self._note_node(stream, event)
            return
        user = self.mask.user
        if user is not None and getattr(event, "user", None) == user:
            # The user opened this context after the contexts of the user were listed.
            self.whole.add(stream)
            self._found_streams = True
            return
        item = (stream, event.id or "" if isinstance(event, AddedEvent) else version)
        if item in self._made or self._is_made_from_erased(stream, event):
            self._made.discard(item)
            self.add(stream, version)
            self._note_node(stream, event)
            left = skeleton_of(event)
            texts.update(_hash(text) for text in _texts_of(event) if text not in {*_texts_of(left)})
            return
        self._expect_made(stream, version, event)
        if user is not None and (recorded.meta.actor == user or persons_skeleton(event, self.mask) is not event):
            self.naming.setdefault(stream, set()).add(version)
        if texts and any(_hash(text) in texts for text in _texts_of(event)):
            if isinstance(event, chat.StateSaved) and stream in self.versions:
                # Beside the items, a framework keeps copies of them.
                self.add(stream, version)
                return
            self.copied += 1
            if len(self.copies) < COPIES_MAX:
                self.copies.append(recorded.reference)

    def _expect_made(self, stream: str, version: int, event: Any) -> None:
        """Note the item that a later event adds, if a merge made it of erased ones: a summary, or one item of two."""
        if isinstance(event, chat.Merged) and event.how == "summary" and self._names_erased(stream, event.told):
            self._made.add((stream, version + 1))
        elif isinstance(event, PoolConflictResolved) and event.kept == "made":
            sides = (side.within(stream) for side in (event.ours, event.theirs) if side is not None)
            if any(self.has(side.stream, side.version) for side in sides):
                self._made.add((stream, event.id))

    def _note_node(self, stream: str, event: Any) -> None:
        """Note the node of an erased event, by the name under which it may be met again."""
        if isinstance(event, run.NodeChanged | run.PortraitWritten):
            node = event.node.within(stream)
            registered = (one.event for one in self._read(node.stream, node.version - 1, node.version))
            event = next(registered, None)
        if isinstance(event, run.NodeEvent):
            self._nodes.add((stream, _name_of(event)))

    def _find_name(self, recorded: RecordedEvent) -> None:
        if self._user is None or isinstance(recorded.event, Undecodable) or not self._may_name(recorded):
            return
        event, meta = self._without_texts(recorded)
        texts = chain(_names_in(meta), _texts_of(event, 1))
        if any(text and self._user.search(text) and not _is_stream(text) for text in texts):
            self.mentioned += 1
            if len(self.mentions) < MENTIONS_MAX:
                self.mentions.append(recorded.reference)

    def _may_name(self, recorded: RecordedEvent) -> bool:
        """Return whether an event may have the name of the user: to encode it is quicker than to look at each field."""
        # Within saved states there are packed texts, and of bytes only ASCII letters have a lower case.
        if isinstance(recorded.event, chat.StateSaved) or not self._name.isascii():
            return True
        encoded = (encode_payload(recorded.event), *(name.encode() for name in _names_in(recorded.meta) if name))
        return any(self._name in one.lower() for one in encoded)

    def _is_made_from_erased(self, stream: str, event: Any) -> bool:
        about = _about(event)
        if about is not None and self.has(about.stream or stream, about.version):
            # It adds to an erased item, or has an earlier value of an attribute of an erased node.
            return True
        if getattr(event, "reason", None) and self._names_erased(stream, getattr(event, "items", ())):
            # Its reason, such as that of an eviction, is a text about the items that it names.
            return True
        match event:
            case chat.Summarized(folded=folded):
                return self._names_erased(stream, folded)
            case chat.CallChanged(replaced=replaced):
                return self._names_erased(stream, replaced)
            case chat.Forked(config=config, lineage=lineage) if config is not None:
                return any(one.stream in self.whole or one.stream in self.versions for one in lineage)
            case run.NodeRegistered(type=kind) if kind in DATA:
                # Data that is met again repeats its attributes.
                name = _name_of(event)
                return any((one, name) in self._nodes for one in (stream, *self._rounds.get(stream, ())))
        return False

    def _names_erased(self, stream: str, spans: Iterable[Span]) -> bool:
        for span in spans:
            name = span.stream or stream
            if name in self.whole and any(self.has(name, found.start) for found in span.ranges()):
                return True
            versions = self.versions.get(name)
            if versions and any(version in run for run in span.ranges() for version in versions):
                return True
        return False


def _hash(text: str) -> bytes:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=HASH_BYTES).digest()


def _erased_texts(one: Sealed) -> Iterator[str]:
    """Yield the texts that an event loses."""
    left = {*_texts_of(one.remnant.event)}
    return (text for text in _texts_of(one.recorded.event) if text not in left)


def _names_in(meta: Meta) -> tuple[str | None, str | None, str | None]:
    return meta.actor, meta.correlation_id, meta.idempotency_key


def _is_stream(text: str) -> bool:
    """Return whether a text is the id of a context, as in events of forks; names in ids are reported separately."""
    return text.partition(":")[0] in KINDS and " " not in text


def _texts_of(value: Any, characters_min: int = COPY_CHARACTERS_MIN) -> Iterator[str]:
    """Yield the longer texts in an event, also those within JSON."""
    if isinstance(value, str):
        if len(value) >= characters_min:
            yield value
    elif isinstance(value, bytes):
        if value[:1] in (b"{", b"[", b'"'):
            try:
                leaves = leaves_of(msgspec.json.decode(value))
            except msgspec.DecodeError:
                return
            yield from (leaf for leaf in leaves if len(leaf) >= characters_min)
    elif isinstance(value, tuple):
        for inner in value:
            yield from _texts_of(inner, characters_min)
    elif isinstance(value, msgspec.Struct) and not isinstance(value, Span | Ref | Segment):
        for name in value.__struct_fields__:
            yield from _texts_of(getattr(value, name), characters_min)
        if isinstance(value, chat.StateSaved) and value.value:
            yield from (text for text in _packed_texts(value.value) if len(text) >= characters_min)


def _packed_texts(saved: bytes) -> Iterator[str]:
    """Yield the texts of values that LangGraph saved in a form within JSON: as JSON in a text, or as MessagePack."""
    pending: list[Any] = [msgspec.json.decode(saved)]
    while pending:
        one = pending.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            pending += _unpacked(one) or [inner for pair in one.items() for inner in pair]
        elif isinstance(one, list):
            pending += one


def _unpacked(packed: dict[Any, Any]) -> list[Any]:
    """Return what a packed value holds; nothing where it is none."""
    try:
        if packed.keys() == {"text"}:
            return [msgspec.json.decode(packed["text"])]
        if packed.get("type") == "msgpack":
            return [_from_msgpack(b64decode(packed["base64"]))]
    except (KeyError, TypeError, ValueError, RecursionError):
        pass
    return []


def _from_msgpack(data: bytes) -> Any:
    # The extensions of LangGraph hold objects as MessagePack: the name of the type, and its fields.
    return msgspec.msgpack.decode(data, ext_hook=lambda _, inner: _from_msgpack(bytes(inner)))


# Items


def item_versions(log: LiveLog, streams: Sequence[str], item: str) -> dict[str, set[int]]:
    """
    Return the versions of these streams that hold an item, by stream: it is given by its id, its key, the name of a
    node, or its place: `stream@version`, `other@version`, or `@version` of the first of these streams.

    Raises:
        NotFoundError: there is no such item.
    """
    found = {stream: _of_item(log.read(stream, until=VERSION_MAX), item, None) for stream in streams}
    given = _reference(item)
    if given is not None and not any(found.values()):
        kind = streams[0].partition(":")[0] if streams else ""
        named = [given.stream, f"{kind}:{given.stream}"] if given.stream else streams[:1]
        found = {stream: _of_item(log.read(stream, until=VERSION_MAX), item, given) for stream in named}
    if not any(found.values()):
        raise NotFoundError(f"there is no item {item!r} in {' or '.join(streams) or 'the store'}")
    return {stream: versions for stream, versions in found.items() if versions}


def _reference(item: str) -> Ref | None:
    try:
        return Ref.parse(item)
    except ValueError:
        return None


def _of_item(events: Sequence[RecordedEvent], item: str, given: Ref | None) -> set[int]:
    """Return the versions that add an item, and those that add to it or say something about it."""
    versions: set[int] = set()
    for recorded in events:
        event, version = recorded.event, recorded.version
        about = _about(event)
        is_about = about is not None and about.stream in ("", recorded.stream) and about.version in versions
        if (version == given.version if given else item in _names(event)) or is_about:
            versions.add(version)
    return versions


def _about(event: Any) -> Ref | None:
    """Return the item that an event adds to, or says something about."""
    about = getattr(event, "item", None) or getattr(event, "call", None) or getattr(event, "node", None)
    return about if isinstance(about, Ref) else None


def _names(event: Any) -> Sequence[str | None]:
    """Return the names of the item that an event adds."""
    added = chat.added_item(event)
    if added is not None:
        return (added.id,)
    match event:
        case AddedEvent(id=name):
            return (name,)
        case WindowItemEvent(key=key) | MemoryRemembered(key=key):
            return (key,)
        case run.NodeEvent(label=label):
            return (label, _name_of(event))
    return ()


def _name_of(event: run.NodeEvent) -> str:
    return node_name(run.type_of(event), event.label)


def is_folded(projection: Projection, one: Sealed) -> bool:
    """Return whether rows of a projection may have been made of an event."""
    events = getattr(projection, "events", None)
    if events is not None and type(one.recorded.event) not in events:
        return False
    try:
        return bool(projection.keys(one.recorded))
    except Exception:
        # It cannot be known, so the rows are made anew.
        return True


def reached(streams: Iterable[str], edges: Iterable[tuple[str, str]]) -> list[str]:
    """Return what can be reached from these along edges, each from its first stream to its second."""
    following: dict[str, set[str]] = {}
    for first, second in edges:
        following.setdefault(first, set()).add(second)
    found: dict[str, None] = {}
    waiting = list(streams)
    while waiting:
        new = following.get(waiting.pop(), set()) - found.keys()
        found.update(dict.fromkeys(sorted(new)))
        waiting += new
    return list(found)

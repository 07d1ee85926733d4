"""Short ways to write to a log and to look at all of it."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from refold.domain.chat.events import MessageAdded
from refold.domain.log.envelope import NO_DIGEST, UNKEYED, Chain, Meta, RecordedEvent, encode_payload
from refold.domain.log.ports import ANY_VERSION, LiveLog, NewEvents, Receipt
from refold.domain.positions import BEGINNING, Moment

NO_META = Meta()


def said(number: int, text: str | tuple[str, ...] = "hello") -> MessageAdded:
    """Return a message with a number."""
    return MessageAdded(id=f"m{number}", created_at=float(number), role="user", content=text)


def new(
    stream: str,
    *events: Any,
    expected: int = ANY_VERSION,
    key: str | None = None,
    root: str = "r",
    call: bytes | None = None,
) -> NewEvents:
    """Return events to be appended; all streams share a slice unless they are given another root."""
    metas = (NO_META if key is None else Meta(idempotency_key=key, fingerprint=call),) * len(events)
    return NewEvents(
        stream=stream, expected_version=expected, events=events, metas=metas, root=root, idempotency_key=key
    )


def append(log: LiveLog, stream: str, *events: Any, **options: Any) -> Receipt:
    """Append to one stream and wait."""
    return log.append([new(stream, *events, **options)]).result()[0]


def everything(log: LiveLog, *, after: Moment = BEGINNING, limit: int = 1_000) -> list[RecordedEvent]:
    """Read the whole log, page by page."""
    events: list[RecordedEvent] = []
    while True:
        page = log.read_all(after=after, limit=limit)
        events += page.events
        if not page.events:
            return events
        after = page.moment


def ids(events: Sequence[Any]) -> list[str]:
    """Return the ids of messages that were read without their envelopes."""
    return [event.id for event in events]


def numbers(events: Sequence[RecordedEvent]) -> list[str]:
    """Return the ids of messages."""
    return [recorded.event.id for recorded in events]


KEY_ID_CHARACTERS = 12


def check_chain(events: Sequence[RecordedEvent], chain: Chain | None = None) -> None:
    """Compute the digests of a whole stream again, and require versions without holes."""
    # Tests of a store with a chain key put its chain in the place of this one.
    chain = chain or UNKEYED
    previous = NO_DIGEST
    for version, one in enumerate(events, 1):
        assert one.version == version
        # The digest of an encrypted event covers its ciphertext: test_sealed.py looks at those chains.
        if len(one.meta.key_id or "") != KEY_ID_CHARACTERS:
            payload = encode_payload(one.event)
            expected = chain.digest(previous, one.stream, version, one.position, one.recorded_at, one.meta, payload)
            assert one.digest == expected
        previous = one.digest


def check_order(events: Sequence[RecordedEvent]) -> None:
    """Require that positions rise within a slice, that time does not fall there, and that streams are in order."""
    last: dict[int, RecordedEvent] = {}
    versions: dict[str, int] = {}
    for one in events:
        before = last.get(one.position.slice)
        if before is not None:
            assert before.position < one.position
            assert before.recorded_at <= one.recorded_at
        assert one.version == versions.get(one.stream, 0) + 1
        last[one.position.slice] = one
        versions[one.stream] = one.version


def at_once(*works: Callable[[], object]) -> list[BaseException]:
    """Run each work in a thread of its own, all started together, and return what they raised."""
    raised: list[BaseException] = []
    barrier = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> None:
        barrier.wait()
        try:
            work()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "a writer hangs"
    return raised

"""The contract of a log that lies on a disk: opened again, filled with large things, closed in mid-work."""

import random
import threading
from typing import Any

import pytest

import refold
from refold.domain.chat.events import Opened
from refold.domain.errors import ConcurrencyError, StorageClosedError
from refold.domain.log.envelope import Meta
from refold.domain.log.ports import NewEvents
from refold.infrastructure.projecting.store import MemoryProjectionStore

from ..support.effort import IS_DEEP
from .reading import interleaved
from .stores import Store
from .writing import append, check_chain, everything, new, numbers, said

A, B = "chat:a", "chat:b"
MIB = 1024 * 1024


class DurableContract:
    """What holds for a log that is kept."""

    def test_no_events_on_a_stream_of_another(self, store: Store) -> None:
        """Nor is one new that another process has made."""
        log, other = store.open(), store.open()
        append(log, A, said(1))
        append(other, B, said(2))
        for number in range(3, 20):
            # By then it is taken for certain again that nobody else writes.
            append(log, A, said(number))

        with pytest.raises(ConcurrencyError):
            log.append([new(B, expected=0)]).result()
        assert log.append([new(B, expected=1)]).result()[0].events == ()

    def test_opened_again_it_is_the_same(self, store: Store) -> None:
        """Every event, every way of reading, and where it ends; sealed or not."""
        log = store.open()
        receipts = interleaved(log, 1_300)
        before, now = everything(log), log.now()
        log.close()

        again = store.open()

        assert everything(again) == before
        assert again.now() == now
        for stream, written in receipts.items():
            assert again.read(stream) == written
            assert again.head(stream) == len(written)

    def test_opened_again_it_goes_on(self, store: Store) -> None:
        """Versions, positions, digests and keys follow on what was there."""
        for number in range(5):
            log = store.open()
            append(log, A, said(number), expected=number, key=f"k{number}")
            assert append(log, A, said(number), key="k0").replayed
            log.close()

        log = store.open()
        check_chain(log.read(A))
        assert [event.position.number for event in everything(log)] == [1, 2, 3, 4, 5]

    def test_two_handles_at_once(self, store: Store) -> None:
        """What one of them writes the other reads, and neither overwrites."""
        one, other = store.open(), store.open()
        for number in range(0, 200, 2):
            append(one, A, said(number), expected=number)
            with pytest.raises(ConcurrencyError):
                append(other, A, said(number), expected=number)
            append(other, A, said(number + 1), expected=number + 1)

        assert one.read(A) == other.read(A)
        assert everything(one) == everything(other)
        check_chain(one.read(A))

    def test_a_large_event(self, store: Store) -> None:
        """8 MiB of text, and 8 MiB of open JSON, come back as they were; 32 MiB in the deep test."""
        text = random.Random(1).randbytes(MIB).hex() * (16 if IS_DEEP else 4)
        data = f'{{"text":"{text}"}}'.encode()
        log = store.open()

        append(log, A, said(1, text), Opened(attributes=data))
        log.close()

        message, opened = store.open().read_events(A)
        assert message.content == text  # type: ignore[attr-defined]
        assert opened.attributes == data  # type: ignore[attr-defined]

    def test_large_texts_come_back(self, store: Store) -> None:
        """In parts, repeated, around the limit from which they are stored apart; sealed or not."""
        texts = ["x" * size for size in (4_094, 4_095, 4_096, 4_097, 20_000)] + ["ü" * 2_048, "\U0001f600" * 1_024]
        log = store.open()
        events = [said(number, (text, "small", text)) for number, text in enumerate(texts * 20)]
        for event in events:
            append(log, A, event)
        log.close()

        log = store.open()
        assert log.read_events(A) == events
        assert [recorded.event for recorded in everything(log)] == events
        check_chain(log.read(A))

    @pytest.mark.parametrize("wait", [True, False])
    def test_closed_while_threads_write(self, store: Store, wait: bool) -> None:
        """Each append was done, and is there, or it is told that the log was closed; none is left hanging."""
        log = store.open()
        acknowledged: list[str] = []
        wrong: list[BaseException] = []
        started = threading.Barrier(5)

        def write(writer: int) -> None:
            started.wait()
            for number in range(100_000):
                event = said(writer * 100_000 + number)
                try:
                    log.append([new(f"chat:{writer}", event)], wait=wait).result(30)
                except StorageClosedError:
                    return
                except BaseException as error:
                    wrong.append(error)
                    return
                acknowledged.append(event.id)

        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
        for thread in threads:
            thread.start()
        started.wait()
        threading.Event().wait(0.15)
        log.close()
        for thread in threads:
            thread.join(40)

        kept = numbers(everything(store.open()))
        assert (wrong, [thread.is_alive() for thread in threads]) == ([], [False] * 4)
        assert acknowledged != []
        assert sorted(kept) == sorted(acknowledged)

    def test_closed_with_a_queue(self, store: Store) -> None:
        """What was handed in before is finished."""
        log = store.open()
        futures = [log.append([new(A, said(number))], wait=False) for number in range(300)]

        log.close()

        assert [future.exception(30) for future in futures] == [None] * 300
        assert len(store.open().read(A)) == 300

    def test_closed_twice(self, store: Store) -> None:
        """The second time nothing happens."""
        log = store.open()
        append(log, A, said(1))

        log.close()
        log.close()

        assert numbers(store.open().read(A)) == ["m1"]

    @pytest.mark.parametrize("use", ["append", "queue", "read", "read_events", "read_all", "head", "version_at", "now"])
    def test_used_after_closing(self, store: Store, use: str) -> None:
        """StorageClosedError, whatever is asked."""
        log = store.open()
        append(log, A, said(1))
        moment = log.now()
        log.close()
        uses: dict[str, Any] = {
            "append": lambda: log.append([new(A, said(2))]).result(30),
            "queue": lambda: log.append([new(A, said(2))], wait=False).result(30),
            "read": lambda: log.read(A),
            "read_events": lambda: log.read_events(A),
            "read_all": lambda: log.read_all(after=moment, limit=1),
            "head": lambda: log.head(A),
            "version_at": lambda: log.version_at(A, moment),
            "now": log.now,
        }

        with pytest.raises(StorageClosedError):
            uses[use]()

    def test_queued_after_closing(self, store: Store) -> None:
        """The call is told that the store is closed; what was queued before is there."""
        kept = refold.Store(store.open(), MemoryProjectionStore(), durability="enqueue")
        chat = kept.chat("a")
        chat.add_message("user", "before", message_id="x1")
        kept.close()

        with pytest.raises(StorageClosedError) as caught:
            chat.add_message("user", "after", message_id="x2")
        assert [event.id for event in caught.value.refused] == ["x2"]
        assert [getattr(event, "id", None) for event in store.open().read_events(A)] == [None, "x1"]

    def test_closed_right_after_many_events(self, store: Store) -> None:
        """What goes on in the background ends quietly; an unhandled error of a thread fails this test."""
        for _ in range(3):
            log = store.open()
            for start in range(0, 1_100, 100):
                append(log, A, *(said(start + number, f"text {number} of a store") for number in range(100)))
            log.close()

        assert len(store.open().read(A)) == 3_300

    def test_texts_of_other_keys_are_not_shared(self, store: Store) -> None:
        """A large text under another key id is another text, and both come back."""
        log = store.open()
        for number, key_id in enumerate([None, "k1", "k2", "k1"]):
            meta = Meta(key_id=key_id)
            event = said(number, "x" * 9_000)
            log.append(
                [NewEvents(stream=A, expected_version=number, events=(event,), metas=(meta,), root="r")]
            ).result()

        assert [len(event.content) for event in log.read_events(A)] == [9_000] * 4  # type: ignore[attr-defined]
        check_chain(log.read(A))

"""A database that goes back under an open store: every handle notices, says what is gone, and can go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import msgspec
import pytest

import refold
from refold.domain.errors import DecisionRefusedError, LogWentBackError
from refold.domain.memory.records import MemoryRecord
from refold.infrastructure.projecting import runner as runner_module
from refold.infrastructure.projecting.runner import ProjectionRunner


class Place(Protocol):
    """A database of which a copy can be kept and put back while others have it open."""

    url: str

    def keep(self) -> None:
        """Keep a copy of what there is."""

    def put_back(self) -> None:
        """Put the copy that was kept in the place of what there is."""

    def cut_tail(self) -> None:
        """Delete the last event, and nothing else."""


class Kind(NamedTuple):
    """How a context of a kind is opened, how something is put into it, and what it then shows, in order."""

    open: Callable[[refold.Store], Any]
    put: Callable[[Any, str], object]
    seen: Callable[[Any], list[str]]


def _put_into_queue(queue: Any, text: str) -> None:
    asyncio.run(queue.append(refold.PoolItem(text, "")))


def _put_into_pool(pool: Any, text: str) -> None:
    asyncio.run(pool.add(refold.PoolItem(text, "", text)))


KINDS = {
    "chat": Kind(
        lambda store: store.chat("a"),
        lambda chat, text: chat.add_message("user", text),
        lambda chat: texts(chat),
    ),
    "queue": Kind(
        lambda store: store.queue("a", limit=99),
        _put_into_queue,
        lambda queue: [item.content for item in queue.items],
    ),
    "pool": Kind(
        lambda store: store.pool("a"),
        _put_into_pool,
        lambda pool: [item.id for item in pool.items],
    ),
    "run": Kind(
        lambda store: store.run("u", "a"),
        lambda run, text: run.append_todo(text),
        lambda run: [step["name"] for step in run.steps()],
    ),
    "window": Kind(
        lambda store: store.window("a", max_tokens=1_000),
        lambda window, text: window.add(refold.BudgetItem(text, text, "tool", 1)),
        lambda window: [item.key for item in window.items],
    ),
    "memory": Kind(
        lambda store: store.memory().scope("u"),
        lambda scope, text: scope.put(MemoryRecord(scope="u", key=text, value=text)),
        lambda scope: [record.key for record in reversed(scope.search(limit=99))],
    ),
}


class Count(msgspec.Struct, frozen=True):
    """How many events there are."""

    key: str
    events: int


class Counting:
    """Counts events."""

    name, version, row = "restoring", 1, Count

    def keys(self, event: Any) -> list[str]:
        """Return the key of the one row."""
        return ["all"]

    def evolve(self, key: str, row: Count | None, event: Any) -> Count:
        """Count one more."""
        return Count(key, row.events + 1 if row else 1)


class Restoring(Counting):
    """Counts events, and puts the copy back when it comes to an event of the context that is not in it."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def evolve(self, key: str, row: Count | None, event: Any) -> Count:
        """Count one more."""
        if event.stream == "chat:gone":
            self._place.put_back()
        return super().evolve(key, row, event)


class Overtaken(Counting):
    """Does something before and after the row of the second event is read, once."""

    def __init__(self, before: Callable[[], object], after: Callable[[], object]) -> None:
        self._before, self._after = [before], [after]

    def keys(self, event: Any) -> list[str]:
        """Return the key of the one row."""
        if event.version == 2 and self._before:
            self._before.pop()()
        return super().keys(event)

    def evolve(self, key: str, row: Count | None, event: Any) -> Count:
        """Count one more."""
        if event.version == 2 and self._after:
            self._after.pop()()
        return super().evolve(key, row, event)


ALL = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def put_and_flush(store: refold.Store, context: Any, kind: Kind) -> None:
    """Put something into a context, and wait until it is on disk."""
    kind.put(context, "d")
    store.flush()


def say_together(store: refold.Store, *chats: refold.ChatContext) -> None:
    """Add a message to each chat, all or none."""
    with store.transaction():
        for chat in chats:
            chat.add_message("user", "x")


def texts(chat: Any) -> list[str]:
    """Return what the messages of a chat say."""
    return [item.content[0] for item in chat.items]


class RestoreContract:
    """Holds of every database; a subclass brings the fixture `place`."""

    @ALL
    @pytest.mark.parametrize("durability", ["commit", "enqueue"])
    def test_every_handle_notices(self, place: Place, kind: Kind, durability: Any) -> None:
        """Refresh, append and a look at the past say what is gone; views stay, and cleanup() goes on."""
        with refold.open(place.url, durability=durability) as store:
            context = kind.open(store)
            kind.put(context, "kept")
            store.flush()
            place.keep()
            before = context.version
            for text in ("b", "c"):
                kind.put(context, text)
            store.flush()
            place.put_back()
            stream, version = context._journal.place.stream, context.version
            gone = [f"{stream}@{number}" for number in range(before + 1, version + 1)]

            for call in (context.refresh, context.recorded_events):
                with pytest.raises(LogWentBackError) as caught:
                    call()
                assert [one.reference for one in caught.value.lost] == gone
                assert (caught.value.acknowledged, caught.value.found) == (version, before)
            with pytest.raises(LogWentBackError):
                kind.seen(context.at(version - 1))
            with pytest.raises(LogWentBackError):
                put_and_flush(store, context, kind)
            if durability == "commit":
                assert kind.seen(context) == ["kept", "b", "c"]
                assert context.version == version

            context.cleanup()

            kind.put(context, "e")
            store.flush()
            assert (kind.seen(context), context.version) == (["kept", "e"], before + 1)
        with refold.open(place.url) as store:
            assert kind.seen(kind.open(store)) == ["kept", "e"]
            assert store.verify().is_whole

    @ALL
    def test_what_others_wrote_behind_the_copy_is_not_built_upon(self, place: Place, kind: Kind) -> None:
        """The log has come to the same version again, with other events: to append to it is refused."""
        with refold.open(place.url) as store, refold.open(place.url) as other:
            context = kind.open(store)
            kind.put(context, "kept")
            place.keep()
            kind.put(context, "b")
            version = context.version
            place.put_back()
            kind.put(kind.open(other), "another b")

            with pytest.raises(LogWentBackError) as caught:
                kind.put(context, "c")

            assert (caught.value.stream, caught.value.found) == (context._journal.place.stream, version)
            with pytest.raises(LogWentBackError):
                context.refresh()
            assert kind.seen(context) == ["kept", "b"]
            context.cleanup()
            kind.put(context, "c")
            assert sorted(kind.seen(context)) == ["another b", "c", "kept"]
            assert store.verify().is_whole

    @ALL
    def test_what_others_wrote_further_than_that(self, place: Place, kind: Kind) -> None:
        """To catch up with another past is refused, whatever is asked first."""
        with refold.open(place.url) as store, refold.open(place.url) as other:
            context = kind.open(store)
            kind.put(context, "kept")
            place.keep()
            kind.put(context, "b")
            place.put_back()
            for text in ("another b", "another c", "another d"):
                kind.put(kind.open(other), text)

            with pytest.raises(LogWentBackError):
                kind.put(context, "c")
            with pytest.raises(LogWentBackError):
                context.refresh()

            assert kind.seen(context) == ["kept", "b"]

    @ALL
    def test_a_context_that_is_gone_as_a_whole(self, place: Place, kind: Kind) -> None:
        """Nothing is recorded in it without the event that opens it; opened again, it goes on."""
        with refold.open(place.url) as store:
            store.chat("other")
            place.keep()
            context = kind.open(store)
            kind.put(context, "one")
            place.put_back()
            with pytest.raises(LogWentBackError):
                kind.put(context, "two")

            context.cleanup()

            if kind is not KINDS["memory"]:
                with pytest.raises(DecisionRefusedError, match="begin it again"):
                    kind.put(context, "two")
            kind.put(kind.open(store), "three")
        with refold.open(place.url) as store:
            assert kind.seen(kind.open(store)) == ["three"]
            assert store.verify().is_whole

    def test_what_was_opened_and_not_read(self, place: Place) -> None:
        """A view that is read for the first time after the restore does not show less than its version."""
        with refold.open(place.url) as store, refold.open(place.url) as reader:
            writing = store.chat("a")
            place.keep()
            writing.add_message("user", "b")
            chat = reader.chat("a")
            place.put_back()

            with pytest.raises(LogWentBackError):
                _ = chat.items

            chat.cleanup()
            assert len(chat.items) == 0

    def test_the_events_that_are_gone_are_listed(self, place: Place) -> None:
        """Those of every context that this process wrote to, as they were; once."""
        with refold.open(place.url) as store:
            a, b = store.chat("a"), store.chat("b")
            place.keep()
            a.add_message("user", "one")
            b.add_message("user", "two")
            place.put_back()

            with pytest.raises(LogWentBackError) as caught:
                a.refresh()

            lost = {one.reference: getattr(one.event, "content", None) for one in caught.value.lost}
            assert lost == {"chat:a@2": ("one",), "chat:b@2": ("two",)}
            assert "chat:a@2" in str(caught.value)
            with pytest.raises(LogWentBackError) as again:
                b.refresh()
            assert [one.reference for one in again.value.lost] == ["chat:b@2"]

    def test_a_handle_that_nobody_holds_any_more(self, place: Place) -> None:
        """The process that wrote is told at its next append in the same slice, whatever context that is for."""
        with refold.open(place.url) as store:
            store.chat("a", session="s")
            place.keep()
            store.chat("a").add_message("user", "one")
            place.put_back()

            with pytest.raises(LogWentBackError) as caught:
                store.chat("b", session="s")

            assert [one.reference for one in caught.value.lost] == ["chat:a@2"]
            store.chat("b", session="s").add_message("user", "two")
            assert store.verify().is_whole

    def test_what_was_there_when_others_were_gone(self, place: Place) -> None:
        """It is not forgotten, and missed when it goes too."""
        with refold.open(place.url) as store:
            store.chat("kept", session="s")
            place.keep()
            store.chat("a", session="s")
            place.put_back()
            with pytest.raises(LogWentBackError):
                store.chat("b", session="s")
            place.cut_tail()

            with pytest.raises(LogWentBackError) as caught:
                store.chat("b", session="s")

            assert [one.reference for one in caught.value.lost] == ["chat:kept@1"]

    def test_a_transaction(self, place: Place) -> None:
        """Nothing of it is recorded, and its views are as they were before."""
        with refold.open(place.url) as store:
            a, b = store.chat("a"), store.chat("b")
            place.keep()
            b.add_message("user", "one")
            place.put_back()

            for _ in range(2):
                with pytest.raises(LogWentBackError):
                    say_together(store, a, b)

            assert (len(a.items), len(b.items)) == (0, 1)
            b.cleanup()
            say_together(store, a, b)
            assert (len(a.items), len(b.items)) == (1, 1)

    def test_a_repeated_call(self, place: Place) -> None:
        """A key that went with the events is not taken for known; the call is refused, then recorded."""
        with refold.open(place.url) as store:
            chat = store.chat("a")
            place.keep()
            chat.add_message("user", "pay 10", idempotency_key="k")
            place.put_back()

            for _ in range(2):
                with pytest.raises(LogWentBackError):
                    chat.add_message("user", "pay 10", idempotency_key="k")

            chat.cleanup()
            chat.add_message("user", "pay 10", idempotency_key="k")
            chat.add_message("user", "pay 10", idempotency_key="k")
            assert len(chat.items) == 1

    def test_what_was_queued(self, place: Place) -> None:
        """flush() names what did not get in beside what is gone, and the view is what the database has."""
        with refold.open(place.url, durability="enqueue") as store:
            chat = store.chat("a")
            place.keep()
            chat.add_message("user", "one")
            store.flush()
            place.put_back()
            chat.add_message("user", "two")
            chat.add_message("user", "three")

            with pytest.raises(LogWentBackError) as caught:
                store.flush()

            assert [getattr(event, "content", None) for event in caught.value.refused] == [("two",), ("three",)]
            assert "chat:a@2" in [one.reference for one in caught.value.lost]
            assert len(chat.items) == 0
            chat.add_message("user", "four")
            store.flush()
            assert texts(store.chat("a")) == ["four"]

    def test_a_restored_copy_that_lacks_nothing(self, place: Place) -> None:
        """Whoever lost nothing is not disturbed."""
        with refold.open(place.url) as store:
            chat = store.chat("a")
            chat.add_message("user", "one")
            place.keep()
            place.put_back()

            chat.add_message("user", "two")
            chat.refresh()

            assert len(store.chat("a").items) == 2

    def test_keys_that_were_given_out_again(self, place: Place) -> None:
        """Another stream, and another type of event, may have the numbers now that others had before."""
        with refold.open(place.url) as store, refold.open(place.url) as other:
            store.chat("first", session="s")
            place.keep()
            store.chat("a", session="s").add_message("user", "a")
            place.put_back()
            other.chat("b", session="s").add_config_update("Be brief.", [])

            with pytest.raises(LogWentBackError):
                store.chat("first").add_message("user", "one")
            store.chat("first").add_message("user", "one")
            store.chat("a", session="s").add_message("user", "again")

            assert [row.id for row in store.contexts()] == ["a", "b", "first"]
            assert texts(store.chat("a")) == ["again"]
            assert store.verify().is_whole

    def test_a_subscription(self, place: Place) -> None:
        """It has seen more than there is, and says so rather than to leave out what comes next."""
        with refold.open(place.url) as store, refold.open(place.url) as reader:
            chat = store.chat("a")
            place.keep()
            chat.add_message("user", "one")
            subscription = reader.subscribe()
            assert [next(subscription).version for _ in range(2)] == [1, 2]
            moment = subscription.moment
            place.put_back()

            with pytest.raises(LogWentBackError):
                next(subscription)
            with pytest.raises(LogWentBackError):
                next(reader.subscribe(after=moment))

    def test_a_copy_put_back_while_a_projection_folds(self, place: Place) -> None:
        """Rows made of what is gone are not stored: they would stay there, since the checkpoint had gone back too."""
        with refold.open(place.url) as store, refold.open(place.url) as reader:
            store.chat("kept")
            place.keep()
            store.chat("gone")

            reader.add_projection(Restoring(place))

            assert reader.rows("restoring") == [Count("all", 1)]

    def test_a_copy_put_back_before_the_rows_of_a_page_are_read(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another runner leads the copy to the same checkpoint again; the rows were read before, and are not stored."""
        monkeypatch.setattr(runner_module, "PAGE_EVENTS", 1)
        with refold.open(place.url) as store, refold.open(place.url) as other, refold.open(place.url) as reader:
            store.chat("a").add_message("user", "one")
            # Another process works on the first event, and sees no more of the log.
            again = ProjectionRunner(other.log, other._projections, [Counting()])
            steps = again.pages(Counting())
            place.keep()

            reader.add_projection(Overtaken(place.put_back, lambda: next(steps)))

            assert reader.rows("restoring") == [Count("all", 2)]

    def test_what_verify_says_of_projections_that_saw_more(self, place: Place) -> None:
        """It raises nothing; repaired, they are made of what there is."""
        with refold.open(place.url) as store:
            store.chat("a").add_message("user", "one")
            store.contexts()
        place.cut_tail()
        with refold.open(place.url) as store:
            assert "catalogue" in {one.where for one in store.verify().problems}

            store.verify(repair=True)

            assert [row.version for row in store.contexts()] == [1]

    def test_projections_that_saw_more(self, place: Place) -> None:
        """A checkpoint behind the end of the log is an error, until the projection is rebuilt."""
        with refold.open(place.url) as store:
            store.chat("a").add_message("user", "one")
            store.contexts()
            subscription = store.subscribe(name="mailer")
            assert [next(subscription).version for _ in range(2)] == [1, 2]
            subscription.ack()
        place.cut_tail()
        with refold.open(place.url) as store:
            with pytest.raises(LogWentBackError):
                next(store.subscribe(name="mailer"))
            with pytest.raises(LogWentBackError):
                store.contexts()

            store.rebuild("catalogue")

            assert [row.version for row in store.contexts()] == [1]

"""Threads that share a handle: the calls of one wait for the transaction of another."""

import threading
from contextlib import suppress
from contextvars import Context

import pytest

from refold.domain.chat.context import ChatContext
from refold.domain.context import transaction as transaction_module
from refold.domain.context.transaction import transaction
from refold.domain.errors import DecisionRefusedError, StorageBusyError
from refold.domain.log.ports import LiveLog

from ..domain.chat_events import OPENED
from ..domain.fakes import handle_on, record, texts
from .writing import at_once

A, B = "chat:a", "chat:b"


def opened(log: LiveLog, *streams: str) -> list[ChatContext]:
    """Open streams and return a handle on each."""
    for stream in streams:
        record(log, OPENED, stream=stream)
    return [handle_on(log, stream) for stream in streams]


class SharedHandlesContract:
    """What holds for one handle in several threads, whatever log it lies in. Needs the fixture `log`."""

    def test_transactions_of_threads_that_share_handles(self, log: LiveLog) -> None:
        """They come one after the other, and so do the calls that are in no transaction."""
        left, right = opened(log, A, B)

        def write_both(writer: int) -> None:
            for number in range(10):
                with transaction(log):
                    left.add_message("user", f"{writer}-{number}")
                    right.add_message("user", f"{writer}-{number}")
                    left.add_message("user", f"{writer}-{number}, too")

        def write_one() -> None:
            for number in range(10):
                left.add_message("user", f"alone-{number}")

        raised = at_once(*(lambda writer=writer: write_both(writer) for writer in range(3)), write_one)

        assert raised == []
        assert (len(texts(left)), len(texts(right))) == (70, 30)
        assert texts(left) == texts(handle_on(log, A))
        both = [text for text in texts(left) if not text.startswith("alone")]
        assert both[::2] == texts(right)
        assert both[1::2] == [f"{text}, too" for text in texts(right)]

    @pytest.mark.parametrize("fails", [False, True])
    def test_a_change_waits_for_the_transaction_of_another_thread(self, log: LiveLog, fails: bool) -> None:
        """It comes after what the transaction recorded, or as if there had been none."""
        [chat] = opened(log, A)
        chat.add_message("user", "first")
        waiting = threading.Thread(target=chat.add_message, args=("user", "other"))
        with suppress(ZeroDivisionError), transaction(log) as begun:
            chat.add_message("user", "one")
            waiting.start()
            while not begun._ending._sleepers:
                assert waiting.is_alive()
            chat.add_message("user", "two")
            _ = 1 / (not fails)
        waiting.join()

        expected = ["first", "other"] if fails else ["first", "one", "two", "other"]
        assert texts(chat) == texts(handle_on(log, A)) == expected

    def test_a_change_that_would_wait_for_its_own_thread(self, log: LiveLog) -> None:
        """It is refused at once, and the transaction goes on."""
        [chat] = opened(log, A)
        with transaction(log):
            chat.add_message("user", "one")
            with pytest.raises(DecisionRefusedError, match="end it first, or use another handle"):
                Context().run(chat.add_message, "user", "other")
            chat.add_message("user", "two")

        assert texts(chat) == texts(handle_on(log, A)) == ["one", "two"]

    def test_two_transactions_that_wait_for_each_other(self, log: LiveLog, monkeypatch: pytest.MonkeyPatch) -> None:
        """One of them is refused at once, or both are; nothing is half done."""
        monkeypatch.setattr(transaction_module, "HANDLE_SECONDS_MAX", 0.2)
        left, right = opened(log, A, B)
        both = threading.Barrier(2)

        def write(first: ChatContext, second: ChatContext) -> None:
            with transaction(log):
                first.add_message("user", first.id)
                both.wait()
                second.add_message("user", first.id)

        raised = at_once(lambda: write(left, right), lambda: write(right, left))

        assert raised
        assert {type(error) for error in raised} == {StorageBusyError}
        assert all("waits for this one" in str(error) for error in raised)
        assert len(texts(left)) == len(texts(right)) == 2 - len(raised)
        left.add_message("user", "on")
        assert texts(left) == texts(handle_on(log, A))

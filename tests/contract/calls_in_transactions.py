"""The contract of transactions with idempotency keys: repeated they change nothing, and others are refused."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from refold.domain.chat.items import ChatMessage
from refold.domain.errors import ConcurrencyError, IdempotencyError, NotFoundError
from refold.domain.log.ports import LiveLog

from .calls import seen, store_on
from .writing import at_once, everything


def paid(log: LiveLog, *, amount: str = "10", to: str = "b", more: bool = False) -> list[Any]:
    """Pay in one transaction, from contexts that are opened in it, and return all that its calls answered."""
    store = store_on(log)
    with store.transaction(idempotency_key="k"):
        one, other = store.chat("a"), store.chat(to)
        answers: list[Any] = [
            one.add_message("user", amount),
            one.add_message("user", amount),
            other.add_message("user", amount),
        ]
        child = one.fork()
        answers += [child.id, child.add_message("user", "forked"), seen(child.evict(answers[1].id)), child.restore()]
        with suppress(NotFoundError):
            asyncio.run(store.pool("p").remove("nothing"))
        if more:
            other.add_message("user", "more")
    return answers


def said_in(log: LiveLog, name: str) -> list[Any]:
    """Return the texts of the messages of a chat."""
    return [item.content[0] for item in store_on(log).chat(name).items if isinstance(item, ChatMessage)]


class TransactionsContract:
    """What holds for transactions with idempotency keys. Needs the fixture `log`."""

    def test_a_transaction_is_carried_out_once(self, log: LiveLog) -> None:
        """Repeated it changes nothing, and each call within it gives its first answer, whatever others wrote since."""
        first = paid(log)
        recorded = everything(log)
        assert {one.meta.idempotency_key for one in recorded} == {"k"}
        assert paid(log) == first == paid(log)
        assert everything(log) == recorded

        store_on(log).chat("a").clear()
        recorded = everything(log)
        assert paid(log) == first
        assert everything(log) == recorded

    @pytest.mark.parametrize(
        "changed", [{"amount": "99"}, {"to": "c"}, {"more": True}, {"to": "c", "amount": "99"}], ids=str
    )
    def test_another_transaction(self, log: LiveLog, changed: Any) -> None:
        """Other content, other contexts, or more: it is refused, nothing is changed, and every view is as it was."""
        paid(log)
        recorded = everything(log)

        with pytest.raises(IdempotencyError, match=r"'k' of chat:[ab] stands for another call"):
            paid(log, **changed)

        assert everything(log) == recorded
        store = store_on(log)
        with pytest.raises(IdempotencyError), store.transaction(idempotency_key="k"):
            store.chat("a").add_message("user", "10")
        assert everything(log) == recorded

    def test_other_contexts(self, log: LiveLog) -> None:
        """A key belongs to the contexts that it was used in: elsewhere it is another one."""
        store = store_on(log)
        for name in "ab":
            with store.transaction(idempotency_key="k"):
                store.chat(name).add_message("user", name)

        assert [said_in(log, name) for name in "ab"] == [["a"], ["b"]]

    def test_a_transaction_of_one_call_is_that_call(self, log: LiveLog) -> None:
        """Which of the two it was does not matter to whoever repeats it."""
        store = store_on(log)
        with store.transaction(idempotency_key="k"):
            first = store.chat("a").add_message("user", "x")
        with store.transaction(idempotency_key="k"):
            again = store.chat("a").add_message("user", "x")

        assert first == again == store_on(log).chat("a").add_message("user", "x", idempotency_key="k")
        with pytest.raises(IdempotencyError):
            store_on(log).chat("a").add_message("user", "y", idempotency_key="k")

    def test_a_call_that_does_nothing_then(self, log: LiveLog) -> None:
        """What changed nothing the first time is no part of the transaction, and must not change anything now."""
        store = store_on(log)
        chat = store.chat("a")
        chat.add_message("user", "x", "m")
        chat.evict("m")

        def change() -> None:
            with store_on(log).transaction(idempotency_key="k"):
                handle_on_a = store_on(log).chat("a")
                handle_on_a.evict("m")
                handle_on_a.add_message("user", "y")

        change()
        change()
        assert store_on(log).chat("a").version == 4
        store_on(log).chat("a").restore("m")
        with pytest.raises(IdempotencyError):
            change()
        assert said_in(log, "a") == ["x", "y"]

    def test_two_transactions_at_once(self, log: LiveLog) -> None:
        """Eight threads with two transactions under one key: one of them is recorded, once."""
        store_on(log).chat("a"), store_on(log).chat("b")
        refused: list[str] = []

        def pay(amount: str) -> None:
            store = store_on(log)
            one, other = store.chat("a"), store.chat("b")
            while True:
                try:
                    with store.transaction(idempotency_key="k"):
                        one.add_message("user", amount)
                        other.add_message("user", amount)
                except IdempotencyError:
                    refused.append(amount)
                except ConcurrencyError:
                    one.refresh()
                    other.refresh()
                    continue
                return

        raised = at_once(*(lambda amount=amount: pay(amount) for amount in ("10", "99") * 4))

        held = [text for name in "ab" for text in said_in(log, name)]
        assert (raised, len(held), len(set(held)), len(refused)) == ([], 2, 1, 4)
        assert {held[0], *refused} == {"10", "99"}

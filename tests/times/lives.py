"""Random lives of chats that are forked from each other and merged, with every kind of edit."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import refold
from refold.domain.errors import RefusedError
from tests.contract.chat_checking import Teller, message, output, run


class ChatsLife:
    """What happens to some chats of a store, the same for the same seed."""

    def __init__(self, store: refold.Store, seed: int) -> None:
        self._chance = random.Random(seed)
        self._numbers = iter(range(1_000_000))
        self.chats: list[Any] = [store.chat("c0", session="s")]

    def go_on(self, steps: int) -> None:
        """Do as many things; what is refused changes nothing."""
        often = [self._add, self._add, self._add, self._call, self._insert]
        deeds: list[Callable[[Any], object]] = [
            *often,
            self._truncate,
            self._evict,
            self._restore,
            self._summarize,
            self._merge,
            self._fork,
            self._clear,
            self._instruct,
        ]
        for _ in range(steps):
            with suppress(RefusedError):
                self._chance.choice(deeds)(self._chance.choice(self.chats))

    def _next_id(self) -> str:
        return f"i{next(self._numbers)}"

    def _add(self, chat: Any) -> None:
        chat.add_message(self._chance.choice(("user", "assistant")), "x" * self._chance.randrange(30), self._next_id())

    def _call(self, chat: Any) -> None:
        call_id = self._next_id()
        chat.add_function_call("look", "{}", call_id)
        if self._chance.random() < 0.8:
            chat.add_items([output(call_id)])

    def _insert(self, chat: Any) -> None:
        chat.insert(message(self._next_id(), time=float(self._chance.randrange(3)), text="inserted"))

    def _truncate(self, chat: Any) -> None:
        chat.truncate(max_items=self._chance.choice((None, 4)), max_tokens=self._chance.choice((None, 20)))

    def _evict(self, chat: Any) -> None:
        chat.evict([self._chance.choice(chat.items).id] if chat.items else [])

    def _restore(self, chat: Any) -> None:
        chat.restore()

    def _summarize(self, chat: Any) -> None:
        if self._chance.random() < 0.3:
            chat.undo_summary()
        else:
            run(chat.summarize(Teller("It was told.", "Again."), keep_recent_turns=1))

    def _merge(self, chat: Any) -> None:
        other = self._chance.choice(self.chats)
        how = self._chance.choice((chat.merge, chat.merge_result))
        run(how(other))

    def _fork(self, chat: Any) -> None:
        if len(self.chats) < 6:
            child = f"c{len(self.chats)}"
            brief = self._chance.random() < 0.3
            self.chats.append(chat.fork_filtered(1, context_id=child) if brief else chat.fork(child))

    def _clear(self, chat: Any) -> None:
        if self._chance.random() < 0.3:
            chat.clear()

    def _instruct(self, chat: Any) -> None:
        chat.add_message("system", "y" * self._chance.randrange(9), self._next_id(), replace=True)

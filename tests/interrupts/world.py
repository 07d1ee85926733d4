"""A store that is interrupted, a stranger who looks at the same database, and what was acknowledged."""

import secrets
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import refold
from refold.domain.chat.events import MessageAdded
from refold.domain.errors import ConcurrencyError

ITEMS_MAX = 60


class World:
    """A store at a place; in memory the stranger is the store itself."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.kind = "memory" if place == ":memory:" else "postgres" if place.startswith("postgresql") else "sqlite"
        self.store = refold.open(place)
        self.stranger = self.store if place == ":memory:" else refold.open(place)
        self.acknowledged: list[str] = []
        # Other worlds may have written to the same database.
        self._name = secrets.token_hex(4)
        self._number = 0
        self.checks = 0
        # How often each message was recorded, up to these versions.
        self._kept: Counter[str] = Counter()
        self._read: dict[str, int] = {}
        self.begin()

    def begin(self) -> None:
        """Begin two chats, with some messages in each."""
        self.chat, self.other = (self.store.chat(f"{name} {self.next_id()}", session="s") for name in "ab")
        for _ in range(3):
            self.say()
            self.say(chat=self.other)
        assert len(self.chat.items) == len(self.other.items) == 3

    def next_id(self) -> str:
        """Return the id of another message."""
        self._number += 1
        return f"{self._name}m{self._number}"

    def say(self, text: str = "hello", chat: Any = None, **options: Any) -> None:
        """Add a message; it is acknowledged once this returns."""
        number = self.next_id()
        (chat or self.chat).add_message("user", text, message_id=number, **options)
        self.acknowledged.append(number)

    def check(self) -> None:
        """
        Require that the store goes on, that the file is locked for nobody, and that all acknowledged is there once.
        """
        self.stranger.chat("stranger").add_message("user", "may I?")
        for chat in (self.chat, self.other):
            self._go_on(partial(self.say, chat=chat))
            chat.flush()
            seen = [item.id for item in chat.items]
            assert len(seen) == len(set(seen)), "the view shows an item twice"
            assert seen == [item.id for item in self.stranger.chat(chat.id, create=False).items]
            assert chat.version == self.stranger.log.head(f"chat:{chat.id}")
        if len(self.chat.items) > ITEMS_MAX:
            # Or each check would take longer than the one before.
            self.begin()
        self.checks += 1
        if self.checks % 20 == 0:
            self.check_log()

    def _go_on(self, call: Callable[[], None]) -> None:
        try:
            call()
        except ConcurrencyError:
            # What an interrupted call had recorded came between; told once, the view has caught up.
            call()

    def check_log(self) -> None:
        """Require that everything acknowledged is in the log, once."""
        log = self.stranger.log
        for stream in log.streams("chat:"):
            events = list(log.read_events(stream, after=self._read.get(stream, 0)))
            self._kept.update(event.id for event in events if isinstance(event, MessageAdded))
            self._read[stream] = self._read.get(stream, 0) + len(events)
        assert [one for one in self.acknowledged if self._kept[one] != 1] == [], "acknowledged, and not there once"
        assert [one for one, times in self._kept.items() if times > 1] == [], "recorded twice"

    def close(self) -> None:
        """Close both; verify that nothing is lost or damaged."""
        self._kept.clear()
        self._read.clear()
        self.check_log()
        assert list(self.stranger.verify().problems) == []
        self.store.close()
        self.stranger.close()

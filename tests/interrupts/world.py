"""A store that is interrupted, a stranger who looks at the same database, and what was acknowledged."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import refold
from refold.domain.chat.events import MessageAdded
from refold.domain.errors import ConcurrencyError

CHAT = "chat:a"


class World:
    """A store at a place; in memory the stranger is the store itself."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.kind = "memory" if place == ":memory:" else "postgres" if place.startswith("postgresql") else "sqlite"
        self.store = refold.open(place)
        self.stranger = self.store if place == ":memory:" else refold.open(place)
        self.chat = self.store.chat("a", session="s")
        self.other = self.store.chat("b", session="s")
        self.acknowledged: list[str] = []
        self._number = 0
        self.checks = 0

    def next_id(self) -> str:
        """
        Return the id of another message.
        """
        self._number += 1
        return f"m{self._number}"

    def say(self, text: str = "hello", chat: Any = None, **options: Any) -> None:
        """
        Add a message; it is acknowledged once this returns.
        """
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
        """
        Require that everything acknowledged is in the log, once.
        """
        log = self.stranger.log
        events = [event for stream in log.streams("chat:") for event in log.read_events(stream)]
        kept = Counter(event.id for event in events if isinstance(event, MessageAdded))
        assert [one for one in self.acknowledged if kept[one] != 1] == [], "acknowledged, and not there once"
        assert [one for one, times in kept.items() if times > 1] == [], "recorded twice"

    def close(self) -> None:
        """
        Close both; verify that nothing is lost or damaged.
        """
        self.check_log()
        assert list(self.stranger.verify().problems) == []
        self.store.close()
        self.stranger.close()

"""The random life of two chat contexts in one log: three handles, one of which enqueues."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from refold.domain.chat.context import ChatContext
from refold.domain.chat.rules.decide import CHAT
from refold.domain.context.transaction import transaction
from refold.domain.errors import ConcurrencyError, IdempotencyError, NotFoundError

from ..contract.writing import check_chain
from ..domain.chat_events import OPENED
from ..domain.fakes import handle_on, record
from .chat_model import ChatModel, Said, Step, said_by
from .lives import LogLife

TEXT = st.sampled_from(["", "hi", "longer text", "ü\x00\U0001f600", "L" * 5_000])
ITEM = st.one_of(
    st.tuples(st.just("message"), st.sampled_from(["user", "assistant", "system"]), TEXT),
    st.tuples(st.just("function_call"), st.sampled_from(["lookup", "f"]), TEXT),
    st.tuples(st.just("function_call_output"), st.just("lookup"), TEXT),
    st.tuples(st.just("agent_handoff"), st.just("billing"), TEXT),
    st.tuples(st.just("agent_config_update"), st.sampled_from(["", "a|b"]), TEXT),
)
ITEMS = st.lists(ITEM, min_size=1, max_size=4)
# Handles: two on the first context, one on the second; the last of the first context enqueues.
HANDLES = ("one", "two", "other")
OF_CONTEXT = {"one": "a", "two": "a", "queued": "a", "other": "b"}


def add(chat: ChatContext, said: Said, **options: Any) -> Any:
    """Add an item by the call that is meant for it."""
    kind, about, text = said
    match kind:
        case "message":
            return chat.add_message(about, text, **options)
        case "function_call":
            return chat.add_function_call(about, text, **options)
        case "function_call_output":
            return chat.add_function_output(about, text, "c1", **options)
        case "agent_handoff":
            return chat.add_handoff(about, reason=text or None, **options)
        case _:
            tools = about.split("|") if about else None
            return chat.add_config_update(text or None, tools, **options)


class ChatMachine(LogLife):
    """Two contexts, each with handles of every kind; subclass it with `open_log`."""

    @initialize()
    def begin(self) -> None:
        """Open two contexts, and a handle of each kind."""
        self.begin_life()
        self.models = {"a": ChatModel(), "b": ChatModel()}
        # The context, key, item and answer of each call that was made under a key.
        self.keyed: list[tuple[str, str, Said, Any]] = []
        for context in self.models:
            record(self.log, OPENED, stream=self.stream(context))
        self.open_handles()

    def open_handles(self) -> None:
        self.chats = {name: handle_on(self.log, self.stream(OF_CONTEXT[name])) for name in HANDLES}

    @rule(context=st.sampled_from(["a", "b"]))
    def look_at_everything(self, context: str) -> None:
        """Compare a context with what is in the log."""
        stream, model = self.stream(context), self.models[context]
        check_chain(self.log.read(stream))
        assert self.shown(handle_on(self.log, stream)) == model.items_at(model.version)

    def stream(self, context: str) -> str:
        """Return the name of a context's stream in this life."""
        return f"chat:{self.life}-{context}"

    def shown(self, chat: Any) -> list[Said]:
        """Return what a context shows, in the model's words."""
        return [said_by(item) for item in chat.items]

    def is_behind(self, name: str) -> bool:
        """Return whether others have written since a handle last looked."""
        return self.chats[name].version < self.models[OF_CONTEXT[name]].version

    @rule(name=st.sampled_from(HANDLES), items=ITEMS)
    def append(self, name: str, items: list[Said]) -> None:
        """Add items one by one: the handle catches up by itself."""
        model = self.models[OF_CONTEXT[name]]
        for said in items:
            behind = model.version - self.chats[name].version
            item = add(self.chats[name], said)
            assert said_by(item) == said
            assert len(self.chats[name].came_between) == behind
            model.steps.append(Step(said))

    @rule(name=st.sampled_from(HANDLES), said=ITEM)
    def append_strictly(self, name: str, said: Said) -> None:
        """Add an item on the version that the handle has seen: refused exactly where it is behind."""
        chat, model = self.chats[name], self.models[OF_CONTEXT[name]]
        if self.is_behind(name):
            before = chat.version
            with pytest.raises(ConcurrencyError) as caught:
                add(chat, said, expected_version=before)
            assert (caught.value.expected, caught.value.actual) == (before, model.version)
            assert chat.version == before
            return
        add(chat, said, expected_version=chat.version)
        model.steps.append(Step(said))

    @rule(name=st.sampled_from(HANDLES), said=ITEM, key=st.integers(0, 3))
    def repeat(self, name: str, said: Said, key: int) -> None:
        """Add an item under a key, twice: the second time nothing happens."""
        chat, model = self.chats[name], self.models[OF_CONTEXT[name]]
        key_text = f"{key}-{model.version}"
        first = add(chat, said, idempotency_key=key_text)
        model.steps.append(Step(said))
        assert add(chat, said, idempotency_key=key_text) == first
        self.keyed.append((OF_CONTEXT[name], key_text, said, first))

    @precondition(lambda self: self.keyed)
    @rule(name=st.sampled_from(HANDLES), number=st.integers(0), other=ITEM)
    def repeat_later(self, name: str, number: int, other: Said) -> None:
        """Repeat a call whatever came since, by any handle: it gives the first answer; another one is refused."""
        known = [one for one in self.keyed if one[0] == OF_CONTEXT[name]]
        if not known:
            return
        _, key, said, first = known[number % len(known)]
        assert add(self.chats[name], said, idempotency_key=key) == first
        if other != said:
            with pytest.raises(IdempotencyError):
                add(self.chats[name], other, idempotency_key=key)

    @rule(name=st.sampled_from(HANDLES), word=st.sampled_from(["x", "y", "z"]), back=st.integers(0, 5))
    def give_a_name(self, name: str, word: str, back: int) -> None:
        """Name a version that the handle has seen."""
        chat, model = self.chats[name], self.models[OF_CONTEXT[name]]
        chat.refresh()
        version = max(1, chat.version - back)
        is_new = model.names().get(word) != version
        assert chat.name_version(word, version) == version
        if is_new:
            model.steps.append(Step(None, (word, version)))

    @rule(left=ITEMS, right=ITEMS, fate=st.sampled_from(["commit", "commit", "raise", "conflict"]), look=st.booleans())
    def in_a_transaction(self, left: list[Said], right: list[Said], fate: str, look: bool) -> None:
        """Change both contexts as one: committed, rolled back by an error, or by another writer."""
        one, other = self.chats["one"], self.chats["other"]
        one.refresh()
        other.refresh()
        before = (one.version, other.version)
        try:
            with transaction(self.log):
                for said in left:
                    add(one, said)
                for said in right:
                    add(other, said)
                if look:
                    model = self.models["a"]
                    assert self.shown(one) == model.items_at(model.version) + left
                if fate == "raise":
                    raise ZeroDivisionError
                if fate == "conflict":
                    self.write_behind(("message", "user", "theirs"))
        except (ZeroDivisionError, ConcurrencyError):
            assert fate != "commit"
            assert (one.version, other.version) == before
            return
        assert fate == "commit"
        self.models["a"].steps += [Step(said) for said in left]
        self.models["b"].steps += [Step(said) for said in right]

    def write_behind(self, said: Said) -> None:
        """Write to the second context as somebody of whom no handle knows."""
        from ..contract.writing import said as message

        record(self.log, message(0, said[2]), stream=self.stream("b"))
        self.models["b"].steps.append(Step(said))

    @rule(items=ITEMS, is_loaded=st.booleans(), other_first=st.booleans())
    def enqueue(self, items: list[Said], is_loaded: bool, other_first: bool) -> None:
        """Queue items and flush: all get in, or none, where somebody wrote after the handle had looked."""
        model = self.models["a"]
        chat = handle_on(self.log, self.stream("a"), durability="enqueue")
        if is_loaded:
            _ = chat.items
        if other_first:
            self.append("one", [("message", "user", "quicker")])
        for said in items:
            add(chat, said)
        if not other_first:
            assert self.shown(chat) == model.items_at(model.version) + items
            chat.flush()
            model.steps += [Step(said) for said in items]
        else:
            with pytest.raises(ConcurrencyError) as caught:
                chat.flush()
            assert len(caught.value.refused) == len(items)
        assert (self.shown(chat), chat.version) == (model.items_at(model.version), model.version)

    @rule(name=st.sampled_from(HANDLES), number=st.integers(-40, 40))
    def look_at_a_version(self, name: str, number: int) -> None:
        """A version, counted from the beginning or from the end of what the handle has seen, or an error."""
        chat = self.chats[name]
        version = number if number >= 0 else chat.version + number
        if not 0 <= version <= chat.version:
            with pytest.raises(NotFoundError):
                chat.at(number)
            return
        self.check_past(chat.at(number), name, version)
        self.check_past(chat.at(str(number)), name, version)

    @rule(name=st.sampled_from(HANDLES), number=st.integers(0, 100), shift=st.sampled_from([-1, 0, 1]))
    def look_at_an_event(self, name: str, number: int, shift: int) -> None:
        """The position, and the time, of an event in the history that the handle has seen."""
        chat = self.chats[name]
        history = chat.history(until=chat.version)
        event = history[number % len(history)]
        time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=event.recorded_at + shift)
        by_then = sum(one.recorded_at <= event.recorded_at + shift for one in history)
        self.check_past(chat.at(f"pos:{event.position}"), name, event.version)
        self.check_past(chat.at(time), name, by_then)
        self.check_past(chat.at(time.isoformat()), name, by_then)

    @rule(name=st.sampled_from(HANDLES))
    def look_at_names(self, name: str) -> None:
        """Every name leads to its newest version."""
        chat, model = self.chats[name], self.models[OF_CONTEXT[name]]
        chat.refresh()
        assert chat.names() == model.names()
        for word, version in model.names().items():
            self.check_past(chat.at(word), name, version)

    def check_past(self, past: Any, name: str, version: int) -> None:
        """Compare a view of the past with the model, and with a fold of the events up to there."""
        model = self.models[OF_CONTEXT[name]]
        assert past.version == version
        assert past.tail(2) == past.items[-2:]
        assert self.shown(past) == model.items_at(version)
        assert (past.turn_count(), past.estimated_tokens()) == (model.turns_at(version), model.tokens_at(version))
        events = [one.event for one in self.log.read(self.stream(OF_CONTEXT[name]))]
        assert CHAT.fold(CHAT.initial_state, events[:version]).items == past.recorded_items()

    @rule(name=st.sampled_from(HANDLES))
    def refresh(self, name: str) -> None:
        """Catch up: what is given back is what was missing."""
        chat, model = self.chats[name], self.models[OF_CONTEXT[name]]
        missing = model.version - chat.version
        assert len(chat.refresh()) == missing
        assert self.shown(chat) == model.items_at(model.version)

    @rule(name=st.sampled_from(HANDLES))
    def open_another_handle(self, name: str) -> None:
        """Go on with a new object, not loaded."""
        self.chats[name] = handle_on(self.log, self.stream(OF_CONTEXT[name]))

    @invariant()
    def views_are_prefixes(self) -> None:
        """Whatever a handle has seen, its view is what had been said by its version."""
        if not hasattr(self, "chats"):
            return
        for name, chat in self.chats.items():
            model = self.models[OF_CONTEXT[name]]
            if chat._journal.is_loaded:
                assert self.shown(chat) == model.items_at(chat.version)
            assert chat.version <= model.version == self.log.head(self.stream(OF_CONTEXT[name]))

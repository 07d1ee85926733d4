"""The random life of chat contexts in one log that are edited, forked, merged and summarised."""

import asyncio
import contextlib
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from refold.domain.chat.context import ChatContext
from refold.domain.chat.items import ChatItem
from refold.domain.chat.rules.decide import CHAT
from refold.domain.chat.state.loading import complete
from refold.domain.chat.state.packed import PACKING, packed
from refold.domain.context.transaction import transaction
from refold.domain.errors import ConcurrencyError, InvalidInputError, NotFoundError
from refold.domain.log.ports import StreamEnd
from tests.support.provider_rules import anthropic, google, openai

from ..domain.fakes import handle_on
from .editing_life import CONTEXTS_MAX, DRAWN, NUMBER, RULE, SOME, TELLER, TIME, EditingLife, check_view
from .editing_model import EditingModel, Leaving, Row, row_of


class EditingMachine(EditingLife):
    """Subclass it with `open_log`."""

    # Adding

    @rule(number=NUMBER, drawn=st.lists(DRAWN, min_size=1, max_size=4))
    def append(self, number: int, drawn: list[tuple[str, float, int]]) -> None:
        """Add items at the end."""
        for one in drawn:
            self.append_one(number, self.made(self.models[self.pick(number)], one))

    def append_one(self, number: int, item: ChatItem) -> None:
        """Add one item."""
        self.act(number, lambda chat: chat.add_items([item]), lambda m: m.append(row_of(item)))

    @rule(number=NUMBER, drawn=st.lists(DRAWN, min_size=1, max_size=3))
    def insert(self, number: int, drawn: list[tuple[str, float, int]]) -> None:
        """Insert items by their time."""
        model = self.models[self.pick(number)]
        items = [self.made(model, one) for one in drawn if one[0] != "output"]
        self.act(number, lambda chat: chat.insert_many(items), lambda m: m.insert([row_of(item) for item in items]))

    @rule(number=NUMBER, time=TIME)
    def replace_instructions(self, number: int, time: float) -> None:
        """Put a system message in the place of all there are."""
        self.items_made += 1
        item_id = f"i{self.items_made}"
        self.act(
            number,
            lambda chat: chat.add_message("system", "s", item_id, time, replace=True),
            lambda m: m.replace_system(Row(item_id, "system", time, "s")),
        )

    # Evicting, restoring, pinning

    @rule(number=NUMBER, numbers=SOME, reason=st.sampled_from([None, "old"]))
    def evict(self, number: int, numbers: list[int], reason: str | None) -> None:
        """Evict items, unless one of them is pinned."""
        model = self.models[self.pick(number)]
        ids = self.some(model, numbers)
        if model.copy().evict(ids, reason) is not None:
            self.act(number, lambda chat: chat.evict(ids, reason=reason), lambda m: m.evict(ids, reason))
            return
        with pytest.raises(InvalidInputError, match="pinned"):
            self.chats[self.pick(number)].evict(ids)
        self.check(self.pick(number))

    @rule(number=NUMBER, numbers=st.none() | SOME)
    def restore(self, number: int, numbers: list[int] | None) -> None:
        """Restore items by id, or what left last."""
        if numbers is None:
            self.act(number, lambda chat: chat.restore(), lambda m: m.restore_last())
            return
        ids = self.some(self.models[self.pick(number)], numbers)
        self.act(number, lambda chat: chat.restore(ids), lambda m: m.put_back(ids))

    @rule(number=NUMBER, numbers=SOME, is_pinned=st.booleans())
    def pin(self, number: int, numbers: list[int], is_pinned: bool) -> None:
        """Pin or unpin items; what was evicted cannot be pinned."""
        model = self.models[self.pick(number)]
        ids = self.some(model, numbers)
        if is_pinned and any(item_id in model.gone for item_id in ids):
            with pytest.raises(NotFoundError, match="restore it first"):
                self.chats[self.pick(number)].pin(ids)
            return

        def expect(m: EditingModel) -> bool:
            before = set(m.pinned)
            (m.pinned.update if is_pinned else m.pinned.difference_update)(ids)
            return m.pinned != before

        self.act(number, lambda chat: chat.pin(ids) if is_pinned else chat.unpin(ids), expect)

    @rule(number=NUMBER)
    def clear(self, number: int) -> None:
        """Take everything out."""
        self.act(
            number, lambda chat: chat.clear(), lambda m: m.take_out([row.id for row in m.view()], Leaving("clear"))
        )

    @rule(number=NUMBER, items_max=st.none() | st.integers(0, 12), tokens_max=st.none() | st.integers(0, 80))
    def truncate(self, number: int, items_max: int | None, tokens_max: int | None) -> None:
        """Truncate: what is pinned stays."""
        model = self.models[self.pick(number)]
        pinned = [item_id for item_id in model.pinned if item_id not in model.gone]
        self.act(
            number,
            lambda chat: chat.truncate(items_max, tokens_max, whole_turns=False),
            lambda m: (items_max is not None or tokens_max is not None) and m.truncate(items_max, tokens_max),
        )
        assert {*pinned} <= {item.id for item in self.chats[self.pick(number)].items}

    @rule(number=NUMBER, edit=st.sampled_from(["clear", "truncate", "restore"]))
    def edit_from_behind(self, number: int, edit: str) -> None:
        """A handle that is behind is told where its edit would change something, and its view stays as it was."""
        behind = handle_on(self.log, self.pick(number))
        before = behind.items
        self.append(number, [("user", 1.0, 1)])
        with contextlib.suppress(ConcurrencyError):
            behind.truncate(max_items=0) if edit == "truncate" else getattr(behind, edit)()
        assert behind.items == before
        assert self.log.head(self.pick(number)) == behind.version + 1

    # Summaries

    @rule(number=NUMBER, keep=st.integers(0, 3))
    def summarize(self, number: int, keep: int) -> None:
        """Have a summary written."""
        plan = self.models[self.pick(number)].summary_plan(keep)

        def expect(m: EditingModel) -> bool:
            if plan is None:
                return False
            summaries = [item for item in self.chats[self.pick(number)].items if item.id not in {r.id for r in m.rows}]
            assert len(summaries) == 1
            summary = row_of(summaries[0])
            assert summary == Row(
                summary.id, "assistant", plan[3], "[Conversation Summary]\nIt was told.", is_summary=True
            )
            m.summarize(summary, keep)
            return True

        self.act(number, lambda chat: asyncio.run(chat.summarize(TELLER, keep_recent_turns=keep)), expect)

    @rule(number=NUMBER)
    def undo_summary(self, number: int) -> None:
        """Take the last summary back."""
        if self.models[self.pick(number)].copy().undo_summary() is None:
            with pytest.raises(NotFoundError):
                self.chats[self.pick(number)].undo_summary()
            return
        self.act(number, lambda chat: chat.undo_summary(), lambda m: m.undo_summary())

    # Forks

    @precondition(lambda self: len(self.chats) < CONTEXTS_MAX)
    @rule(number=NUMBER, version=NUMBER, is_past=st.booleans())
    def fork(self, number: int, version: int, is_past: bool) -> None:
        """Fork the present, or any version of the past."""
        stream = self.pick(number)
        chat, versions = self.chats[stream], list(self.past[stream])
        chosen = versions[version % len(versions)] if is_past else chat.version
        parent = chat.at(chosen) if is_past else chat
        self.put(parent.fork(), self.past[stream][chosen].forked(stream, chosen))

    @precondition(lambda self: len(self.chats) < CONTEXTS_MAX)
    @rule(number=NUMBER, turns=st.integers(1, 3))
    def fork_filtered(self, number: int, turns: int) -> None:
        """Fork the last turns: the same instructions are in force."""
        stream = self.pick(number)
        chat, model = self.chats[stream], self.models[stream]
        child = chat.fork_filtered(turns)
        rows = model.recent(turns)
        expected = model.forked(stream, chat.version, rows)
        if model.instructions() != model.instructions(rows):
            config = row_of(child.items[-1])
            assert (config.kind, config.text) == ("config", model.instructions())
            expected.append(config)
        self.put(child, expected)

    @precondition(lambda self: len(self.chats) < CONTEXTS_MAX)
    @rule(number=NUMBER, what=st.sampled_from(["brief", "copy", "no system", "no handoffs", "no tools", "agent"]))
    def fork_part(self, number: int, what: str) -> None:
        """Fork nothing, or what passes a filter."""
        stream = self.pick(number)
        chat, model = self.chats[stream], self.models[stream]
        version = chat.version
        match what:
            case "brief":
                child = chat.fork_brief("Do it.", "Now.")
                rows = [row_of(item) for item in child.items]
                assert [(row.kind, row.text) for row in rows] == [("system", "Do it."), ("user", "Now.")]
                self.put(child, model.forked(stream, version, rows))
                return
            case "copy":
                self.put(chat.copy(), model.forked(stream, version))
                return
            case "no system":
                child, rows = chat.copy(exclude_system_messages=True), model.filtered(lambda row: row.kind != "system")
            case "no handoffs":
                child, rows = chat.copy(exclude_handoffs=True), model.filtered(lambda row: row.kind != "handoff")
            case "agent":
                child = chat.copy(filter_agent_id="sub")
                rows = model.filtered(lambda row: row.agent == "sub" or row.sets_config or row.kind == "handoff")
            case _:
                child, rows = chat.copy(tools=[]), model.filtered(lambda row: row.kind not in ("call", "output"))
        self.put(child, model.forked(stream, version, rows))

    # Merges

    @rule(into=NUMBER, source=NUMBER, version=NUMBER, is_past=st.booleans(), with_config=st.booleans(), rule=RULE)
    def merge(self, into: int, source: int, version: int, is_past: bool, with_config: bool, rule: Any) -> None:
        """Merge one context, or its past, into another; then once more, which changes nothing."""
        here, there = self.pick(into), self.pick(source)
        versions = list(self.past[there])
        chosen = versions[version % len(versions)] if is_past else self.chats[there].version
        other: Any = self.chats[there].at(chosen) if is_past else self.chats[there]
        their = self.past[there][chosen]

        def expect(model: EditingModel) -> bool:
            base = self.base_of(here, there, chosen)
            return model.merge(their, (there, chosen), base, with_config=with_config, rule=rule)

        for _ in range(2):
            self.act(
                into,
                lambda chat: asyncio.run(chat.merge(other, instructions=with_config, on_conflict=rule)),
                expect,
            )

    def base_of(self, here: str, there: str, version: int) -> EditingModel | None:
        """Return what both contexts were when they were last the same."""
        ours = [*self.models[here].ancestry, (here, self.chats[here].version)]
        theirs = [*self.past[there][version].ancestry, (there, version)]
        common = None
        for own, other in zip(ours, theirs, strict=False):
            if own[0] != other[0]:
                break
            common = (own[0], min(own[1], other[1]))
            if own[1] != other[1]:
                break
        return None if common is None else self.past[common[0]][common[1]]

    @rule(into=NUMBER, source=NUMBER, agent=st.sampled_from([None, "sub"]))
    def merge_result(self, into: int, source: int, agent: str | None) -> None:
        """Take the last answer of another context, twice."""
        there = self.pick(source)
        other, their = self.chats[there], self.models[there].copy()
        for _ in range(2):
            self.act(
                into,
                lambda chat: asyncio.run(chat.merge_result(other, agent_id=agent)),
                lambda m: m.merge_result(their, agent),
            )

    @rule(into=NUMBER, source=NUMBER)
    def merge_with_summary(self, into: int, source: int) -> None:
        """Have another context told."""
        there = self.pick(source)
        key, version = (there, "summary"), self.chats[there].version
        is_blank = all(row.kind in ("handoff", "config") for row in self.models[there].view())

        def expect(m: EditingModel) -> bool:
            if is_blank or m.merged.get(key) == version:
                return False
            m.merged[key] = version
            told = row_of(self.chats[self.pick(into)].items[-1])
            assert told.text == "[Sub-agent Summary]\nIt was told."
            return m.append(told)

        self.act(into, lambda chat: asyncio.run(chat.merge_with_summary(self.chats[there], llm=TELLER)), expect)

    @rule(into=NUMBER, drawn=st.lists(DRAWN, min_size=1, max_size=3), evicts=st.booleans())
    def merge_detached(self, into: int, drawn: list[tuple[str, float, int]], evicts: bool) -> None:
        """Merge a context of another log, which is adopted on the way."""
        other, their = ChatContext(), EditingModel()
        for one in drawn:
            item = self.made(their, one)
            other.add_items([item])
            their.append(row_of(item))
        if evicts:
            other.evict(their.rows[0].id)
            their.evict([their.rows[0].id], None)
        source = (f"adopted{self.items_made}", other.version)
        self.act(
            into,
            lambda chat: asyncio.run(chat.merge(other)),
            lambda m: m.merge(their, source, None, with_config=False, rule="ours"),
        )

    @precondition(lambda self: len(self.chats) < CONTEXTS_MAX)
    @rule(number=NUMBER, numbers=SOME, drawn=DRAWN, is_kept=st.booleans())
    def in_a_transaction(self, number: int, numbers: list[int], drawn: tuple[str, float, int], is_kept: bool) -> None:
        """Fork, go on in the child, merge it back, edit: as one, or not at all."""
        stream = self.pick(number)
        before, versions = self.models[stream].copy(), dict(self.past[stream])
        chats = list(self.chats)
        try:
            with transaction(self.log):
                self.fork(number, 0, False)
                child = list(self.chats)[-1]
                self.append(len(self.chats) - 1, [drawn])
                self.merge(list(self.chats).index(stream), len(self.chats) - 1, 0, False, False, "ours")
                self.evict(list(self.chats).index(stream), numbers, "in it")
                if not is_kept:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            for known in (self.chats, self.models, self.past):
                del known[child]
            self.models[stream], self.past[stream] = before, versions
        assert list(self.chats)[: len(chats)] == chats
        self.check(stream)

    # Looking

    @rule(number=NUMBER, version=NUMBER)
    def look_at_the_past(self, number: int, version: int) -> None:
        """A version is what it was, and what a fold of the events up to there gives."""
        stream = self.pick(number)
        chat, known = self.chats[stream], self.past[stream]
        head = chat.version
        for chosen in (list(known)[version % len(known)], version % head + 1):
            past = chat.at(chosen)
            folded = CHAT.fold(CHAT.initial_state, complete(self.log, self.log.read_events(stream, until=chosen)))
            assert folded.items == past.recorded_items()
            assert (folded.version, folded.items.totals) == (chosen, past.recorded_items().totals)
            assert packed(folded) == packed(past._state)
            if chosen in known:
                check_view(past, known[chosen])
            assert past.tail(2) == past.items[-2:]

    @rule(number=NUMBER, version=NUMBER, at_once=st.integers(1, 9))
    def keep_a_snapshot(self, number: int, version: int, at_once: int) -> None:
        """
        Keep a snapshot as of any version: who opens the context, or looks at its past, begins there.

        A fold that leaves the items in the log gives the same one.
        """
        stream = self.pick(number)
        chosen = version % self.log.head(stream) + 1
        recorded = self.log.read(stream, until=chosen)
        folded = CHAT.fold(CHAT.initial_state, complete(self.log, [one.event for one in recorded]))
        paged = CHAT.state_at(self.log, stream, chosen, at_once=at_once)
        assert packed(paged) == packed(folded)
        assert list(paged.items) == list(folded.items)
        PACKING.keep(self.log, stream, folded, StreamEnd(chosen, recorded[-1].digest))

    @rule(number=NUMBER)
    def look_at_what_is_sent(self, number: int) -> None:
        """Every provider accepts what comes of the context."""
        chat = self.chats[self.pick(number)]
        messages, system = chat.to_anthropic_messages()
        assert openai.faults(chat.to_openai_messages()) == []
        assert openai.responses_faults(chat.to_openai_responses()[0]) == []
        assert anthropic.faults(messages, system) == []
        assert google.faults(chat.to_google_json()[0]) == []

    @rule(number=NUMBER, frees=st.booleans())
    def open_again(self, number: int, frees: bool) -> None:
        """Let go of a view, or go on with another handle: both are read from the log again."""
        stream = self.pick(number)
        if frees:
            self.chats[stream].cleanup()
        else:
            self.chats[stream] = handle_on(self.log, stream)
        self.check(stream)

    def open_handles(self) -> None:
        """Give every context a new object: each is as it was."""
        for stream in self.chats:
            self.chats[stream] = handle_on(self.log, stream)
            self.check(stream)

"""Thinking that is kept apart, as in a session of the Responses API, stays with the answer that it led to."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from refold import ChatContext, ChatMessage, ChatRole
from refold.domain.chat.events import Spoken
from refold.domain.chat.rules.summaries import plan_summary
from refold.domain.errors import InvalidInputError
from refold.domain.formats.responses.receive import items_from_session
from refold.domain.formats.responses.send import entries_of
from tests.contract.chat_checking import Teller
from tests.domain.strategies import PROPERTY

# What the model answered at once, behind reasoning. A tool that ran at the provider has reasoning behind it again; a
# call that was interrupted has no output.
ANSWERS = st.lists(
    st.sampled_from(
        [("message",), ("call",), ("call", "call"), ("message", "call"), ("search", "message"), ("interrupted",)]
    ),
    min_size=1,
    max_size=5,
)
EDITS = ["evict", "evict", "evict", "restore", "restore last", "truncate", "summarize", "pin", "hand off", "merge"]
STEPS = st.lists(st.tuples(st.sampled_from(EDITS), st.integers(0, 30)), max_size=8)


# The types of the outputs. One of a computer, and its call, are entries that only this API understands.
OUTPUTS = {"call": "function_call_output", "computer": "computer_call_output"}


class Session:
    """A chat with answers to two questions, and the reasoning that each entry of the model needs in front of it."""

    def __init__(self, answers: list[tuple[str, ...]]) -> None:
        self.needed: dict[str, str] = {}
        self.entries: list[dict[str, Any]] = [{"role": "user", "content": "Why?"}]
        for number, answer in enumerate(answers):
            if number == len(answers) // 2:
                self.entries.append({"role": "user", "content": "And then?"})
            self._add_answer(number, answer)
        self.chat = ChatContext()
        self.chat.record_items(items_from_session(self.entries))

    def _add_answer(self, number: int, answer: tuple[str, ...]) -> None:
        for place, sort in enumerate(answer):
            name = f"{number}_{place}"
            if place == 0 or answer[place - 1] == "search":
                reasoning = f"rs_{name}"
                self.entries.append({"type": "reasoning", "id": reasoning, "summary": []})
            entries: dict[str, dict[str, Any]] = {
                "search": {"type": "web_search_call", "id": f"ws_{name}", "status": "completed"},
                "computer": {"type": "computer_call", "id": f"cu_{name}", "call_id": name, "status": "completed"},
                "message": {
                    "type": "message", "id": f"msg_{name}", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": name, "annotations": []}],
                },
            }  # fmt: skip
            call = {"type": "function_call", "id": f"fc_{name}", "call_id": name, "name": "f", "arguments": "{}"}
            entries["call"] = entries["interrupted"] = call
            self.entries.append(entries[sort])
            self.needed[entries[sort]["id"]] = reasoning
        for place, sort in enumerate(answer):
            if sort in OUTPUTS:
                self.entries.append({"type": OUTPUTS[sort], "call_id": f"{number}_{place}", "output": "1"})

    def edit(self, edit: str, number: int) -> None:
        """Make one change; a pinned item may forbid it."""
        chat = self.chat
        known = [*chat.recorded_items(), *(left.item for left in chat.evicted_items())]
        item_id = known[number % len(known)].id
        with suppress(InvalidInputError):
            match edit:
                case "evict":
                    chat.evict(item_id)
                case "restore":
                    chat.restore(item_id)
                case "restore last":
                    chat.restore()
                case "truncate":
                    chat.truncate(max_items=max(1, len(chat.items) - number % 5))
                case "pin" if number % len(known) < len(chat.items):
                    chat.pin(item_id)
                case "summarize":
                    asyncio.run(chat.summarize(Teller("In short."), keep_items=number % 6 + 1))
                case "hand off":
                    chat.add_handoff("triage", "refunds")
                case "merge":
                    self._merge_a_fork()

    def _merge_a_fork(self) -> None:
        """Merge answers of a fork, which come before what was recorded here in the meantime."""
        fork = self.chat.fork()
        known = len(self.entries)
        self._add_answer(known, ("message", "call"))
        fork.record_items(items_from_session(self.entries[known:]))
        self.chat.record_items(items_from_session([{"role": "user", "content": f"And {known}?"}]))
        asyncio.run(self.chat.merge(fork))

    def require_valid(self) -> None:
        """Assert that the API would take the entries: it refuses reasoning without what it led to, and the reverse."""
        entries = [
            entry for item in self.chat.recorded_items() if isinstance(item, Spoken) for entry in entries_of(item)
        ]
        ids = [entry.get("id", "") for entry in entries]
        for place, item_id in enumerate(ids):
            if item_id.startswith("rs_"):
                assert self.needed.get(ids[place + 1]) == item_id, ids
            assert item_id not in self.needed or self.needed[item_id] in ids[:place], ids


@PROPERTY
@given(ANSWERS, STEPS)
def test_a_request_is_valid_after_any_edit(answers: list[tuple[str, ...]], steps: list[tuple[str, int]]) -> None:
    """After evictions, restores, truncations, summaries and merges of any items, some of them pinned."""
    session = Session(answers)
    for edit, number in steps:
        session.edit(edit, number)
        session.require_valid()


def test_entries_that_are_no_thinking_leave_one_by_one() -> None:
    """A long run of calls of a computer in one turn is many answers, for truncation and for summaries."""
    chat = Session([("computer",)] * 100).chat

    assert plan_summary(chat._state.items, 0, keep_items=20) is not None
    assert len(chat.fork().truncate(max_items=100).items) > 90


def test_a_call_that_a_person_changed_does_not_come_back_with_its_reasoning() -> None:
    """The call that took its place is in the view."""
    session = Session([("call",)])
    chat = ChatContext()
    chat.record_items(items_from_session(session.entries[:-1]))
    chat.approvals.request("0_0", by="triage")
    chat.approvals.change("0_0", '{"order": 8}', by="mia")
    reasoning = chat.items[1].id

    chat.evict(reasoning)
    chat.restore(reasoning)

    assert [call.arguments for answer in chat.pending_calls() for call in answer.calls] == ['{"order": 8}']


def test_an_inserted_message_belongs_to_no_answer() -> None:
    """It was recorded between reasoning and its answer, and stands elsewhere."""
    session = Session([("message",)])
    question, _, reasoning, answer = items_from_session(session.entries)
    session.chat = chat = ChatContext()
    chat.record_items([question, reasoning])
    inserted = ChatMessage(role=ChatRole.ASSISTANT, content=["Hello."], created_at=1.0)
    chat.insert(inserted)
    chat.record_items([answer])

    chat.evict(inserted.id)
    session.require_valid()
    assert len(chat.items) == 3
    chat.evict(reasoning.id)
    assert [item.id for item in chat.items] == [question.id]

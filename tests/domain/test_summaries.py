"""What a summary tells and where it goes (SPEC V7)."""

from typing import Any

import pytest

from refold.domain.chat.events import ItemsPinned
from refold.domain.chat.rules.commands import Summarize, UndoSummary
from refold.domain.chat.rules.decide import CHAT
from refold.domain.chat.rules.summaries import plan_summary
from refold.domain.chat.state.fold import EMPTY, ChatState, fold
from refold.domain.errors import InvalidInputError, NotFoundError
from refold.domain.spans import Span

from .chat_events import OPENED, STREAM, called, configured, handed, returned, said

OLD = said("old", role="assistant", extra=b'{"summary":true}')
TALK: list[Any] = [
    said("s", role="system"), OLD, said("u1"), called("f1"), called("f2"), returned("o1"), handed("h"),
    said("u2", created_at=2.5), returned("o2", call_id="f2"), configured("c", instructions="x"), said("u3"),
]  # fmt: skip


def state_of(*events: Any) -> ChatState:
    """Return the state after an opening and these events."""
    return fold(EMPTY, [OPENED, *events])


@pytest.mark.parametrize(
    ("keep", "told", "before"),
    [(1, "u1 f1 f2 o1 u2 o2", "u3"), (2, "u1 f1 o1", "u2"), (0, "", ""), (3, "", ""), (9, "", "")],
)
def test_what_is_told(keep: int, told: str, before: str) -> None:
    """All before the cut but what is structural, and but a call whose output stays (V7.1 to V7.4, V7.7, V7.9)."""
    plan = plan_summary(state_of(*TALK).items, keep)

    if not told:
        assert plan is None
        return
    assert plan is not None
    assert (" ".join(item.id for item in plan.items), plan.before) == (told, before)
    assert [item.id for item in plan.prior] == ["old"]


RUN: list[Any] = [
    said("s", role="system"), said("u1"), said("a1", role="assistant"), called("f1"), called("f2"), returned("o1"),
    returned("o2", call_id="f2"), said("a2", role="assistant"), called("f3"), returned("o3", call_id="f3"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("talk", "keep", "told", "before"),
    [
        (RUN, 1, "a1 f1 f2 o1 o2", "a2"),
        (RUN, 3, "a1 f1 f2 o1 o2", "a2"),
        (RUN, 4, "", ""),
        (RUN, 99, "", ""),
        (TALK, 1, "u1 f1 f2 o1 u2 o2", "u3"),
        (TALK, 3, "u1", "f1"),
    ],
)
def test_what_is_told_within_a_turn(talk: list[Any], keep: int, told: str, before: str) -> None:
    """All before the answer that the last items begin in, but the last user message and what is structural."""
    plan = plan_summary(state_of(*talk).items, 3, keep)

    found = ("", "") if plan is None else (" ".join(item.id for item in plan.items), plan.before)
    assert found == (told, before)
    with pytest.raises(InvalidInputError, match="keep_items is 0: take 1 or more"):
        plan_summary(state_of(*talk).items, 3, 0)


def test_what_is_pinned_is_not_told() -> None:
    """Nor what goes with it; and the summary bears the time of the last item before the cut."""
    plan = plan_summary(state_of(*TALK, ItemsPinned(items=(Span.of("", [3, 7]),))).items, 2)

    assert plan is not None
    assert ([item.id for item in plan.items], plan.prior, plan.created_at) == (["u1"], (), 1.5)


def test_turns_below_zero() -> None:
    """They are refused."""
    with pytest.raises(InvalidInputError, match="keep_recent_turns is -1"):
        plan_summary(state_of(*TALK).items, -1)


def test_undoing_by_id() -> None:
    """The one that is meant; what was never a summary of this context cannot be undone."""
    state = state_of(*TALK)
    command = Summarize(STREAM, ("old", "u1", "f1", "o1"), "u2", said("new", role="assistant"))
    told = fold(state, CHAT.decide(command, state))
    back = fold(told, CHAT.decide(UndoSummary(STREAM, "new"), told))

    assert [item.id for item in told.items] == ["s", "f2", "h", "new", "u2", "o2", "c", "u3"]
    assert list(back.items) == list(state.items)
    assert back.items.totals == state.items.totals
    for wanted in ("old", "u2", "nobody", None):
        with pytest.raises(NotFoundError, match="no summary"):
            CHAT.decide(UndoSummary(STREAM, wanted), back)

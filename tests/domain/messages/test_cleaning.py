"""What is left of messages that are to be replayed (SPEC D12.6 to D12.9, D12.14)."""

from typing import Any

import pytest
from pydantic import BaseModel

from refold.domain.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage, clean_messages

H, S = HumanMessage("h"), SystemMessage("s")


def asks(*ids: str | None, text: Any = "", **fields: Any) -> AIMessage:
    """Return an assistant message with a call for each id."""
    return AIMessage(text, tool_calls=[{"name": "f", "args": {}, "id": one} for one in ids], **fields)


def answers(call_id: str, text: str = "r") -> ToolMessage:
    """Return a tool's result."""
    return ToolMessage(text, tool_call_id=call_id)


AB = asks("a", "b")
A, B = answers("a"), answers("b")
END = AIMessage("end")


@pytest.mark.parametrize(
    ("messages", "kept"),
    [
        ([S, H], [H]),
        ([H, AB, A, B, END], [H, AB, A, B, END]),
        ([H, AB, A, H], [H, H]),
        ([AB, B, A], [AB, B, A]),
        ([H, A], [H]),
        ([asks("a"), H, A], [H]),
        ([asks("a"), S, A], [asks("a"), A]),
        ([asks("a"), A, answers("a", "again")], [asks("a"), A]),
        ([asks("a"), answers("zz"), A, answers("zz")], [asks("a"), A]),
        ([asks("a"), asks("b"), B], [asks("b"), B]),
        ([asks(None, "", " ", text="t")], [asks(None, "", " ", text="t")]),
        ([asks("a")], []),
        ([], []),
    ],
    ids=[
        "system", "complete", "partial", "order of arrival", "orphan result", "too late", "system between",
        "duplicate", "unknown id", "another assistant", "no ids", "trailing", "nothing",
    ],
)  # fmt: skip
def test_calls_and_results_stay_together(messages: list[Any], kept: list[Any]) -> None:
    """D12.6 to D12.8: system messages go, a call stays if all results follow, results without a call go."""
    assert clean_messages(messages) == kept


def test_an_id_asked_for_twice_needs_two_results() -> None:
    """A result answers one call, though two have the same id."""
    twice = asks("a", "a")

    assert clean_messages([twice, A]) == []
    assert clean_messages([twice, A, answers("a", "again")]) == [twice, A, answers("a", "again")]


def test_the_text_of_an_orphan_stays() -> None:
    """D12.9, repaired: the text is kept, its calls and their results go."""
    lost = asks("a", "b", text="Let me see.", id="m1", name="n", additional_kwargs={"tool_calls": [1], "x": 2})

    assert clean_messages([lost, A, H]) == [
        AIMessage("Let me see.", id="m1", name="n", additional_kwargs={"x": 2}),
        H,
    ]


def test_other_fields_of_a_dict_stay() -> None:
    """A dict may have anything beside its calls, as another program wrote it."""
    lost = {"role": "assistant", "content": "t", "tool_calls": [{"id": "a"}], "additional_kwargs": "x"}

    assert clean_messages([lost]) == [{**lost, "tool_calls": []}]


@pytest.mark.parametrize(
    ("content", "left"),
    [
        ("  \n", None),
        ([{"type": "text", "text": " "}, {"type": "tool_use", "id": "a"}], None),
        ([{"type": "tool_use", "id": "a"}, {"type": "text", "text": "t"}], [{"type": "text", "text": "t"}]),
        (["t"], ["t"]),
        ([{"type": "image_url", "image_url": "u"}], [{"type": "image_url", "image_url": "u"}]),
    ],
)
def test_calls_among_the_parts_go_too(content: Any, left: Any) -> None:
    """D12.9: of a list the parts that are calls go with the calls; what says nothing is not kept."""
    assert clean_messages([asks("a", text=content)]) == ([] if left is None else [AIMessage(left)])


def test_what_was_given_comes_back() -> None:
    """Messages that stay are the same objects, whatever they are made of; none is changed."""
    given = [{"type": "human", "content": "h"}, asks("a"), A, {"role": "assistant", "content": "t"}]

    kept = clean_messages(given)

    assert [id(one) for one in kept] == [id(one) for one in given]


@pytest.mark.parametrize("where", ["top", "additional_kwargs"])
def test_dicts(where: str) -> None:
    """D12.5, D12.14: dicts work as well, with calls at the top or in `additional_kwargs`."""
    calls = {"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]}
    asked = {"role": "assistant", "content": "t", **(calls if where == "top" else {"additional_kwargs": calls})}
    result = {"role": "tool", "tool_call_id": "a", "content": "r"}

    assert clean_messages([asked, result]) == [asked, result]
    (left,) = clean_messages([asked])
    assert left["content"] == "t"
    assert "'a'" not in str(left)


def test_objects_of_other_packages() -> None:
    """Classes are known by their names, their bases' too; what has to be copied stays of its make."""

    class AIMessage(BaseModel):
        """One of another package."""

        content: str
        tool_calls: list[dict[str, Any]] = []
        invalid_tool_calls: list[Any] = []
        additional_kwargs: dict[str, Any] = {}

    class AIMessageChunk(AIMessage):
        """A part of one."""

    call = {"name": "f", "args": {}, "id": "a"}
    asked = AIMessageChunk(content="t", tool_calls=[call])

    assert clean_messages([asked, A]) == [asked, A]
    assert clean_messages([asked, H]) == [AIMessageChunk(content="t"), H]
    assert asked.tool_calls == [call]


def test_what_is_no_message_interrupts() -> None:
    """Something unknown stays, and comes between a call and its result as anybody's words do."""
    assert clean_messages([asks("a"), 7, A]) == [7]

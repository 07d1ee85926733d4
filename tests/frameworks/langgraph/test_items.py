"""The items that messages of a thread become, as other readers of its chat see them."""

import dataclasses
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from refold.chat import FunctionCall, FunctionCallOutput
from refold.infrastructure.store import Store
from refold.langgraph import RefoldSaver

from .graphs import chatting, put, said, thread, values

USAGE: Any = {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9}


@dataclasses.dataclass
class City:
    """A type of the user's, which is no JSON."""

    name: str


def counted(store: Store) -> tuple[int, int]:
    """Return the tokens that a provider counted in a store."""
    rows = store.usage(by=["context"])
    return sum(row.counted_in for row in rows), sum(row.counted_out for row in rows)


def test_an_answer_that_is_changed_counts_once(store: Store) -> None:
    """A node may mark a message, or redact it: the model gave one answer. Another answer under its id counts, too."""
    contents = ["", "fine", "[redacted]", "fine again", "[redacted again]"]
    other = USAGE | {"input_tokens": 8}
    usages = [None, USAGE, USAGE, other, other]

    def answer(state: Any) -> dict[str, Any]:
        turn = sum(message.type == "human" for message in state["messages"]) - 1
        about = {"model_name": "gpt"} if usages[turn] else {}
        return {"messages": [AIMessage(contents[turn], id="a", usage_metadata=usages[turn], response_metadata=about)]}

    for turn, expected in enumerate([(0, 0), (7, 2), (7, 2), (15, 4), (15, 4)]):
        chatting(RefoldSaver(store), answer).invoke(said("hello", f"h{turn}"), thread())
        assert counted(store) == expected
    shown = store.chat("t").messages()
    assert [item.text for item in shown] == ["hello", "[redacted again]", *["hello"] * 4]
    assert shown[1].metrics == {"model": "gpt"}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_message_with_an_object_in_it_has_its_items(store: Store) -> None:
    """What a client parsed, or an artifact of a tool, leaves the call, its output, their names and the tokens."""
    call = {"name": "find", "args": {"q": "Lyon"}, "id": "c1"}
    beside = {"parsed": City("Lyon")}
    answer = AIMessage("", id="a", name="scout", tool_calls=[call], usage_metadata=USAGE, additional_kwargs=beside)
    output = ToolMessage("none", tool_call_id="c1", id="o", name="find", status="error", artifact=City("Lyon"))
    put(RefoldSaver(store), thread(), messages=[HumanMessage("where?", id="h"), answer, output])

    called, returned = store.chat("t").items[1:]
    assert isinstance(called, FunctionCall)
    assert (called.name, called.agent_id, called.arguments) == ("find", "scout", '{"q":"Lyon"}')
    assert isinstance(returned, FunctionCallOutput)
    assert (returned.name, returned.is_error) == ("find", True)
    assert [message["role"] for message in store.chat("t").to_openai_messages()] == ["user", "assistant", "tool"]
    assert counted(store) == (7, 2)
    assert [message.id for message in values(RefoldSaver(store), thread())["messages"]] == ["h", "a", "o"]


class Noted(HumanMessage):
    """A message of the user's own class."""

    tool_calls: Any = None
    role: Any = None


@pytest.mark.parametrize("calls", [None, 4, [{"id": 3, "name": "x"}], [{"args": "no JSON"}], ["x"]])
def test_a_message_of_a_class_of_ones_own_may_have_any_fields(memory: Store, calls: Any) -> None:
    """Under the names of LangChain's, too. What is no call is not shown as one."""
    messages = [Noted("hello", id="h", tool_calls=calls, role=["a"])]
    answer = AIMessage("fine", id="a", response_metadata={"logprobs": City("Lyon")})
    put(RefoldSaver(memory), thread(), messages=[*messages, answer])

    assert [item.type for item in memory.chat("t").items] == ["message", "message"]
    assert [message.id for message in values(RefoldSaver(memory), thread())["messages"]] == ["h", "a"]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"},
        {"type": "image", "source_type": "base64", "data": "iVBORw0KGgo=", "mime_type": "image/png"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
        {"type": "image", "url": "data:image/png;base64,iVBORw0KGgo="},
        {"type": "image_url", "image_url": "data:image/png;base64,iVBORw0KGgo="},
        {"type": "image", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
    ],
)
def test_an_image_in_a_block_of_any_form_is_an_image(memory: Store, block: dict[str, Any]) -> None:
    """Others see it and can send it, and the message comes back as it was; a file or an unknown block is no image."""
    others = [{"type": "file", "base64": "JVBERi0=", "mime_type": "application/pdf"}, {"type": "image", "file_id": "f"}]
    messages = [HumanMessage([block, *others, {"type": "text", "text": "see"}], id="h")]
    put(RefoldSaver(memory), thread(), messages=messages)

    image, text = memory.chat("t").to_openai_messages()[0]["content"]
    assert image["image_url"]["url"] == "data:image/png;base64,iVBORw0KGgo="
    assert text == {"type": "text", "text": "see"}
    assert values(RefoldSaver(memory), thread())["messages"] == messages

"""OpenAI messages of every shape that people have: what Hypothesis draws conversations from."""

from typing import Any

from hypothesis import strategies as st

from tests.domain.strategies import JSON, TEXT

Message = dict[str, Any]

CALL_ID = st.sampled_from(["call_1", "call_2", ""])
NAME = st.sampled_from(["look_up", "pay", "über"])
# No name here has a meaning in a message.
EXTRA = st.dictionaries(st.sampled_from(["audio", "refusal", "x", "drop", "set", "is", "in", "漢"]), JSON, max_size=2)
ABSENT = object()


def with_fields(base: Message, **fields: Any) -> Message:
    """Return an object with those fields that are not absent."""
    return {**base, **{name: value for name, value in fields.items() if value is not ABSENT}}


def or_absent(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw from a strategy, or leave the field out."""
    return st.just(ABSENT) | strategy


IMAGE_URL = st.builds(
    with_fields,
    EXTRA,
    url=TEXT,
    detail=or_absent(st.sampled_from(["auto", "low", "high", "original", None, 1])),
)
PART: st.SearchStrategy[Message] = st.one_of(
    st.builds(with_fields, EXTRA, type=st.just("text"), text=TEXT),
    st.builds(with_fields, EXTRA, type=st.just("image_url"), image_url=IMAGE_URL | JSON),
    st.builds(with_fields, EXTRA, type=st.just("input_audio"), input_audio=JSON),
    st.builds(with_fields, EXTRA, type=st.just("file"), file=JSON),
    st.builds(with_fields, EXTRA, type=st.just("refusal"), refusal=TEXT),
    EXTRA,
)
CONTENT = or_absent(st.none() | TEXT | st.lists(PART, max_size=4))
FUNCTION = st.builds(with_fields, EXTRA, name=NAME, arguments=TEXT)
CALL = st.builds(
    with_fields,
    EXTRA,
    id=CALL_ID,
    type=or_absent(st.sampled_from(["function", "other", None])),
    function=FUNCTION,
) | st.builds(
    with_fields,
    EXTRA,
    id=CALL_ID,
    type=st.just("custom"),
    custom=st.builds(with_fields, EXTRA, name=NAME, input=TEXT),
)
SPOKEN = st.builds(
    with_fields,
    EXTRA,
    role=st.sampled_from(["system", "developer", "user", "assistant"]),
    content=CONTENT,
    name=or_absent(JSON),
)
CALLING = st.builds(
    with_fields,
    EXTRA,
    role=st.just("assistant"),
    content=CONTENT,
    tool_calls=or_absent(st.none() | st.lists(CALL, max_size=3)),
    function_call=or_absent(st.none() | FUNCTION),
)
OUTPUT = st.builds(
    with_fields,
    EXTRA,
    role=st.just("tool"),
    tool_call_id=CALL_ID,
    name=or_absent(NAME | JSON),
    content=CONTENT,
)
OLD_OUTPUT = st.builds(with_fields, EXTRA, role=st.just("function"), name=NAME, content=CONTENT)
CONVERSATION = st.lists(st.one_of(SPOKEN, CALLING, CALLING, OUTPUT, OLD_OUTPUT), max_size=8)

"""Anthropic messages of every shape that people have: what Hypothesis draws conversations from."""

from typing import Any

from hypothesis import strategies as st

from tests.domain.strategies import JSON, JSON_OBJECT, TEXT

from .openai_strategies import CALL_ID, EXTRA, NAME, or_absent, with_fields

CACHED = {"type": "ephemeral"}
MARK = or_absent(st.just(CACHED))
SOURCE = st.one_of(
    st.fixed_dictionaries({
        "type": st.just("base64"), "media_type": st.sampled_from(["image/png", "a;b", ""]), "data": TEXT
    }),
    st.fixed_dictionaries({"type": st.just("url"), "url": TEXT | st.just("data:image/png;base64,AA==")}),
    st.fixed_dictionaries({"type": st.just("file"), "file_id": TEXT}),
)  # fmt: skip
SAID = st.builds(with_fields, EXTRA, type=st.just("text"), text=TEXT, cache_control=MARK, citations=or_absent(JSON))
IMAGE = st.builds(with_fields, EXTRA, type=st.just("image"), source=SOURCE, cache_control=MARK)
KEPT = st.one_of(
    st.builds(with_fields, EXTRA, type=st.just("thinking"), thinking=TEXT, signature=TEXT),
    st.builds(with_fields, st.just({}), type=st.just("redacted_thinking"), data=TEXT),
    st.builds(with_fields, st.just({}), type=st.just("document"), source=SOURCE, cache_control=MARK),
    st.builds(with_fields, st.just({}), type=st.just("server_tool_use"), id=CALL_ID, name=NAME, input=JSON_OBJECT),
    st.builds(with_fields, EXTRA, type=st.just("new_kind") | JSON),
)
USE = st.builds(
    with_fields, EXTRA, type=st.just("tool_use"), id=CALL_ID, name=NAME, input=or_absent(JSON_OBJECT | JSON),
    cache_control=MARK,
)  # fmt: skip
RESULT = st.builds(
    with_fields, EXTRA, type=st.just("tool_result"), tool_use_id=CALL_ID, is_error=or_absent(st.booleans() | JSON),
    content=or_absent(st.none() | TEXT | st.lists(SAID | IMAGE | KEPT, max_size=3) | JSON_OBJECT), cache_control=MARK,
)  # fmt: skip


def messages(role: str, *blocks: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw messages of a role that hold such blocks, or text."""
    content = TEXT | st.lists(st.one_of(*blocks), max_size=5)
    return st.builds(with_fields, EXTRA, role=st.just(role), content=content, id=or_absent(TEXT), usage=or_absent(JSON))


MESSAGE = st.one_of(
    messages("user", RESULT, RESULT, SAID, IMAGE, KEPT),
    messages("assistant", KEPT, SAID, USE, USE),
    messages("assistant", KEPT, SAID, USE, IMAGE, RESULT),
    messages("system", SAID, KEPT),
)
CONVERSATION = st.lists(MESSAGE, max_size=6)
SYSTEM = st.none() | TEXT | st.lists(SAID | KEPT, max_size=3)

"""The context of a request, as the seed has it and with a store behind it (SPEC A3)."""

import copy
import dataclasses
from collections.abc import Iterator

import pytest

import refold
from refold import Store
from refold.domain.errors import InvalidInputError
from refold.domain.memory.records import MemoryRecord, MemoryStore
from refold.domain.window.items import ContextItem
from refold.domain.window.window import AgentContext, ContextWindow

from .windows import keys


@pytest.fixture
def store() -> Iterator[Store]:
    """An empty store in memory."""
    with refold.open(":memory:") as store:
        yield store


def test_fields_and_defaults() -> None:
    """A3.1 to A3.3, A3.6: in their order, two required, and fresh ones for each."""
    fields = ["trace_id", "endpoint_name", "session_id", "user_id", "metadata", "context_window", "memory"]
    one, other = AgentContext("t", "e"), AgentContext("t", "e")

    assert [field.name for field in dataclasses.fields(AgentContext)] == fields
    assert (one.session_id, one.user_id, one.metadata, one.context_window, one.memory) == (
        None, None, {}, ContextWindow(), None,
    )  # fmt: skip
    assert one.metadata is not other.metadata
    assert one.context_window is not other.context_window
    assert one == other
    with pytest.raises(TypeError):
        AgentContext("t")  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        one.x = 1  # type: ignore[attr-defined]


def test_add_context() -> None:
    """A3.4, A3.5: an item comes in, from the agent by default; what does not fit is dropped, and told."""
    context = AgentContext("t", "e", context_window=ContextWindow(8))
    context.add_context("k", "v")
    context.add_context("k2", "v", source="tool", priority=3)

    assert context.context_window.items == [ContextItem("k", "v", "agent", 0)]
    assert context.context_window.dropped()[0].item == ContextItem("k2", "v", "tool", 3)
    with pytest.raises(TypeError):
        context.add_context("k", "v", "tool")  # type: ignore[call-arg]


def test_a_context_is_copied() -> None:
    """As a dataclass is, its window too."""
    context = AgentContext("t", "e")
    context.add_context("k", "v")
    copied = copy.deepcopy(context)
    copied.context_window.clear()

    assert dataclasses.asdict(context)["context_window"] == dataclasses.asdict(context.context_window)
    assert keys(context.context_window) == "k"
    assert repr(context).startswith("AgentContext(trace_id='t', endpoint_name='e', session_id=None")


async def test_a_session_is_kept(store: Store) -> None:
    """A3.7: the next request of the session finds what the last one left, and what it remembered."""
    first = store.agent_context("t1", "orders", session_id="s1", metadata={"a": 1})
    first.add_context("order", "7")
    assert isinstance(first.memory, MemoryStore)
    await first.memory.put(MemoryRecord(scope="session:s1", key="last", value=7))

    second = store.agent_context("t2", "billing", session_id="s1", user_id="mia")
    assert second.memory is not None
    record = await second.memory.get(scope="session:s1", key="last")

    assert (keys(second.context_window), record and record.value, first.metadata) == ("order", 7, {"a": 1})
    assert keys(store.agent_context("t3", "orders", session_id="s2").context_window) == ""
    assert keys(store.agent_context("t4", "orders").context_window) == ""


async def test_whose_doing_it_was(store: Store) -> None:
    """Every event bears the trace, and the endpoint as the actor, unless somebody else is said to act."""
    context = store.agent_context("t1", "orders", session_id="s1", user_id="mia")
    assert context.memory is not None
    context.add_context("a", "v")
    with refold.acting(actor="mia", correlation_id="outer"):
        context.context_window.add(ContextItem("b", "v", "s"))
        context.context_window.name_version("here")
    await context.memory.put(MemoryRecord(scope="user:mia", key="k", value=1))

    metas = [(one.meta.actor, one.meta.correlation_id) for one in context.context_window.recorded_events()]
    assert metas == [("orders", "t1"), ("orders", "t1"), ("mia", "t1"), ("mia", "t1")]
    (change,) = await store.memory().history(scope="user:mia")
    assert (change.actor, change.correlation_id) == ("orders", "t1")
    (opened,) = [row for row in store.contexts() if row.kind == "window"]
    assert (opened.id, opened.version) == ("s1", 4)


def test_any_session_id(store: Store) -> None:
    """What an id cannot hold is percent-encoded; what is too long is refused."""
    context = store.agent_context("t", "e", session_id="mia@example.org", max_tokens=50)
    context.add_context("k", "v")

    assert context.context_window.id == "mia%40example.org"
    assert keys(store.agent_context("t", "e", session_id="mia@example.org").context_window) == "k"
    with pytest.raises(InvalidInputError):
        store.agent_context("t", "e", session_id="x" * 256)
    with pytest.raises(InvalidInputError):
        store.agent_context("t", "e", session_id="mia@example.org", max_tokens=51)

"""Handing out by annotation: to which parameters, and what a call gives itself (SPEC P6.16, P7.7 to P7.13)."""

import asyncio
import inspect
import logging
from typing import TYPE_CHECKING, Annotated, Any, Optional, TypeVar

import pytest

from refold.domain.hooks.hook import Injection, TurnHook, current_context_queue, inject_context_deps, injecting
from refold.domain.hooks.registry import hook
from refold.domain.pool.items import ContextItem
from refold.domain.pool.pool import ContextPool
from refold.domain.pool.queue import ContextQueue, ReadOnlyQueue

if TYPE_CHECKING:
    from decimal import Decimal as Unknown


class OwnQueue(ContextQueue[str]):
    """A subclass, as a user may write."""


QUEUE, POOL, OWN = ContextQueue[Any](3), ContextPool[Any](), OwnQueue(3)


def handed(annotation: Any, *args: Any, queue: Any = QUEUE, **kwargs: Any) -> dict[str, Any]:
    """Return the arguments of a call of a function whose parameter `it`, behind `text`, has this annotation."""

    def fn(text: str = "", it: Any = None) -> None: ...

    fn.__annotations__["it"] = annotation
    with injecting(queue, POOL):
        return Injection(fn, "fn", is_tool=False).complete(args, kwargs)


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (ContextQueue, QUEUE),
        (ContextPool, POOL),
        (ContextQueue | None, QUEUE),
        (Optional[ContextPool], POOL),  # noqa: UP045 - written so by many
        (ContextQueue[str], QUEUE),
        (ContextPool[int] | None, POOL),
        (Annotated[ContextQueue[Any], "recent"], QUEUE),
        ("ContextQueue | None", QUEUE),
    ],
)
def test_queues_and_pools_are_handed_out(annotation: Any, expected: Any) -> None:
    """Also where they are parameterised, or may be None (SPEC P7.7, P7.10)."""
    assert handed(annotation)["it"] is expected


T = TypeVar("T")


@pytest.mark.parametrize("annotation", [list[ContextQueue[Any]], dict[str, ContextPool[Any]], Any, object, T, None])
def test_nothing_else_is_handed_out(annotation: Any) -> None:
    """Least of all a queue where a list of queues is asked for (SPEC P7.10)."""
    assert handed(annotation) == {}


def test_a_subclass_is_handed_out_where_the_agent_has_one() -> None:
    """Another queue would not be what was asked for (SPEC P7.10)."""
    assert handed(OwnQueue, queue=OWN) == {"it": OWN}
    assert handed(ContextQueue, queue=OWN) == {"it": OWN}
    assert handed(OwnQueue, queue=QUEUE) == {}


def test_what_the_call_gives_stays() -> None:
    """By name or by position, and also None (SPEC P7.8, P7.9)."""
    assert handed(ContextQueue, it=None) == {"it": None}
    assert handed(ContextQueue, "text", OWN) == {}
    assert handed(ContextQueue, "text") == {"it": QUEUE}


def test_outside_of_a_turn_nothing_is_handed_out() -> None:
    """The block ends it, also when it raises (SPEC P7.12, P7.13)."""

    def fn(it: ContextQueue[Any]) -> None: ...

    with pytest.raises(RuntimeError), injecting(QUEUE, POOL):
        raise RuntimeError

    assert current_context_queue.get() is None
    assert Injection(fn, "fn", is_tool=True).complete((), {}) == {}


def test_an_annotation_that_cannot_be_resolved_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """And does not keep the others from being served (SPEC P7.11)."""

    def fn(unknown: "Unknown", it: "ContextQueue[Any]") -> None: ...

    injection = Injection(fn, "hook 'fn'", is_tool=False)
    with injecting(QUEUE, POOL), caplog.at_level(logging.WARNING):
        assert injection.complete((1,), {}) == {"it": QUEUE}
        assert caplog.records == []
        assert injection.complete((), {}) == {"it": QUEUE}
        assert injection.complete((), {}) == {"it": QUEUE}

    assert len(caplog.records) == 1
    assert "'Unknown' of the parameter 'unknown' of hook 'fn' cannot be resolved" in caplog.text


def test_a_call_that_does_not_fit_says_so_itself() -> None:
    """Handing out does not stand in the way of the error."""
    assert handed(ContextQueue, 1, 2, 3, it=4) == {"it": 4}


def test_a_function_may_be_asked_about_once() -> None:
    """The seed's way, without a tool; what is handed out by the variable alone is handed out itself."""

    def fn(text: str, it: ContextQueue[Any]) -> None: ...

    token = current_context_queue.set(QUEUE)
    assert inject_context_deps(fn, {"text": "t"}) == {"text": "t", "it": QUEUE}
    current_context_queue.reset(token)


def test_parameters_that_cannot_be_named_are_left_alone() -> None:
    """A call could not give them by name."""

    def fn(first: ContextQueue[Any], /, *rest: ContextQueue[Any], **named: ContextPool[Any]) -> None: ...

    with injecting(QUEUE, POOL):
        assert Injection(fn, "fn", is_tool=True).complete((), {}) == {}


def test_tools_get_a_view_and_hooks_the_thing_itself() -> None:
    """Tools are to read only (SPEC P7.17)."""

    def fn(it: ContextQueue[Any]) -> None: ...

    with injecting(QUEUE, POOL):
        [as_tool] = Injection(fn, "fn", is_tool=True).complete((), {}).values()
        [as_hook] = Injection(fn, "fn", is_tool=False).complete((), {}).values()

    assert (type(as_tool), as_hook) == (ReadOnlyQueue, QUEUE)


def test_a_hook_is_handed_what_it_asks_for() -> None:
    """While a turn runs; what the hook is called with comes first (SPEC P6.16)."""
    queue, pool = ContextQueue[Any](2), ContextPool[Any]()

    @hook(TurnHook.BEFORE_RUN)
    async def remembering(shown: ContextQueue[Any], memory: ContextQueue[Any], known: ContextPool[Any]) -> None:
        await memory.append(ContextItem(len(shown)))
        await known.add(ContextItem(1, "one", "1"))

    with injecting(queue, pool):
        asyncio.run(remembering(ContextQueue[Any](1)))

    assert [item.content for item in queue] == [0]
    assert "1" in pool


def test_a_hook_shows_its_functions_signature() -> None:
    """What is asked for is read from there."""

    @hook(TurnHook.BEFORE_RUN)
    async def asking(memory: ContextQueue[Any]) -> None: ...

    assert list(inspect.signature(asking).parameters) == ["memory"]

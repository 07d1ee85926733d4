"""
Replays "queue and pool operations": the arguments of hooks, the refusals, and the items at the end (SPEC P2 to P4).
"""

import asyncio
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from refold.domain.hooks.hook import ContextPoolHook, ContextQueueHook, Hook
from refold.domain.pool.items import ContextItem
from refold.domain.pool.pool import ContextPool
from refold.domain.pool.queue import ContextQueue

from .conversions import never
from .homes import kept
from .verdicts import Question, Verdict, cases, verdict_of, weighed

Container = ContextQueue[Any] | ContextPool[Any]
# Hooks were given to the first container under this name; branches inherited them with it.
FIRST = "o0"


def replayed_containers(text: str) -> Iterator[Verdict]:
    """Return the verdict on each case of a file of JSON lines."""
    for case in cases(text):
        recorded = {"errors": [step.get("error") for step in case["ops"]], "log": case["log"]}
        question = Question("answer", {**recorded, "final": case["final"]}, partial(asked, case), never)
        yield verdict_of(str(case["seed"]), {"answer": weighed(question)})


def asked(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results of our queues and pools for the operations of a case."""
    made: Container = ContextQueue(case["limit"]) if case["kind"] == "queue" else ContextPool(case["limit"])
    first, told = kept(made), list[Any]()
    _listen(first, told)
    containers = [first]
    errors = asyncio.run(_run(case["ops"], containers))
    return {"errors": errors, "log": told, "final": [_left(one) for one in containers]}


async def _run(steps: list[Mapping[str, Any]], containers: list[Container]) -> list[str | None]:
    errors: list[str | None] = []
    for step in steps:
        try:
            await _do(step, containers)
            errors.append(None)
        except Exception as error:
            # The original raises errors of Python's own, from which ours are derived.
            errors.append(next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"))
    return errors


async def _do(step: Mapping[str, Any], containers: list[Container]) -> None:
    on: Any = containers[step["on"]]
    match step["op"]:
        case "append":
            await on.append(*map(ContextItem, step["args"]))
        case "add":
            await on.add(ContextItem(*step["args"]))
        case "remove":
            await on.remove(step["args"])
        case "clear":
            await on.clear()
        case "branch":
            containers.append(on.branch(**step["args"]))
        case other:
            raise NotImplementedError(other)


def _listen(container: Container, told: list[Any]) -> None:
    kinds: Any = ContextQueueHook if isinstance(container, ContextQueue) else ContextPoolHook

    def at(kind: str) -> Any:
        async def hear(*args: Any) -> None:
            told.append([FIRST, kind, [_plain(one) for one in args]])

        return hear

    container.hooks += [Hook(at(kind.value), kind) for kind in kinds]


def _plain(value: Any) -> Any:
    if isinstance(value, ContextQueue | ContextPool):
        return {"self": [item.content for item in value.items]}
    if isinstance(value, ContextItem):
        return value.content
    return [_plain(one) for one in value] if isinstance(value, list) else list(value)


def _left(container: Container) -> dict[str, Any]:
    text = container.history() if isinstance(container, ContextQueue) else container.catalogue()
    return {"limit": container.limit, "items": [item.to_dict() for item in container.items], "text": text}

"""
What does it cost to convert a long context into the form of a provider, from memory and from the disk?

Raw writes one plain dict for each Struct that is in memory, and checks nothing. Refold pairs calls with outputs, and
repairs items that are not a valid prompt. It is compared with other packages, if they are installed: the package of the
seed, and LangChain's messages from LangGraph's saver. Reading from a store is a separate table, because each run uses a
new handle: each package opens its file, reads everything, and converts it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import refold
from refold.domain.chat.events import FunctionCalled, FunctionReturned

from ..bench import CONTEXT, Bench
from ..langgraph_threads import Threads
from ..peers import langchain_messages, openai_from_langchain, seed_context
from ..rows import MICROSECONDS, Row, Table
from ..timing import Stats, Task, measure
from ..workload import Item, items

FORMATS: dict[str, Callable[[refold.ChatContext], object]] = {
    "to_openai_messages": lambda chat: chat.to_openai_messages(),
    "to_openai_responses": lambda chat: chat.to_openai_responses(),
    "to_anthropic_messages": lambda chat: chat.to_anthropic_messages(),
    "to_google_json": lambda chat: chat.to_google_json(),
}
HEADERS = ("package", "what", "an item", "x Refold")


def convert(bench: Bench, database: str) -> Iterator[Row | Table]:
    """Convert into all formats; then compare with other packages, which know the format of OpenAI."""
    count, blocks = bench.scale.loaded, 2 * bench.scale.blocks
    base = items(count)
    with ExitStack() as stack:
        ours = stack.enter_context(bench.subjects(database, ("ours",), base)).ours
        chat = ours.store.chat(CONTEXT)
        structs = list(chat.recorded_items())
        convert_all: dict[str, Callable[[], object]] = {
            "raw": lambda: [_plain(struct) for struct in structs],
            **{name: partial(by, chat) for name, by in FORMATS.items()},
        }
        in_memory = _measured(convert_all | _in_memory(base), count, blocks)
        read = {"Refold": lambda: ours.store.chat(CONTEXT).to_openai_messages()}
        from_disk = _measured(read | _from_disk(count, bench.folder), count, blocks)
    for name in FORMATS:
        stats = {"ours": in_memory[name], "raw": in_memory["raw"]}
        yield Row(f"{name} of {count:,}, per item", database, MICROSECONDS, stats)
    memory = {"Refold": in_memory["to_openai_messages"]} | {n: s for n, s in in_memory.items() if n not in convert_all}
    lines = [*_lines("convert", memory), *_lines("read and convert", from_disk)]
    yield Table(f"{count:,} items to OpenAI's messages, {database}", HEADERS, lines)


def _plain(struct: Any) -> dict[str, Any]:
    if isinstance(struct, FunctionCalled):
        call = {"name": struct.name, "arguments": struct.arguments}
        return {"role": "assistant", "tool_calls": [{"id": struct.call_id, "type": "function", "function": call}]}
    if isinstance(struct, FunctionReturned):
        return {"role": "tool", "tool_call_id": struct.call_id, "content": struct.output}
    return {"role": struct.role, "content": struct.content[0]}


def _in_memory(base: list[Item]) -> dict[str, Callable[[], object]]:
    tasks: dict[str, Callable[[], object]] = {}
    messages = langchain_messages(base)
    if messages is not None:
        tasks["langchain-core"] = partial(openai_from_langchain, messages)
    make = seed_context(base)
    if make is not None:
        tasks["videosdk-agents"] = make().to_openai_messages
    return tasks


def _from_disk(count: int, folder: Path) -> dict[str, Callable[[], object]]:
    try:
        threads = Threads(str(folder / "saver.sqlite"), is_ours=False)
    except ModuleNotFoundError:
        return {}

    def read() -> object:
        threads.open()
        with closing(threads):
            return openai_from_langchain(threads.messages(CONTEXT))

    threads.open()
    with closing(threads):
        threads.begin(CONTEXT, count)
    return {"langgraph-checkpoint-sqlite": read}


def _measured(calls: dict[str, Callable[[], object]], count: int, blocks: int) -> dict[str, Stats]:
    tasks = {name: Task(run=lambda _, call=call: call(), per=count) for name, call in calls.items()}  # type: ignore[misc]
    return measure(tasks, blocks=blocks)


def _lines(what: str, measured: dict[str, Stats]) -> Iterator[list[str]]:
    ours = measured["Refold"].median
    for name, stats in measured.items():
        yield [name, what, f"{stats.median * 1e6:,.2f} µs", f"{stats.median / ours:,.2f}"]

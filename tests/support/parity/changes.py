"""Questions about a context that is truncated, forked, copied, merged or summarised (SPEC V2.21, V4 to V8)."""

import asyncio
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from refold.domain.chat.items import items_from_dict
from refold.domain.chat.window import ContextWindow
from tests.support.deviations import forking, joining, summarising, truncating
from tests.support.deviations.plain_items import Item, rendered
from tests.support.deviations.switches import explanation

from .contexts import ANSWER, SummaryModel, chat_of, shown, told
from .verdicts import Explain, Question

# The arguments of the recorded calls that the names of the answers do not contain.
RESULT_AGENT, COPIED_AGENT, COPIED_AGENT_AMONG_OTHERS = "sub", "a1", "a2"
TURNS_WITHOUT_TOOLS = 2
Answers = Mapping[str, Any]


def changes(items: Sequence[Item], other: Sequence[Item], answers: Answers) -> Iterator[Question]:
    """Yield the questions about changes; each one gets a separate context."""
    for limits, recorded in answers["truncate"].items():
        yield truncation(items, limits, recorded)
    for turns, recorded in answers["fork_filtered"].items():
        yield _fork(f"fork_filtered {turns}", items, recorded, recent_turns=int(turns))
    recorded = answers["fork_filtered_no_tools"]
    yield _fork("fork_filtered_no_tools", items, recorded, recent_turns=TURNS_WITHOUT_TOOLS, tools=())
    for switches, recorded in answers["copy"].items():
        yield _copy(items, switches.split(","), recorded)
    yield from _merges(items, other, answers)
    for keep, recorded in answers["summarize"].items():
        yield _summary(items, int(keep), recorded)
    for settings, recorded in answers["window"].items():
        yield _window(items, settings, recorded)
    yield from _insertions(items, other, answers)


def _by(numbers: Collection[str], model: Callable[[Collection[str]], Any]) -> Explain:
    return lambda recorded, ours: explanation(model, numbers, recorded=recorded, ours=ours)


def _ids(items: Sequence[Item]) -> set[str]:
    return {item["id"] for item in items}


def truncation(items: Sequence[Item], limits: str, recorded: Any, *, name: str = "truncate") -> Question:
    """Return the question which items a truncation to limits such as "items=3,tokens=90" leaves."""
    wanted: dict[str, Any] = {
        f"max_{limit}": int(bound) for limit, bound in (part.split("=") for part in limits.split(","))
    }
    return Question(
        f"{name} {limits}",
        recorded,
        lambda: shown(chat_of(items).truncate(**wanted, whole_turns=False), _ids(items)),
        _by(truncating.NUMBERS, lambda on: told(truncating.truncated(items, **wanted, on=on))),
    )


def _fork(name: str, items: Sequence[Item], recorded: Any, **wanted: Any) -> Question:
    return Question(
        name,
        recorded,
        lambda: shown(chat_of(items).fork_filtered(**wanted), _ids(items)),
        _by(forking.FORK_NUMBERS, lambda on: told(forking.fork_filtered(items, **wanted, on=on))),
    )


def _copy(items: Sequence[Item], switches: Sequence[str], recorded: Any) -> Question:
    """The recording gave an empty list of tools, and one agent."""
    excluded = [switch for switch in switches if switch.startswith("exclude")]
    agent_id = COPIED_AGENT if len(switches) == 1 else COPIED_AGENT_AMONG_OTHERS
    tools = () if "tools" in switches else None
    agent = agent_id if "filter_agent_id" in switches else None

    def ask() -> Any:
        options: dict[str, Any] = dict.fromkeys(excluded, True)
        return shown(chat_of(items).copy(**options, tools=tools, filter_agent_id=agent), _ids(items))

    def model(on: Collection[str]) -> Any:
        return told(forking.copied(items, excluded=excluded, tools=tools, agent_id=agent, on=on))

    return Question(f"copy {','.join(switches)}", recorded, ask, _by(forking.COPY_NUMBERS, model))


def _merges(items: Sequence[Item], other: Sequence[Item], answers: Answers) -> Iterator[Question]:
    known = _ids(items) | _ids(other)
    yield Question(
        "merge",
        answers["merge"],
        lambda: shown(asyncio.run(chat_of(items).merge(chat_of(other))), known),
        _by(joining.MERGE_NUMBERS, lambda on: told(joining.merged(items, other, on=on))),
    )

    def ask_result() -> Any:
        chat = asyncio.run(chat_of(items).merge_result(chat_of(other), agent_id=RESULT_AGENT))
        return [shown(chat, known), chat.items[-1].agent_id if chat.items else None]

    def model_result(on: Collection[str]) -> Any:
        result = joining.result_merged(items, other, agent_id=RESULT_AGENT, on=on)
        return [told(result), result[-1]["agent_id"] if result else None]

    yield Question("merge_result", answers["merge_result"], ask_result, _by(joining.RESULT_NUMBERS, model_result))

    def ask_summary() -> Any:
        model = SummaryModel()
        chat = asyncio.run(chat_of(items).merge_with_summary(chat_of(other), llm=model))
        return [shown(chat, known), model.asked]

    def model_summary(_on: Collection[str]) -> Any:
        asked = [text for text in [rendered(other)] if text.strip()]
        return [told([*items, *(summarising.summary_item(ANSWER) for _ in asked)]), asked]

    yield Question("merge_with_summary", answers["merge_with_summary"], ask_summary, _by((), model_summary))


def _summary(items: Sequence[Item], keep: int, recorded: Any) -> Question:
    def ask() -> Any:
        model = SummaryModel()
        chat = asyncio.run(chat_of(items).summarize(model, keep_recent_turns=keep))
        return [shown(chat, _ids(items)), model.asked]

    def model(on: Collection[str]) -> Any:
        left, asked = summarising.summarized(items, keep_recent_turns=keep, answer=ANSWER, on=on)
        return [told(left), asked]

    return Question(f"summarize {keep}", recorded, ask, _by(summarising.NUMBERS, model))


def _window(items: Sequence[Item], settings: str, recorded: Any) -> Question:
    wanted = json.loads(settings)

    def ask() -> Any:
        chat, model = chat_of(items), SummaryModel()
        asyncio.run(ContextWindow(**wanted, whole_turns=False).manage(chat, model))
        return [shown(chat, _ids(items)), len(model.asked)]

    def model(on: Collection[str]) -> Any:
        left, asked = summarising.windowed(items, wanted, answer=ANSWER, on=on)
        return [told(left), asked]

    return Question(f"window {settings}", recorded, ask, _by(summarising.WINDOW_NUMBERS, model))


def _insertions(items: Sequence[Item], other: Sequence[Item], answers: Answers) -> Iterator[Question]:
    known = _ids(items) | _ids(other)

    def ask_each() -> Any:
        chat = chat_of(items)
        for item in items_from_dict({"items": other}):
            chat.insert(item)
        return shown(chat, known)

    def ask_many() -> Any:
        chat = chat_of(items)
        chat.insert_many(items_from_dict({"items": other}))
        return shown(chat, known)

    for name, ask, incoming in (
        ("insert_each", ask_each, other),
        ("insert_many", ask_many, joining.by_time(other)),
    ):
        yield Question(name, answers[name], ask, _by(joining.INSERT_NUMBERS, _inserting(items, incoming)))


def _inserting(items: Sequence[Item], incoming: Sequence[Item]) -> Callable[[Collection[str]], Any]:
    return lambda on: told(joining.inserted(items, incoming, on=on))

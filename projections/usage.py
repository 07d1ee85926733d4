"""
How many tokens did which agent use, with which model, on which day? One row for each of the three together.

Tokens of appended items are estimated: `tokens_in` counts items that models read, `tokens_out` items that they wrote.
An item counts once, although a model reads it again with every call. Counts of providers are added if a message has
them: in its `metrics` (for a call in its `metadata`), as `usage` or beside it, with the field names of OpenAI,
Anthropic or `TokenBudget`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from ..domain.canonical import parse_json
from ..domain.chat.events import (
    ITEM_EVENTS,
    ChatItemEvent,
    Forked,
    FunctionCalled,
    InstructionsReplaced,
    ItemInserted,
    MessageAdded,
    Summarized,
    added_item,
)
from ..domain.chat.tokens import SCRIPTS, estimate_tokens
from ..domain.log.envelope import Event, RecordedEvent
from ..domain.messages import calls_of, kind_of
from ..domain.trajectory.events import MessageRecorded, PortraitWritten
from .json_texts import texts_of_run_event
from .rows import digest_of

# Each tuple lists the names that different providers give to the same field.
MODEL = ("model", "model_name", "model_id")
READ = ("input_tokens", "prompt_tokens")
WRITTEN = ("output_tokens", "completion_tokens")
CACHED = ("cached_tokens", "cache_read_input_tokens")
COUNTS = ("usage", "token_usage")
# A larger value cannot be a number of tokens, and is not counted.
COUNT_MAX = 1 << 40
DAY_MICROSECONDS = 86_400_000_000
# Events that follow each other are of the same few agents.
KEYS_KEPT_MAX = 1_024


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """
    The usage of a model by an agent on a day (UTC, `2026-11-21`); an empty text is "not given".

    `agent` is the agent of the item, else the agent that recorded it. `calls` counts calls of functions. `tokens_in`
    and `tokens_out` are estimated. `counted_in` and `counted_out` are the counts of providers; `counted_cached` is a
    part of `counted_in`.
    """

    key: str
    day: str
    agent: str
    model: str
    messages: int = 0
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    counted_in: int = 0
    counted_out: int = 0
    counted_cached: int = 0


class Usage:
    """The fold behind `store.usage()`."""

    name = "usage"
    version = 1
    row = UsageRow
    events: frozenset[type[Event]] = frozenset(
        (*ITEM_EVENTS, ItemInserted, InstructionsReplaced, Summarized, Forked, MessageRecorded, PortraitWritten)
    )

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """Return the key of the day, agent and model that the event counts for."""
        said = _said(event)
        return () if said is None else (_key(_day(event), said.agent, said.model),)

    def evolve(self, key: str, row: UsageRow | None, event: RecordedEvent) -> UsageRow:
        return self.evolve_all(key, row, (event,))

    def evolve_all(self, key: str, row: UsageRow | None, events: Sequence[RecordedEvent]) -> UsageRow:
        said = [one for one in map(_said, events) if one is not None]
        row = row or UsageRow(key=key, day=_named(_day(events[0])), agent=said[0].agent, model=said[0].model)
        return msgspec.structs.replace(
            row,
            messages=row.messages + sum(one.messages for one in said),
            calls=row.calls + sum(one.calls for one in said),
            tokens_in=row.tokens_in + sum(one.tokens for one in said if not one.is_models),
            tokens_out=row.tokens_out + sum(one.tokens for one in said if one.is_models),
            counted_in=row.counted_in + sum(_count(one.about, READ) for one in said),
            counted_out=row.counted_out + sum(_count(one.about, WRITTEN) for one in said),
            counted_cached=row.counted_cached + sum(_count(one.about, CACHED) for one in said),
        )


class _Said(NamedTuple):
    """The usage that an event adds: by whom, with which model, of which kind, and the metrics that came with it."""

    agent: str
    told_model: str | None = None
    about: Mapping[str, Any] = {}
    is_models: bool = False
    messages: int = 0
    calls: int = 0
    item: ChatItemEvent | None = None
    texts: tuple[str, ...] = ()

    @property
    def model(self) -> str:
        """The model that wrote the item; empty if it is not given."""
        names = (self.told_model, *map(self.about.get, MODEL if self.about else ()))
        return next((name for name in names if isinstance(name, str) and name), "")

    @property
    def tokens(self) -> int:
        """The estimated tokens."""
        return sum(map(SCRIPTS, self.texts)) if self.item is None else estimate_tokens(self.item)


def _said(event: RecordedEvent) -> _Said | None:
    recorded, actor = event.event, event.meta.actor or ""
    match recorded:
        case PortraitWritten(description=description, model=model):
            return _Said(actor, model, is_models=True, texts=(description,))
        case MessageRecorded():
            return _message(recorded, actor)
    item = added_item(recorded)
    model = recorded.model if isinstance(recorded, Summarized) else None
    return None if item is None else _item(item, item.agent_id or actor, model)


def _item(item: ChatItemEvent, agent: str, model: str | None) -> _Said:
    match item:
        case MessageAdded(role=role, metrics=metrics):
            is_models = role == "assistant"
            return _Said(agent, model, _open_json(metrics), is_models=is_models, messages=1, item=item)
        case FunctionCalled(metadata=metadata):
            return _Said(agent, model, _open_json(metadata), is_models=True, calls=1, item=item)
    return _Said(agent, item=item)


def _message(event: MessageRecorded, actor: str) -> _Said:
    record = parse_json(event.record)
    calls = calls_of(record)
    texts = (*texts_of_run_event(event).texts, *(msgspec.json.encode(call).decode() for call in calls))
    is_models = kind_of(record) == "assistant"
    about = _mapping(record.get("response_metadata"))
    return _Said(actor, None, about, is_models, messages=1, calls=len(calls), texts=texts)


def _count(about: Mapping[str, Any], names: Sequence[str]) -> int:
    """Return the number of tokens that a message has under one of `names`; 0 if it has none."""
    if not about:
        return 0
    for place in (*(_mapping(about.get(name)) for name in COUNTS), about):
        for name in names:
            count = place.get(name)
            if type(count) is int and 0 < count <= COUNT_MAX:
                return count
    return 0


def _open_json(data: bytes) -> Mapping[str, Any]:
    return _mapping(parse_json(data)) if data else {}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


@lru_cache(KEYS_KEPT_MAX)
def _key(day: int, agent: str, model: str) -> str:
    return f"{_named(day)}/{digest_of(agent)}/{digest_of(model)}"


def _day(event: RecordedEvent) -> int:
    """Return the day of an event, in days since 1970."""
    return event.recorded_at // DAY_MICROSECONDS


def _named(day: int) -> str:
    return (date(1970, 1, 1) + timedelta(days=day)).isoformat()


USAGE = Usage()

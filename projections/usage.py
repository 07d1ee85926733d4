"""
How many tokens did which agent use, with which model, in which context, on which day, and at which cost? One row for
each of the four together.

Tokens of appended items are estimated: `tokens_in` counts items that models read, `tokens_out` items that they wrote.
An item counts once, although a model reads it again with every call. Counts of providers and costs are added if an item
has them (`refold.domain.chat.usage`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from ..domain.canonical import parse_json
from ..domain.chat import events as chat
from ..domain.chat.tokens import DEFAULT, estimate_tokens
from ..domain.chat.usage import NANOS, NO_USAGE, Usage, usage_in, usage_of
from ..domain.clock import DAY_MICROSECONDS, DAY_SECONDS
from ..domain.errors import InvalidInputError
from ..domain.log.envelope import Event, RecordedEvent
from ..domain.messages import calls_of, kind_of
from ..domain.trajectory.events import MessageRecorded, PortraitWritten
from .catalogue import CatalogueRow
from .json_texts import texts_of_run_event
from .rows import digest_of

# In days since 1970, as all days here.
LAST_DAY = (date.max - date(1970, 1, 1)).days
# Events that follow each other are of the same few agents.
KEYS_KEPT_MAX = 1_024


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """
    The usage of a model by an agent in a context on a day (UTC, `2026-11-21`); an empty text is "not given".

    The day is the one on which an item happened, so imported history counts for its own days. `context` is the stream
    of the context. `agent` is the agent of the item, else that of its event. `calls` counts calls of functions.
    `tokens_in` and `tokens_out` are estimated. `counted_in` and `counted_out` are the counts of providers;
    `counted_cached` is a part of `counted_in`. `cost_nanos` is in billionths of a US dollar.
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
    context: str = ""
    cost_nanos: int = 0

    @property
    def cost(self) -> Decimal:
        """The cost in US dollars, exact."""
        return Decimal(self.cost_nanos) / NANOS


class UsageSum(UsageRow, frozen=True, kw_only=True):
    """The sum of some rows; `user` is that of their contexts."""

    user: str = ""


class UsageByContext:
    """The fold behind `store.usage()`."""

    name = "usage"
    version = 5
    row = UsageRow
    stays_in_slice = True
    events: frozenset[type[Event]] = frozenset(
        (
            *chat.ITEM_EVENTS,
            chat.ItemInserted,
            chat.InstructionsReplaced,
            chat.Summarized,
            chat.Forked,
            chat.MessageFinished,
            MessageRecorded,
            PortraitWritten,
        )
    )

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """Return the key of the day, agent, model and context that the event counts for."""
        added = _added_usage(event)
        return () if added is None else (_key(_day(event, added), added.agent, added.model, event.stream),)

    def evolve(self, key: str, row: UsageRow | None, event: RecordedEvent) -> UsageRow:
        return self.evolve_all(key, row, (event,))

    def evolve_all(self, key: str, row: UsageRow | None, events: Sequence[RecordedEvent]) -> UsageRow:
        added = [one for one in map(_added_usage, events) if one is not None]
        if row is None:
            first, day = added[0], _day_text(_day(events[0], added[0]))
            row = UsageRow(key=key, day=day, agent=first.agent, model=first.model, context=events[0].stream)
        return msgspec.structs.replace(
            row,
            messages=row.messages + sum(one.messages for one in added),
            calls=row.calls + sum(one.calls for one in added),
            tokens_in=row.tokens_in + sum(one.tokens for one in added if not one.is_models),
            tokens_out=row.tokens_out + sum(one.tokens for one in added if one.is_models),
            counted_in=row.counted_in + sum(one.counted.input_tokens for one in added),
            counted_out=row.counted_out + sum(one.counted.output_tokens for one in added),
            counted_cached=row.counted_cached + sum(one.counted.cached_tokens for one in added),
            cost_nanos=row.cost_nanos + sum(int((one.counted.cost or 0) * NANOS) for one in added),
        )


class _AddedUsage(NamedTuple):
    """The usage that an event adds: by whom, with which model, of which kind, and the counts that came with it."""

    agent: str
    given_model: str | None = None
    counted: Usage = NO_USAGE
    is_models: bool = False
    messages: int = 0
    calls: int = 0
    item: chat.ChatItemEvent | None = None
    texts: tuple[str, ...] = ()
    size: int = 0

    @property
    def model(self) -> str:
        """The model that wrote the item; empty if it is not given."""
        return self.given_model or self.counted.model or ""

    @property
    def tokens(self) -> int:
        """The estimated tokens."""
        return sum(map(DEFAULT, self.texts), self.size) if self.item is None else estimate_tokens(self.item)


def _added_usage(event: RecordedEvent) -> _AddedUsage | None:
    recorded, actor = event.event, event.meta.actor or ""
    match recorded:
        case PortraitWritten(description=description, model=model):
            return _AddedUsage(actor, model, is_models=True, texts=(description,))
        case MessageRecorded():
            return _message(recorded, actor)
        case chat.MessageAdded(incomplete=reason) if reason == chat.UNFINISHED:
            # It counts when it is finished: then its size is known, and the model that wrote it.
            return None
        case chat.MessageFinished(role=role, agent_id=agent, metrics=metrics, tokens=tokens):
            counted = usage_in(parse_json(metrics)) if metrics else NO_USAGE
            return _AddedUsage(agent or actor, None, counted, role == "assistant", messages=1, size=tokens)
    item = chat.added_item(recorded)
    model = recorded.model if isinstance(recorded, chat.Summarized) else None
    return None if item is None else _item(item, item.agent_id or actor, model)


def _item(item: chat.ChatItemEvent, agent: str, model: str | None) -> _AddedUsage:
    match item:
        case chat.MessageAdded(role=role):
            is_models = role == "assistant"
            return _AddedUsage(agent, model, usage_of(item), is_models=is_models, messages=1, item=item)
        case chat.FunctionCalled():
            return _AddedUsage(agent, model, usage_of(item), is_models=True, calls=1, item=item)
    return _AddedUsage(agent, item=item)


def _message(event: MessageRecorded, actor: str) -> _AddedUsage:
    record = parse_json(event.record)
    calls = calls_of(record)
    texts = (*texts_of_run_event(event).texts, *(msgspec.json.encode(call).decode() for call in calls))
    is_models = kind_of(record) == "assistant"
    about = record.get("response_metadata")
    counted = usage_in(about) if isinstance(about, dict) else NO_USAGE
    return _AddedUsage(actor, None, counted, is_models, messages=1, calls=len(calls), texts=texts)


@lru_cache(KEYS_KEPT_MAX)
def _key(day: int, agent: str, model: str, context: str) -> str:
    return f"{_day_text(day)}/{digest_of(agent)}/{digest_of(model)}/{digest_of(context)}"


def _day(event: RecordedEvent, added: _AddedUsage) -> int:
    """
    Return the day on which an item happened, in days since 1970; without such a day, that of its event.

    An event that was recorded after the end of the calendar counts for its last day.
    """
    happened = -1.0 if added.item is None else added.item.created_at // DAY_SECONDS
    return int(happened) if 0 <= happened <= LAST_DAY else min(event.recorded_at // DAY_MICROSECONDS, LAST_DAY)


def _day_text(day: int) -> str:
    return (date(1970, 1, 1) + timedelta(days=day)).isoformat()


def require_names(by: Collection[str]) -> Collection[str]:
    """
    Return the names by which usage is summed up.

    Raises:
        InvalidInputError: a name is not in NAMES, or they are not in a list.
    """
    if isinstance(by, str) or not isinstance(by, Collection) or any(name not in NAMES for name in by):
        raise InvalidInputError(f"usage by {by!r}: take some of {', '.join(NAMES)}, in a list")
    return by


def summed_by(
    rows: Iterable[UsageRow],
    by: Sequence[str],
    contexts: Iterable[CatalogueRow] = (),
    *,
    since: str | None = None,
    until: str | None = None,
    context: str | None = None,
) -> list[UsageSum]:
    """
    Return the sums of rows that agree in the names `by`, in the order of these; the other names are empty in a sum.

    Rows of days before `since` and after `until` are left out; with `context`, a stream, only its rows count. The users
    come from `contexts`.

    Raises:
        InvalidInputError: `by` has a name that is not in NAMES.
    """
    require_names(by)
    users = {one.key: one.user for one in contexts}
    groups: dict[tuple[str, ...], list[UsageRow]] = {}
    for row in rows:
        if (since and row.day < since) or (until and row.day > until) or context not in (None, row.context):
            continue
        group = tuple(users.get(row.context, "") if name == USER else getattr(row, name) for name in by)
        groups.setdefault(group, []).append(row)
    sums: list[UsageSum] = []
    for group, some in sorted(groups.items()):
        named: dict[str, Any] = dict.fromkeys(NAMES, "") | dict(zip(by, group, strict=True))
        named |= zip(COUNTS, map(sum, zip(*map(_counts_of, some), strict=True)), strict=True)
        sums.append(UsageSum(key="/".join(group), **named))
    return sums


USER = "user"
NAMES = ("day", "agent", "model", "context", USER)
COUNTS = tuple(name for name in UsageRow.__struct_fields__ if name not in ("key", *NAMES))
_counts_of = attrgetter(*COUNTS)
USAGE = UsageByContext()

"""Replay: the prompts that a model would have got under another policy, and the part that a cache would have held."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from ..arguments import refuse_copy, require_done
from ..errors import InvalidInputError
from ..named_events import recorded_event
from .events import (
    ITEM_EVENTS,
    PIECES,
    CallChanged,
    ChatItemEvent,
    Forked,
    FunctionCalled,
    MessageAdded,
    Piece,
    Summarized,
)
from .item_conversion import item_of
from .items import ChatItem
from .pairing import is_of_model
from .pieces import written
from .rules.commands import Truncate
from .rules.decide import CHAT
from .rules.truncation import Truncation
from .state.fold import ChatState
from .state.sequence import Items
from .tokens import estimate_tokens

# More digits are no sensible number, and Python converts no text of some thousands of them.
_COUNTED = re.compile(r"(?P<what>tokens|items):(?P<count>[0-9]{1,18})")


class Prompts:
    """A sequence of prompts, each stored as the number of items that it shares with the previous one, and the rest."""

    def __init__(self) -> None:
        self._last = Items()
        self._steps: list[tuple[int, tuple[ChatItemEvent, ...]]] = []

    def add(self, items: Items) -> int:
        """Add a prompt, and return the estimated tokens of the beginning that it shares with the previous one."""
        shared, tokens = _shared(items, self._last)
        self._steps.append((shared, tuple(items[shared:])))
        self._last = items
        return tokens

    def items(self, number: int) -> list[ChatItemEvent]:
        """Return the items of a prompt, counted from 0."""
        parts: list[tuple[ChatItemEvent, ...]] = []
        end: int | None = None
        for shared, behind in reversed(self._steps[: number + 1]):
            parts.append(behind if end is None else behind[: max(0, end - shared)])
            end = shared if end is None else min(end, shared)
        return [item for part in reversed(parts) for item in part]


def _shared(items: Items, earlier: Items) -> tuple[int, int]:
    """Return the number of equal items at the beginning of two prompts, and their tokens."""
    if items.continues(earlier):
        return len(earlier), earlier.tokens
    count = tokens = 0
    for mine, other in zip(items, earlier, strict=False):
        if mine is not other and mine != other:
            break
        count, tokens = count + 1, tokens + estimate_tokens(mine)
    return count, tokens


class TruncatedPrompts:
    """Prompts of a history that is truncated before each: the items added so far, and those removed."""

    def __init__(self, history: Truncation) -> None:
        self.history = history
        self._tokens = 0
        # The number of items that were added before each prompt, and for each removed item its first prompt without it.
        self._reach: list[int] = []
        self._gone: dict[int, int] = {}

    def add(self) -> int:
        """Truncate, add a prompt, and return the tokens of the beginning that it shares with the previous one."""
        history = self.history
        leaving = history.truncate()
        self._gone.update(dict.fromkeys(leaving, len(self._reach)))
        is_shorter = bool(leaving and self._reach and leaving[0] < self._reach[-1])
        shared = history.tokens_before(leaving[0]) if is_shorter else self._tokens
        self._reach.append(len(history.items))
        self._tokens = history.tokens
        return shared

    def items(self, number: int) -> list[ChatItemEvent]:
        """Return the items of a prompt, counted from 0."""
        come = self.history.items[: self._reach[number]]
        return [item for place, item in enumerate(come) if self._gone.get(place, number + 1) > number]


# Called with a detached context.
Policy = Callable[[Any], Awaitable[object] | object]


class ReplayedCall(NamedTuple):
    """
    A call of the model; `version` added the first item of its answer.

    Tokens are estimates. `cached_*` are those of the beginning that the prompt shares with the previous one. `*_then`
    is as recorded, `*_now` under the policy.
    """

    version: int
    tokens_then: int
    tokens_now: int
    cached_then: int
    cached_now: int


class Replay:
    """The result of a replay: the calls in order, their sums, and the prompts of each."""

    __reduce__ = refuse_copy

    def __init__(self, now: Prompts | TruncatedPrompts) -> None:
        self.calls: list[ReplayedCall] = []
        self._then, self._now = Prompts(), now
        # The indexes of the calls, by version.
        self._places: dict[int, int] = {}

    def __repr__(self) -> str:
        tokens, cached = f"{self.tokens_then} -> {self.tokens_now}", f"{self.cached_then} -> {self.cached_now}"
        return f"Replay({len(self.calls)} calls, tokens {tokens}, cached {cached})"

    @property
    def tokens_then(self) -> int:
        """The tokens of all prompts as recorded."""
        return sum(call.tokens_then for call in self.calls)

    @property
    def tokens_now(self) -> int:
        """The tokens of all prompts under the policy."""
        return sum(call.tokens_now for call in self.calls)

    @property
    def cached_then(self) -> int:
        """The tokens that a cache would have held, as recorded."""
        return sum(call.cached_then for call in self.calls)

    @property
    def cached_now(self) -> int:
        """The tokens that a cache would have held under the policy."""
        return sum(call.cached_now for call in self.calls)

    def seen(self, version: int, *, then: bool = False) -> list[ChatItem]:
        """
        Return the items that the model would have seen for the call of a version; with `then`, those that it did see.

        Raises:
            InvalidInputError: no call has this version.
        """
        if version not in self._places:
            known = ", ".join(str(call.version) for call in self.calls[:10])
            raise InvalidInputError(
                f"no call of the model has version {version}: the first ones have {known or 'none'}"
            )
        prompts = self._then if then else self._now
        return [item_of(event) for event in prompts.items(self._places[version])]

    def add(self, version: int, was: Items, *, tokens_now: int, cached_now: int) -> None:
        """Add a call: `was` is the prompt as recorded, `tokens_now` its size under the policy."""
        cached_then = self._then.add(was)
        self._places[version] = len(self.calls)
        self.calls.append(ReplayedCall(version, was.tokens, tokens_now, cached_then, cached_now))


class _Step(NamedTuple):
    """The items that a version added, the items before it, and whether a call of the model added them."""

    version: int
    items: tuple[ChatItemEvent, ...]
    before: Items
    is_call: bool


class Scratch(Protocol):
    """A detached chat context in which a history runs again."""

    def record_items(self, items: Sequence[ChatItemEvent], /) -> object:
        """Add items."""

    def recorded_items(self) -> Items:
        """Return the items that the model would see."""

    def truncate(self, max_items: int | None, max_tokens: int | None, /) -> object:
        """Evict the oldest items until the rest is within both limits."""


class _KeepNewest(msgspec.Struct, frozen=True):
    """The policy that truncates to a number of tokens, or of items, before each call."""

    limits: Truncate

    def __call__(self, chat: Scratch) -> None:
        chat.truncate(self.limits.max_items, self.limits.max_tokens)


def replayed(
    events: Sequence[Any], first_version: int, policy: Policy, scratch: Scratch
) -> tuple[Replay, Iterator[Any]]:
    """
    Return an empty replay, and an iterator that fills it and yields each result of the policy, to be awaited if needed.

    `events` are those of a context, completed; the first has version `first_version`. Events of its parents have
    versions below 1. The events are added to `scratch`, an empty context.
    """
    steps = _steps(_whole(events), first_version)
    if isinstance(policy, _KeepNewest):
        truncated = TruncatedPrompts(Truncation(policy.limits))
        replay = Replay(truncated)
        return replay, _run_truncation(steps, replay, truncated)
    prompts = Prompts()
    replay = Replay(prompts)
    return replay, _run(steps, replay, policy, prompts, scratch)


def _run(steps: Iterator[_Step], replay: Replay, policy: Policy, prompts: Prompts, scratch: Scratch) -> Iterator[Any]:
    for step in steps:
        if step.is_call:
            yield policy(scratch)
            now = scratch.recorded_items()
            replay.add(step.version, step.before, tokens_now=now.tokens, cached_now=prompts.add(now))
        scratch.record_items(step.items)


def _run_truncation(steps: Iterator[_Step], replay: Replay, prompts: TruncatedPrompts) -> Iterator[Any]:
    """Fill a replay whose policy only truncates: incrementally, since a context would read all items at each call."""
    history = prompts.history
    for step in steps:
        if step.is_call:
            cached = prompts.add()
            replay.add(step.version, step.before, tokens_now=history.tokens, cached_now=cached)
            yield None
        history.add(step.items)


def replay_now(replay: Replay, turns: Iterator[Any]) -> Replay:
    """
    Run a replay whose policy is not async.

    Raises:
        InvalidInputError: the policy is async: use `areplay`.
    """
    for turn in turns:
        require_done(turn, "this policy is to be awaited: use areplay()")
    return replay


async def replay_awaited(replay: Replay, turns: Iterator[Any]) -> Replay:
    """Run a replay whose policy may be async, such as a summary by a model."""
    for turn in turns:
        if inspect.isawaitable(turn):
            await turn
    return replay


def _whole(events: Sequence[Any]) -> Sequence[Any]:
    """Return events in which a message that was written piece by piece is whole from the beginning."""
    if not any(isinstance(event, PIECES) for event in events):
        return events
    whole = list(events)
    pieces: dict[int, list[tuple[int, Piece]]] = {}
    begins = 0
    for place, event in enumerate(events):
        if isinstance(recorded_event(event), Forked):
            # The versions of a fork begin again with 1, behind the events of its parents.
            begins = place
        elif isinstance(event, PIECES):
            pieces.setdefault(begins + event.item.version - 1, []).append((place - begins + 1, event))
            whole[place] = msgspec.structs.replace(event, text="")
    for place, some in pieces.items():
        begun = whole[place] if place < len(whole) else None
        if isinstance(begun, MessageAdded):
            whole[place] = written(begun, some)
    return whole


def _steps(events: Sequence[Any], first_version: int) -> Iterator[_Step]:
    state: ChatState = CHAT.initial_state
    seen: set[str] = set()
    was_model = False
    changed = _changed_calls(events)
    for version, event in enumerate(events, first_version):
        before = state.items
        state = CHAT.fold(state, [event])
        if isinstance(recorded_event(event), Summarized | CallChanged):
            # A summary is about items of the history, not one of them. A changed call takes the place of one, below.
            seen.update(item.id for item in state.items)
            continue
        new = tuple(item for item in _added(event, before, state.items) if item.id not in seen)
        if not new:
            continue
        seen.update(item.id for item in new)
        new = tuple(changed.get(item.id, item) for item in new) if changed else new
        # Consecutive items of the model are one answer, and so one call.
        is_model = is_of_model(new[0])
        # Calls of a parent are not counted here.
        yield _Step(version, new, before, is_model and not was_model and version > 0)
        was_model = is_of_model(new[-1])


def _changed_calls(events: Sequence[Any]) -> dict[str, FunctionCalled]:
    """
    Return the calls that a person changed, by the ids of the items whose place they took.

    A model is asked only after the change, so it never saw the arguments that it had written itself.
    """
    changed: dict[str, FunctionCalled] = {}
    asked: dict[str, str] = {}
    for event in events:
        if isinstance(event, FunctionCalled):
            asked[event.call_id] = event.id
        elif isinstance(event, CallChanged) and event.item.call_id in asked:
            changed[asked[event.item.call_id]] = event.item
    return changed


def _added(event: Any, before: Items, after: Items) -> Sequence[ChatItemEvent]:
    if isinstance(event, ITEM_EVENTS):
        return (event,)
    return () if after is before else list(after)


def policy_of(name: str) -> Policy:
    """
    Return the policy that a text names: `all`, `tokens:N` or `items:N`.

    Raises:
        InvalidInputError: there is no such policy.
    """
    if name == "all":
        return lambda chat: None
    found = _COUNTED.fullmatch(name)
    if found is not None and (count := int(found["count"])) > 0:
        return _KeepNewest(Truncate(max_tokens=count) if found["what"] == "tokens" else Truncate(max_items=count))
    raise InvalidInputError(f"there is no policy {name!r}: take all, tokens:8000 or items:50")

"""
The common part of queues and pools: reading items, calling hooks, and recording changes.

The changes of one container are made one after the other. Before a change is recorded, the hooks before it are called;
they see the change step by step, and may stop it by raising an error. Then the change is recorded completely, or not at
all. The hooks after it are called when it is in the log; other changes do not wait for them. If another writer came
first, an addition is made again after the other events, with its hooks, and an edit is refused.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, ClassVar, Generic, Self, TypeVar

from ..arguments import NotAnItemError, other_item, require_callable, require_instance, require_tags, require_texts
from ..canonical import require_short, require_unicode
from ..concurrency.semaphore import CrossLoopLock
from ..concurrency.threads import in_thread
from ..content import plain_content, stored_content, typed_content
from ..context.context import Attachment, Context, Past, detached_attachment, detached_journal
from ..context.decider import Decider
from ..context.journal import CATCH_UPS_MAX, Journal, Outcome
from ..context.transaction import current_transaction
from ..errors import ConcurrencyError, DecisionRefusedError, InvalidInputError, RefusedError
from ..frozen import FrozenList
from ..hooks.hook import Hook
from ..hooks.registry import HookRegistry, rebuild_hooks_from_serialization, serialize_hooks_by_type
from ..log.admission import NUMBER_MAX
from ..log.envelope import RecordedEvent
from ..log.ports import Log
from .changes import INNER_NAMES, Change, ChangingSettings, Clearing, Evicting, Restoring, stage_of, staged
from .events import AddedEvent, Kind
from .items import ContextItem, EvictedItem, T
from .rules import Add, Begin, Command
from .state import Completed, ContainerState, departed

R = TypeVar("R")
# The limit of a queue of an agent or in a store, if none is given.
QUEUE_LIMIT = 10
# The largest integer that an event can hold on every log.
LIMIT_MAX = NUMBER_MAX


async def carry_out(
    container: Container[Any],
    journal: Journal[ContainerState],
    change: Change,
    expected_version: int | None,
    key: str | None,
) -> Outcome:
    """
    Call the hooks before a change, if there are any, and record it.

    Raises:
        ConcurrencyError: another writer came first, and the change is an edit, or `expected_version` was given.
        Any error that a hook raises: then nothing was recorded.
    """
    before = await repeated(journal, change, key)
    if before is not None:
        return before
    came_between: tuple[RecordedEvent, ...] = ()
    for attempt in range(CATCH_UPS_MAX):
        state, command = await _prepared(container, journal, change)
        expected = state.version if expected_version is None else expected_version
        if expected == state.version and any(container.has_hooks(name) for name in change.asked):
            # This raises an error for a change that the rules refuse, so that no hook is called for it.
            container.decider.decide(command, state)
            with staged(journal, state) as stage:
                await change.fire_before(container, stage)
            expected = _version_after_hooks(journal.state, state)
        record = partial(journal.execute, command, call=change.call, expected_version=expected, idempotency_key=key)
        try:
            outcome = await _run_work(container, journal, record)
        except ConcurrencyError:
            # If this object recorded an event while the hooks ran, no other writer came first.
            is_behind = journal.version == expected
            is_final = expected_version is not None or (is_behind and not change.catches_up)
            if is_final or attempt == CATCH_UPS_MAX - 1:
                raise
            came_between += await in_thread(journal.refresh) if is_behind else ()
            continue
        journal.came_between = came_between
        return outcome
    raise AssertionError("the loop returns or raises")


async def repeated(journal: Journal[ContainerState], change: Change, key: str | None) -> Outcome | None:
    """Return the outcome that was recorded under this key, if any; the change itself may be impossible by now."""
    open_transaction = current_transaction(journal.log)
    has_key = key is not None if open_transaction is None else open_transaction.idempotency_key is not None
    return await in_thread(partial(journal.repeated, change.call, key)) if has_key else None


async def _prepared(
    container: Container[Any], journal: Journal[ContainerState], change: Change
) -> tuple[ContainerState, Command]:
    def prepare() -> tuple[ContainerState, Command]:
        state = journal.state
        return state, change.prepare(container, state)

    # If the state is loaded, most changes take less time than a thread would.
    is_fast = journal.is_loaded and not change.is_long
    return prepare() if is_fast else await _run_work(container, journal, prepare)


def _version_after_hooks(now: ContainerState, shown: ContainerState) -> int:
    """Return the present version if items and settings are still those that the hooks saw; a hook may have named it."""
    is_same = now.items is shown.items and (now.limit, now.tags) == (shown.limit, shown.tags)
    return now.version if is_same else shown.version


async def _run_work(container: Container[Any], journal: Journal[ContainerState], work: Callable[[], R]) -> R:
    """Run work in a thread if it may wait for a disk, so that the event loop goes on."""
    may_wait = not container.is_detached and (journal.durability == "commit" or not journal.is_loaded)
    return await in_thread(work) if may_wait else work()


class NotALimitError(RefusedError, TypeError):
    """The given limit of a queue or a pool is not a whole number."""


def require_limit(limit: Any, kind: Kind) -> int | None:
    """
    Return a limit as a number, or None, which means "no limit" for a pool.

    Raises:
        InvalidInputError: the limit is less than 1, or too large.
        TypeError: the limit is not a whole number.
    """
    if limit is None and kind.name == "pool":
        return None
    try:
        number = int(operator.index(limit))
    except TypeError as error:
        raise NotALimitError(f"the limit of a {kind.name} is {limit!r}: take a whole number") from error
    if number < 1:
        raise InvalidInputError("limit must be >= 1")
    if number > LIMIT_MAX:
        raise InvalidInputError(f"limit must be <= {LIMIT_MAX}")
    return number


class ViewHooks:
    """The hooks of a view: those of the container that it shows. Other containers have an attribute that hides it."""

    def __get__(self, container: Container[Any] | None, _kind: object) -> ViewHooks | FrozenList[Hook]:
        return self if container is None else FrozenList(vars(container._shows)["hooks"])


class Container(Context[ContainerState], Generic[T]):
    """A queue or a pool; `hooks` are its own hooks, which are called before the global ones."""

    kind: ClassVar[Kind]
    decider: ClassVar[Decider[ContainerState]]
    hook_types: ClassVar[type[Enum]]
    hooks: list[Hook] = ViewHooks()  # type: ignore[assignment]  # views only: other containers hide it

    def _begin(self, limit: int | None, tags: Iterable[str] | None) -> None:
        """Begin a detached container, with its own log in memory."""
        attachment = detached_attachment()
        journal = detached_journal(attachment, self.kind.name, self.decider)
        journal.execute(Begin(self.kind.opened(limit=limit, tags=require_tags(tags))))
        self._stand_on(journal, attachment)

    def _stand_on(self, journal: Journal[ContainerState], attachment: Attachment) -> None:
        super()._stand_on(journal, attachment)
        self._lock = CrossLoopLock()
        self.hooks = []

    def _show(self, shown: Context[ContainerState], version: int | None = None) -> None:
        super()._show(shown, version)
        # Hooks may be added at any time, so a view has no copy: `ViewHooks` reads those of the shown container.
        self.__dict__.pop("hooks", None)

    def _refusal(self) -> str:
        name = type(self).__name__
        return f"this {name} is a view and cannot be changed: change the one it shows, or a branch of it"

    def _require_no_view(self) -> None:
        # A new container sets attributes before it has a writer, so only views are refused.
        if "_shows" in self.__dict__:
            self._require_writer()

    def __setattr__(self, name: str, value: object) -> None:
        self._require_no_view()
        if name == "hooks":
            require_instance(value, list, "hooks", "give a list of hooks")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        self._require_no_view()
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in INNER_NAMES]

    # Reading

    @property
    def _state(self) -> ContainerState:
        source = self._source
        stage = None if isinstance(source, Past) else stage_of(source.journal)
        return source.state if stage is None else stage.state

    @property
    def shown_state(self) -> ContainerState:
        """The folded state that is shown."""
        return self._state

    def completed_events(self, version: int) -> Sequence[Completed]:
        """Return the events up to a version in the form that the fold takes."""
        return self._journal.completed(version)

    def added_events(self) -> list[AddedEvent]:
        """Return the events that added the present items, in order."""
        return [held.event for held in self._state.items.values()]

    @property
    def log(self) -> Log:
        """The log that stores the container."""
        return self._journal.log

    @property
    def tags(self) -> frozenset[str]:
        """The labels that select the global hooks to call."""
        return frozenset(self._state.tags)

    @property
    def births(self) -> list[str]:
        """The name of each item's origin, `stream@version`, in order. `evict` and `restore` take these names."""
        return [str(held.ref.within(self.stream_id)) for held in self._state.items.values()]

    def _present_items(self) -> list[ContextItem[T]]:
        return [held.item for held in self._state.items.values()]

    def _shown_by_repr(self, identity: str) -> str:
        return f"{'' if self.is_detached else f'{identity}, '}limit={self._state.limit}, len={len(self)}"

    def __len__(self) -> int:
        return len(self._state.items)

    def __iter__(self) -> Iterator[ContextItem[T]]:
        return iter(self._present_items())

    def __bool__(self) -> bool:
        return len(self) > 0

    def evicted(self) -> list[EvictedItem]:
        """Return the items that left and were not restored, in the order in which they left, each with how and why."""
        return departed(self.stream_id, self.completed_events(self.version))

    # Changing

    async def clear(self, *, expected_version: int | None = None, idempotency_key: str | None = None) -> None:
        """
        Remove all items.

        Raises:
            ConcurrencyError: another writer came first.
            Any error that a hook raises: then nothing was changed.
        """
        await self.change(Clearing(), expected_version, idempotency_key)

    async def evict(
        self,
        *births: str,
        reason: str = "evict",
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """
        Evict the items that `births` name; `restore` brings them back.

        Raises:
            NotFoundError: no such item is there.
            InvalidInputError: one of `births` is not the name of an origin.
            ConcurrencyError: another writer came first.
        """
        change = Evicting(births, require_unicode(reason, "the reason"))
        await self.change(change, expected_version, idempotency_key)

    async def restore(
        self, *names: str, expected_version: int | None = None, idempotency_key: str | None = None
    ) -> None:
        """
        Restore items that had left, as the newest items.

        Each item is named by its origin (see `evicted()`). An item of a pool can also be named by its id, which means
        the last item with this id that left.

        Raises:
            NotFoundError: no such item left.
            InvalidInputError: an item with this id is there now, or two of the items have the same id.
            LimitExceededError: there are more items than the limit allows.
            ConcurrencyError: another writer came first.
        """
        self._require_writer()
        await self.change(Restoring(require_texts(names, "the names")), expected_version, idempotency_key)

    async def change_settings(
        self,
        *,
        limit: Any = ...,
        tags: Iterable[str] | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """
        Change the limit or the tags; where there is no room any more, the oldest items are evicted.

        Raises:
            InvalidInputError: the limit is less than 1.
            ConcurrencyError: another writer came first.
        """
        limit = ... if limit is ... else require_limit(limit, self.kind)
        change = ChangingSettings(limit, None if tags is None else require_tags(tags))
        await self.change(change, expected_version, idempotency_key)

    async def rebase(self, change: Callable[[Self], Awaitable[R]]) -> R:  # type: ignore[override]  # its calls are async
        """
        Refresh, await `change(self)`, and repeat this as long as another writer comes first.

        Raises:
            InvalidInputError: the change is not async.
            ConcurrencyError: another writer came first a hundred times, or the change expects too high a version.
        """
        self._require_writer()
        require_callable(change, "the change")
        for attempt in range(CATCH_UPS_MAX):
            try:
                await in_thread(self.refresh)
                changing = change(self)
                if not inspect.isawaitable(changing):
                    raise InvalidInputError("the change is not async: give an async function, which awaits its calls")
                result = await changing
                await self.aflush()
                return result
            except ConcurrencyError as error:
                if error.is_ahead or attempt == CATCH_UPS_MAX - 1:
                    raise
        raise AssertionError("the loop returns or raises")

    def put_in(self, command: Command) -> None:
        """
        Carry a command out without calling any hook.

        Raises:
            DecisionRefusedError: a hook before a change tries to make another change.
            ConcurrencyError: another writer came first.
        """
        writer = self._writer
        self._require_no_stage()
        # The command is decided on the folded state, which is read first if it is not in memory.
        _ = writer.state
        writer.execute(command, catch_up=False)

    def _require_no_stage(self) -> None:
        if stage_of(self._journal) is not None:
            raise DecisionRefusedError(
                f"a hook that is called before a change of this {self.kind.name} cannot change it: use a hook that is "
                "called after the change"
            )

    async def change(
        self, change: Change, expected_version: int | None, idempotency_key: str | None, *, fires_after: bool = True
    ) -> Outcome:
        """
        Call the hooks before the change, record it, and with `fires_after` call the hooks after it.

        For a change that was recorded before under its key, no hooks are called.

        Raises:
            DecisionRefusedError: a hook before a change tries to make another change.
            ConcurrencyError: another writer came first.
        """
        writer = self._writer
        self._require_no_stage()
        outcome: Outcome | None = None
        while outcome is None:
            if (other := writer.other_transaction) is not None:
                # The calls of that transaction need the lock, so it is not held here.
                await other.over(self.stream_id)
            async with self._lock.hold():
                # Another transaction may have changed this container while this call waited for the lock.
                if writer.other_transaction is None:
                    outcome = await carry_out(self, writer, change, expected_version, idempotency_key)
                    change.keep_result(self)
        if fires_after and not outcome.replayed:
            await change.fire_after(self)
        return outcome

    async def repeated(self, change: Change, idempotency_key: str | None) -> bool:
        """
        Return whether a change was recorded before under its key, or under that of the open transaction.

        Raises:
            IdempotencyError: another call was recorded under the key.
        """
        return await repeated(self._writer, change, idempotency_key) is not None

    def has_hooks(self, name: str) -> bool:
        """Return whether any hook of this type is registered."""
        name = require_instance(name, str, "the type of hook", "give its name, like 'AFTER_APPEND'")
        hook_type: Any = self.hook_types.__members__.get(name)
        if hook_type is None:
            return False
        return bool(HookRegistry.get_by_type(hook_type, self.hooks) or HookRegistry.get_global_by_type(hook_type))

    async def fire(self, name: str, *args: Any) -> None:
        """Call the hooks of this type: the container's own hooks first, then the global ones."""
        hook: Any = self.hook_types[name]
        await HookRegistry.fire(hook, HookRegistry.get_by_type(hook, self.hooks), *args, _source_tags=self.tags)

    def added_event(self, item: object) -> AddedEvent:
        """
        Return the event that adds an item.

        Raises:
            TypeError: it is not a ContextItem.
            InvalidInputError: its content cannot be stored.
        """
        if not isinstance(item, ContextItem):
            given = f"{type(item).__name__!r}{other_item(item, 'refold.PoolItem')}"
            raise NotAnItemError(f"{type(self).__name__} only accepts ContextItem instances, got {given}")
        item_id, description = _text_or_none(item.id, "id"), _text_or_none(item.description, "description")
        named = "the content of an item" if item_id is None else f"the content of item {item_id!r}"
        return self.kind.added(content=stored_content(item.content, named), description=description, id=item_id)

    # As a dict

    def to_dict(self) -> dict[str, Any]:
        """
        Return a dict of JSON values: limit, items, hooks by type and name, and tags.

        Content that is an instance of a class is written as JSON, with its class in `content_type`.

        Raises:
            UnserializableHookError: a hook cannot be found by its name.
        """
        return {
            "limit": self._state.limit,
            "items": [_item_to_dict(event) for event in self.added_events()],
            "hooks": serialize_hooks_by_type(self.hooks),
            "tags": sorted(self.tags),
        }

    def _fill_from_dict(self, data: Mapping[str, Any]) -> None:
        """
        Put the items and hooks of `to_dict` into a new container; no hook is called.

        Raises:
            KeyError: an item has no content.
            InvalidInputError: the content of an item cannot be stored.
            UnregisteredHookError: a hook's name is not registered.
        """
        items = tuple(self.added_event(_item_from_dict(item)) for item in data.get("items", ()))
        hooks = rebuild_hooks_from_serialization(data.get("hooks", {}), self.hook_types)
        self.put_in(Add(items))
        self.hooks = hooks


def _text_or_none(text: Any, what: str) -> str | None:
    if text is None:
        return None
    if not isinstance(text, str):
        raise InvalidInputError(f"the {what} of an item is {text!r}: take a text, or None")
    # `str()` of a member of a str enum gives another text than its value.
    require_unicode(text, f"the {what} of an item")
    return str.__str__(require_short(text, "the item id") if what == "id" else text)


def _item_to_dict(event: AddedEvent) -> dict[str, Any]:
    sort = {"content_type": event.content.type} if event.content.type else {}
    return {"id": event.id, "description": event.description, "content": plain_content(event.content), **sort}


def _item_from_dict(data: Mapping[str, Any]) -> ContextItem[Any]:
    item = ContextItem.from_dict(data)
    if "content_type" not in data:
        return item
    return ContextItem(typed_content(str(data["content_type"]), item.content), item.description, item.id)

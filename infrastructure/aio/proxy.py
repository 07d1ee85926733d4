"""
The calls of a store and its contexts from async code: each runs in a thread, so that the event loop goes on.

An async sibling wraps the sync object, and `sync` is that object. A method is awaited, and so is a property that may
read from disk: `await chat.items`. There is one implementation of everything, the sync one; `siblings.py` only lists
the names, so that type checkers know the arguments and results.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, Self, TypeVar, cast, overload

from ...domain.concurrency.threads import in_thread, in_thread_or_here
from ...domain.context.transaction import AsyncTransaction

if TYPE_CHECKING:
    from ...domain.log.envelope import RecordedEvent
    from ..store import Store
    from ..subscription import Subscription

    _subscription = cast("Subscription", None)
P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
Kind = TypeVar("Kind", bound="AsyncProxy[Any]")
# A function that returns a method or a value of a sync object: only type checkers look into it, and it is never called.
Named = Callable[[], R]


class AsyncProxy(Generic[S]):
    """A sync object, `sync`, whose methods and properties are awaited; an argument may be such a proxy, too."""

    def __init__(self, sync: S) -> None:
        self.sync = sync

    def __repr__(self) -> str:
        # A context shows its id alone: its own repr reads its state.
        return f"{type(self).__name__}({getattr(self.sync, 'id', self.sync)!r})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.sync is getattr(other, "sync", None)

    def __hash__(self) -> int:
        return hash(id(self.sync))

    if not TYPE_CHECKING:
        # For what a user's own subclass adds to a context. Type checkers know the names in siblings.py.
        def __getattr__(self, name: str) -> Any:
            if name == "sync" or name.startswith("_"):
                raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
            return _Member(name).__get__(self)


class _Member:
    """A method or property of the sync object: the call or the value, to be awaited."""

    def __init__(self, name: str = "", to: Callable[[], type[Any]] | None = None) -> None:
        self._name, self._to = name, to

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, proxy: Any, kind: object = None) -> Any:
        if proxy is None:
            return self
        # A property is not read here, because that may wait for a disk.
        if isinstance(inspect.getattr_static(type(proxy.sync), self._name, None), property):
            return ValueToAwait(lambda: _whole(getattr(proxy.sync, self._name)))
        found = getattr(proxy.sync, self._name)
        if not callable(found):
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            given = [_sync(one) for one in args], {name: _sync(one) for name, one in kwargs.items()}
            if inspect.iscoroutinefunction(found):
                return self._wrapped(proxy, await found(*given[0], **given[1]))
            return self._wrapped(proxy, await in_thread(found, *given[0], **given[1]))

        call.__name__, call.__doc__ = self._name, found.__doc__
        # Python names a coroutine that nobody awaited by this.
        call.__qualname__ = f"{type(proxy).__name__}.{self._name}"
        return call

    def _wrapped(self, proxy: Any, result: Any) -> Any:
        if result is proxy.sync:
            return proxy
        return result if self._to is None or result is None else self._to()(result)


class ValueToAwait(Awaitable[R]):
    """
    The value of a property, which is read in a thread when it is awaited.

    Its name stands in Python's errors where somebody forgot to await it.
    """

    def __init__(self, read: Callable[[], R]) -> None:
        self._read = read

    def __bool__(self) -> NoReturn:
        raise TypeError("the value of an async property is not read yet: await it")

    def __eq__(self, other: object) -> NoReturn:
        self.__bool__()

    # `asyncio.gather` keeps what it is given by its hash.
    __hash__ = object.__hash__

    def __await__(self) -> Generator[Any, None, R]:
        return in_thread(self._read).__await__()


class _Plain(_Member):
    """A property that never waits, and is given as it is."""

    def __get__(self, proxy: Any, kind: object = None) -> Any:
        return self if proxy is None else self._wrapped(proxy, getattr(proxy.sync, self._name))


def _whole(value: Any) -> Any:
    # A list whose items are read from the log when they are used would hold up the event loop.
    read_all = getattr(value, "read_all", None)
    return value if read_all is None else read_all()


def _sync(given: Any) -> Any:
    return given.sync if isinstance(given, AsyncProxy) else given


if TYPE_CHECKING:

    class Method(Generic[P, R]):
        """A method that is awaited."""

        @overload
        def __get__(self, proxy: None, kind: object) -> Self: ...
        @overload
        def __get__(self, proxy: object, kind: object) -> Callable[P, Coroutine[Any, Any, R]]: ...
        def __get__(self, proxy: object, kind: object) -> Any: ...

    class Value(Generic[R]):
        """A property that is awaited."""

        @overload
        def __get__(self, proxy: None, kind: object) -> Self: ...
        @overload
        def __get__(self, proxy: object, kind: object) -> Awaitable[R]: ...
        def __get__(self, proxy: object, kind: object) -> Any: ...

    class Plain(Generic[R]):
        """A property that is given as it is."""

        @overload
        def __get__(self, proxy: None, kind: object) -> Self: ...
        @overload
        def __get__(self, proxy: object, kind: object) -> R: ...
        def __get__(self, proxy: object, kind: object) -> Any: ...


def awaited(method: Named[Callable[P, R]]) -> Method[P, R]:
    """Return a sync method, to be awaited."""
    return _Member()  # type: ignore[return-value]  # the types are those of the sync method


def passed(method: Named[Callable[P, Coroutine[Any, Any, R]]]) -> Method[P, R]:
    """Return an async method as it is; it does not block the loop."""
    return _Member()  # type: ignore[return-value]


def returning(method: Named[Callable[P, Any]], to: Callable[[], type[Kind]]) -> Method[P, Kind]:
    """Return a sync or async method whose result is shown through an async sibling."""
    return _Member(to=to)  # type: ignore[return-value]


def value(getter: Named[R]) -> Value[R]:
    """Return a property that may read from disk, to be awaited."""
    return _Member()  # type: ignore[return-value]


def plain(getter: Named[R]) -> Plain[R]:
    """Return a property that never waits."""
    return _Plain()  # type: ignore[return-value]


def showing(getter: Named[Any], to: Callable[[], type[Kind]]) -> Plain[Kind]:
    """Return a property that never waits, whose value is shown through an async sibling."""
    return _Plain(to=to)  # type: ignore[return-value]


class AsyncSubscription(AsyncProxy["Subscription"], AsyncIterator["RecordedEvent"]):
    """An endless iterator, for `async for`, over events; `ack` is awaited, and `stop()` ends it from anywhere."""

    ack = awaited(lambda: _subscription.ack)
    moment = plain(lambda: _subscription.moment)

    def __aiter__(self) -> AsyncSubscription:
        return self

    async def __anext__(self) -> RecordedEvent:
        return await self.sync.__anext__()

    def stop(self) -> None:
        """End the iteration, at the latest after a quarter of a second."""
        self.sync.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()


class StoreProxy(AsyncProxy["Store"]):
    """The parts of an async store that are no plain calls: transactions, and its end."""

    sync: Store

    def transaction(self, *, idempotency_key: str | None = None) -> AsyncTransaction:
        """
        Commit all changes that the `async with` block makes to contexts of this store as one, or none of them.

        A rolled-back transaction restores every view. The end of the block waits, for ten seconds at most, for calls
        that its tasks have begun and it did not await, also for those of other stores.
        """
        return AsyncTransaction(self.sync.transaction(idempotency_key=idempotency_key))

    async def close(self) -> None:
        """Flush what is queued, then close the database; may be called twice."""
        await in_thread_or_here(self.sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

"""The random life of two scopes in a log: two handles that remember, forget, take back and search."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from refold.domain.errors import NotFoundError
from refold.domain.memory.memory import Memory
from refold.domain.memory.records import MemoryKind
from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.infrastructure.store import Store

from ..contract.writing import check_chain
from ..domain.memory.remembering import about
from .lives import LogLife
from .memory_model import ScopeModel

T = TypeVar("T")
KEY = st.sampled_from(["a", "ab", "a%", "ключ"])
VALUE = st.sampled_from(["", "x", "L" * 5_000, 7, None, {"a": [1]}])
KIND = st.sampled_from(list(MemoryKind))
TAGS = st.lists(st.sampled_from(["t", "u"]), max_size=2)
HANDLE = st.sampled_from(["one", "two"])
SCOPE = st.sampled_from(["user:mia@x", "session"])


class MemoryMachine(LogLife):
    """Two scopes, each with two handles; subclass it with `open_log`."""

    @initialize()
    def begin(self) -> None:
        """Open a log, and two handles."""
        self.loop = asyncio.new_event_loop()
        self.begin_life()
        self.models = {"user:mia@x": ScopeModel(), "session": ScopeModel()}
        self.open_handles()

    def open_handles(self) -> None:
        store = Store(self.log, MemoryProjectionStore())
        self.memories: dict[str, Memory] = {name: store.memory() for name in ("one", "two")}

    def teardown(self) -> None:
        """Close the log, and the loop."""
        if hasattr(self, "log"):
            super().teardown()
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""
        return self.loop.run_until_complete(work)

    def named(self, scope: str) -> str:
        """Return the name of a scope in this life."""
        return f"{scope}{self.life}"

    @rule(name=HANDLE, scope=SCOPE, key=KEY, value=VALUE, kind=KIND, tags=TAGS)
    def remember(self, name: str, scope: str, key: str, value: Any, kind: MemoryKind, tags: list[str]) -> None:
        """Put a record: a handle that is behind catches up."""
        self.wait(self.memories[name].put(about(key, value, scope=self.named(scope), kind=kind, tags=tags)))
        self.models[scope].remember(key, value, kind.value, tuple(tags))

    @rule(name=HANDLE, scope=SCOPE, key=st.none() | KEY)
    def forget(self, name: str, scope: str, key: str | None) -> None:
        """Forget a key or a scope."""
        forgot = self.wait(self.memories[name].forget(scope=self.named(scope), key=key))
        assert forgot == self.models[scope].forget(key)

    @rule(name=HANDLE, scope=SCOPE, key=st.none() | KEY)
    def restore(self, name: str, scope: str, key: str | None) -> None:
        """Take back a key or a scope; a key under which nothing was forgotten is refused."""
        memory, model = self.memories[name], self.models[scope]
        if key is not None and key not in model.forgotten:
            with pytest.raises(NotFoundError):
                self.wait(memory.restore(scope=self.named(scope), key=key))
            return
        assert self.wait(memory.restore(scope=self.named(scope), key=key)) == model.restore(key)

    @rule(name=HANDLE, scope=SCOPE, number=st.integers(0, 40), key=KEY)
    def get(self, name: str, scope: str, number: int, key: str) -> None:
        """A record as it is, and as it was at a version."""
        memory, model = self.memories[name], self.models[scope]
        version = number % (model.version + 1)
        for shown, at in ((memory, model.version), (memory.at(version), version)):
            got = self.wait(shown.get(scope=self.named(scope), key=key))
            expected = model.shots[at].get(key)
            assert (got and (got.value, got.kind, got.tags)) == (
                expected and (expected.value, expected.kind, list(expected.tags))
            )

    @rule(
        name=HANDLE,
        scope=SCOPE,
        number=st.integers(0, 40),
        kind=st.none() | KIND,
        prefix=st.sampled_from(["", "a", "a%", "b"]),
        tag=st.sampled_from([None, "t"]),
        limit=st.integers(0, 4),
    )
    def search(self, name: str, scope: str, number: int, **filters: Any) -> None:
        """What passes the filters, as it is and as it was; the limit counts what passes."""
        memory, model = self.memories[name], self.models[scope]
        version = number % (model.version + 1)
        wanted = {**filters, "key_prefix": filters["prefix"]}
        del wanted["prefix"]
        for shown, at in ((memory, model.version), (memory.at(version), version)):
            records = self.wait(shown.search(scope=self.named(scope), **wanted))
            assert [(record.key, record.value) for record in records] == model.found(at, **filters)
            assert sorted(records, key=lambda record: record.updated_at, reverse=True) == records

    @rule(name=HANDLE, scope=SCOPE)
    def look_back(self, name: str, scope: str) -> None:
        """What became of every key, in its order."""
        changes = self.wait(self.memories[name].history(scope=self.named(scope)))
        told = [
            (one.key, one.version, one.how, one.old and one.old.value, one.new and one.new.value) for one in changes
        ]
        assert sorted(told, key=str) == sorted(self.models[scope].changes, key=str)
        assert [one.version for one in changes] == sorted(one.version for one in changes)
        check_chain(self.memories[name].scope(self.named(scope)).recorded_events())

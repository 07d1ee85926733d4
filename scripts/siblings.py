"""
The async siblings of the store and its contexts, written from the sync classes.

Each public method and property of a sync class gets one line in its sibling; the line says how it is called. The type
checker takes the types of arguments and results from the sync class. Names that all contexts have are written once, in
the base of their siblings.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

from refold.domain.pool.changes import INNER_NAMES


class Sibling(NamedTuple):
    """An async class: its name, its base, the module and name of the sync class, and a line about it."""

    name: str
    module: str
    sync: str
    about: str
    base: str = ""
    arguments: str = ""

    @property
    def object(self) -> str:
        """The name of a sync object; only type checkers look it up."""
        return "_" + re.sub("(?<!^)(?=[A-Z])", "_", self.name.removeprefix("Async")).lower()


CHAT = "domain.chat.context"
CONTEXT = Sibling(
    "AsyncContext",
    "domain.context.context",
    "Context",
    "The part that the siblings of all contexts have.",
    base="AsyncProxy[C]",
    arguments="[Any]",
)
SIBLINGS = (
    Sibling("AsyncChat", CHAT, "ChatContext", "A chat whose calls are awaited."),
    Sibling("AsyncApprovals", "domain.chat.approvals", "Approvals", "The approvals of a chat; calls are awaited."),
    Sibling(
        "AsyncSavedStates",
        "domain.chat.saved_states",
        "SavedStates",
        "The data of frameworks in a chat; calls are awaited.",
    ),
    Sibling("AsyncQueue", "domain.pool.queue", "ContextQueue", "A queue whose calls are awaited.", arguments="[Any]"),
    Sibling("AsyncPool", "domain.pool.pool", "ContextPool", "A pool whose calls are awaited.", arguments="[Any]"),
    Sibling("AsyncBudgetWindow", "domain.window.window", "ContextWindow", "A window whose calls are awaited."),
    Sibling(
        "AsyncAgentContext",
        "domain.window.window",
        "AgentContext",
        "The context of a request, whose calls are awaited.",
    ),
    Sibling("AsyncMemory", "domain.memory.memory", "Memory", "A memory whose calls are awaited."),
    Sibling("AsyncMemoryScope", "domain.memory.memory", "MemoryScope", "A scope of a memory whose calls are awaited."),
    Sibling("AsyncRun", "domain.trajectory.run", "Run", "A run whose calls are awaited."),
    Sibling("AsyncStoreAt", "infrastructure.queries.at", "StoreAt", "A store as it was, whose calls are awaited."),
    Sibling("AsyncWhatIf", "infrastructure.queries.what_if", "WhatIf", "Branches in memory, whose calls are awaited."),
    Sibling(
        "AsyncWorker",
        "infrastructure.projecting.worker",
        "WorkingThread",
        "A worker in a thread of its own; await `stop`.",
    ),
    Sibling("AsyncStore", "infrastructure.store", "Store", "A store whose calls are awaited.", "StoreProxy"),
)
WITH_BASE = (CONTEXT, *SIBLINGS)
# The sibling that shows a result, by the name in the annotation of the sync method.
SHOWN = {
    **{one.sync: one.name for one in SIBLINGS},
    "ReadOnlyChatContext": "AsyncChat",
    "ReadOnlyQueue": "AsyncQueue",
    "ReadOnlyPool": "AsyncPool",
    "ReadOnlyContextWindow": "AsyncBudgetWindow",
    "ReadOnlyRun": "AsyncRun",
    "MemoryAt": "AsyncMemory",
    "Subscription": "AsyncSubscription",
}
# Annotations that stand for the class itself.
ITSELF = ("Self", "ForkedChat")
# Properties that never wait for a disk or for another thread.
PLAIN = (
    "id", "stream_id", "stream_kind", "root", "is_detached", "came_between", "readonly", "approvals",
    "saved_states",
    "user_id", "session_id", "run_id", "sub_id", "scope", "moment",
)  # fmt: skip
# Methods that only return an object for `async with`.
ENTERED = ("stream",)
# Of no use in an event loop: `attach` and `adopted_events` serve `adopt`, and every `flush` is awaited.
LEFT_OUT = ("attach", "adopted_events", "aflush")
# The base has the first two; the recorder is for sync applications, and `run_projections` blocks until it is stopped.
OF_STORES = ("transaction", "close", "recorder", "run_projections")
OF_CONTAINERS = ("births", *INNER_NAMES)


def _class_of(sibling: Sibling) -> Any:
    return getattr(import_module(f"refold.{sibling.module}"), sibling.sync)


def _lines(sibling: Sibling) -> Iterator[str]:
    sync = _class_of(sibling)
    yield from _field_lines(sibling, sync)
    seen = dict.fromkeys(name for owner in reversed(sync.__mro__) for name in vars(owner))
    of_kind = OF_STORES if sibling.base == "StoreProxy" else OF_CONTAINERS if ".pool." in sync.__module__ else ()
    left_out = (*LEFT_OUT, *of_kind)
    for name in seen:
        member = inspect.getattr_static(sync, name)
        if not name.startswith("_") and name not in left_out and not _is_elsewhere(sibling, name, member):
            line = _line(sibling, name, member)
            if line:
                yield f"    {line}"


def _is_elsewhere(sibling: Sibling, name: str, member: Any) -> bool:
    """Return whether the base has the line of a member of contexts; not where the types name the class itself."""
    is_of_all = inspect.getattr_static(_class_of(CONTEXT), name, None) is member
    names_itself = any("Self" in str(given) for given in getattr(member, "__annotations__", {}).values())
    return names_itself if sibling is CONTEXT else is_of_all and not names_itself


def _base_of(sibling: Sibling) -> str:
    base = "AsyncContext" if issubclass(_class_of(sibling), _class_of(CONTEXT)) else "AsyncProxy"
    return sibling.base or f'{base}["{sibling.sync}{sibling.arguments}"]'


def _field_lines(sibling: Sibling, sync: Any) -> Iterator[str]:
    """Yield lines for the fields of a dataclass."""
    for name, field in getattr(sync, "__dataclass_fields__", {}).items():
        if isinstance(getattr(sync, name, None), property):
            # A window names properties as fields, for `dataclasses.asdict`.
            continue
        to = SHOWN.get(field.type)
        source = f"lambda: {sibling.object}.{name}"
        yield f"    {name} = " + (f"plain({source})" if to is None else f"showing({source}, lambda: {to})")


def _line(sibling: Sibling, name: str, member: Any) -> str | None:
    function = member.fget if isinstance(member, property) else member
    if not inspect.isfunction(function):
        return None
    source, to = f"lambda: {sibling.object}.{name}", _shown_as(sibling, function)
    if isinstance(member, property):
        if name not in PLAIN:
            return f"{name} = value({source})"
        return f"{name} = plain({source})" if to is None else f"{name} = showing({source}, lambda: {to})"
    if name in ENTERED:
        return f"{name} = plain({source})"
    if to is not None:
        return f"{name} = returning({source}, lambda: {to})"
    return f"{name} = {'passed' if inspect.iscoroutinefunction(function) else 'awaited'}({source})"


def _shown_as(sibling: Sibling, function: Any) -> str | None:
    annotation = str(inspect.signature(function).return_annotation).partition("[")[0]
    return sibling.name if annotation in ITSELF else SHOWN.get(annotation)


HEAD = '''"""
The async siblings of the store and its contexts: a line for each name. `scripts/siblings` writes this file.

Type checkers take the arguments and results from the sync classes. At run time only the names count, so that no class
is loaded before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from .proxy import AsyncProxy, AsyncSubscription, StoreProxy, awaited, passed, plain, returning, showing, value

if TYPE_CHECKING:
'''

TAIL = '''

# By the place of the sync class in this package.
_SIBLINGS: dict[str, type[AsyncProxy[Any]]] = {{
{table}}}


{overloads}def to_async(wrapped: Any) -> Any:
    """
    Return the async sibling of a store, of a context, or of a memory, which shares everything with it.

    For any other object it returns a proxy whose methods and properties are awaited, without their types.
    """
    names = (f"{{kind.__module__.partition('.')[2]}}.{{kind.__name__}}" for kind in type(wrapped).__mro__)
    return next((_SIBLINGS[name] for name in names if name in _SIBLINGS), AsyncProxy)(wrapped)
'''


def text() -> str:
    """Return the module."""
    modules: dict[str, list[str]] = {}
    for one in WITH_BASE:
        modules.setdefault(one.module, []).append(one.sync)
    imports = [
        f"    from {'...' if module.startswith('domain') else '..'}{module.removeprefix('infrastructure.')} "
        f"import {', '.join(sorted(names))}\n"
        for module, names in sorted(modules.items())
    ]
    objects = [f'    {one.object} = cast("{one.sync}{one.arguments}", None)\n' for one in WITH_BASE]
    overloads = [
        f"@overload\ndef to_async(wrapped: {one.sync}{one.arguments}) -> {one.name}: ...\n" for one in SIBLINGS
    ]
    table = "".join(f'    "{one.module}.{one.sync}": {one.name},\n' for one in SIBLINGS)
    classes = []
    for one in WITH_BASE:
        body = "\n".join(_lines(one))
        classes.append(f'\n\nclass {one.name}({_base_of(one)}):\n    """{one.about}"""\n\n{body}\n')
    return (
        HEAD
        + "".join(imports)
        + "\n"
        + "".join(objects)
        + '\nC = TypeVar("C", bound="Context[Any]")\n'
        + "".join(classes)
        + TAIL.format(table=table, overloads="".join(overloads))
    )


if __name__ == "__main__":
    sys.stdout.write(text())

"""
If a class changes a field under a lock, it uses the field under the lock, except in the methods listed here. Also tests
threads and forks.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import NamedTuple

from tests.support.project import PACKAGES, modules, parsed

# Calls that change a list, dict, set or deque in place.
CHANGING = {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft"} | {
    "remove", "setdefault", "update"
}  # fmt: skip
PLAIN = {"Any", "bytes", "dict", "int", "list", "msgspec.Raw", "Raw", "str", "tuple", "..."}
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
# They run before other code has the object, or when no other thread runs.
ALONE = {"__init__", "_after_fork", "_fork_is_over", "__del__"}
# Methods that use such a field without the lock. Most of them read one value, which other methods replace as a whole.
# Some read it again under the lock, or only one thread uses them. Add a method here only for such a reason.
WITHOUT = {
    # The items and ids of an item table only grow, and are read up to a length that the caller knows.
    "domain.chat.state.item_table.ItemTable": "_stored_names find may_have_call_id reformed unread",
    # A state and a version are replaced as a whole; reading them must not wait for a writer that waits for the disk.
    # `execute` waits without the lock, because the transaction for which it waits needs the lock. Then it reads again.
    "domain.context.journal.Journal": "_completed _folded _from_snapshot execute is_ahead is_changed_within is_loaded"
    " other_transaction queued recorded_past require_known state version",
    "domain.context.outbox.Outbox": "__len__ failure",
    "domain.context.folded_stream.FoldedStream": "_folded _from_snapshot is_loaded state version",
    "domain.hooks.loop_lock.LoopLock": "locked release",
    # Its lists only grow.
    "domain.log.memory_log.MemoryLog": "_events_under _stream idempotency_keys now read_all streams wait_for_news",
    # One thread rehearses.
    "domain.log.overlay_log.OverlayLog": "end head keep_snapshot read read_events read_ranges recorded_under reopen"
    " snapshot streams version_at",
    # A plain dict is never changed: a version that has one keeps it.
    "domain.ordered_map.OrderedMap": "__contains__ __iter__ first get values",
    "infrastructure.log.database_log.Acknowledged": "_lost_of note witness",
    # They check whether there is work, or a thread. If there is, they check again under the lock.
    "infrastructure.log.background.BackgroundWork": "wake",
    "infrastructure.log.group_commit.GroupCommitter": "_hand_on _in_turn _is_for_thread _is_running close submit",
    # A slot is given back under the lock. The others only check whether any slot is taken, which is one value.
    "infrastructure.log.postgres.connection.PostgresDatabase": "_leave close writer",
    "infrastructure.recorders.postgres._FreshPasswordDatabase": "_leave close writer",
    # The known values are replaced as a whole.
    "infrastructure.log.postgres.ends.Ends": "known read",
    # The transaction in which they run holds the lock of the database.
    "infrastructure.log.sqlite.append.Appender": "_begin append_locked",
    "infrastructure.log.sqlite.connection.SqliteDatabase": "_close_readers _idle_or_new _leave _take_slot"
    " _wait_for_readers close come_back leave reading write writing",
    "infrastructure.projecting.store.MemoryProjectionStore": "note",
    "infrastructure.projecting.store.ReadOnlyProjectionStore": "note",
    # They read one value. The log refuses a change that begins while the branches are being kept.
    "infrastructure.queries.what_if.WhatIf": "_free _require_open",
    # It saves in a different way. Only `_save` uses `_table` without the lock, and nobody calls `_save`.
    "infrastructure.trust.sealed_rows.SealedProjectionStore": "_save _table",
    # The page is replaced as a whole by an empty one. A thread that reads the next page checks whether the page is
    # still the same.
    "infrastructure.subscription.Subscription": "_forget_erased _take moment",
    # One thread starts it before others have it. They check whether there is work, and check again under the lock. The
    # values of the witness that they return are replaced as a whole.
    "infrastructure.trust.checkpoints.Checkpoints": "_connect _note_failure _require_announced accept",
    # A dict of slices, to which slices are added in one step.
    "infrastructure.trust.known_events.KnownEvents": "last_version state",
}


class Method(NamedTuple):
    """What a method does with the fields of its object."""

    is_locked: bool
    used: set[str]
    changed: set[str]
    # The methods and properties of the object that it uses, and those that it runs under a lock.
    called: set[str]
    run_locked: set[str]


# Adapters, which need a framework that is not installed here. They keep no threads of their own.
FRAMEWORKS = "refold.infrastructure.frameworks."


def classes() -> Iterator[type]:
    """Yield all classes of the product."""
    for layer in ("domain", "projections", "infrastructure"):
        package = import_module(f"refold.{layer}")
        for module in walk_packages(package.__path__, f"refold.{layer}.", onerror=lambda _: None):
            if module.name.startswith(FRAMEWORKS):
                continue
            found = vars(import_module(module.name)).values()
            yield from (one for one in found if isinstance(one, type) and one.__module__ == module.name)


def methods_of(cls: type) -> dict[str, Method]:
    """Return the methods of a class by name, those of its bases in this package included."""
    found: dict[str, Method] = {}
    for owner in reversed(cls.__mro__):
        if owner.__module__.startswith("refold."):
            found |= _own_methods(Path(str(sys.modules[owner.__module__].__file__)), owner.__name__)
    return found


@cache
def _own_methods(path: Path, name: str) -> dict[str, Method]:
    named = (one for one in ast.walk(parsed(path)) if isinstance(one, ast.ClassDef) and one.name == name)
    return {one.name: method_of(one) for node in named for one in node.body if isinstance(one, FUNCTION)}


def method_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Method:
    """Return what a method does."""
    is_locked = any("synchronized" in ast.unparse(one) for one in function.decorator_list)
    used, changed, run_locked = set[str](), set[str](), set[str]()
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Name("locked"), args=[_, ast.Attribute(ast.Name("self"), name), *_]):
                run_locked.add(name)
            case ast.With(items=[ast.withitem(ast.Attribute(ast.Name("self"), lock))]) if lock in ("_lock", "_turn"):
                is_locked = True
            case ast.Attribute(ast.Name("self"), name):
                used.add(name)
                if not isinstance(node.ctx, ast.Load):
                    changed.add(name)
            case ast.Subscript(ast.Attribute(ast.Name("self"), name)) if not isinstance(node.ctx, ast.Load):
                changed.add(name)
            case ast.Call(func=ast.Attribute(ast.Attribute(ast.Name("self"), name), call)) if call in CHANGING:
                changed.add(name)
    return Method(is_locked, used, changed, used - run_locked, run_locked)


def held_methods(methods: dict[str, Method]) -> set[str]:
    """
    Return the methods that only run under a lock: methods that take the lock, and private methods that only such
    methods call.
    """
    held = {name for name, one in methods.items() if one.is_locked}
    run = {name for one in methods.values() for name in one.run_locked}
    if not held | run:
        return set()
    private = {name for name in methods if name.startswith("_") and not name.startswith("__")} - ALONE
    callers = {name: {other for other, one in methods.items() if name in one.called} for name in private}
    inner = {name for name in private if callers[name] or name in run}
    while wrong := {name for name in inner if not callers[name] <= held | inner | ALONE}:
        inner -= wrong
    return held | inner


def unlocked_uses(cls: type) -> set[str]:
    """Return the methods that use, without the lock, a field that others change under it."""
    methods = methods_of(cls)
    held = held_methods(methods)
    guarded = {field for name in held for field in methods[name].changed} - set(methods)
    return {name for name, method in methods.items() if name not in held | ALONE and method.used & guarded}


def test_guarded_fields_are_used_under_the_lock() -> None:
    """This test fails if a lock is removed, or if a new method does not take it."""
    found = {f"{cls.__module__.removeprefix('refold.')}.{cls.__name__}": unlocked_uses(cls) for cls in classes()}

    assert {name: " ".join(sorted(uses)) for name, uses in found.items() if uses} == WITHOUT


def types_read(call: ast.Call) -> Iterator[ast.expr]:
    """Yield the type into which msgspec reads a value, or will."""
    name = ast.unparse(call.func)
    if re.fullmatch("msgspec.*Decoder", name):
        yield from call.args[:1]
    elif name == "msgspec.convert":
        yield call.args[1]
    elif re.fullmatch("msgspec.*decode", name):
        yield from (one.value for one in call.keywords if one.arg == "type")


def test_types_are_known_before_values_are_read_into_them() -> None:
    """Two threads that read the first value into a type at once would end the process, if it holds Structs."""
    found = {
        f"{name}: {ast.unparse(kind)}"
        for package in PACKAGES
        for name, path in modules(package)
        if "msgspec" in path.read_text() and path.name != "known_types.py"
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        for kind in types_read(node)
    }
    unknown = {one for one in found if not one.partition(": ")[2].startswith("known(")}

    assert len(found - unknown) >= 40
    # Those of plain values hold no Struct.
    assert [one for one in unknown if not {*re.findall(r"[\w.]+", one.partition(": ")[2])} <= PLAIN] == []


def test_no_thread_keeps_a_program_alive() -> None:
    """
    A program that ends waits for the work that the store promised (`exits.py`), and not for a thread that nobody
    stopped.
    """
    calls = {
        f"{name}: {ast.unparse(node)}": [one.arg for one in node.keywords if ast.unparse(one.value) == "True"]
        for package in PACKAGES
        for name, path in modules(package)
        if "threading.Thread(" in path.read_text()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "threading.Thread"
    }

    assert len(calls) > 10
    assert [call for call, true in calls.items() if "daemon" not in true] == []


def test_what_is_renewed_in_a_child_says_so() -> None:
    """A class with `_after_fork`, or a parent of it, has it called in forked processes."""
    found = {
        f"{name}.{node.name}": {ast.unparse(call) for call in ast.walk(node) if isinstance(call, ast.Expr)}
        for package in PACKAGES
        for name, path in modules(package)
        if "def _after_fork" in path.read_text()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef)
        and "Protocol" not in map(ast.unparse, node.bases)
        and any(isinstance(one, FUNCTION) and one.name == "_after_fork" for one in node.body)
    }

    assert len(found) > 20
    assert [name for name, calls in found.items() if "renew_in_child(self)" not in calls] == []

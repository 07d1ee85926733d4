"""
Runs tests in forks of one pytest, each with a defect in its memory; as a plugin, `-p tests.mutants.forking`, it serves.

To start pytest and to load all that tests need takes seconds, and the test that notices a defect milliseconds. So one
process collects all tests, and a fork of it runs those that may notice a defect, after it was put into the functions
that are loaded. What runs only while a module is loaded cannot be changed so.
"""

import contextlib
import gc
import json
import os
import select
import shutil
import signal
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import IO, Any, NamedTuple

import pytest
from hypothesis import Phase, settings

PIPES = "REFOLD_MUTANTS_PIPES"
# What a fork says that cannot put a defect in.
REFUSED = -1
Key = tuple[str, str, int]


class Ran(NamedTuple):
    """How tests ended in a fork: `code` as that of pytest, None if it took too long; and those that failed."""

    code: int | None
    failed: tuple[str, ...] = ()


class Forks:
    """A process that runs tests in forks of itself, until it is closed."""

    def __init__(self, command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> None:
        (asked, asking), (told, telling) = os.pipe(), os.pipe()
        self._process = subprocess.Popen(
            [*command, "-p", "tests.mutants.forking"],
            env={**variables, PIPES: f"{asked},{telling}"},
            cwd=folder,
            pass_fds=(asked, telling),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(asked)
        os.close(telling)
        self._asking, self._told = os.fdopen(asking, "w"), os.fdopen(told)
        self.tests = set[str](json.loads(self._told.readline() or "[]"))

    def run(self, tests: Sequence[str], seconds_max: float, *, defect: Sequence[str] = ()) -> Ran | None:
        """
        Run tests one after the other until one fails; `defect` is a file, its text, and its text with the defect.

        Returns None where the loaded functions cannot be changed so.
        """
        print(json.dumps([tests, seconds_max, *defect]), file=self._asking, flush=True)
        code, *failed = json.loads(self._told.readline())
        return None if code == REFUSED else Ran(code, tuple(failed))

    def close(self) -> None:
        """End the process; it ends by itself if this one is killed."""
        self._asking.close()
        self._process.wait()
        self._told.close()


def pytest_collection() -> None:
    """Let no property look for a smaller example of what it found: that takes longer than to find it."""
    settings.register_profile("forks", settings(), phases=(Phase.explicit, Phase.generate))
    settings.load_profile("forks")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Serve instead of running what was collected."""
    asked, telling = map(int, os.environ.pop(PIPES).split(","))
    with os.fdopen(asked) as questions, os.fdopen(telling, "w") as answers:
        # The collector shows nothing of what tests/conftest.py has frozen.
        gc.unfreeze()
        loaded = _loaded_functions()
        # A fork copies no page only because the collector looked at it.
        gc.collect()
        gc.freeze()
        print(json.dumps([item.nodeid for item in session.items]), file=answers, flush=True)
        for line in questions:
            tests, seconds_max, *defect = json.loads(line)
            print(json.dumps(_forked(session, loaded, tests, seconds_max, defect)), file=answers, flush=True)
    return True


def _loaded_functions() -> dict[Key, list[FunctionType]]:
    """Return the functions that are loaded, by their file, their name and their first line."""
    found: dict[Key, list[FunctionType]] = defaultdict(list)
    for one in gc.get_objects():
        if isinstance(one, FunctionType):
            found[_key(one.__code__)].append(one)
    return found


def _key(code: CodeType) -> Key:
    return os.path.realpath(code.co_filename), code.co_qualname, code.co_firstlineno


def _forked(
    session: pytest.Session,
    loaded: Mapping[Key, list[FunctionType]],
    tests: Sequence[str],
    seconds_max: float,
    defect: Sequence[str],
) -> list[Any]:
    """Run tests in a fork; return the code and the names of those that failed."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.close(reading)
        os.setsid()
        with os.fdopen(writing, "w") as answer:
            _run(session, loaded, tests, defect, answer)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        has_ended = select.select([answer], [], [], seconds_max)[0]
        told = answer.readline() if has_ended else ""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    # One that ended without a word was ended by the defect.
    found: list[Any] = json.loads(told) if told else [int(pytest.ExitCode.INTERNAL_ERROR) if has_ended else None]
    return found


def _run(
    session: pytest.Session,
    loaded: Mapping[Key, list[FunctionType]],
    tests: Sequence[str],
    defect: Sequence[str],
    answer: IO[str],
) -> None:
    if defect and not _is_put_in(loaded, *defect):
        print([REFUSED], file=answer, flush=True)
        return
    reports = Reports()
    session.config.pluginmanager.register(reports)
    items = list(_items_of(session, tests))
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if reports.failed:
            break
    # Also the servers that it started.
    session._setupstate.teardown_exact(None)
    factory = session.config._tmp_path_factory  # type: ignore[attr-defined]
    if factory._basetemp:
        shutil.rmtree(factory._basetemp, ignore_errors=True)
    code = None if reports.has_timed_out else int(bool(reports.failed))
    print(json.dumps([code, *reports.failed]), file=answer, flush=True)


def _items_of(session: pytest.Session, tests: Sequence[str]) -> Iterator[pytest.Item]:
    """Yield the named tests, and for the name of a file all of its tests."""
    by_name = {item.nodeid: item for item in session.items}
    for test in tests:
        if test in by_name:
            yield by_name[test]
        else:
            yield from (item for name, item in by_name.items() if name.startswith(f"{test}::"))


def _is_put_in(loaded: Mapping[Key, list[FunctionType]], file: str, before: str, after: str) -> bool:
    """Put a defect into the loaded functions of a file; return whether they can be changed so."""
    old, new = (list(_codes(compile(text, os.path.realpath(file), "exec"))) for text in (before, after))
    if [one.co_qualname for one in old] != [one.co_qualname for one in new]:
        return False
    changed = [(one, other) for one, other in zip(old, new, strict=True) if one != other and one.co_name != "<module>"]
    functions = [(function, other) for one, other in changed for function in loaded.get(_key(one), ())]
    if any(function.__code__.co_freevars != other.co_freevars for function, other in functions):
        return False
    for function, other in functions:
        function.__code__ = other
    return True


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


class Reports:
    """Notes which tests fail."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.has_timed_out = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that failed, or took too long."""
        if report.failed:
            self.failed.append(report.nodeid)
            self.has_timed_out |= "Timeout (>" in report.longreprtext

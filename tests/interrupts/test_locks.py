"""How locks are taken: so that an exception between two lines, or a fork, leaves none of them locked."""

import ast
import os
import re
import signal
import subprocess
import sys
import threading

import pytest

from refold.domain.concurrency.locks import cached_property
from tests.support.project import PACKAGES, ROOT, files, parsed

TAKES_LOCKS = "domain/concurrency/locks.py"
LOCK = re.compile(r"(^|[._])(lock|guard|turn|starting|writing)$")
# Their own methods are Python, in which an interrupt can come between the lock and its release.
LEAKY = {"Condition", "Semaphore", "BoundedSemaphore", "Barrier"}
HAS_LOCK = re.compile(r"functools(\.| import .*)\bcached_property\b")
MODULES = [path for folder in PACKAGES.values() for path in files(folder, suffix=".py")]


def test_a_lock_is_taken_and_released_within_one_line() -> None:
    """By `locked` or `synchronized`; a generator that lends something in a `with` block cannot."""
    found = []
    for path in MODULES:
        tree = parsed(path)
        lending = {
            inner
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef) and any(isinstance(node, ast.Yield) for node in ast.walk(function))
            for inner in ast.walk(function)
        }
        found += [
            f"{path.relative_to(ROOT)}:{node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.With)
            and any(LOCK.search(ast.unparse(item.context_expr)) for item in node.items)
            and node not in lending
        ]

    assert [place for place in found if not place.startswith(TAKES_LOCKS)] == []
    assert len(found) == 2


def test_nobody_waits_with_a_lock_that_an_interrupt_can_keep() -> None:
    """`News` and `Promise` wait without."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute) and node.attr in LEAKY and ast.unparse(node.value) == "threading"
    ]

    assert found == []


def test_no_property_has_a_lock() -> None:
    """Python 3.11 has one for each `cached_property`, which a fork leaves locked while it is computed."""
    found = [str(path.relative_to(ROOT)) for path in MODULES if HAS_LOCK.search(path.read_text())]

    assert found == [TAKES_LOCKS]


class Slow:
    """An object with a property that takes as long as it is told to."""

    def __init__(self, ended: threading.Event, begun: threading.Event) -> None:
        self._ended, self._begun = ended, begun

    @cached_property
    def computed(self) -> int:
        """A number."""
        self._begun.set()
        self._ended.wait()
        return 1


def test_a_child_computes_what_a_thread_of_the_parent_computes() -> None:
    """For its own objects, while the thread is in the middle of it."""
    begun, ended, at_once = threading.Event(), threading.Event(), threading.Event()
    at_once.set()
    slow = Slow(ended, begun)
    thread = threading.Thread(target=lambda: slow.computed, daemon=True)
    thread.start()
    begun.wait()
    if (child := os.fork()) == 0:
        # One that hangs ends, and does not fail as a test of its own.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10)
        os._exit(Slow(at_once, threading.Event()).computed + 6)
    ended.set()
    thread.join()

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert slow.computed == 1


# A module of Refold's that takes as long to load as it is told to, and what `then` is done with it.
LOADING = """
import importlib.util, os, signal, sys, threading
from refold.domain.concurrency import locks

class Slow:
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name == "refold.slow" else None
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        begun.set()
        during()
        module.value = 7

def use():
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(10)
    try:
        from refold.slow import value
    except ImportError:
        value = 8
    os._exit(value)

def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

sys.meta_path.insert(0, Slow())
begun, go_on = threading.Event(), threading.Event()
during, thread = go_on.wait, threading.Thread(target=lambda: __import__("refold.slow"), daemon=True)
"""
IN_A_THREAD = """
thread.start()
begun.wait()
threading.Timer(0.2, go_on.set).start()
child = os.fork() or use()
print(ended(child))
"""
TOO_LONG = """
locks.PAUSE_SECONDS_MAX = 0.05
thread.start()
begun.wait()
child = os.fork() or use()
go_on.set()
print(ended(child))
"""
BY_ITSELF = """
locks.PAUSE_SECONDS_MAX = 1_000
signal.alarm(10)
during = lambda: print(ended(os.fork() or os._exit(6)))
import refold.slow
threading.Thread(target=lambda: print(refold.slow.value)).start()
"""


@pytest.mark.parametrize(
    ("program", "printed"),
    [(IN_A_THREAD, ["7"]), (TOO_LONG, ["8"]), (BY_ITSELF, ["6", "7"])],
    ids=["waits for another thread", "but not for ever", "nor for itself"],
)
def test_a_fork_while_a_module_is_loaded(program: str, printed: list[str]) -> None:
    """The child gets it whole, or an error where it is too late, and nobody waits for a thread that is not there."""
    # From Python 3.12 on it warns of threads.
    words = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", LOADING + program]
    done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert done.stderr == ""
    assert (done.returncode, done.stdout.split()) == (0, printed)

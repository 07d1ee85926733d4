"""Types that several threads use first at once."""

import subprocess
import sys
from typing import Literal

import pytest

from refold.domain.concurrency.known_types import known

PROGRAM = """
import sys, threading
from typing import Literal
import msgspec
from refold.domain.concurrency.known_types import known

def made():
    one = msgspec.defstruct("One", [("kind", Literal["a", "b"]), ("numbers", tuple[int, ...])])
    two = msgspec.defstruct("Two", [("first", one), ("rest", tuple[one, ...])])
    three = msgspec.defstruct("Three", [("two", two), ("twos", tuple[two, ...]), ("last", two | None)])
    value = two(one("a", (1,)), (one("b", ()),))
    return three, three(value, (value, value), None)

def use(kind, value, begin):
    begin.wait()
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=known(kind)) == value
    read.append(value)

sys.setswitchinterval(1e-6)
read = []
for _ in range(100):
    given = (*made(), threading.Barrier(4))
    threads = [threading.Thread(target=use, args=given) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
print(len(read))
"""


def test_threads_may_read_a_type_first_at_once() -> None:
    """One waits until the other has made it known; without, the process ends with a segmentation fault."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "400\n", "")


def test_a_type_that_cannot_be_read() -> None:
    """It is refused each time; others are not."""
    for _ in range(2):
        with pytest.raises(TypeError, match="Literal may only contain"):
            known(Literal[b"a"])
    assert known(int) is int

"""A temporary database, while a process forks."""

import os
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from refold.infrastructure.projecting.rows.sqlite import temporary_database

# The first row is there when the statement was executed, and the second is looked for when the first was fetched.
TWO = "SELECT 1 UNION ALL SELECT slow()"
CALLS: dict[str, Callable[[Any], Any]] = {
    "execute": lambda connection: connection.execute("SELECT slow()"),
    "executemany": lambda connection: connection.executemany("INSERT INTO t VALUES (slow() + ?)", [(1,)]),
    "fetchone": lambda connection: connection.execute(TWO).fetchone(),
    "fetchall": lambda connection: connection.execute(TWO).fetchall(),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_fork_waits_for_a_call(call: str) -> None:
    """Until it is over, and not for the connection to be closed."""
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> int:
        begun.set()
        go_on.wait()
        return 1

    with closing(temporary_database()) as connection:
        connection.execute("CREATE TABLE t (n)")
        connection.create_function("slow", 0, slow)
        thread = threading.Thread(target=CALLS[call], args=(connection,))
        thread.start()
        begun.wait()
        threading.Timer(0.1, go_on.set).start()
        child = os.fork() or os._exit(7 if go_on.is_set() else 8)
        thread.join()

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7

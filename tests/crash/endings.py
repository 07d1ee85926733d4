"""What is thrown at writers: a way for each to end, or to be disturbed."""

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import psycopg

from refold.domain.errors import (
    DecisionRefusedError,
    LogWentBackError,
    StorageBusyError,
    StorageError,
    StorageUnavailableError,
)

from ..contract.restores import Place
from ..support.postgres import Server
from .checking import Window

EACH = ("sqlite", "postgres")


class Target(NamedTuple):
    """The database that writers write to, and its server, if it has one."""

    place: Place
    server: Server | None
    chance: random.Random
    windows: list[Window]


class Ending(NamedTuple):
    """
    One kind of it: `throw` does it, to one process or to the database, and returns how often.

    The process ends with `exit_code`, or goes on where that is None, and may meet errors of `may_raise`. `share` is how
    many are thrown for each kill, `of_one_log` how many at writers of one log, with up to `pause_seconds_max` between.
    """

    throw: Callable[[Target, int], int]
    exit_code: int | None = None
    may_raise: tuple[type[Exception], ...] = ()
    databases: Sequence[str] = EACH
    share: float = 1.0
    of_one_log: int = 25
    pause_seconds_max: float = 0.1


def sent(number: int) -> Callable[[Target, int], int]:
    """Return what sends a signal."""

    def throw(target: Target, process: int) -> int:
        os.kill(process, number)
        return 1

    return throw


def restore(target: Target, process: int) -> int:
    """Put an older copy back."""
    kept = time.monotonic()
    target.place.keep()
    time.sleep(target.chance.uniform(0, 0.2))
    target.place.put_back()
    target.windows.append(Window(kept, time.monotonic()))
    return 1


def end_backends(target: Target, process: int) -> int:
    """Have the server end some of the processes that serve writers."""
    with psycopg.connect(target.place.url, autocommit=True) as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND random() < 0.5"
        )
        return len(ended.fetchall())


def stopped(mode: str) -> Callable[[Target, int], int]:
    """Return what stops the server, and starts it again."""

    def throw(target: Target, process: int) -> int:
        assert target.server is not None
        target.server.stop(mode)
        time.sleep(target.chance.uniform(0, 0.1))
        target.server.start()
        return 1

    return throw


WENT_BACK = (LogWentBackError, DecisionRefusedError)
OUTAGE = (StorageUnavailableError,)
ENDINGS = {
    "kill": Ending(sent(signal.SIGKILL), -signal.SIGKILL),
    "terminate": Ending(sent(signal.SIGTERM), -signal.SIGTERM, share=0.5),
    # Those whose commit an interrupted thread had taken along are told that it is not known.
    "exit": Ending(sent(signal.SIGTERM), 0, may_raise=(StorageError,), share=0.5),
    "interrupt": Ending(sent(signal.SIGINT), may_raise=(StorageError,), of_one_log=200, pause_seconds_max=0.004),
    "fork": Ending(sent(signal.SIGUSR2), share=0.25),
    # PostgreSQL refuses a writer, whose lock is in the way of the one who restores.
    "restore": Ending(restore, may_raise=(*WENT_BACK, StorageBusyError), share=0.05, of_one_log=3),
    "backends": Ending(end_backends, may_raise=OUTAGE, databases=["postgres"], share=0.5),
    "stop-fast": Ending(stopped("fast"), may_raise=OUTAGE, databases=["postgres"], share=0.02, of_one_log=3),
    "stop-immediate": Ending(stopped("immediate"), may_raise=OUTAGE, databases=["postgres"], share=0.02, of_one_log=3),
}

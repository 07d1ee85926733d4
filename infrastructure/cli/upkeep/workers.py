"""Who rebuilds a long log beside this process: processes on all cores, or the workers of a Dask cluster."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

import click

from ....domain.errors import InvalidInputError, StorageUnavailableError
from ...store import Store

# Processes take a second to start: below this one process is as quick.
SHARED_EVENTS_MIN = 500_000
WORKERS_MAX = 256
DASK_SECONDS = 10
Workers = tuple[Executor | None, int | None]


def workers_options(command: Any) -> Any:
    """Give a command the options `--workers` and `--dask`."""
    number = click.IntRange(1, WORKERS_MAX)
    workers = click.option("--workers", type=number, metavar="N", help="So many processes; 1 for this one alone.")
    dask = click.option("--dask", metavar="ADDRESS", help="The workers of a Dask cluster, tcp://HOST:PORT.")
    return workers(dask(command))


@contextmanager
def rebuilding_workers(store: Store, number: int | None, dask: str | None) -> Iterator[Workers]:
    """
    Yield who is to rebuild, and in how many partitions: all cores where the log is long and nothing is said.

    Raises:
        InvalidInputError: the package for Dask is missing, or the address cannot be one.
        StorageUnavailableError: no cluster answers there.
    """
    if dask is not None:
        with _dask_client(dask) as client:
            yield client.get_executor(), sum(client.nthreads().values()) or None
        return
    number = _default_number(store) if number is None else number
    if number == 1:
        yield None, None
        return
    # Neither threads nor locks of this process come along, as they would with a fork.
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(number, mp_context=spawning, initializer=_leave_interrupts_to_parent) as executor:
        yield executor, number


def _default_number(store: Store) -> int:
    return (os.cpu_count() or 1) if store.now().events >= SHARED_EVENTS_MIN else 1


def _leave_interrupts_to_parent() -> None:
    """Ctrl-C reaches all processes of a terminal; the parent tells the others at which page to stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _dask_client(address: str) -> Any:
    try:
        import distributed
    except ImportError as error:
        raise InvalidInputError("A Dask cluster takes another package: pip install 'refold[dask]'") from error
    try:
        client: Any = distributed.Client
        return client(address, timeout=DASK_SECONDS, set_as_default=False)
    except ValueError as error:
        raise InvalidInputError(f"{address!r} is no address of a Dask scheduler: {error}") from error
    except OSError as error:
        raise StorageUnavailableError(f"no Dask scheduler answers at {address}: {error}") from error

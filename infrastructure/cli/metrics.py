"""
The metrics of a worker: a page for Prometheus, and one that says whether all is well, by the server of the standard
library.

Nothing is counted while events are written: each answer asks the store for its present state.
"""

from __future__ import annotations

import re
import socket
import sys
import threading
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, TypeVar

import click

from ...domain.concurrency.promises import Promise
from ...domain.errors import InvalidInputError, RefoldError, StorageBusyError
from ..projecting.status import Count, ProjectionStatus, RowCounts, counted, status_of, uncounted
from ..projecting.worker import name_projections
from ..store import Store
from .render import one_line
from .serve import LOOPBACK, in_url

TEXT = "text/plain; version=0.0.4; charset=utf-8"
Rows = Sequence[tuple[str, float]]
Failing = Callable[[], Mapping[str, str]]
# Whether each job that a worker does beside projections failed the last time.
Jobs = Mapping[str, bool]
NO_JOBS: Jobs = MappingProxyType({})
# To a client, a silent server is down for no given reason: to Prometheus after ten seconds.
ANSWER_SECONDS_MAX = 5.0
T = TypeVar("T")
# A port has at most five digits, and Python refuses to convert thousands of digits.
_PORT = re.compile("[0-9]{1,5}")


def address_of(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, int] | None:
    """Return the address in HOST:PORT, or of a port of this machine alone."""
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    if not _PORT.fullmatch(port) or int(port) >= 1 << 16:
        raise click.BadParameter(f"{value!r} is no HOST:PORT, as {LOOPBACK}:9464")
    return host.strip("[]") or LOOPBACK, int(port)


def page_of(
    store: Store, names: Sequence[str], failing: Mapping[str, str], jobs: Jobs = NO_JOBS, count: Count = counted
) -> str:
    """
    Return the metrics of a store, of some of its projections and of a worker, in the text format of Prometheus.

    `failing` are the projections that the worker could not bring up to date, and why.
    """
    try:
        events, _ = _in_time(lambda: (store.now().events, statuses_of(store, names)))
        # The store answers; counting the rows of a large store may take longer than the limit.
        found = statuses_of(store, names, count)
    except RefoldError:
        return _metric("refold_up", "gauge", "Whether the store answers.", [("", 0)])
    each = [(f'{{projection="{one.name}"}}', one) for one in found]
    return "".join((
        _metric("refold_up", "gauge", "Whether the store answers.", [("", 1)]),
        _metric("refold_events_total", "counter", "Events of the log.", [("", events)]),
        _metric(
            "refold_projection_behind_events", "gauge", "Events that a projection has not seen.",
            [(label, one.behind) for label, one in each],
        ),
        _metric(
            "refold_projection_rows", "gauge", "Rows of a projection.", [(label, one.rows) for label, one in each]
        ),
        _metric(
            "refold_projection_stopped", "gauge",
            "Whether a projection stands still at an event that it cannot fold, or its rows are damaged.",
            [(label, one.error is not None) for label, one in each],
        ),
        _metric(
            "refold_projection_failing", "gauge",
            "Whether this worker tried in vain to bring a projection up to date, twice or more.",
            [(label, one.name in failing) for label, one in each],
        ),
        _metric(
            "refold_projection_set_aside_events", "gauge", "Events that a projection was made without.",
            [(label, len(one.set_aside)) for label, one in each],
        ),
        _metric(
            "refold_job_failing", "gauge", "Whether a job of this worker failed the last time.",
            [(f'{{job="{name}"}}', failed) for name, failed in jobs.items()],
        ),
    ))  # fmt: skip


def health_of(store: Store, names: Sequence[str], failing: Mapping[str, str]) -> tuple[bool, str]:
    """Return whether a store answers and all its projections are brought up to date, and what is wrong otherwise."""
    try:
        stopped = [one for one in _in_time(lambda: statuses_of(store, names)) if one.error is not None]
    except RefoldError as error:
        return False, one_line(str(error))
    alike: dict[str, list[str]] = {}
    for name, reason in failing.items():
        alike.setdefault(one_line(reason), []).append(name)
    faults = [
        *map(_fault, stopped),
        *(f"{name_projections(alike_names)}: {reason}" for reason, alike_names in alike.items()),
    ]
    return not faults, "\n".join(faults) or "fine"


def _in_time(ask: Callable[[], T]) -> T:
    """
    Return the answer to a question, which is asked in a thread, because a health check waits some seconds only.

    Raises:
        StorageBusyError: there is no answer in time.
        RefoldError: the question raised it.
    """
    answer: Promise[T] = Promise()

    def settle() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=settle, name="refold-health", daemon=True).start()
    try:
        return answer.result(ANSWER_SECONDS_MAX)
    except TimeoutError as error:
        silent = (
            f"the database has not answered for {ANSWER_SECONDS_MAX:g} s: check that it runs, and is not overloaded"
        )
        raise StorageBusyError(silent) from error


def _fault(status: ProjectionStatus) -> str:
    where = "" if status.stopped_at is None else f"{status.name} stands still at {status.stopped_at}: "
    return where + one_line(status.error or "")


def statuses_of(store: Store, names: Container[str], count: Count = uncounted) -> list[ProjectionStatus]:
    """Return the status of projections by their names, with the numbers of their rows that `count` returns."""
    chosen = (one for one in store._runner.projections.values() if one.name in names)
    return [status_of(store._whole_log, store._projections, one, count=count) for one in chosen]


def _metric(name: str, kind: str, meaning: str, rows: Rows) -> str:
    lines = (f"{name}{label} {int(value)}\n" for label, value in rows)
    return f"# HELP {name} {meaning}\n# TYPE {name} {kind}\n{''.join(lines)}"


class _Server(ThreadingHTTPServer):
    """A server at an address of IPv4 or IPv6 that reports no fault when a client disconnects."""

    def __init__(self, address: tuple[str, int], handler: Any) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error, unless the connection broke."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD of /metrics and /health."""

    server_version = "refold"
    sys_version = ""
    # A client that sends nothing keeps a thread for at most so many seconds.
    timeout = 10

    def __init__(
        self, *args: Any, store: Store, names: Sequence[str], failing: Failing, jobs: Jobs, count: Count
    ) -> None:
        self._store, self._names, self._failing, self._jobs, self._count = store, names, failing, jobs, count
        super().__init__(*args)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            page = page_of(self._store, self._names, self._failing(), self._jobs, self._count)
            self._answer(HTTPStatus.OK, page)
        elif path == "/health":
            is_fine, said = health_of(self._store, self._names, self._failing())
            self._answer(HTTPStatus.OK if is_fine else HTTPStatus.SERVICE_UNAVAILABLE, said + "\n")
        else:
            self._answer(HTTPStatus.NOT_FOUND, "there are /metrics and /health\n")

    # Some health checks ask for the status alone.
    do_HEAD = do_GET

    def _answer(self, status: HTTPStatus, said: str) -> None:
        data = said.encode()
        self.send_response(status)
        self.send_header("Content-Type", TEXT)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: there is a scrape every few seconds."""


@contextmanager
def metrics_served(
    store: Store, names: Sequence[str], address: tuple[str, int] | None, failing: Failing = dict, jobs: Jobs = NO_JOBS
) -> Iterator[str | None]:
    """
    Answer requests at an address until the end of the block, and yield the URL; None if there is no address.

    `failing` returns the projections that the worker cannot bring up to date, and why; `jobs` says which of its other
    jobs failed the last time.

    Raises:
        InvalidInputError: the address cannot be used, as another program listens there.
    """
    if address is None:
        yield None
        return
    try:
        about: dict[str, Any] = {"store": store, "names": names, "failing": failing, "jobs": jobs}
        server = _Server(address, partial(_Handler, **about, count=RowCounts().of))
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidInputError(f"--metrics: {address[0]}:{address[1]} cannot be used: {reason}") from error
    thread = threading.Thread(target=server.serve_forever, name="refold-metrics", daemon=True)
    thread.start()
    try:
        yield f"http://{in_url(address[0])}:{server.server_address[1]}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

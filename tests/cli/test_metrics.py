"""`refold run --metrics`: pages for Prometheus, and for whoever asks whether all is well."""

import http.client
import re
import signal
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec
import pytest

import refold as package
from refold.domain.errors import StorageBusyError
from refold.infrastructure.cli import metrics
from refold.infrastructure.cli.metrics import address_of, metrics_served
from refold.infrastructure.cli.run_worker import WorkerLog
from tests.cli.running import refold, started
from tests.support.effort import projections_counted
from tests.support.waiting import soon

ANYWHERE = ("127.0.0.1", 0)


@pytest.fixture
def store(database: Path) -> Iterator[package.Store]:
    """A store with fourteen events, whose projections have seen none."""
    with package.open(database) as opened:
        yield opened


def asked(url: str, path: str, method: str = "GET") -> tuple[int, str]:
    """Return the status and the text of an answer."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_what_a_worker_is_behind(store: package.Store) -> None:
    """The numbers are those of the store at this moment, in the form that Prometheus reads."""
    with metrics_served(store, ["catalogue", "rollup"], ANYWHERE) as url:
        assert url is not None
        status, before = asked(url, "/metrics")
        store.contexts()
        after = asked(url, "/metrics?x=1")[1]

    assert status == 200
    behind = 'refold_projection_behind_events{projection="catalogue"}'
    assert f"{behind} 14\n" in before
    assert f"{behind} 0\n" in after
    assert "refold_up 1\nrefold_events_total 14" in re.sub("# .*\n", "", after)
    assert 'refold_projection_stopped{projection="rollup"} 0\n' in after
    assert "search" not in after
    line = r'(# (HELP|TYPE) \w+ .+|\w+(\{projection="\w+"\})? \d+)'
    assert all(re.fullmatch(line, one) for one in after.splitlines())


def test_rows_are_counted_where_they_are_shown(store: package.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look for health, and the log of the worker, would read all rows each time, and show no number."""
    counted = projections_counted(store, monkeypatch)
    worker_log = WorkerLog(store, ["catalogue", "rollup"])
    store.contexts()
    with metrics_served(store, ["catalogue", "rollup"], ANYWHERE) as url:
        assert url is not None
        assert asked(url, "/health") == (200, "fine\n")
        assert worker_log.news() == "catalogue: 14 events"
        assert counted == []
        page = asked(url, "/metrics")[1]

    assert counted == ["catalogue", "rollup"]
    assert 'refold_projection_rows{projection="catalogue"} 3\n' in page


def test_whether_all_is_well(store: package.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A projection that stands still, or fails each time, or a store that does not answer, is not."""
    failing: dict[str, str] = {}

    with metrics_served(store, ["rollup"], ANYWHERE, lambda: failing, {"seal": True}) as url:
        assert url is not None
        assert asked(url, "/health") == (200, "fine\n")
        page = asked(url, "/metrics")[1]
        assert 'refold_projection_failing{projection="rollup"} 0\n' in page
        assert page.endswith('refold_job_failing{job="seal"} 1\n')
        failing.update(dict.fromkeys(("catalogue", "rollup"), "no\nroom"), usage="no right")
        wrong = "the projections catalogue, rollup: no room\nthe projection usage: no right\n"
        assert asked(url, "/health") == (503, wrong)
        assert 'refold_projection_failing{projection="rollup"} 1\n' in asked(url, "/metrics")[1]
        failing.clear()
        found = metrics.statuses_of(store, ["rollup"])
        stands = [msgspec.structs.replace(one, stopped_at="chat:a@7", error="no\nluck") for one in found]
        monkeypatch.setattr(metrics, "statuses_of", lambda *_: stands)
        assert asked(url, "/health") == (503, "rollup stands still at chat:a@7: no luck\n")
        assert 'refold_projection_stopped{projection="rollup"} 1\n' in asked(url, "/metrics")[1]

        def busy(*_: object) -> None:
            raise StorageBusyError("it is busy")

        monkeypatch.setattr(metrics, "statuses_of", busy)
        assert asked(url, "/health") == (503, "it is busy\n")
        assert "refold_up 0\n" in asked(url, "/metrics")[1]
        assert asked(url, "/")[0] == 404


@pytest.mark.parametrize("question", ["now", "checkpoint"])
def test_a_database_that_is_silent(question: str, store: package.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks is told so before they give up, however long it is silent; then all is well again."""
    monkeypatch.setattr(metrics, "ANSWER_SECONDS_MAX", 0.05)
    may_answer = threading.Event()
    asked_of = type(store.log) if question == "now" else type(store._projections)
    answer = getattr(asked_of, question)

    def silent(*given: Any) -> Any:
        assert may_answer.wait(5)
        return answer(*given)

    monkeypatch.setattr(asked_of, question, silent)
    with metrics_served(store, ["catalogue"], ANYWHERE) as url:
        assert url is not None
        status, said = asked(url, "/health")
        up = asked(url, "/metrics")[1].splitlines()[-1]
        may_answer.set()
        monkeypatch.setattr(metrics, "ANSWER_SECONDS_MAX", 10.0)
        assert asked(url, "/health") == (200, "fine\n")

    assert (status, up) == (503, "refold_up 0")
    assert said.startswith("the database has not answered for 0.05 s")


def test_what_is_asked_for_the_status_alone(store: package.Store) -> None:
    """As some health checks do; and a client that goes away before its answer is no fault."""
    with metrics_served(store, ["rollup"], ANYWHERE) as url:
        assert url is not None
        assert [asked(url, path, "HEAD") for path in ("/health", "/metrics", "/")] == [(200, ""), (200, ""), (404, "")]


def test_a_client_that_goes_away(store: package.Store, capfd: pytest.CaptureFixture[str]) -> None:
    """It is no news, whatever it had asked for."""
    with metrics_served(store, ["rollup"], ANYWHERE) as url:
        port = urlsplit(url).port
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port)) as gone:
                # It is reset, so that there is nobody to whom the answer could be written.
                gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                gone.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        assert asked(str(url), "/health")[0] == 200
        assert soon(lambda: not [one for one in threading.enumerate() if "process_request" in one.name])

    assert capfd.readouterr().err == ""


def test_an_address_of_six_groups(store: package.Store) -> None:
    """Its host stands in brackets, as in a URL."""
    address = address_of(click.Context(click.Command("run")), click.Option(["--metrics"]), "[::1]:0")
    with metrics_served(store, ["rollup"], address) as url:
        assert str(url).startswith("http://[::1]:")
        assert asked(str(url), "/health") == (200, "fine\n")


@pytest.mark.parametrize("value", ["65536", "-1", "a:b", "9" * 5_000])
def test_what_is_no_address(value: str) -> None:
    """It is refused, whatever its length."""
    with pytest.raises(click.BadParameter, match="is no HOST:PORT"):
        address_of(click.Context(click.Command("run")), click.Option(["--metrics"]), value)


def test_the_command_serves_them(database: Path) -> None:
    """On this machine alone, where only a port is given; the address is printed."""
    with started("run", "catalogue", "--metrics", "0", "--db", database) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        url = next(line for line in lines if "metrics at " in line).partition("metrics at ")[2].strip()
        assert url.startswith("http://127.0.0.1:")
        assert asked(url, "/metrics")[0] == 200
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)

    assert process.returncode == 0


@pytest.mark.parametrize("address", ["nonsense", "localhost:99999", "127.0.0.1:", "127.0.0.1:taken"])
def test_bad_addresses(address: str, database: Path) -> None:
    """Nothing is begun; one that another program has is no error of usage, as with `refold ui`."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        asked_for = address.replace("taken", str(taken.getsockname()[1]))
        ended = refold("run", "--metrics", asked_for, db=database)

    assert ended.code == (1 if address.endswith("taken") else 2)
    assert "HOST:PORT" in ended.err or f"--metrics: {asked_for} cannot be used: " in ended.err

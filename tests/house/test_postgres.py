"""The tests' own PostgreSQL server is private, durable and gone afterwards."""

import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.postgres import Server, running_server
from tests.support.project import ROOT

WAITS_MAX = 200


@pytest.mark.parametrize(("fixture", "fsync"), [("pg_server", "off"), ("durable_pg_server", "on")])
def test_only_a_socket_and_safe_settings(request: pytest.FixtureRequest, fixture: str, fsync: str) -> None:
    """A server listens on no port, sorts by bytes, and syncs to disk where a test is about what is kept."""
    names = ("listen_addresses", "fsync", "full_page_writes", "server_encoding", "TimeZone")
    server: Server = request.getfixturevalue(fixture)
    with server.database() as url, psycopg.connect(url) as connection:
        settings = [connection.execute(f"show {name}").fetchone() for name in names]
        locale = connection.execute("select datcollate from pg_database where datname = current_database()")

        assert locale.fetchone() == ("C",)
    assert settings == [("",), (fsync,), ("on",), ("UTF8",), ("UTC",)]


def test_a_database_is_fresh_and_dropped(pg_server: Server) -> None:
    """A test does not find the data of an earlier test, and no data are left over."""
    before = databases(pg_server)
    for _ in range(2):
        with pg_server.database() as url, psycopg.connect(url) as connection:
            connection.execute("create table here (n int)")
            assert databases(pg_server) - before == {connection.info.dbname}

    assert databases(pg_server) == before


def databases(server: Server) -> set[str]:
    """Return the names of a server's databases of tests: those with Refold's tables, which others copy, stay."""
    with psycopg.connect(server.url()) as connection:
        return {name for (name,) in connection.execute("select datname from pg_database where datname like 'test%'")}


def test_a_template_is_copied(pg_server: Server) -> None:
    """A database can start from one that holds a schema already."""
    with pg_server.database() as template:
        with psycopg.connect(template) as connection:
            connection.execute("create table here (n int)")
            name = connection.info.dbname
        with pg_server.database(template=name) as url, psycopg.connect(url) as connection:
            assert connection.execute("select * from here").fetchall() == []


def test_nothing_is_left_after_a_server(pg_server: Server) -> None:
    """A stopped server takes its folder and its socket with it, and leaves other servers alone."""
    with running_server() as server:
        assert server.data.exists()

    assert not server.data.parent.exists()
    assert pg_server.data.exists()


@pytest.mark.usefixtures("pg_server")
def test_nothing_is_left_after_a_killed_process() -> None:
    """Even a process that could not clean up leaves no server running."""
    command = [sys.executable, "-m", "tests.support.postgres"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        process.kill()
    folder = Path(str(conninfo_to_dict(url)["host"]))

    for _ in range(WAITS_MAX):
        if not folder.exists():
            return
        time.sleep(0.1)
    pytest.fail(f"{folder} is still there")

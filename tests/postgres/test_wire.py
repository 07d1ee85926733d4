"""Many statements in one trip: their rows in order, their failures whole, the connection of use afterwards."""

from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from psycopg.abc import PQGen
from psycopg.errors import DivisionByZero, OperationalError, QueryCanceled
from psycopg.pq import ConnStatus, PipelineStatus
from psycopg.pq.abc import PGresult

from refold.infrastructure.log.postgres.wire import BEGIN, COMMIT, Call, Wire, _Patience, int4, int8

ONE = Call("SELECT $1::int4", (int4(1),))
FAILS = Call("SELECT 1 / $1::int4", (int4(0),))


@pytest.fixture
def wire(pg_url: str) -> Iterator[Wire]:
    """A connection that prepares statements."""
    with psycopg.connect(pg_url, autocommit=True) as connection, closing(Wire(connection)) as wire:
        wire.prepares = True
        yield wire


def test_rows_come_in_order(wire: Wire) -> None:
    """Each statement's rows for itself, in binary form, whether prepared or not."""
    two = Call("SELECT g, g::int8 * $1, null FROM generate_series(1, 2) g", (int8(1 << 40),))

    for _ in range(3):
        assert wire.run(ONE, two, ONE) == [[(1,)], [(1, 1 << 40, None), (2, 2 << 40, None)], [(1,)]]


def test_a_trip_in_two_parts(wire: Wire) -> None:
    """What is sent early is answered with the rest."""
    wire.send(BEGIN, ONE)

    assert wire.run(ONE, COMMIT) == [[], [(1,)], [(1,)], []]
    # Whoever uses the connection next finds no pipeline.
    assert wire._pgconn.pipeline_status == PipelineStatus.OFF


def test_a_failure_takes_the_rest_with_it(wire: Wire) -> None:
    """Nothing behind it is carried out, and the next trip is a new one."""
    wire.run(Call("CREATE TABLE t (n int)"))
    insert = Call("INSERT INTO t VALUES ($1)", (int4(1),))

    for _ in range(3):
        with pytest.raises(DivisionByZero):
            wire.run(BEGIN, insert, FAILS, insert, COMMIT)
        assert wire.settle()

    assert wire.run(Call("SELECT count(*) FROM t"), ONE) == [[(0,)], [(1,)]]


def test_a_statement_that_cannot_be_prepared(wire: Wire) -> None:
    """Names of prepared statements stay in step with the server's."""
    wrong = Call("SELECT no_such_column")
    for _ in range(3):
        with pytest.raises(psycopg.errors.UndefinedColumn):
            wire.run(ONE, wrong, Call("SELECT 2"))

    for _ in range(3):
        assert wire.run(Call("SELECT 2"), ONE, Call("SELECT 3")) == [[(2,)], [(1,)], [(3,)]]


def test_a_statement_by_itself(wire: Wire) -> None:
    """More bytes than a pipeline carries."""
    assert wire.run_apart(Call("SELECT length($1::bytea)", (bytes(20 << 20),))) == [(20 << 20,)]


def test_patience_ends(pg_url: str) -> None:
    """A statement that takes too long is called off, and the connection serves on."""
    with psycopg.connect(pg_url, autocommit=True) as connection:
        wire = Wire(connection, patience_seconds=0.2)
        with pytest.raises(QueryCanceled, match=r"^no answer for 0\.2 s, as while another transaction holds a lock$"):
            wire.run(Call("SELECT pg_sleep(30)"))
        with pytest.raises(QueryCanceled, match="due to statement timeout"):
            wire.run(BEGIN, Call("SET LOCAL statement_timeout = 10"), Call("SELECT pg_sleep(30)"))
        assert wire.settle()

        assert wire.run(ONE) == [[(1,)]]


def test_a_silent_server_is_asked_to_stop_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sign of life begins its time anew; behind that it has five seconds more, then it is given up."""
    now, asked = [100.0], []
    monkeypatch.setattr("refold.infrastructure.log.postgres.wire.monotonic", lambda: now[0])

    class Silent:
        def cancel_safe(self, *, timeout: float) -> None:
            asked.append((now[0], timeout))

    patience = _Patience(Silent(), 2.0)  # type: ignore[arg-type]
    for time, ready in ((101.9, 1), (103.8, 0), (103.9, 0), (103.95, 0), (108.8, 0)):
        now[0] = time
        patience.check(ready)
    assert asked == [(103.9, 5.0)]

    now[0] = 108.9
    with pytest.raises(OperationalError, match="the server hangs, or a pooler has no connection to lend"):
        patience.check(0)


def test_an_abandoned_trip_ends_the_connection(wire: Wire) -> None:
    """Its answers would be taken for those to something else."""
    wire.send(BEGIN, ONE)

    assert not wire.settle()
    assert wire.is_lost


def test_a_lost_connection(wire: Wire, pg_url: str) -> None:
    """It shows at the next trip, and stays lost."""
    ((pid,),) = wire.run(Call("SELECT pg_backend_pid()"))[0]
    with psycopg.connect(pg_url) as other:
        other.execute("select pg_terminate_backend(%s)", (pid,))

    for _ in range(2):
        with pytest.raises(psycopg.OperationalError):
            wire.run(ONE)
    assert wire.is_lost


def test_why_a_connection_was_ended(wire: Wire) -> None:
    """What the server said at last is the error, as of a time-out that its administrator set."""
    with pytest.raises(OperationalError, match=r"^terminating connection due to administrator command$") as met:
        wire.run(BEGIN, Call("SELECT pg_terminate_backend(pg_backend_pid())"), Call("SELECT pg_sleep(5)::text"))

    assert met.value.sqlstate is None
    assert wire.is_lost


def test_a_connection_lost_before_a_statement_by_itself(wire: Wire, pg_url: str) -> None:
    """It shows there as well, and the error is the connection's."""
    ((pid,),) = wire.run(Call("SELECT pg_backend_pid()"))[0]
    with psycopg.connect(pg_url) as other:
        other.execute("select pg_terminate_backend(%s)", (pid,))

    with pytest.raises(psycopg.OperationalError):
        wire.run_apart(ONE)
    assert wire.is_lost


def test_a_failure_of_a_statement_by_itself(wire: Wire) -> None:
    """It is raised as in a trip, and the connection serves on."""
    with pytest.raises(DivisionByZero):
        wire.run_apart(FAILS)

    assert wire.settle()
    assert wire.run_apart(ONE) == [(1,)]


def test_a_rollback_that_is_refused(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody uses a connection again that is in a transaction still."""
    wire.run(BEGIN)
    monkeypatch.setattr(wire, "run", raise_an_error)

    assert not wire.settle()
    assert wire.is_lost


def raise_an_error(*calls: Call) -> None:
    """Refuse to run anything, as a pooler may."""
    raise OperationalError("no more of this")


def test_fewer_answers_than_statements(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer is taken for that to another statement, and the connection is given up."""
    answers = Wire._answers

    def all_but_one(self: Wire, **options: bool) -> PQGen[list[PGresult]]:
        return (yield from answers(self, **options))[:-1]

    monkeypatch.setattr(Wire, "_answers", all_but_one)

    with pytest.raises(OperationalError, match="another number of answers than it was asked for"):
        wire.run(ONE, ONE)
    assert wire.is_lost


def test_a_connection_lost_between_two_answers(wire: Wire) -> None:
    """The end of the answers is not taken for the end of the trip."""
    ended: Any = SimpleNamespace(
        flush=lambda: 0, is_busy=lambda: 0, get_result=lambda: None, status=ConnStatus.BAD, socket=-1
    )
    wire._pgconn = ended

    with pytest.raises(OperationalError, match="the server closed the connection"):
        next(wire._answers())

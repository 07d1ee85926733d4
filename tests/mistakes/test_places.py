"""A place that is none is refused before a file is made, and no message or repr has a password in it."""

import os
import threading
import traceback
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.domain.errors import InvalidInputError, RefoldError, StorageUnavailableError
from refold.domain.positions import BEGINNING, Partition
from refold.infrastructure.projecting.partitions import PartitionTask
from refold.projections.catalogue import CATALOGUE
from tests.cli.running import refold as command

PASSWORD = "geheim"
NOWHERE = "mia:geheim@localhost:1/agents"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run each test in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REFOLD_DB", raising=False)
    return tmp_path


def refused(location: Any) -> RefoldError:
    """Return the error of opening a location; nothing that Python prints of it has the password."""
    with pytest.raises(RefoldError) as caught:
        refold.open(location)
    assert PASSWORD not in "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert list(Path().iterdir()) == []
    return caught.value


@pytest.mark.parametrize("location", [None, 5, True, b"", b"x.db", [], "", " \n"], ids=repr)
def test_what_is_no_location(location: Any) -> None:
    """Its repr would become the name of a file."""
    error = refused(location)

    assert isinstance(error, InvalidInputError)
    assert "give a path, postgresql://user:password@host:port/name or :memory:" in str(error)


@pytest.mark.parametrize(
    "location",
    [
        "host=localhost dbname=agents password=geheim",
        " password = geheim",
        "application_name=agents connect_timeout=5 host=localhost password=geheim",
        "\n  host=localhost\n  password=geheim\n",
        "application_name=agents\n  password=geheim",
        "mia:geheim@localhost/agents",
        "postgres//mia:geheim@localhost/agents",
        "postgresql:/mia:geheim@localhost/agents",
        "postgresql+psycopg:mia:geheim@localhost/agents",
        f"mysql://{NOWHERE}",
        f"https://{NOWHERE}",
        "sqlite:///geheim.db",
        "file:geheim.db?mode=rwc",
    ],
)
def test_what_looks_like_a_connection(location: str) -> None:
    """Connection strings of libpq, URLs with a slip, and those of other databases are no names of files."""
    assert isinstance(refused(location), InvalidInputError)
    assert PASSWORD not in command("contexts", "--db", location).fault


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "POSTGRESQL", "postgresql+psycopg", "postgresql+asyncpg"])
def test_urls_as_others_write_them(scheme: str) -> None:
    """SQLAlchemy names a driver, which says nothing here: the server is asked, and does not answer."""
    error = refused(f"{scheme}://{NOWHERE}")

    assert isinstance(error, StorageUnavailableError)
    assert str(error).startswith("postgresql://localhost:1/agents cannot be opened")


def test_a_url_of_sqlalchemy_opens_the_database(pg_url: str) -> None:
    """It is the same database."""
    with refold.open(pg_url) as store:
        store.chat("a")
    with refold.open(pg_url.replace("postgresql://", "postgresql+psycopg://")) as store:
        assert [row.id for row in store.contexts()] == ["a"]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://mia:ge/heim@localhost/agents",
        "postgresql://mia:12/geheim@localhost/agents",
        "postgresql://mia:geheim/1@localhost/agents",
        "postgresql://mia:geheim@@localhost/agents",
        "postgresql://mia:geh?geheim@localhost/agents",
    ],
)
def test_a_password_with_a_sign_that_ends_it(url: str) -> None:
    """Where libpq takes a part of it for the host, the port, the name or an option."""
    assert isinstance(refused(url), StorageUnavailableError)


LIKE_OTHERS = ("host=x", "mia:geheim@x.db", "file:x.db", ":memory:")
LIKE_URIS = ("x?mode=memory.db", "100%25.db", "a#b.db", "a;b 'c\".db")


@pytest.mark.parametrize("kept", [Path(name) for name in LIKE_OTHERS] + list(LIKE_URIS), ids=repr)
def test_a_path_may_look_like_anything(kept: str | Path) -> None:
    """A `Path` is a path, whatever its name, and a text is the name of a file, whatever it would mean in a URI."""
    for _ in range(2):
        with refold.open(kept) as store:
            store.chat("a").add_message("user", "hello")

    assert [path.name for path in Path().iterdir()] == [str(kept)]
    with refold.open(kept) as store:
        assert len(store.chat("a").items) == 2


@pytest.mark.parametrize("location", ["a\0b.db", Path("a\0b.db")], ids=repr)
def test_a_path_with_a_nul(location: str | Path) -> None:
    """Its first part would be the name of the file."""
    assert isinstance(error := refused(location), InvalidInputError)
    assert str(error) == "the location 'a\\x00b.db' holds a NUL: leave it out"


def test_a_path_that_the_system_does_not_take(empty_folder: Path) -> None:
    """One that is too long, and one in a folder that is gone."""
    error = refused("x" * 300)
    assert isinstance(error, StorageUnavailableError)
    assert "(File name too long): check its folder and rights" in str(error)

    empty_folder.rmdir()
    with pytest.raises(StorageUnavailableError, match=r"x\.db cannot be opened \(No such file or directory\)"):
        refold.open("x.db")


def test_executors_do_not_log_the_password() -> None:
    """A task is logged when it fails; it knows where the store is."""
    task = PartitionTask(f"postgresql://{NOWHERE}", CATALOGUE, Partition(0, 2), BEGINNING, "plan", b"chain key")

    assert PASSWORD not in repr(task)
    assert "chain key" not in repr(task)
    assert "catalogue" in repr(task)


@pytest.mark.timeout(60)
def test_a_pipe_is_no_place(empty_folder: Path) -> None:
    """Nobody waits for its other end, and it is not replaced; a device is refused by the same lines."""
    os.mkfifo("pipe")
    with refold.open("agents.db") as store:
        store.chat("a").add_message("user", "Hello.")
        store.backup("agents.backup")
        with pytest.raises(InvalidInputError, match="pipe is no regular file"):
            store.backup("pipe")
    with pytest.raises(StorageUnavailableError, match="pipe is a device or a pipe: name a file"):
        refold.open("pipe")
    with pytest.raises(InvalidInputError, match="the witness 'pipe' is no file"):
        refold.open("other.db", witness="pipe")
    with pytest.raises(StorageUnavailableError, match="pipe is a device or a pipe"):
        refold.restore("agents.backup", "pipe", overwrite=True)
    with pytest.raises(InvalidInputError, match="pipe is no regular file"):
        refold.restore("pipe", "other.db")
    faults = [command(*words, db=Path("pipe")).fault for words in (("log",), ("verify",), ("stats",))]

    assert all("pipe is a device or a pipe" in fault for fault in faults), faults
    assert Path("pipe").is_fifo()
    assert not Path("other.db").exists()


@pytest.mark.timeout(60)
def test_what_is_read_once_can_come_through_a_pipe() -> None:
    """A transcript; an export is read twice, and is refused."""
    for name, text in (("one", '[{"role": "user", "content": "Through a pipe."}]'), ("two", "")):
        os.mkfifo(name)
        threading.Thread(target=Path(name).write_text, args=(text,), daemon=True).start()

    assert command("import", "one", db=Path("agents.db")).code == 0
    assert (
        command("import", "--format", "refold", "two", db=Path("agents.db")).fault
        == "two is no regular file: name a file"
    )
    with refold.open("agents.db") as store:
        assert [row.key for row in store.contexts()] == ["chat:one-1"]
    with Path("two").open() as rest:
        assert rest.read() == ""

"""`refold show`: a context, as it is or as it was."""

from pathlib import Path

import pytest

import refold as package
from tests.cli.running import refold
from tests.importing.transcripts import TALK


@pytest.fixture
def living(database: Path) -> Path:
    """The database, with a context that is not imported: `support`, of version 6."""
    with package.open(database) as store:
        chat = store.chat("support", user="mia", agent="triage")
        chat.add_message("user", "Where is my order?")
        chat.add_function_output("look_up", "no such thing", "a", is_error=True)
        chat.add_handoff("billing", "triage", "money")
        chat.name_version("before-refund", 2)
        chat.add_config_update("Be brief.", ["pay", "look_up"])
    return database


def bodies(text: str) -> list[str]:
    """Return the lines behind the head, without blank ones."""
    return [line for line in text.splitlines()[1:] if line]


def test_items_stand_beside_their_versions(database: Path) -> None:
    """Role or kind, and what was said."""
    assert bodies(refold("show", "air-0.0", db=database).out) == [
        "@2  user       hello",
        "@3  assistant  One moment.",
        "@4  call       look_up({})",
        "@5  output     look_up: found",
        "@6  assistant  Here.",
    ]


def test_items_of_every_kind(living: Path) -> None:
    """Errors, handoffs and config updates are told apart."""
    assert bodies(refold("show", "support", db=living).out) == [
        "@2  user       Where is my order?",
        "@3  error      look_up: no such thing",
        "@4  handoff    triage -> billing: money",
        "@6  config     instructions: Be brief.",
        "               tools: pay, look_up",
    ]


def test_the_whole_configuration(tmp_path: Path) -> None:
    """Settings have a line each, and so do they in a difference."""
    with package.open(tmp_path / "x.db") as store:
        chat = store.chat("x")
        chat.add_config_update(tools=[{"name": "pay"}], model="m1", settings={"temperature": 0.2})

    shown = bodies(refold("show", "x", db=tmp_path / "x.db").out)
    assert shown == [
        "@2  config     tools: pay",
        '               tool schemas: {"pay":{"name":"pay"}}',
        "               model: m1",
        "               temperature: 0.2",
    ]
    differences = refold("diff", "x@1..2", db=tmp_path / "x.db").out
    assert "model: m1" in differences
    assert "model: m1" in refold("log", "x", db=tmp_path / "x.db").out


def test_a_message_that_was_not_finished(tmp_path: Path) -> None:
    """A mark says so, and why; the log has its pieces."""
    with package.open(tmp_path / "x.db") as store:
        chat = store.chat("x")
        out = chat.stream_message().__enter__()
        out.write("It is ")
        out.flush()

    assert bodies(refold("show", "x", db=tmp_path / "x.db").out) == [
        "@2  assistant  It is",
        "               [incomplete: its writer has not finished it]",
    ]
    [item] = refold("show", "x", "--tail", "1", "--as", "json", db=tmp_path / "x.db").json["items"]
    assert (item["item"]["content"], item["item"]["incomplete"]) == (["It is "], "its writer has not finished it")
    assert "@2 goes on: It is" in refold("log", "x", db=tmp_path / "x.db").out


def test_the_head_says_what_is_shown(database: Path) -> None:
    """Context, version, time, number of items, tokens."""
    head = refold("show", "air-0.0@3", db=database).out.splitlines()[0]

    assert head.startswith("chat:air-0.0 @3 of 6  20")
    assert head.endswith("Z (just now)  2 items, about 11 tokens")


@pytest.mark.parametrize(
    ("address", "version"),
    [
        ("support", 6),
        ("support@6", 6),
        ("support@3", 3),
        ("support@-2", 4),
        ("support@0", 0),
        ("support@before-refund", 2),
        ("support@2999-01-01T00:00:00Z", 6),
        ("support@2999-01-01T00:00:00+01:00", 6),
        ("support@1999-01-01T00:00:00Z", 0),
        ("support@2999-01-01", 6),
        ("support@1999-01-01", 0),
        ("support@happened:1999-01-01", 1),
        ("support@item:a", 3),
        ("support@a", 3),
        ("support@pos:0", 0),
        ("support@pos:99999", 6),
        ("chat:support@4", 4),
    ],
)
def test_every_way_to_name_a_moment(living: Path, address: str, version: int) -> None:
    """Behind the @, or with --at."""
    context, _, moment = address.partition("@")

    assert refold("show", address, "--json", db=living).json["version"] == version
    if moment:
        assert refold("show", context, "--at", moment, "--json", db=living).json["version"] == version


def test_a_position_of_the_log_names_a_version(living: Path) -> None:
    """As `refold log` prints it."""
    (event,) = (one for one in refold("log", "support", "--json", db=living).json if one["version"] == 3)

    assert refold("show", f"support@pos:{event['position']}", "--json", db=living).json["version"] == 3


def test_the_exact_time_of_an_event_names_its_version(living: Path) -> None:
    """Times in JSON can be handed back."""
    shown = refold("show", "support@3", "--json", db=living).json

    assert refold("show", "support", "--at", shown["at"], "--json", db=living).json["version"] >= 3


@pytest.mark.parametrize(
    ("address", "code", "fault"),
    [
        ("nobody", 1, "there is no context 'nobody': `refold contexts` lists them"),
        ("queue:support", 1, "there is no context 'queue:support'"),
        ("support@7", 1, "chat:support has no version 7: it goes from 0 to 6"),
        ("support@-7", 1, "chat:support has no version -7: it goes from 0 to 6"),
        (
            "support@after",
            1,
            "chat:support has no version named 'after', nor an item with this id (names: before-refund)",
        ),
        ("support@2026-11-21T10:00:00", 2, "Invalid value for 'CTX[@V]': '2026-11-21T10:00:00' has no time zone"),
        ("support@2026-13-01", 2, "Invalid value for 'CTX[@V]': '2026-13-01' names no moment"),
        ("support@pos:x", 2, "Invalid value for 'CTX[@V]': 'x' is not a position"),
        ("support@", 2, "Invalid value for 'CTX[@V]': 'support@' should be a context"),
        ("@3", 2, "Invalid value for 'CTX[@V]': '@3' should be a context"),
        ("support@1..2", 2, "Invalid value for 'CTX[@V]': 'support@1..2' names a range"),
        ("a\udcff", 2, "Invalid value for 'CTX[@V]': it is not UTF-8 text"),
        ("", 2, "Invalid value for 'CTX[@V]': it is empty"),
        ("a\x1b[2Jb", 1, "there is no context 'a\\x1b[2Jb'"),
        ("a\x00b", 1, "there is no context 'a\\x00b'"),
        ("a" * 300, 1, "there is no context 'aaa"),
    ],
)
def test_a_moment_that_is_not(living: Path, address: str, code: int, fault: str) -> None:
    """What does not exist failed, what cannot be understood was used wrongly."""
    ended = refold("show", address, db=living)

    assert ended.code == code
    assert ended.fault.startswith(fault)


def test_a_moment_is_named_once(living: Path) -> None:
    """In the address or with --at."""
    assert "the moment is given twice" in refold("show", "support@3", "--at", "4", db=living).fault


def test_an_id_like_a_kind_is_found(database: Path) -> None:
    """An id may begin as a kind does; where two are meant, the command asks."""
    with package.open(database) as store:
        store.chat("chat:odd")
        assert refold("show", "chat:odd", "--json", db=database).json["context"] == "chat:odd"
        store.chat("odd")

    assert "'chat:odd' can mean chat:odd or chat:chat:odd" in refold("show", "chat:odd", db=database).fault


def test_before_it_was_opened(database: Path) -> None:
    """There is nothing, and that is no error."""
    ended = refold("show", "air-0.0@0", db=database)

    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "chat:air-0.0 @0 of 6  before it was opened  0 items, about 0 tokens\n"


def test_the_last_items_alone(database: Path) -> None:
    """--tail takes any number."""
    assert bodies(refold("show", "air-0.0", "--tail", 2, db=database).out) == [
        "@5  output     look_up: found",
        "@6  assistant  Here.",
    ]
    whole = refold("show", "air-0.0", "--json", db=database).json
    assert refold("show", "air-0.0", "--tail", 99, "--json", db=database).json == whole
    waiting = {**whole["items"][2], "pending": True}
    assert refold("show", "air-0.0@4", "--tail", 1, "--json", db=database).json["items"] == [waiting]


def test_the_last_items_of_many(tmp_path: Path) -> None:
    """However long the context is."""
    with package.open(tmp_path / "long.db", durability="enqueue") as store:
        chat = store.chat("long")
        for number in range(300):
            chat.add_message("user", str(number))
    shown = refold("show", "long", "--tail", 150, "--json", db=tmp_path / "long.db").json

    assert [item["item"]["content"] for item in shown["items"]] == [[str(n)] for n in range(150, 300)]
    assert [item["version"] for item in shown["items"]] == list(range(152, 302))


def test_as_openai_messages(database: Path) -> None:
    """What came in comes out; --tail counts messages."""
    assert refold("show", "air-0.0", "--as", "openai", db=database).json == TALK
    assert refold("show", "air-0.0@4", "--as", "openai", "--json", db=database).json == TALK[:2]
    assert refold("show", "air-0.0", "--as", "openai", "--tail", 1, db=database).json == TALK[-1:]
    assert refold("show", "air-0.0@1", "--as", "openai", db=database).json == []


def test_the_shape_of_the_json(database: Path) -> None:
    """It is stable: fields may come, none goes."""
    shown = refold("show", "air-0.0@3", "--as", "json", db=database).json
    (_, item) = shown.pop("items")
    at = shown.pop("at")

    assert shown == {
        "context": "air-0.0",
        "kind": "chat",
        "version": 3,
        "head": 6,
        "opened": {
            "user": None,
            "session": None,
            "agent": None,
            "source": "air.json",
            "parent": None,
            "attributes": {"task_id": 0, "trial": 0, "reward": 1.0, "info": {"kind": "first"}},
        },
    }
    assert at == item["recorded_at"]
    assert at.endswith("Z")
    assert {name: type(value) for name, value in item.items()} == {
        "version": int, "stream": str, "position": str, "recorded_at": str, "actor": str, "pinned": bool,
        "item": dict,
    }  # fmt: skip
    assert (item["version"], item["actor"], item["item"]["content"]) == (3, "import", "One moment.")
    assert {"type", "id", "created_at", "agent_id", "role", "content", "interrupted", "extra"} <= {*item["item"]}


def test_pauses_are_shown(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where more than a minute passed between two items, the time stands between them."""
    from refold.infrastructure.cli import lines as listing

    monkeypatch.setattr(listing, "PAUSE_SECONDS", -1)

    lines = bodies(refold("show", "air-0.0@3", db=database).out)
    assert lines[0] == "@2  user       hello"
    assert lines[1].startswith("    -- 20")
    assert lines[2] == "@3  assistant  One moment."

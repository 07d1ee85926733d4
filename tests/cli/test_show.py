"""`refold show`: a context, as it is or as it was."""

import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import refold as package
from refold.domain.chat.events import FunctionCalled, FunctionReturned
from refold.infrastructure.cli.lines import Row, style_of_row
from refold.infrastructure.views.shapes import Entry
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
        "@5  output       look_up: found",
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


DYING = """
import os, signal, sys, refold
with refold.open(sys.argv[1]).chat("x").stream() as out:
    out.write("It is ")
    out.flush()
    out.write("lost")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_message_whose_writer_was_killed(tmp_path: Path) -> None:
    """It is there as far as it came; a mark says so, and why; the log has its pieces."""
    died = subprocess.run([sys.executable, "-c", DYING, tmp_path / "x.db"], timeout=60, check=False)

    assert died.returncode == -signal.SIGKILL
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
    """An id may begin as a kind does; where two could be meant, a whole name means what it says."""
    with package.open(database) as store:
        store.chat("chat:odd")
        assert refold("show", "chat:odd", "--json", db=database).json["context"] == "chat:odd"
        store.chat("odd")

    for name, shown in {"chat:odd": "odd", "chat:chat:odd": "chat:odd"}.items():
        assert refold("show", name, "--json", db=database).json["context"] == shown


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

    monkeypatch.setattr(listing, "PAUSE", -1)

    lines = bodies(refold("show", "air-0.0@3", db=database).out)
    assert lines[0] == "@2  user       hello"
    assert lines[1].startswith("    -- 20")
    assert lines[2] == "@3  assistant  One moment."


def test_outputs_stand_under_their_calls(living: Path) -> None:
    """Each names its call, unless that is the only one and directly above; --ids has the ids that both share."""
    calls = [{"type": "tool_use", "id": f"t{number}", "name": "f", "input": {}} for number in (1, 2)]
    results = [{"type": "tool_result", "tool_use_id": f"t{number}", "content": "found"} for number in (2, 1)]
    with package.open(living) as store:
        chat = store.chat("calls")
        chat.add_messages([{"role": "assistant", "content": calls[:1]}, {"role": "user", "content": results[1:]}])
        chat.add_messages([{"role": "assistant", "content": calls}, {"role": "user", "content": results}])
        unnamed = FunctionReturned(id="o", created_at=1.0, name="", call_id="c", output="found")
        store.chat("unnamed").add_function_call("f", "{}", "c")
        store.chat("unnamed").record_items([unnamed])

    assert bodies(refold("show", "unnamed", db=living).out)[-1] == "@3  output       f: found"
    assert bodies(refold("show", "calls", db=living).out) == [
        "@2  call       f({})",
        "@3  output       f: found",
        "@4  call       f({})",
        "@5  call       f({})",
        "@6  output       @5 f: found",
        "@7  output       @4 f: found",
    ]
    assert bodies(refold("show", "calls", "--tail", "1", db=living).out) == ["@7  output     f: found"]
    noted = [line for line in refold("show", "calls", "--ids", db=living).out.splitlines() if "(id " in line]
    assert [line.rpartition(" ")[2] for line in noted] == ["t1)", "t1)", "t1)", "t2)", "t2)", "t1)"]


@pytest.mark.parametrize(
    ("items", "named"),
    [
        ("co", [""]), ("uco", [""]), ("cco", ["@2 "]), ("ccoo", ["@2 ", "@3 "]), ("cuo", ["@2 "]), ("cuuo", ["@2 "]),
        ("ucuuo", ["@3 "]), ("cocuo", ["", "@4 "]), ("uccuoo", ["@3 ", "@4 "]),
    ],
)  # fmt: skip
def test_an_output_names_a_call_that_it_does_not_follow(tmp_path: Path, items: str, named: list[str]) -> None:
    """Directly under the only call of an answer it needs no name; calls are answered in their order."""
    with package.open(tmp_path / "x.db", synchronous="NORMAL") as store:
        chat, calls = store.chat("x"), iter("01")
        for number, kind in enumerate(items):
            if kind == "c":
                chat.add_function_call("f", "{}", call_id=str(items[:number].count("c")))
            elif kind == "o":
                chat.add_function_output("f", "found", next(calls))
            else:
                chat.add_message("user", "hello")

    shown = [
        line.split(maxsplit=2)[2] for line in bodies(refold("show", "x", db=tmp_path / "x.db").out) if "found" in line
    ]
    assert shown == [f"{name}f: found" for name in named]


def test_a_pair_has_one_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next call has another one; an error stays red."""
    called = [FunctionCalled(id=f"i{n}", created_at=1.0, name="f", arguments="", call_id=f"c{n}") for n in range(2)]
    failed = FunctionReturned(id="o", created_at=1.0, name="f", call_id="c1", output="x", is_error=True)

    def style(item: Any, speaker: str, pair: int | None) -> str:
        row = Row(Entry(item, None, "chat:a"), "", pair=pair)  # type: ignore[arg-type]  # the event is not looked at
        return style_of_row(row, speaker)

    assert [style(called[0], "call", 0), style(called[1], "call", 1)] == ["yellow", "cyan"]
    assert style(called[0], "output", 0) == "yellow"
    assert style(failed, "error", 1) == "red"
    assert style(called[0], "thinking", 0) == "dim"


THOUGHTS: dict[str, list[Any]] = {
    "anthropic": [{"role": "assistant", "content": [
        {"type": "thinking", "thinking": "I ponder.", "signature": "s"}, {"type": "text", "text": "Yes."}]}],
    "google": [{"role": "model", "parts": [{"thought": True, "text": "I ponder."}, {"text": "Yes."}]}],
    "responses": [
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "I ponder."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]}],
    "openai-compatible": [{"role": "assistant", "content": "Yes.", "reasoning_content": "I ponder."}],
}  # fmt: skip


@pytest.mark.parametrize("provider", THOUGHTS)
def test_thinking_is_shown_as_such(living: Path, provider: str) -> None:
    """Before the message or the call that it led to, in a log behind it; what is encrypted is said to be so."""
    with package.open(living) as store:
        store.chat("deep").add_messages(THOUGHTS[provider])
        store.chat("closed").add_messages([{"role": "assistant", "content": [
            {"type": "redacted_thinking", "data": "x"}, {"type": "tool_use", "id": "t", "name": "f", "input": {}},
        ]}])  # fmt: skip

    assert bodies(refold("show", "deep", db=living).out) == [
        "@2  thinking   I ponder.",
        "    assistant  Yes.",
    ]
    assert "assistant: Yes. (thinking: I ponder.)" in refold("log", "deep", db=living).out
    assert bodies(refold("show", "closed", db=living).out)[0] == "@2  thinking   (encrypted)"


def test_imported_items_have_two_times(living: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When they were recorded, in the head; when they happened, below it and where a pause was."""
    with package.open(living) as store:
        chat = store.chat("old")
        for minute in (0, 0, 7):
            chat.add_message("user", "x", created_at=datetime(2020, 3, 1, 9, minute, tzinfo=UTC).timestamp())
    head, happened, *rest = refold("show", "old", db=living).out.splitlines()

    assert head.startswith("chat:old @4  20")
    assert happened == "older items happened 2020-03-01T09:00:00Z to 2020-03-01T09:07:00Z, before they were recorded"
    assert rest[5] == "    -- happened 2020-03-01T09:07:00Z"
    monkeypatch.setenv("COLUMNS", "60")
    assert refold("pin", "old", "@2", "--reason", "r", db=living).code == 0
    assert refold("evict", "old", "@3", "--reason", "it is not needed any more, and took room", db=living).code == 0
    for options in ([], ["--ids"], ["--evicted"]):
        assert max(map(len, refold("show", "old", *options, db=living).out.splitlines())) <= 60
    name = "the-support-of-a-customer-with-a-long-name"
    with package.open(living) as store:
        store.chat(name)
    assert max(map(len, refold("show", name, db=living).out.splitlines())) <= 60
    monkeypatch.setenv("COLUMNS", "20")
    narrow = refold("show", name, db=living).out.split()
    monkeypatch.setenv("COLUMNS", "400")
    assert narrow == refold("show", name, db=living).out.split()

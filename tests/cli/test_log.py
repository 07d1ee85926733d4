"""`refold log`: the events themselves."""

import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec import structs

import refold as package
from refold.domain.chat.events import Image
from refold.domain.errors import DamagedError
from refold.domain.log.envelope import Meta, RecordedEvent
from refold.domain.log.ports import Page
from refold.domain.positions import BEGINNING, Moment, Position
from refold.infrastructure.cli import log as list_module
from refold.infrastructure.cli.damaged_log import Readable
from refold.infrastructure.cli.lines import body_of
from tests.cli.running import refold, started
from tests.domain.chat_events import OPENED, configured, handed, returned, said

CALLS = [
    {"id": f"c{order}", "type": "function", "function": {"name": "look_up", "arguments": f'{{"id":{order}}}'}}
    for order in (7, 8)
]
ASKED = {"role": "user", "content": "Where are 7 and 8?"}
ASKED_TWICE = {"role": "assistant", "content": None, "tool_calls": CALLS}
FOUND_BOTH = {
    "role": "user",
    "content": [
        {"type": "tool_result", "tool_use_id": "c8", "content": "lost"},
        {"type": "tool_result", "tool_use_id": "c7", "content": "shipped"},
    ],
}


def rows(text: str) -> list[list[str]]:
    """Return the first words of every line: position, time, place, actor, type."""
    return [line.split(maxsplit=5) for line in text.splitlines()]


def test_a_line_for_each_event(database: Path) -> None:
    """Position, time, place, who, what, oldest first."""
    lines = rows(refold("log", "air-0.0", db=database).out)

    assert [(line[0], *line[2:]) for line in lines] == [
        ("1", "air-0.0@1", "import", "opened", "source=air.json"),
        ("2", "air-0.0@2", "import", "message_added", "user: hello"),
        ("3", "air-0.0@3", "import", "message_added", "assistant: One moment."),
        ("4", "air-0.0@4", "import", "function_called", "look_up({})"),
        ("5", "air-0.0@5", "import", "function_returned", "@4 look_up: found"),
        ("6", "air-0.0@6", "import", "message_added", "assistant: Here."),
    ]
    assert all(line[1].endswith("Z") for line in lines)


def test_the_whole_log(database: Path) -> None:
    """Without a context, all of them."""
    assert [line[2] for line in rows(refold("log", db=database).out)] == [
        *(f"air-0.0@{version}" for version in range(1, 7)),
        *(f"air-0.1@{version}" for version in range(1, 7)),
        *(f"air-1@{version}" for version in range(1, 3)),
    ]
    time = refold("log", "air-0.1", "--tail", 1, "--json", db=database).json[0]["recorded_at"]
    assert [line[0] for line in rows(refold("log", "--after", time, db=database).out)] == ["13", "14"]


@pytest.mark.parametrize(
    ("arguments", "positions"),
    [
        (["--limit", 2], [1, 2]),
        (["-n", 2], [1, 2]),
        (["--after", 12], [13, 14]),
        (["--after", "pos:12", "--limit", 1], [13]),
        (["--after", 0, "--limit", 1], [1]),
        (["--after", 12, "--limit", 10**20], [13, 14]),
        (["--type", "opened"], [1, 7, 13]),
        (["--type", "chat.opened"], [1, 7, 13]),
        (["--type", "chat.opened.v1", "--type", "function_called"], [1, 4, 7, 10, 13]),
        (["--type", "opened", "--limit", 1, "--after", 1], [7]),
        (["--type", "handed_off"], []),
        (["--without", "opened", "--without", "chat.message_added.v1"], [4, 5, 10, 11]),
        (["--without", "opened", "--type", "opened"], []),
        (["--without", "message_added", "--tail", 1], [13]),
        (["air-0.1"], [7, 8, 9, 10, 11, 12]),
        (["air-0.1@2"], [7, 8]),
        (["air-0.1@-4"], [7, 8]),
        (["air-0.1@2..4"], [9, 10]),
        (["air-0.1@2..4", "--tail", 1], [10]),
        (["air-0.1@..2"], [7, 8]),
        (["air-0.1@-2..", "--type", "message_added"], [12]),
        (["air-0.1@4..2"], []),
        (["air-0.1", "--after", 10], [11, 12]),
        (["air-0.1", "--after", 2, "--limit", 1], [7]),
        (["chat:air-1", "--type", "message_added"], [14]),
        (["--tail", 2], [13, 14]),
        (["--tail", 2, "--type", "opened"], [7, 13]),
        (["--tail", 9, "--after", 12], [13, 14]),
        (["--tail", 10**20, "--after", 12], [13, 14]),
        (["air-0.1", "--tail", 10**20, "--after", 10], [11, 12]),
        (["--tail", 99, "--type", "opened"], [1, 7, 13]),
        (["air-0.1", "--tail", 2, "--type", "message_added"], [9, 12]),
        (["air-0.1", "--tail", 2, "--after", "2999-01-01"], []),
        (["air-0.1", "--tail", 2], [11, 12]),
        (["air-0.1", "--tail", 9, "--after", 11], [12]),
        (["--who", "import", "--tail", 1], [14]),
        (["--who", "mia"], []),
        (["--after", "2020-01-01", "--tail", 1], [14]),
        (["air-0.1", "--after", "2020-01-01", "--limit", 1], [7]),
        (["--after", "2999-01-01"], []),
    ],
)
def test_what_is_listed_can_be_narrowed(database: Path, arguments: list[Any], positions: list[int]) -> None:
    """By context, version, position, type and number; JSON lists the same."""
    assert [int(line[0]) for line in rows(refold("log", *arguments, db=database).out)] == positions
    assert [int(event["position"]) for event in refold("log", *arguments, "--json", db=database).json] == positions


def test_the_last_events_are_read_from_the_end(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter leaves out some of them, so more are read until there are enough; the others are not read."""
    read: list[str] = []
    for name in ("pages", "of_stream"):
        reading = getattr(Readable, name)
        monkeypatch.setattr(Readable, name, lambda *given, call=reading, **named: noted(read, call(*given, **named)))
    for arguments, last in (("", "14"), ("--type function_called", "10"), ("air-0.1 --who import", "12")):
        read.clear()
        found = refold("log", *arguments.split(), "--tail", 1, "--json", db=database).json
        assert [event["position"] for event in found] == [last]
        assert min(map(int, read)) > 7
    time = refold("log", "--tail", 1, "--json", db=database).json[0]["recorded_at"]
    with package.open(database) as store:
        store.chat("air-1").add_message("user", "news")
    read.clear()
    refold("log", "--tail", 1, "--who", "mia", "--after", time, db=database)
    assert read == ["15", "13", "14"]


def noted(read: list[str], found: Any) -> Iterator[Any]:
    """Yield events, or pages of them, and note their positions."""
    for one in found:
        read += [str(event.position) for event in getattr(one, "events", [one])]
        yield one


def test_the_last_events_of_slices_that_are_side_by_side() -> None:
    """They are those that a look at all events gives, whichever slices have them, also at equal times."""
    drawn = Random(7)
    store = package.open(":memory:")
    for _ in range(300):
        times = {lane: sorted(drawn.choices(range(9), k=drawn.randrange(12))) for lane in range(3)}
        events = [
            RecordedEvent("chat:a", number, Position(lane, number), at, OPENED, Meta(actor=drawn.choice("ab")), b"")
            for lane, some in times.items()
            for number, at in enumerate(some, 1)
        ]
        tail, who = drawn.randrange(1, 9), drawn.choice([None, "a"])
        wanted = list_module._EventFilter(store, (), (), who, None)
        end = Moment.of({lane: len(some) for lane, some in times.items() if some})
        found = list_module._last_of_log(Slices(events), end, wanted, tail)  # type: ignore[arg-type]

        in_order = sorted(filter(wanted, events), key=lambda event: (event.recorded_at, event.position))
        assert list(found) == in_order[-tail:]


class Slices:
    """The events of some slices, which are read slice by slice."""

    def __init__(self, events: list[RecordedEvent]) -> None:
        self._events = events

    def pages(self, after: Moment, until: Moment) -> Iterator[Page]:
        """Yield the events between two moments, in small pages."""
        between = [
            one
            for one in self._events
            if after.head(one.position.slice) < one.position.number <= until.head(one.position.slice)
        ]
        yield from (Page(between[at : at + 4], until) for at in range(0, len(between), 4))


@pytest.mark.parametrize(
    ("arguments", "code", "fault"),
    [
        (["--type", "nonsense"], 2, "Invalid value for '--type': there are no events of type 'nonsense'; there are "),
        (["--after", "x"], 1, "no moment of this store is named 'x'"),
        (["--after", "99"], 1, "there is no position 99, the log ends at 14"),
        (["--after", "12:00"], 2, "Invalid value for '--after': '12:00' names no moment"),
        (["--limit", "1", "--tail", "1"], 2, "--limit takes the first events, --tail the last: name one of them"),
        (["--limit", "0"], 2, "Invalid value for '--limit' / '-n': 0 is not in the range"),
        (["nobody"], 1, "there is no context 'nobody': `refold contexts`"),
        (["air-0"], 1, "there is no context 'air-0': did you mean air-0.0 or air-0.1? `refold contexts`"),
        (["chat:air-1."], 1, "there is no context 'chat:air-1.': did you mean chat:air-1 or "),
        (["aur-2"], 1, "there is no context 'aur-2': `refold"),
        (["air-1@9"], 1, "chat:air-1 has no version 9"),
        (["air-1@9..2"], 1, "chat:air-1 has no version 9"),
        (["air-1@1..12:00"], 2, "Invalid value for '[CTX[@V|@A..B]]': '12:00' names no moment"),
        (["air-1@1", "--follow"], 2, "--follow goes on from the head: leave out @V"),
    ],
)
def test_what_cannot_be_listed(database: Path, arguments: list[str], code: int, fault: str) -> None:
    """One line, and nothing on stdout."""
    ended = refold("log", *arguments, db=database)

    assert ended.code == code
    assert ended.fault.startswith(fault)


@pytest.mark.parametrize(
    ("wrong", "near"), [("suport-42", "support-42 or support-43"), ("chat:supprot-43", "chat:support-43")]
)
def test_a_misspelt_name_is_answered_with_those_that_look_like_it(tmp_path: Path, wrong: str, near: str) -> None:
    """The nearest first, of those that begin as it does; a name with its kind gets names with theirs."""
    with package.open(tmp_path / "kept.db") as store:
        for name in ("support-42", "support-43", "summary"):
            store.chat(name)

    fault = refold("show", wrong, db=tmp_path / "kept.db").fault
    assert fault.startswith(f"there is no context {wrong!r}: did you mean {near}")


def test_an_id_with_a_slash_is_offered_as_it_is_kept(tmp_path: Path) -> None:
    """The saver of LangGraph keeps the thread a/42 as this chat."""
    with package.open(tmp_path / "kept.db") as store:
        store.chat("a%2F42").add_message("user", "Hello.")

    assert refold("show", "a/42", db=tmp_path / "kept.db").fault.startswith(
        "there is no context 'a/42': did you mean a%2F42? `refold contexts`"
    )


def test_the_shape_of_the_json(database: Path) -> None:
    """An array of events with their envelopes, one a line."""
    ended = refold("log", "air-0.0", "--limit", 2, "--json", db=database)
    opened, added = ended.json

    assert [json.loads(line.rstrip(",")) for line in ended.out.splitlines()[1:-1]] == [opened, added]
    assert {name: added[name] for name in ("position", "stream", "version", "actor", "type")} == {
        "position": "2",
        "stream": "chat:air-0.0",
        "version": 2,
        "actor": "import",
        "type": "chat.message_added.v1",
    }
    assert [added[name] for name in ("correlation_id", "causation", "idempotency_key")] == [None] * 3
    assert (added["event"]["role"], added["event"]["content"], added["event"]["origin"]) == ("user", "hello", {})
    assert opened["event"]["attributes"]["info"] == {"kind": "first"}
    assert len(bytes.fromhex(added["digest"])) == 32


def test_lines_end_at_the_edge(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the width is known; in a pipe they are as long as they are, for grep."""
    with package.open(database) as store:
        store.chat("long").add_message("user", "word " * 100)
    assert ("word " * 100).strip() in refold("log", "long", db=database).out

    monkeypatch.setenv("COLUMNS", "60")
    day, *lines = refold("log", "long", db=database).out.splitlines()
    assert len(day) == len("2026-11-21")
    assert max(len(line) for line in lines) <= 60
    assert lines[-1].endswith("…")


def test_a_narrow_log_says_what_happened(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 60 columns an event has two lines: its place, and what it says; so has an audit."""
    with package.open(database) as store:
        chat = store.chat("the-support-of-a-customer-with-a-long-name", agent="triage")
        chat.add_messages([ASKED, ASKED_TWICE, FOUND_BOTH])
    monkeypatch.setenv("COLUMNS", "60")
    for command in ("log", "audit"):
        lines = refold(command, chat.id, db=database).out.splitlines()[3:]
        assert [line.split()[-1] for line in lines[::2]] == [f"{chat.id}@{version}"[:44] for version in range(2, 7)]
        assert max(map(len, lines)) <= 60
    lines = refold("log", chat.id, db=database).out.splitlines()[3:]

    assert [line.split("  ", 3)[-1].strip() for line in lines[1::2]] == [
        "message_added  user: Where are 7 and 8?",
        'function_called  look_up({"id":7})',
        'function_called  look_up({"id":8})',
        "function_returned  @4 look_up: lost",
        "function_returned  @3 look_up: shipped",
    ]


def test_a_narrow_lineage_says_what_came_from_where(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 60 columns a point has two lines, and the lanes go on beside the second one."""
    with package.open(database) as store:
        long = store.chat("the-support-of-a-customer-with-a-long-name")
        long.fork("experiment-with-another-prompt")
        long.add_message("user", "x")
    monkeypatch.setenv("COLUMNS", "60")
    lines = refold("log", "--graph", long.id, db=database).out.splitlines()

    assert max(map(len, lines)) <= 60
    said = [line.split("  20")[0].split(" by ")[0] for line in lines]
    assert said[:2] == ["*    the-support-of-a-customer-with-a-long-name@1", "       opened"]
    assert said[2].startswith("+-*  experiment-with-another-prompt@1")
    assert said[3].startswith("       forked from the-support-of-a-customer-with-a")


def test_names_are_events(database: Path) -> None:
    """A name says which version it was given to."""
    with package.open(database) as store:
        store.chat("air-1").name_version("start", 2)

    assert rows(refold("log", "--type", "named", db=database).out)[0][-1] == "start = @2"


@pytest.mark.parametrize(
    ("arguments", "others"), [(["--json"], ["chat:other@1", "chat:other@2"]), (["air-1"], [])], ids=["json", "text"]
)
def test_new_events_are_followed(database: Path, arguments: list[str], others: list[str]) -> None:
    """What another program writes appears at once, as JSON lines or in words; Ctrl-C ends it with 130 and no word."""
    process = started("log", *arguments, "--follow", "--after", "12", "--db", database)
    assert process.stdout is not None
    seen = [place_in(process.stdout.readline()) for _ in range(2)]
    with package.open(database) as store:
        store.chat("other").add_message("user", "not in air-1")
        store.chat("air-1").add_message("user", "news")
    while seen[-1] != "chat:air-1@3":
        seen.append(place_in(process.stdout.readline()))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)

    assert (process.returncode, out, err) == (130, "", "")
    assert seen == ["chat:air-1@1", "chat:air-1@2", *others, "chat:air-1@3"]


def place_in(line: str) -> str:
    """Return the place of an event in a line about it."""
    if not line.startswith("{"):
        return f"chat:{line.split()[2]}"
    event = json.loads(line)
    return f"{event['stream']}@{event['version']}"


def test_following_ends_at_a_limit(database: Path) -> None:
    """Then it needs no Ctrl-C."""
    ended = refold("log", "--follow", "--limit", 14, db=database)

    assert (ended.code, len(ended.out.splitlines())) == (0, 14)


def test_what_is_left_out_is_said_before_it_follows(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is known once the past was read, and the command may never end."""
    with package.open(database) as store:
        store.chat("other")
        readable = Readable(store.log)
        readable.left_out.append(DamagedError("event chat:a@2", "it is odd"))
        events: Any = list_module._followed(store, readable, store.log.read("chat:other"), "chat:other", BEGINNING)
        assert (next(events).reference, capsys.readouterr().err) == ("chat:other@1", "")
        store.chat("air-1").add_message("user", "of another context")
        store.chat("other").add_message("user", "news")
        assert next(events).reference == "chat:other@2"
        events.close()

    said = "note: what cannot be read is left out: event chat:a@2 is damaged (it is odd); `refold verify` tells all "
    assert capsys.readouterr().err.startswith(said)


def test_damage_that_is_at_no_event_ends_the_reading(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no event can be left out, going on would never end."""
    with package.open(database) as store:
        log, end = store.log, store.now()

        def fail(**_: object) -> Any:
            raise DamagedError("the index of events", "it is odd")

        monkeypatch.setattr(log, "read_all", fail)
        with pytest.raises(DamagedError, match="the index of events is damaged"):
            next(Readable(log).pages(end))


def test_following_never_overlooks_what_comes_while_it_starts(database: Path) -> None:
    """The past is read after the moment from which the present is followed."""
    writing = threading.Event()

    def write() -> None:
        with package.open(database) as store:
            chat = store.chat("air-1")
            for number in range(30):
                chat.add_message("user", str(number))
                writing.set()

    writer = threading.Thread(target=write)
    writer.start()
    writing.wait(20)
    ended = refold("log", "air-1", "--follow", "--limit", 32, "--json", db=database)
    writer.join()

    assert [json.loads(line)["version"] for line in ended.out.splitlines()] == list(range(1, 33))


def test_pictures_and_what_is_not_there_have_words() -> None:
    """A picture in letters is of no use to a reader, its address is; a name that nobody gave is said to be none."""
    letters, address = "data:image/png;base64,AAAA", "https://x/y.png"
    parts: Any = ("look:", Image(id="i1", image=letters), Image(id="i2", image=address))

    assert body_of(said("m", parts)) == "look:\n[image data:image/png;base64,…]\n[image https://x/y.png]"
    assert body_of(structs.replace(returned(), name="")) == "(unknown function): found"
    assert body_of(handed()) == "(nobody) -> billing"
    assert body_of(structs.replace(handed(), from_agent="a", reason="money")) == "a -> billing: money"
    assert body_of(configured("c", tools=())) == "tools: (none)"
    assert body_of(configured("c", instructions="x", tools=("f", "g"))) == "instructions: x\ntools: f, g"


def test_a_choice_that_leaves_nothing_is_said(database: Path) -> None:
    """Nothing at all would look like a log that is empty; JSON has an empty list."""
    nothing = (0, "", "there are no such events\n")
    assert refold("log", "--who", "nobody", db=database) == nothing
    assert refold("log", "--who", "nobody", "--tail", "2", db=database) == nothing
    assert refold("log", "--who", "nobody", "--json", db=database).json == []

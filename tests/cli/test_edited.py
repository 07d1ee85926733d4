"""Contexts that were edited, forked and merged: shown, compared, listed and told of in the log."""

import asyncio
from pathlib import Path
from typing import Any

import refold as package
from tests.cli.running import refold
from tests.cli.talks import said


def told(path: Path, *arguments: str) -> list[list[str]]:
    """Return type and summary of the events of a context."""
    lines = refold("log", *arguments, db=path).out.splitlines()
    return [[part.strip() for part in line.split("  ") if part.strip()][-2:] for line in lines]


def test_the_log_tells_every_edit_in_words(edited: Path) -> None:
    """What, how many items, why, from where: one line each."""
    lines: dict[str, str] = {kind: text for kind, text, *_ in told(edited, "support")}

    assert lines["item_inserted"] == "before @2: user: Hello."
    assert lines["instructions_replaced"] == "in the place of 1 item (@2): system: Be kind."
    assert lines["items_pinned"] == "1 item (@3), because: the question"
    assert lines["items_unpinned"] == "1 item (@3)"
    assert lines["merged"] == "branch@3, 1 item (branch@2), since support@7"
    assert lines["conflict_resolved"] == "config: ours kept, as 'ours' wants it; ours @9, theirs branch@3"
    assert lines["summary_undone"].endswith(" back in the place of the summary @16")
    assert lines["cleared"].startswith("8 items, about ")
    assert lines["cleared"].endswith(", because: over")
    assert told(edited, "branch")[0] == ["forked", "from support@7, everything"]
    evicted = [text for kind, text in told(edited, "support", "--type", "items_evicted")]
    assert evicted[0] == "1 item (@6), about 8 tokens, because: wrong"
    assert ", by truncate" in evicted[1]
    summarized = lines["summarized"]
    assert ", by tests.domain.llm.models.ScriptedLLM: assistant: [Conversation Summary] They spoke" in summarized


def test_a_conflict_is_told(talking: Path) -> None:
    """Both sides by name, and which rule chose."""
    with package.open(talking) as store:
        chat = store.chat("support")
        branch = chat.fork("branch")
        chat.add_config_update("Be kind.")
        branch.add_config_update("Be quick.")
        asyncio.run(chat.merge(branch, on_conflict="theirs"))

    assert told(talking, "support")[-1] == [
        "conflict_resolved", "config: theirs kept, as 'theirs' wants it; ours @8, theirs branch@2",
    ]  # fmt: skip


def test_forks_of_a_part_are_told(talking: Path) -> None:
    """What came along, by name; a brief takes nothing."""
    refold("fork", "support", "short", "--turns", 1, db=talking)
    refold("fork", "support", "brief", "--brief", "x", db=talking)

    assert told(talking, "short") == [["forked", "from support@7, the last turns: 2 items (support@2, support@7)"]]
    assert told(talking, "brief")[0] == ["forked", "from support@7, nothing"]


def test_many_ranges_stay_one_line(tmp_path: Path) -> None:
    """The first few are said, the rest counted."""
    with package.open(tmp_path / "long.db", durability="enqueue") as store:
        chat = store.chat("long")
        ids = [chat.add_message("user", str(number)).id for number in range(40)]
        chat.evict(ids[::2])
    ((_, text),) = told(tmp_path / "long.db", "long", "--type", "items_evicted")

    assert text.startswith("20 items (@2, @4, @6, @8, @10, and 15 ranges more), about ")


def test_spans_are_ranges_in_json(edited: Path) -> None:
    """By stream, first and last version; an item within an event says of which type it is."""
    events = {one["type"].split(".")[1]: one["event"] for one in refold("log", "support", "--json", db=edited).json}

    assert events["items_pinned"] == {
        "items": [{"stream": "chat:support", "versions": [[3, 3]]}],
        "reason": "the question",
    }
    assert events["item_inserted"]["before"] == {"stream": "chat:support", "version": 2}
    assert events["item_inserted"]["item"]["type"] == "chat.message_added.v1"
    assert events["merged"]["placed"][-1]["items"] == [{"stream": "chat:branch", "versions": [[2, 2]]}]
    assert events["merged"]["base"] == {"stream": "chat:support", "version": 7}
    assert events["summarized"]["folded"] == [{"stream": "chat:support", "versions": [[3, 6], [8, 8]]}]


def places(shown: Any) -> list[tuple[str, int]]:
    """Return where the items of `show --json` were added."""
    return [(one["stream"].removeprefix("chat:"), one["version"]) for one in shown["items"]]


def test_items_stand_in_their_order(edited: Path) -> None:
    """Not in that of their versions; those of other contexts say from where they are."""
    before_clear = refold("show", "support@19", "--json", db=edited).json

    assert places(before_clear) == [
        ("support", 8), ("branch", 2), ("support", 9), ("support", 3), ("support", 4), ("support", 5), ("support", 6),
        ("support", 7),
    ]  # fmt: skip
    lines = refold("show", "support@19", db=edited).out.splitlines()
    assert "      @7  user       And order 8?" in lines
    assert "branch@2  assistant  It is lost." in lines


def test_the_last_items_are_the_end_of_all(edited: Path) -> None:
    """At every version, whatever was edited."""

    def items(version: int, *tail: object) -> Any:
        return refold("show", f"support@{version}", *tail, "--json", db=edited).json["items"]

    # One store for all: nothing is written meanwhile.
    counts = (1, 3, 50)
    wholes = {version: items(version) for version in range(1, 22)}
    ends = {(version, count): items(version, "--tail", count) for version in wholes for count in counts}

    assert ends == {(version, count): whole[-count:] for version, whole in wholes.items() for count in counts}


def test_what_left_is_listed(edited: Path) -> None:
    """With its id, how and why it left."""
    shown = refold("show", "support", "--evicted", "--json", db=edited).json["items"]
    text = refold("show", "support", "--evicted", "--ids", db=edited).out

    lost = next(one for one in shown if one["item"]["id"] == "lost")
    assert lost["left"] == {"how": "clear", "reason": "over", "version": 20}
    assert (lost["stream"], lost["version"]) == ("chat:branch", 2)
    assert "(id lost, clear @20: over)" in text
    assert "first" not in {one["item"]["id"] for one in shown}


def test_ids_and_pins_are_shown(talking: Path) -> None:
    """Ids where they are asked for, pins always."""
    refold("pin", "support", "first", db=talking)

    assert "(pinned)" in refold("show", "support@8", db=talking).out
    assert "(id first, pinned)" in refold("show", "support", "--ids", db=talking).out
    assert "(pinned)" not in refold("show", "support@7", db=talking).out
    assert [one["pinned"] for one in refold("show", "support", "--json", db=talking).json["items"]][:3] == [
        False, True, False,
    ]  # fmt: skip


def test_a_fork_says_what_it_is_of(talking: Path) -> None:
    """In the JSON; its items are the parent's."""
    refold("fork", "support@3", "branch", db=talking)
    shown = refold("show", "branch", "--json", db=talking).json

    assert shown["opened"] == {
        "user": "mia", "session": None, "agent": "triage", "source": None, "parent": "chat:support@3",
        "attributes": None,
    }  # fmt: skip
    assert places(shown) == [("support", 2), ("support", 3)]


def test_edits_are_compared(edited: Path) -> None:
    """What was evicted is removed, what was merged is added; a fork begins with no difference."""
    evicted = refold("diff", "support@11..12", db=edited).out
    merged = refold("diff", "support@17..18", "--json", db=edited).json

    assert [line for line in evicted.splitlines() if line][1:] == [
        "0 added, 1 removed, 0 changed; tokens 59 -> 51 (-8)", "- @6  assistant  It is on its way.",
    ]  # fmt: skip
    assert ([one["stream"] for one in merged["added"]], merged["removed"]) == (["chat:branch"], [])
    assert refold("diff", "support@7", "branch@1", "--exit-code", db=edited).code == 0
    assert "+ @2  assistant  It is lost." in refold("diff", "support@7", "branch", db=edited).out


def test_what_only_moved_is_no_change_of_text(tmp_path: Path) -> None:
    """A fork of the last turns has its instructions in front."""
    with package.open(tmp_path / "x.db") as store:
        chat = store.chat("a")
        chat.add_message("user", "one")
        chat.add_message("system", "rules")
        chat.fork_filtered(1, context_id="b")
    ended = refold("diff", "a", "b", "--exit-code", db=tmp_path / "x.db")
    shown = refold("diff", "a", "b", "--json", "--stat", db=tmp_path / "x.db").json

    assert ended.code == 1
    assert "0 added, 0 removed, 0 changed, 1 moved" in ended.out
    assert (shown["added"], shown["removed"], shown["changed"], shown["moved"]) == (0, 0, 0, 1)


def test_all_is_counted(edited: Path) -> None:
    """Items that can be seen, and every type of event."""
    stats = refold("stats", "--json", db=edited).json
    rows = {row["id"]: row["items"] for row in refold("contexts", "--json", db=edited).json}

    assert rows == {"support": 1, "branch": 8}
    assert stats["items"] == 9
    assert stats["events_by_type"]["chat.merged.v1"] == 1
    assert stats["events"] == 24
    assert said(edited, "support") == ["Where is order 7?"]

"""`refold approvals`: what waits for a person, and decisions on it."""

from pathlib import Path

import pytest

import refold as package
from tests.cli.running import refold


@pytest.fixture
def asking(tmp_path: Path) -> Path:
    """A database with a chat whose three calls wait for a person."""
    path = tmp_path / "asking.db"
    with package.open(path, synchronous="NORMAL") as store:
        chat = store.chat("support-42", agent="clerk")
        chat.add_message("user", "Refund my orders.")
        for number in (1, 2, 3):
            chat.add_function_call("refund", f'{{"order": {number}}}', f"c{number}")
            chat.approvals.request(f"c{number}", by="clerk", because="it costs\nmoney" if number == 1 else None)
    return path


def test_what_waits_is_listed(asking: Path) -> None:
    """As a table and as JSON, the longest waiting first; and that nothing waits is said."""
    listed = refold("approvals", db=asking).out.splitlines()
    shapes = refold("approvals", "--json", db=asking).json

    assert listed[0].split() == ["CONTEXT", "CALL", "REQUESTED", "BY", "WHAT"]
    assert listed[1].endswith('clerk  refund({"order": 1}) (because: it costs money)')
    assert listed[2].endswith('clerk  refund({"order": 2})')
    assert [shape["call_id"] for shape in shapes] == ["c1", "c2", "c3"]
    assert shapes[0]["approval"] == {"state": "requested", "by": "clerk", "because": "it costs\nmoney", "version": 4}
    assert (shapes[0]["context"], shapes[0]["name"], shapes[0]["arguments"]) == ("support-42", "refund", '{"order": 1}')
    for call in ("c1", "c2", "c3"):
        refold("approvals", "approve", "support-42", call, "--by", "mia", db=asking)
    assert refold("approvals", db=asking).err == "note: no call waits for a decision\n"
    assert refold("approvals", "--json", db=asking).json == []


def test_decisions(asking: Path) -> None:
    """Each is recorded under the name of whoever made it, and shown; the same again is said to change nothing."""
    approve = ("approvals", "approve", "support-42", "c1", "--by", "mia")
    changed = ("approvals", "change", "support-42", "c2", '{"order": 9}', "--by", "mia", "--reason", "a slip")
    rejected = ("approvals", "reject", "chat:support-42", "c3", "--by", "bob", "--reason", "too late", "--json")

    assert refold(*approve, db=asking).out == "chat:support-42 @9: the call c1 is approved by mia\n"
    assert refold(*approve, db=asking).err == "note: this was decided so before: nothing was changed\n"
    assert refold(*changed, db=asking).code == 0
    assert refold(*rejected, db=asking).json == {
        "context": "support-42", "kind": "chat", "version": 12, "call_id": "c3",
        "approval": {"state": "rejected", "by": "bob", "because": "too late", "version": 11},
    }  # fmt: skip
    shown = refold("show", "support-42", db=asking).out
    for note in (
        "(no output yet, approved by mia)",
        "(no output yet, changed by mia: a slip)",
        "(rejected by bob: too late)",
    ):
        assert note in shown
    items = refold("show", "support-42", "--json", db=asking).json["items"]
    assert [(one["pending"], one["approval"]["state"]) for one in items[1:4]] == [
        (True, "approved"), (True, "changed"), (False, "rejected"),
    ]  # fmt: skip
    audited = refold("audit", "support-42", "--attribute", "approval", db=asking).out
    assert "bob    call_rejected       @7 approval (because: too late): rejected by bob" in audited


def test_options_before_the_decision(asking: Path) -> None:
    """The database and the form may be named in front of the decision, as for the list."""
    decided = refold("approvals", "--db", asking, "--json", "approve", "support-42", "c1", "--by", "mia")
    second = ("reject", "support-42", "c2", "--by", "mia", "--db", asking)
    lines = refold("approvals", "--db", "none.db", "--jsonl", *second)

    assert decided.json["approval"]["state"] == "approved"
    assert len(lines.out.splitlines()) == 1
    assert lines.json["approval"]["state"] == "rejected"


def test_decisions_that_are_refused(asking: Path) -> None:
    """In one line: another decision, no such call, arguments that are no object; and nobody's name is wrong usage."""
    refold("approvals", "approve", "support-42", "c1", "--by", "mia", db=asking)
    again = refold("approvals", "reject", "support-42", "c1", "--by", "bob", db=asking)
    unknown = refold("approvals", "approve", "support-42", "c7", "--by", "bob", db=asking)
    no_object = refold("approvals", "change", "support-42", "c2", "[1]", "--by", "bob", db=asking)
    nobody = refold("approvals", "approve", "support-42", "c2", db=asking)

    assert again.fault == "the call 'c1' of chat:support-42 has an approval that was approved by mia at version 9"
    assert unknown.fault.startswith("chat:support-42 has no call 'c7': `refold approvals` lists")
    assert no_object.fault == "the arguments are '[1]': give a JSON object"
    assert (nobody.code, "Missing option '--by'" in nobody.fault) == (2, True)


def test_a_request_with_calls_that_wait(asking: Path) -> None:
    """They are left out, or the command fails and names them; without a provider the option means nothing."""
    left = refold("show", "support-42", "--as", "openai", "--pending", "omit", db=asking).json
    refused = refold("show", "support-42", "--as", "google", "--pending", "refuse", db=asking)
    stubbed = refold("show", "support-42", "--as", "anthropic", "--pending", "stub", db=asking).out

    assert [message["role"] for message in left] == ["user"]
    assert refused.fault.startswith(
        "no output is recorded for refund (c1), refund (c2), refund (c3): --pending omit leaves "
    )
    assert stubbed.count("[No output was recorded for this call") == 3
    assert refold("show", "support-42", "--pending", "omit", db=asking).code == 2

"""Files of Anthropic messages: known by what lies in them, and given back as they came."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import refold
from refold.domain.canonical import canonical_json
from refold.domain.errors import InvalidInputError
from refold.infrastructure.importing import Format, import_file, read_runs
from tests.domain.strategies import PROPERTY
from tests.importing.anthropic_requests import REQUEST, SPOKEN
from tests.importing.anthropic_strategies import CONVERSATION, SYSTEM
from tests.importing.sessions import result, text
from tests.importing.shapes import asked, call, said
from tests.importing.transcripts import HELLO, TALK, as_lines, run, written


def as_came(store: refold.Store) -> dict[str, Any]:
    """Return the messages and the system text of every context."""
    return {
        row.id: store.chat(row.id, create=False).to_anthropic_messages(exact=True)
        for row in store.contexts()
    }  # fmt: skip


@pytest.mark.parametrize(
    ("content", "contexts"),
    [
        (REQUEST, {"x-1": (SPOKEN, "Be brief.")}),
        ({**REQUEST, "id": "a"}, {"x-a": (SPOKEN, "Be brief.")}),
        ({"system": [text("S")], "messages": [HELLO]}, {"x-1": ([HELLO], [text("S")])}),
        (SPOKEN, {"x-1": (SPOKEN, None)}),
        (as_lines(*SPOKEN), {"x-1": (SPOKEN, None)}),
        (as_lines(SPOKEN, [HELLO]), {"x-1": (SPOKEN, None), "x-2": ([HELLO], None)}),
        (as_lines(REQUEST, {"messages": SPOKEN}), {"x-1": (SPOKEN, "Be brief."), "x-2": (SPOKEN, None)}),
        ([REQUEST, SPOKEN], {"x-1": (SPOKEN, "Be brief."), "x-2": (SPOKEN, None)}),
    ],
)
def test_a_file_is_known_by_what_lies_in_it(
    store: refold.Store, tmp_path: Path, content: Any, contexts: dict[str, Any]
) -> None:
    """A request, messages alone, several of either, JSON Lines; what could be either is like the rest of its file."""
    import_file(store, written(tmp_path / "x.any", content))

    assert as_came(store) == contexts


@pytest.mark.parametrize(
    ("content", "forms"),
    [
        ([HELLO], ["openai"]),
        ({"messages": [HELLO], "system": None}, ["openai"]),
        ({"messages": TALK, "system": "S"}, ["openai"]),
        ({"messages": [said("tool", tool_call_id="a")], "system": "S"}, ["openai"]),
        ([said("user", [{"type": "image_url"}, {"type": "image", "source": {}}])], ["openai"]),
        (as_lines(TALK, SPOKEN, [HELLO]), ["openai", "anthropic", "openai"]),
        ([said("user", [{"type": "image", "source": {"type": "url", "url": "u"}}])], ["anthropic"]),
        ([said("user", [{"type": "document", "source": {}}])], ["anthropic"]),
        ([said("assistant", [{"type": "thinking", "thinking": "", "signature": ""}])], ["anthropic"]),
        ({"messages": [], "system": "S"}, ["anthropic"]),
        ([{"task_id": 1, "traj": SPOKEN}], ["openai"]),
    ],
)
def test_what_could_be_openai_s_is(tmp_path: Path, content: Any, forms: list[str]) -> None:
    """Unless something is there that only Anthropic has, and nothing that only OpenAI has."""
    assert [one.form for one in read_runs([written(tmp_path / "x.json", content)])] == forms


def test_a_format_can_be_asked_for(store: refold.Store, tmp_path: Path) -> None:
    """Then there is no doubt; a file of something else is refused."""
    path = written(tmp_path / "x.json", {"messages": [HELLO], "system": None})
    import_file(store, path, format="anthropic")

    assert as_came(store) == {"x-1": ([HELLO], None)}
    for content, wanted in ((run(1), "anthropic"), ({"a": 1}, "anthropic"), (SPOKEN, "tau")):
        with pytest.raises(InvalidInputError, match=r"expected (Anthropic messages|runs)"):
            import_file(store, written(path, content), format=_format(wanted))


def test_what_lies_beside_the_messages_is_kept(store: refold.Store, tmp_path: Path) -> None:
    """The system text is an item, all else of a request an attribute."""
    report = import_file(store, written(tmp_path / "x.json", REQUEST))
    chat = store.chat("x-1", create=False)

    assert (report.messages, report.items) == (4, 5)
    assert json.loads(chat.history()[0].event.attributes) == {"model": "claude-x", "tools": [{"name": "Read"}]}
    assert chat.active_config_at()[0] == "Be brief."
    assert [item.type for item in chat.items] == [
        "message", "message", "message", "function_call", "function_call_output"
    ]  # fmt: skip


@PROPERTY
@given(system=SYSTEM, first=CONVERSATION, later=CONVERSATION)
def test_messages_come_back_as_they_came(system: Any, first: list[Any], later: list[Any]) -> None:
    """JSON for JSON, from a file through a database and out, at once or in two parts."""
    with tempfile.TemporaryDirectory() as folder:
        database, path = Path(folder, "refold.db"), Path(folder, "x.json")
        for messages in (first, [*first, *later]):
            with refold.open(database, synchronous="NORMAL") as store:
                content = {"messages": messages, "system": system}
                import_file(store, written(path, content), format="anthropic")
            with refold.open(database, read_only=True) as store:
                (back,) = as_came(store).values()
            assert canonical_json(back, what="") == canonical_json([messages, system], what="")


def test_importing_again(store: refold.Store, tmp_path: Path) -> None:
    """What has been added is appended, what has changed is refused by its name."""
    path = written(tmp_path / "x.json", {**REQUEST, "messages": SPOKEN[:2]})
    import_file(store, path)
    grown = import_file(store, written(path, REQUEST))
    assert (grown.extended, grown.messages) == (1, 1)

    assert import_file(store, path).unchanged == 1
    assert as_came(store) == {"x-1": (SPOKEN, "Be brief.")}
    for changed, fault in (
        ({**REQUEST, "system": "Be long."}, "run 1, system differs from that of the context 'x-1'"),
        ({**REQUEST, "messages": SPOKEN[1:]}, r"run 1, messages\[0\] differs from that of"),
        ({**REQUEST, "messages": SPOKEN[:2]}, r"run 1, messages\[2\] is missing, unlike in"),
    ):
        with pytest.raises(InvalidInputError, match=fault):
            import_file(store, written(path, changed))


def test_a_conversation_that_could_be_either_may_become_anthropic_s(store: refold.Store, tmp_path: Path) -> None:
    """Its first messages are the same in both."""
    path = written(tmp_path / "x.json", SPOKEN[:1])
    import_file(store, path)

    assert import_file(store, written(path, SPOKEN)).extended == 1
    assert as_came(store) == {"x-1": (SPOKEN, None)}


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (
            [*SPOKEN, said("robot")],
            "messages[3].role: 'robot' is no role, expected one of user, assistant",
        ),
        ([*SPOKEN, 7], "messages[3]: found a number, expected an object"),
        ({"system": [1], "messages": SPOKEN}, "system, field content[0]: found a number, expected an object"),
        ({"system": "a\ud800", "messages": SPOKEN}, "field system: a lone surrogate (U+D800) at index 1"),
        ({"system": "S", "messages": [said("user", "\udc00")]}, "messages[0].content: a lone surrogate"),
    ],
)
def test_what_cannot_be_is_refused(store: refold.Store, tmp_path: Path, content: Any, fault: str) -> None:
    """With its place; nothing is written."""
    path, before = written(tmp_path / "x.json", content), store.now()

    with pytest.raises(InvalidInputError) as refused:
        import_file(store, path)
    assert str(refused.value).startswith(f"{path}, run 1, {fault}")
    assert store.now() == before


def test_lone_surrogates_can_be_replaced(store: refold.Store, tmp_path: Path) -> None:
    """In the system text, too."""
    path = written(tmp_path / "x.json", {"system": "a\ud800", "messages": [said("user", "\udc00b")]})
    import_file(store, path, replace_surrogates=True)

    assert as_came(store) == {"x-1": ([said("user", "\ufffdb")], "a\ufffd")}


def test_openai_s_calls_are_no_mark_of_anthropic(store: refold.Store, tmp_path: Path) -> None:
    """What OpenAI alone has decides, wherever it stands."""
    messages = [said("user", [result("c1")]), asked(call("a"))]
    import_file(store, written(tmp_path / "x.json", messages))

    assert store.chat("x-1").to_openai_messages(exact=True) == messages


def _format(name: str) -> Format:
    return "anthropic" if name == "anthropic" else "tau"

"""Chats become documents of other programs and come back; what a document has no place for is named."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import refold
from refold.chat import ImageContent
from refold.domain.chat.context import ChatContext
from refold.domain.errors import InvalidInputError
from refold.infrastructure.exchange.transcripts import (
    TRANSCRIPT_FORMS,
    TranscriptForm,
    export_transcripts,
    transcript_of,
)
from refold.infrastructure.importing import import_as_runs, import_file, read_runs
from refold.infrastructure.importing.runs import as_transcripts
from refold.infrastructure.store import Store

forms = pytest.mark.parametrize("form", TRANSCRIPT_FORMS)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
IMAGE = st.sampled_from(["https://x.org/a.png", "data:image/png;base64,YWJj"])
ROLE = st.sampled_from(["user", "assistant", "system", "developer"])
MODEL = st.none() | st.just("m-1")
SAID = st.tuples(st.just("message"), ROLE, TEXT, st.none() | IMAGE, MODEL)
# Calls with a space in their arguments, and with arguments that are no object.
CALLED = st.tuples(st.just("call"), TEXT, st.sampled_from(["{}", '{"a":1}', '{"a": [1.0]}', "oops", "[1]"]))
ANSWERED = st.tuples(st.just("output"), st.integers(0, 3), TEXT, st.booleans())
CHANGED = st.tuples(st.sampled_from(["handoff", "config", "evict"]))
SPOKEN = ("message", "function_call", "function_call_output")
STEPS = st.lists(SAID | CALLED | ANSWERED | CHANGED, min_size=1, max_size=8)


def made(store: Store, steps: list[Any]) -> ChatContext:
    """Return a chat with these items."""
    chat = store.chat("trip")
    calls: list[Any] = []
    for kind, *arguments in steps:
        if kind == "message":
            role, text, image, model = arguments
            content = [text, ImageContent(image=image)] if image else text
            usage = {"input_tokens": 9, "output_tokens": 2} if model and role == "assistant" else None
            chat.add_message(role, content, usage=usage, model=model if usage else None)
        elif kind == "call":
            calls.append(chat.add_function_call(arguments[0], arguments[1]))
        elif kind == "output" and calls:
            call = calls[arguments[0] % len(calls)]
            chat.add_function_output(call.name, arguments[1], call.call_id, arguments[2])
        elif kind == "handoff":
            chat.add_handoff("clerk")
        elif kind == "config":
            chat.add_config_update(instructions="Be kind.")
        elif kind == "evict" and len(chat.items):
            chat.evict([chat.items[0].id])
    chat.add_message("user", "The last word.")
    return chat


def field_values(chat: Any, name: str) -> list[Any]:
    """Return a field of all items that are messages, calls or outputs."""
    spoken = [item for item in chat.to_dict()["items"] if item["type"] in SPOKEN]
    return [contents(item.get(name)) if name == "content" else item.get(name) for item in spoken]


def contents(value: Any) -> list[Any]:
    """Return the texts and the addresses of images."""
    parts = [value] if isinstance(value, str) else value or []
    return [one.get("image", one) if isinstance(one, dict) else one for one in parts]


@settings(max_examples=100, deadline=None)
@given(STEPS, st.sampled_from(TRANSCRIPT_FORMS))
def test_what_is_not_named_as_lost_comes_back(steps: list[Any], form: TranscriptForm) -> None:
    """Each field of each item, unless the export names it; and what is named is no longer there."""
    with refold.open(":memory:") as store, refold.open(":memory:") as other:
        chat = made(store, steps)
        path = Path("/dev/shm" if Path("/dev/shm").is_dir() else "/tmp") / f"refold-{id(chat)}.json"
        try:
            lost = " ".join(export_transcripts(store.log, path, [chat], form)["trip"])
            import_file(other, path, prefix="got")
        finally:
            path.unlink(missing_ok=True)
        again = next(row for row in other.contexts() if row.kind == "chat")
        back = other.chat(again.id, create=False)

        assert ("handoff" in lost) == any(item.type == "agent_handoff" for item in chat.items)
        event("aligned" if "kind of" not in lost else "not aligned")
        if "kind of" in lost:
            return
        names = ["role", "content", "name", "arguments", "output", "call_id", "is_error", "metrics"]
        before = [item for item in chat.items if item.type in SPOKEN]
        assert len(back.items) == len(before)
        if [item.type for item in back.items] != [item.type for item in before]:
            assert form == "atif"  # an output is with its call, whenever it came
            return
        for name in names:
            if f"{name} of" not in lost:
                assert field_values(back, name) == field_values(chat, name), name


def test_an_empty_message_before_a_call(tmp_path: Path) -> None:
    """In ATIF both are one step, which has no message when it is read again: that is named."""
    with refold.open(":memory:") as store, refold.open(tmp_path / "other.db") as other:
        chat = store.chat("trip")
        chat.add_message("assistant", "")
        chat.add_function_call("track", "{}")

        assert export_transcripts(store.log, tmp_path / "file", [chat], "atif") == {"trip": ("kind of 2 items",)}

        import_file(other, tmp_path / "file")
        (row,) = other.contexts()
        assert [item.type for item in other.chat(row.id, create=False).items] == ["function_call"]


def test_pictures_in_spans() -> None:
    """An address stays one, and what is in the chat itself stays there."""
    with refold.open(":memory:") as store:
        chat = store.chat("trip")
        for image in ("https://x.org/a.png", "data:image/png;base64,YWJj"):
            chat.add_message("user", [ImageContent(image=image)])

        document = json.dumps(transcript_of(chat, "otel").document)

    assert '"uri": "https://x.org/a.png"' in document
    assert '"content": "YWJj"' in document
    assert "null" not in document.partition("https://x.org/a.png")[2]


@forms
def test_outputs_that_follow_each_other(form: TranscriptForm) -> None:
    """None is left out, also where a form has all of them in one entry."""
    with refold.open(":memory:") as store:
        chat = store.chat("trip")
        calls = [chat.add_function_call(name, "{}") for name in ("first", "second")]
        for call in calls:
            chat.add_function_output(call.name, f"the {call.name} output", call.call_id)

        document = json.dumps(transcript_of(chat, form).document)

    assert document.index("the first output") < document.index("the second output")


STEP = {"timestamp": "2026-11-23T10:00:00Z", "source": "agent", "message": "Wait.", "model_name": "m-1"}
CALLS = [{"tool_call_id": "c1", "function_name": "track", "arguments": {"order": 7}, "extra": {"tries": 2}}]
RESULTS = {"results": [{"source_call_id": "c1", "content": "Lyon"}]}
METRICS = {"prompt_tokens": 9, "completion_tokens": 2, "cost_usd": 0.25, "completion_token_ids": [1, 2]}
DOCUMENTS: dict[str, Any] = {
    "atif": {
        "schema_version": "ATIF-v1.6",
        "session_id": "s1",
        "agent": {"name": "clerk", "version": "2"},
        "steps": [
            {"step_id": 1, "source": "system", "message": "Be brief."},
            {"step_id": 2, "source": "user", "message": [{"type": "text", "text": "Where?"}]},
            {"step_id": 3, **STEP, "reasoning_content": "hm", "tool_calls": CALLS, "observation": RESULTS}
            | {"metrics": METRICS, "extra": {"k": 1}},
            {"step_id": 4, "source": "agent", "message": ""},
        ],
        "final_metrics": {"total_steps": 4},
    },
    "otel": {
        "gen_ai.conversation.id": "s1",
        "gen_ai.request.model": "m-1",
        "gen_ai.input.messages": [
            {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
            {"role": "user", "parts": [{"type": "text", "content": "Where?"}], "name": "mia"},
            {"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}]},
            {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "track", "arguments": {"a": 1}}]},
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": {"place": "Lyon"}}]},
            {"role": "assistant", "parts": [{"type": "text", "content": "Lyon."}], "finish_reason": "stop"},
        ],
    },
    "sharegpt": {
        "id": "s1",
        "tools": "[]",
        "conversations": [
            {"from": "human", "value": "Where?", "weight": 0},
            {"from": "function_call", "value": '{"name": "track",  "arguments": {"order": 7}}'},
            {"from": "observation", "value": "Lyon"},
            {"from": "function_call", "value": "no JSON"},
            {"from": "gpt", "value": ""},
        ],
    },
    "responses": {
        "id": "resp_1",
        "model": "m-1",
        "input": [
            {"role": "user", "content": "Where?"},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "track", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "Lyon"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Lyon."}]},
        ],
    },
    "gemini": {
        "id": "s1",
        "system_instruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Where?"}, {"inlineData": {"mimeType": "image/png", "data": "YWJj"}}]},
            {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "Wait."}]},
            {"role": "model", "parts": [{"functionCall": {"name": "track", "args": {}}, "thoughtSignature": "YWJj"}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "track", "response": {"result": 1}}}]},
            {"role": "model", "parts": [{"executableCode": {"code": "1"}}]},
        ],
    },
}


def imported(store: Store, tmp_path: Path, form: str, document: Any) -> ChatContext:
    """Import one document, and return its chat."""
    path = tmp_path / "file.json"
    path.write_text(json.dumps(document))
    report = import_file(store, path)
    assert read_runs([path])[0].form == form
    return store.chat(report.contexts[0].id)


@forms
def test_a_document_comes_back_as_it_was(form: TranscriptForm, tmp_path: Path) -> None:
    """Also what Refold has no place for; and a second import adds nothing, or what the file has gained."""
    document = DOCUMENTS[form]
    with refold.open(":memory:") as store:
        chat = imported(store, tmp_path, form, document)
        version = chat.version

        assert transcript_of(chat, form).document == document
        assert transcript_of(chat, form).lost in ((), ("id of 5 items",)) or "of" in str(transcript_of(chat, form).lost)
        imported(store, tmp_path, form, document)
        chat.refresh()
        assert chat.version == version

        field = {"atif": "steps", "otel": "gen_ai.input.messages", "sharegpt": "conversations", "gemini": "contents"}
        name = field.get(form, "input")
        more = {
            **document,
            name: [*document[name], {**document[name][1], **({"step_id": 5} if form == "atif" else {})}],
        }
        imported(store, tmp_path, form, more)
        chat.refresh()
        assert chat.version > version
        assert transcript_of(chat, form).document[name] == more[name]


@pytest.mark.parametrize("field", ["system_instruction", "systemInstruction"])
@pytest.mark.parametrize(
    "given",
    [
        "Be brief.",
        {"parts": [{"text": "Be brief."}]},
        {"role": "user", "parts": [{"text": "Be brief."}]},
        {"role": "system", "parts": [{"text": "Be brief."}, {"text": "Be kind."}], "note": 1},
    ],
)
def test_an_instruction_comes_back_as_it_was(given: Any, field: str, tmp_path: Path) -> None:
    """As a text or a content, with a role or without, in either spelling."""
    document = {"id": "s1", field: given, "contents": [{"role": "user", "parts": [{"text": "Where?"}]}]}
    with refold.open(":memory:") as store:
        chat = imported(store, tmp_path, "gemini", document)

        assert transcript_of(chat, "gemini").document == document
        chat.evict([chat.items[0].id])
        assert field not in transcript_of(chat, "gemini").document


@forms
def test_a_changed_document_is_refused(form: TranscriptForm, tmp_path: Path) -> None:
    """A log does not forget: the changed message is named, and nothing is written."""
    with refold.open(":memory:") as store:
        chat = imported(store, tmp_path, form, DOCUMENTS[form])
        text = json.dumps(DOCUMENTS[form]).replace("Where?", "Who?")

        with pytest.raises(InvalidInputError, match=r"messages\[\d\] differs"):
            imported(store, tmp_path, form, json.loads(text))
        assert chat.version == store.chat(chat.id).version


@forms
def test_messages_without_a_document_and_several_documents(form: TranscriptForm, tmp_path: Path) -> None:
    """A list of messages is one conversation (but steps need their trajectory); a line for each document is several."""
    with refold.open(":memory:") as store:
        lines = tmp_path / "lines.jsonl"
        lines.write_text("".join(json.dumps(DOCUMENTS[form]) + "\n" for _ in range(2)))
        assert len(import_file(store, lines).contexts) == 2
        if form != "atif":
            name = next(name for name, value in DOCUMENTS[form].items() if isinstance(value, list))
            plain = imported(store, tmp_path, form, DOCUMENTS[form][name])
            assert len(transcript_of(plain, form).document[name]) == len(DOCUMENTS[form][name])


@forms
def test_a_document_as_runs(form: TranscriptForm, tmp_path: Path) -> None:
    """Each message of its user begins a run."""
    path = tmp_path / "file.json"
    path.write_text(json.dumps(DOCUMENTS[form]))
    with refold.open(":memory:") as store:
        report = import_as_runs(store, as_transcripts(read_runs([path])), user="mia")

        assert len(report.contexts) == 1


def test_turns_without_ids_of_calls(tmp_path: Path) -> None:
    """An output answers the oldest call of the turns directly before it, where a turn may have several calls."""
    turns = [
        {"from": "human", "value": "Where are my orders?"},
        {"from": "function_call", "value": '[{"name": "a", "arguments": {}}, {"name": "b", "arguments": {"n": 1}}]'},
        {"from": "observation", "value": "A"},
        {"from": "observation", "value": "B"},
        {"from": "function_call", "value": '{"name": "c", "arguments": {}}'},
        {"from": "human", "value": "Stop."},
        {"from": "function_call", "value": '{"name": "d", "arguments": {}}'},
        {"from": "function_call", "value": '{"name": "e", "arguments": {}}'},
        {"from": "observation", "value": "D"},
        {"from": "function_call", "value": '{"name": "f", "arguments": {}}'},
        {"from": "observation", "value": "F"},
        {"from": "function_call", "value": "[]"},
    ]
    with refold.open(":memory:") as store:
        chat = imported(store, tmp_path, "sharegpt", {"conversations": turns})
        outputs = [item for item in chat.items if isinstance(item, refold.FunctionCallOutput)]

        assert [(one.name, one.output) for one in outputs] == [("a", "A"), ("b", "B"), ("d", "D"), ("f", "F")]
        assert transcript_of(chat, "sharegpt").document["conversations"] == turns


def test_calls_in_the_text_of_an_answer(tmp_path: Path) -> None:
    """As some data sets have them: what the tool said is sent to a model, too."""
    turns = [
        {"from": "human", "value": "Where is my order?"},
        {"from": "gpt", "value": '<tool_call>{"name": "track"}</tool_call>'},
        {"from": "tool", "value": "<tool_response>Lyon</tool_response>"},
        {"from": "gpt", "value": "In Lyon."},
    ]
    with refold.open(":memory:") as store:
        chat = imported(store, tmp_path, "sharegpt", {"conversations": turns})

        assert [message["content"] for message in chat.to_openai_messages()] == [turn["value"] for turn in turns]
        assert transcript_of(chat, "sharegpt").document["conversations"] == turns


def test_a_trajectory_names_the_agent_of_its_chat(tmp_path: Path) -> None:
    """Trajectories of several agents are compared by this name; one that was imported keeps its own."""
    with refold.open(":memory:") as store:
        chat = store.chat("c", agent="clerk")
        chat.add_message("user", "Hello.")

        clerk, expert = (transcript_of(one, "atif").document for one in (chat, chat.fork("d", agent="expert")))
        assert [one["agent"] for one in (clerk, expert)] == [
            {"name": name, "version": "unknown"} for name in ("clerk", "expert")
        ]
        assert transcript_of(imported(store, tmp_path, "atif", clerk), "atif").document == clerk


def test_what_an_import_knows() -> None:
    """Calls have their outputs by name, steps their time and tokens, and any provider can be sent the chat."""
    with refold.open(":memory:") as store:
        chat = imported(store, Path("/dev/shm"), "atif", DOCUMENTS["atif"])
        Path("/dev/shm/file.json").unlink()

        assert [item.type for item in chat.items][2:5] == ["message", "function_call", "function_call_output"]
        assert chat.to_dict()["items"][4]["name"] == "track"
        assert sum(row.counted_in for row in store.usage()) == 9
        assert chat.to_openai_messages()[-2]["content"] == "Lyon"
        chat.add_message("user", "And now?")
        changed = transcript_of(chat, "atif")
        assert "final_metrics" not in changed.document
        assert any("final_metrics" in one for one in changed.lost)


@pytest.mark.parametrize(("at", "told"), [(1.7643e12, "9999-12-31T23:59:59.999999Z"), (-1e13, "0001-01-01T00:00:00Z")])
def test_an_item_beyond_all_years(at: float, told: str) -> None:
    """As one whose time was given in milliseconds: the document has the nearest time, and says that this is lost."""
    with refold.open(":memory:") as store:
        chat = store.chat("trip")
        chat.add_message("user", "Where?", created_at=at)
        made = transcript_of(chat, "atif")

    assert made.document["steps"][0]["timestamp"] == told
    assert "created_at of 1 item" in made.lost


def test_what_lies_beside_plain_items(tmp_path: Path) -> None:
    """It comes back although no item has anything that Refold has no field for; and providers are sent what came."""
    asked = [{"type": "message", "role": "user", "content": text} for text in ("Where?", "There?")]
    document = {"id": "r1", "model": "m-1", "input": asked}
    with refold.open(":memory:") as store:
        chat = imported(store, tmp_path, "responses", document)
        assert transcript_of(chat, "responses").document == document
        assert chat.to_openai_responses()[0] == asked
        chat.truncate(max_items=1)
        assert transcript_of(chat, "responses").document == {**document, "input": asked[1:]}


def test_instructions_that_are_a_list(tmp_path: Path) -> None:
    """An answer of the Responses API may have them so: each is an item in front of the others."""
    told = {"role": "developer", "content": "Be brief."}
    document = {"id": "r1", "instructions": [told], "input": [{"type": "message", "role": "user", "content": "Where?"}]}
    with refold.open(":memory:") as store:
        chat = imported(store, tmp_path, "responses", document)

        assert [message.role for message in chat.messages()] == ["developer", "user"]
        assert transcript_of(chat, "responses").document == {"id": "r1", "input": [told, *document["input"]]}


def step(**fields: Any) -> dict[str, Any]:
    """Return a trajectory of one step."""
    return {"schema_version": "ATIF-v1.8", "steps": [{"step_id": 1, "source": "agent", "message": "", **fields}]}


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00"])
def test_a_time_beyond_all_years(at: str, tmp_path: Path) -> None:
    """It is kept as it was written, and the item has the time of the import."""
    document = step(message="Yes.", timestamp=at)
    with refold.open(":memory:") as store:
        chat = imported(store, tmp_path, "atif", document)

        assert transcript_of(chat, "atif").document == document


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ({"schema_version": "ATIF-v2.0", "steps": []}, "expected ATIF-v1.0 to"),
        ({"schema_version": "ATIF-v1.8", "steps": [{"step_id": 2}]}, r"steps\[0\], field step_id|step_id: found 2"),
        ({"schema_version": "ATIF-v1.8", "steps": [{"step_id": 1, "source": "bot"}]}, "source: found 'bot'"),
        ({"gen_ai.input.messages": [{"role": "bot", "parts": []}]}, "role: found 'bot'"),
        ({"gen_ai.input.messages": [{"role": "tool", "parts": [{"type": "text"}]}]}, "content: missing"),
        ({"conversations": [{"from": "robot", "value": "x"}]}, "from: found 'robot'"),
        ({"contents": [{"role": "robot", "parts": []}]}, "no role"),
        ({"contents": ["Where?"]}, r"messages\[0\]: found text, expected an object"),
        ({"contents": [{"role": "user", "parts": 7}]}, "parts: found a number, expected a list"),
        ({"contents": [], "system_instruction": ["Be kind."]}, "system_instruction: found a list, expected text or"),
        (
            {"conversations": [{"from": "human", "value": "x"}], "system": ["Be kind."]},
            "system: found a list, expected text",
        ),
        ({"conversations": [{"from": "human", "value": "x"}, 7]}, r"messages\[1\]: found a number"),
        ({"gen_ai.input.messages": "[{]"}, "gen_ai.input.messages is a text that is no JSON"),
        ({"gen_ai.input.messages": '{"role": "user"}'}, "gen_ai.input.messages: found an object, expected a list"),
        ({"gen_ai.input.messages": [{"role": ["user"], "parts": []}]}, "role: found"),
        ({"input": [], "output": 7}, "output: found a number, expected a list"),
        ({"input": [], "instructions": {"role": "system"}}, "instructions: found an object, expected a list"),
        (step(message=7), "message: found a number, expected a list"),
        (step(tool_calls={"a": 1}), "tool_calls: found an object, expected a list"),
        (step(observation="oops"), "observation: found text, expected an object"),
        (step(observation={"results": ["oops"]}), "observation.results: found text, expected an object"),
        (step(observation={"results": [{"source_call_id": []}]}), "source_call_id: found a list, expected text"),
        (step(metrics=[1]), "metrics: found a list, expected an object"),
        (step(message=[{"type": "image", "source": "x.png"}]), "message.source: found text, expected an object"),
    ],
)
def test_a_bad_document_says_what_is_wrong(document: Any, fault: str, tmp_path: Path) -> None:
    """The file and the field are named, and nothing is written."""
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(document))
    with refold.open(":memory:") as store:
        with pytest.raises(InvalidInputError, match=fault) as told:
            import_file(store, path)
        assert str(path) in str(told.value)
        assert store.contexts() == []


def test_a_chat_without_a_message_is_refused(tmp_path: Path) -> None:
    """An earlier file stays as it was."""
    path = tmp_path / "out.json"
    path.write_text("earlier")
    with refold.open(":memory:") as store:
        chats = [made(store, []), store.chat("empty")]

        with pytest.raises(InvalidInputError, match="empty has no message that atif has a place for"):
            export_transcripts(store.log, path, chats, "atif")
    assert path.read_text() == "earlier"


def test_a_developer_in_a_span(tmp_path: Path) -> None:
    """The conventions leave the roles open, and OpenAI has this one."""
    told = {"role": "developer", "parts": [{"type": "text", "content": "Be brief."}]}
    document = {"gen_ai.conversation.id": "s1", "gen_ai.input.messages": [told]}
    with refold.open(":memory:") as store:
        chat = imported(store, tmp_path, "otel", document)

        assert [message.role for message in chat.messages()] == ["developer"]
        assert transcript_of(chat, "otel").document == document


def test_a_developer_stays_one(tmp_path: Path) -> None:
    """ATIF has no such role: it stands beside the step."""
    with refold.open(":memory:") as store, refold.open(":memory:") as other:
        chat = store.chat("trip")
        for role in ("developer", "system", "user"):
            chat.add_message(role, "Be brief.")
        export_transcripts(store.log, tmp_path / "trip.json", [chat], "atif")
        import_file(other, tmp_path / "trip.json", prefix="got")
        [back] = [other.chat(row.id, create=False) for row in other.contexts() if row.kind == "chat"]

        assert [message.role for message in back.messages()] == ["developer", "system", "user"]

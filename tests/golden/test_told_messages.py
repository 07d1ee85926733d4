"""
What is read of the messages of each provider and program, also of those that lack a field or have another value in it:
see tests/golden/told/messages.
"""

import copy
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import pytest

from refold.domain.chat.events import ChatItemEvent
from refold.domain.clock import REAL_SYSTEM
from refold.domain.errors import InvalidInputError
from refold.domain.formats.anthropic.receive import shape_anthropic_messages
from refold.domain.formats.anthropic.source_shape import messages_as_came, source_messages
from refold.domain.formats.messages import READERS
from refold.domain.formats.openai.receive import shape_messages
from refold.domain.formats.openai.source_shape import message_of
from refold.infrastructure.exchange.transcripts import document_form, groups_of, messages_of
from tests.support.written_down import UNTIL, assert_as_written, stop_clock

from .test_told_events import plain

MISSING = object()
NOW = UNTIL + 3_600
MADE = re.compile("(call|fn|img|item|msg|output)_[0-9a-f]{12}")
OTHERS: list[tuple[str, Any]] = [("missing", MISSING), ("null", None), ("3", 3)]
PICTURE = "data:image/png;base64,YWJj"
CALLED = {"name": "track", "arguments": '{"order":7}'}
MESSAGES: dict[str, list[Any]] = {
    "openai": [
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}], "name": "mia"},
        {"role": "user", "content": [{"type": "text", "text": "Where?"},
                                     {"type": "image_url", "image_url": {"url": PICTURE, "detail": "high"}}]},
        {"role": "assistant", "content": None, "refusal": "no",
         "tool_calls": [{"id": "c1", "type": "function", "function": CALLED},
                        {"id": "c2", "type": "custom", "custom": {"name": "sing", "input": "la"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": [
            {"type": "text", "text": "Ly"}, {"type": "audio", "audio": "x"}, {"type": "text", "text": "on"}]},
        {"role": "assistant", "content": "", "function_call": CALLED},
        {"role": "function", "name": "track", "content": "Rome"},
    ],
    "responses": [
        {"type": "message", "id": "msg_1", "role": "user", "status": "completed",
         "content": [{"type": "input_text", "text": "Where?"},
                     {"type": "input_image", "image_url": PICTURE, "detail": "low"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "status": "completed", **CALLED},
        {"type": "function_call_output", "id": "fco_1", "call_id": "c1", "output": "Lyon"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Lyon.", "annotations": []}]},
    ],
    "anthropic": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [
            {"type": "text", "text": "Where?", "cache_control": {"type": "ephemeral"}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "YWJj"}},
            {"type": "image", "source": {"type": "url", "url": "https://x.org/a.png"}}]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "Wait."},
            {"type": "tool_use", "id": "c1", "name": "track", "input": {"order": 7}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "Lyon"}],
             "is_error": True}, "and?"]},
        {"role": "assistant", "content": "Lyon.", "id": "msg_1"},
    ],
    "google": [
        {"role": "user", "parts": [{"text": "Where?"}, {"inlineData": {"mimeType": "image/png", "data": "YWJj"}},
                                   {"file_data": {"file_uri": "https://x.org/a.png", "mime_type": "image/png"}}]},
        {"role": "model", "parts": [
            {"text": "hm", "thought": True}, {"text": "Wait.", "thought_signature": "YWJj"},
            {"functionCall": {"id": "c1", "name": "track", "args": {"order": 7}}, "thoughtSignature": "YWJj"}]},
        {"role": "user", "parts": [{"function_response": {"name": "track", "response": {"output": "Lyon"}}},
                                   {"function_response": {"id": "c9", "name": "f", "response": {"error": "no"}}}]},
    ],
}  # fmt: skip
DOCUMENTS: dict[str, dict[str, Any]] = {
    "atif": {"schema_version": "ATIF-v1.6", "agent": {"name": "clerk"}, "steps": [
        {"step_id": 1, "source": "system", "message": "Be brief.", "extra": {"role": "developer"}},
        {"step_id": 2, "source": "user", "message": [
            {"type": "text", "text": "Where?"},
            {"type": "image", "source": {"media_type": "image/png", "path": "https://x.org/a.png"}}]},
        {"step_id": 3, "timestamp": "2026-11-23T10:00:00Z", "source": "agent", "message": "Wait.", "model_name": "m-1",
         "metrics": {"prompt_tokens": 9, "completion_tokens": 2, "cached_tokens": 1, "cost_usd": 0.25},
         "tool_calls": [{"tool_call_id": "c1", "function_name": "track", "arguments": {"order": 7}}],
         "observation": {"results": [{"source_call_id": "c1", "content": "Lyon", "extra": {"is_error": True}}]}},
        {"step_id": 4, "source": "agent", "message": ""}]},
    "otel": {"gen_ai.conversation.id": "s1",
             "gen_ai.system_instructions": '[{"type": "text", "content": "Be brief."}]',
             "gen_ai.input.messages": [
        {"role": "user", "name": "mia", "parts": [
            {"type": "text", "content": "Where?"},
            {"type": "uri", "modality": "image", "mime_type": "image/png", "uri": "https://x.org/a.png"},
            {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "YWJj"}]},
        {"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "track", "arguments": {"a": 1}}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": {"place": "Lyon"}}]}],
             "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": "Lyon."}]}]},
    "sharegpt": {"id": "s1", "system": "Be brief.", "conversations": [
        {"from": "human", "value": "Where?", "weight": 0},
        {"from": "function_call", "value": '{"name": "track", "arguments": {"order": 7}}'},
        {"from": "function_call", "value": '[{"name": "track"}, {"name": "sing", "arguments": {}}]'},
        {"from": "observation", "value": "Lyon"}, {"from": "tool", "value": "Rome"},
        {"from": "function_call", "value": "no JSON"}, {"from": "observation", "value": "late"},
        {"from": "gpt", "value": "Lyon."}, {"from": "observation", "value": "nothing asked"}]},
    "gemini": {"id": "s1", "systemInstruction": {"parts": [{"text": "Be brief."}], "role": "x"}, "contents": [
        *MESSAGES["google"], {"role": "model", "parts": [{"executableCode": {"code": "1"}}]}]},
    "responses": {"id": "resp_1", "instructions": "Be brief.", "input": "Where?", "output": MESSAGES["responses"][1:]},
}  # fmt: skip


REQUEST = {
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
               {"type": "text", "text": "Be kind."}],
    "messages": [{"role": "system", "content": "In between."}, {"role": "user", "content": "Where?"}],
}  # fmt: skip


def variants(value: Any, path: str = "") -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Yield the place of each value in JSON, each with a function that returns the JSON with another value there."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        there = f"{path}.{key}" if isinstance(value, dict) else f"{path}[{key}]"
        yield there, partial(changed, value, key)
        for deeper, change in variants(inner, there):
            yield deeper, partial(changed_within, value, key, change)


def changed_within(value: Any, key: Any, change: Callable[[Any], Any], new: Any) -> Any:
    """Return a dict or a list with a changed value."""
    return changed(value, key, change(new))


def changed(value: Any, key: Any, new: Any) -> Any:
    """Return a dict or a list with another value, or without one."""
    made = copy.copy(value)
    if new is MISSING:
        del made[key]
    else:
        made[key] = new
    return made


def lines_of(groups: Iterable[Iterable[ChatItemEvent]], again: Iterable[Any]) -> list[str]:
    """Return a line for each item, and one for each part of what is made of them again; without ids."""
    items = [line_of(item) for item in chain.from_iterable(groups)]
    return [MADE.sub(r"\1_", line) for line in (*items, *(f"again {line_of(one)}" for one in again))]


def line_of(value: Any) -> str:
    """Return an item, without the time at which it was read, or a message."""
    made = plain(value)
    if not isinstance(value, dict) and made["created_at"] == NOW:
        del made["created_at"]
    return json.dumps(made, ensure_ascii=False)


def parts_of(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the fields of a document, and each message alone."""
    for name, value in document.items():
        yield from ({name: one} for one in value) if isinstance(value, list) else [{name: value}]


def read(form: str, given: Any) -> list[str]:
    """Return the items of messages, or of a document, and what is made of them again."""
    if form == "anthropic request":
        # A caller has looked whether there is a list.
        asked = given["messages"] if isinstance(given.get("messages"), list) else []
        groups = shape_anthropic_messages(asked, given.get("system"), context_id="a", created_at=NOW)
        messages, system = messages_as_came(chain.from_iterable(groups)) or ([], None)
        return lines_of(groups, [*messages, {"system": system}])
    if form.endswith(" import"):
        shape: Any = shape_messages if form == "openai import" else shape_anthropic_messages
        groups = shape(given, context_id="a", created_at=NOW)
        items = [*chain.from_iterable(groups)]
        return lines_of(groups, map(message_of, groups) if form == "openai import" else source_messages(items))
    if form in MESSAGES:
        return lines_of([READERS[form](given, system_clock=REAL_SYSTEM)], [])  # type: ignore[index]
    documents = document_form(form.removesuffix(" document"))
    if not documents.is_document(given):
        return ["no document"]
    groups = groups_of(documents.name, documents.messages_in(given), "a")
    kept = [one.message for one in messages_of(documents.name, [*chain.from_iterable(groups)])]
    return lines_of(groups, parts_of(documents.document(kept, "a", documents.beside(given))))


def told(form: str, given: Any) -> list[str]:
    """Return what is read, or why nothing is."""
    try:
        return read(form, given)
    except InvalidInputError as error:
        return [f"refused: {error}"]


def test_what_is_read_of_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a value is another one: the lines that are not those of the whole, or the error."""
    stop_clock(monkeypatch)
    imports = {f"{form} import": MESSAGES[form] for form in ("openai", "anthropic")}
    documents = {f"{form} document": given for form, given in DOCUMENTS.items()}
    text: list[str] = []
    for form, given in {**MESSAGES, **imports, "anthropic request": REQUEST, **documents}.items():
        whole = told(form, given)
        text += [form, *(f"    {line}" for line in whole)]
        for place, change in variants(given):
            said: dict[str, list[str]] = {}
            for name, new in OTHERS:
                lines = told(form, change(new))
                lost = [f"not {number}" for number, line in enumerate(whole) if line not in lines]
                is_refused = lines[0].startswith("refused: ")
                new_lines = [line for line in lines if line not in whole]
                said.setdefault("\n".join(new_lines if is_refused else [*lost, *new_lines]), []).append(name)
            for lines_said, names in said.items():
                if lines_said:
                    text += [f"  {place}: {', '.join(names)}", *(f"    {line}" for line in lines_said.split("\n"))]

    assert_as_written("messages", "".join(f"{line}\n" for line in text))

"""
From Google contents back to items.

A content becomes the outputs in it, then one message of its texts and images, then its calls. Thoughts and other parts
for which items have no field are stored in `extra["google"]` of that message; files are sent again from there. A
signature is stored where it was: in the call's `metadata["thought_signature"]`, or for a message in `extra["google"]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...arguments import require_several
from ...chat.events import ChatItemEvent, Image
from ...clock import System
from ...errors import InvalidInputError
from ..receive import Receiver, as_plain_data, as_text, at_field, field_of, kind_of, place_of
from .send import SIGNATURE, signature_of

Part = Mapping[str, Any]
ROLES = {"user": "user", "model": "assistant", "function": "user", "tool": "user", "system": "system"}
CAMEL = {
    "function_call": "functionCall", "function_response": "functionResponse", "inline_data": "inlineData",
    "file_data": "fileData", SIGNATURE: "thoughtSignature", "mime_type": "mimeType", "file_uri": "fileUri",
}  # fmt: skip


def items_from_google(
    contents: Iterable[Any], system_instruction: Any = None, *, system_clock: System, places: Sequence[str] = ()
) -> list[ChatItemEvent]:
    """
    Return the items of Google contents and of a system instruction.

    Contents are plain data, with either spelling of the fields, or objects of google-genai. The instruction is text or
    a content. A response without an id answers the first waiting call with its name. `places` name the contents in
    errors.

    Raises:
        InvalidInputError: an entry is not a content or part; the error says where and what was expected.
    """
    receiver = Receiver(system_clock)
    reader = GoogleReader(receiver)
    if isinstance(system_instruction, str):
        receiver.say("system", system_instruction, {}, "system")
    elif system_instruction is not None:
        reader.read({**_plain(system_instruction, "system_instruction"), "role": "system"}, "system_instruction")
    for index, content in enumerate(require_several(contents, "the contents")):
        where = place_of(places, "contents", index)
        reader.read(_plain(content, where), where)
    return receiver.items


def _plain(content: Any, where: str) -> Mapping[str, Any]:
    plain = as_plain_data(content)
    if not isinstance(plain, Mapping):
        raise InvalidInputError(f"{where}: found {kind_of(plain)}, expected an object")
    # A field that is null was not given: the fields of google-genai's objects are null by default.
    return {name: value for name, value in plain.items() if value is not None}


def _get(value: Part, name: str) -> Any:
    return value.get(name, value.get(CAMEL[name]))


class GoogleReader:
    """Reads contents one after the other, and remembers which calls wait for an output."""

    def __init__(self, receiver: Receiver) -> None:
        # The items go here; it may be replaced between two contents.
        self.receiver = receiver
        self._waiting: list[tuple[str, str]] = []

    def read(self, content: Mapping[str, Any], where: str) -> None:
        """Add the items of one content."""
        role = ROLES.get(str(content.get("role") or "user"))
        if role is None:
            fault = f"{content['role']!r} is no role, expected user or model"
            raise InvalidInputError(f"{at_field(where, 'role')}: {fault}")
        said: list[str | Image] = []
        beside: dict[str, Any] = {}
        calls: list[tuple[Part, str]] = []
        listed = field_of(content, "parts", list, where) if content.get("parts") else []
        for number, found in enumerate(listed):
            there = at_field(where, f"parts[{number}]")
            part = _plain(found, there)
            if _get(part, "function_call") is not None:
                calls.append((part, there))
            elif _get(part, "function_response") is not None:
                self._answered(_get(part, "function_response"), at_field(there, "function_response"))
            elif part.get("thought") or (made := self._text_or_image(part, there)) is None:
                beside.setdefault("parts", []).append(part)
            else:
                said.append(made)
                if signature := signature_of(_get(part, SIGNATURE)):
                    # A signature is sent again on the last part of its message, so the message ends here.
                    self.receiver.say(role, said, {"google": {**beside, SIGNATURE: signature}}, where)
                    said, beside = [], {}
        if said or beside or not content.get("parts"):
            self.receiver.say(role, said, {"google": beside} if beside else {}, where)
        if calls:
            # Calls of earlier contents that were not answered wait no longer.
            self._waiting = [self._called(part, there) for part, there in calls]

    def _text_or_image(self, part: Part, where: str) -> str | Image | None:
        if isinstance(part.get("text"), str):
            return str(part["text"])
        inline, file = _get(part, "inline_data"), _get(part, "file_data")
        if isinstance(inline, Mapping):
            data = signature_of(field_of(inline, "data", str, at_field(where, "inline_data")))
            kind = _get(inline, "mime_type")
            return self.receiver.image(f"data:{kind};base64,{data}") if _is_image(kind) and data else None
        if not isinstance(file, Mapping) or not _is_image(_get(file, "mime_type")):
            return None
        address = _get(file, "file_uri")
        return self.receiver.image(address) if isinstance(address, str) else None

    def _called(self, part: Part, where: str) -> tuple[str, str]:
        there = at_field(where, "function_call")
        call = _plain(_get(part, "function_call"), there)
        name = field_of(call, "name", str, there)
        signature = signature_of(_get(part, SIGNATURE))
        metadata = {SIGNATURE: signature} if signature else {}
        return self.receiver.call(name, call.get("args") or {}, call.get("id"), metadata, where), name

    def _answered(self, found: Any, where: str) -> None:
        response = _plain(found, where)
        name = field_of(response, "name", str, where)
        output, is_error = _output_of(response.get("response"), where)
        if response.get("parts"):
            output = self._with_parts(output, response, where, is_error=is_error)
        call_id = self._answered_call_id(response.get("id"), name)
        self.receiver.answer(name, output, call_id, is_error=is_error, where=where)

    def _with_parts(self, output: str, response: Part, where: str, *, is_error: bool) -> str:
        """Return an output with its images, as JSON with blocks; with other parts, all of it as JSON."""
        images = []
        listed = [_plain(one, where) for one in field_of(response, "parts", list, where)]
        for part in listed:
            found = _get(part, "inline_data")
            inline = found if isinstance(found, Mapping) else {}
            kind, sound = _get(inline, "mime_type"), signature_of(inline.get("data"))
            if is_error or not _is_image(kind) or sound is None:
                return as_text({"response": response.get("response"), "parts": listed}, where)
            images.append({"type": "image", "source": {"type": "base64", "media_type": kind, "data": sound}})
        return as_text([*([{"type": "text", "text": output}] if output else []), *images], where)

    def _answered_call_id(self, call_id: str | None, name: str) -> str | None:
        """Return the id of the call that a response answers, and mark the call as answered."""
        for place, (waiting_id, waiting_name) in enumerate(self._waiting):
            if waiting_id == call_id or (not call_id and waiting_name == name):
                del self._waiting[place]
                return waiting_id
        return call_id


def _is_image(media_type: Any) -> bool:
    # A video, a text or a sound is no image for other providers either.
    return isinstance(media_type, str) and media_type.lower().startswith("image/")


def _output_of(response: Any, where: str) -> tuple[str, bool]:
    if isinstance(response, Mapping) and len(response) == 1:
        (kind, value) = next(iter(response.items()))
        # Outputs are sent in this form; any other response is kept as JSON.
        if kind in ("output", "error") and isinstance(value, str):
            return value, kind == "error"
    return as_text(response, where), False

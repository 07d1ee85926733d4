"""From items to Google contents, as plain data or as objects of google-genai, which only this module imports."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ...arguments import is_data_url, require_instance
from ...canonical import parse_json
from ...chat.events import ChatItemEvent, FunctionCalled, Image, MessageAdded
from ...chat.state.fold import active_config
from ..send import (
    DUMMY_FIRST,
    DUMMY_LAST,
    MALFORMED,
    NO_OUTPUT,
    Batch,
    Inline,
    UniqueIds,
    arguments_of,
    inline_of,
    left_out,
    parts_of_output,
    text_of_output,
    turns_of,
)

SIGNATURE = "thought_signature"
NAME_LENGTH_MAX = 64
ADDRESSES = ("https://", "http://", "gs://")
# An address needs a media type, and only its file extension shows it.
MEDIA_TYPES = {
    "png": "image/png", "webp": "image/webp", "gif": "image/gif", "heic": "image/heic", "heif": "image/heif",
}  # fmt: skip
# An output takes images of these types, which models before Gemini 3 refuse.
OUTPUT_TYPES = frozenset({"image/png", "image/jpeg", "image/webp"})
_FOREIGN = re.compile(r"[^a-zA-Z0-9_.:-]")
# The package writes base64 in the alphabet for URLs; this converts it to the standard one.
_STANDARD = str.maketrans("-_", "+/")


def to_google_types(contents: Iterable[dict[str, Any]]) -> list[Any]:
    """
    Return the result of `google_contents` as objects of `google.genai.types.Content`.

    Raises:
        ImportError: the package google-genai is not installed.
    """
    try:
        from google.genai.types import Content
    except ImportError as error:
        raise ImportError(
            'Google contents need the package google-genai: pip install "refold[google]"', name="google.genai"
        ) from error
    # As JSON, because there the package decodes base64 texts; in Python data it would use the bytes of the text itself.
    return [Content.model_validate_json(json.dumps(content)) for content in contents]


GoogleContent = dict[str, Any]


def google_contents(
    items: Iterable[ChatItemEvent],
    *,
    thought_signatures: Mapping[str, str | bytes] | None = None,
) -> tuple[list[GoogleContent], str | None]:
    """
    Return the Google contents and the system instruction of `items`.

    `thought_signatures` maps the name of a function to the last signature that the model gave for it. The signature is
    set on the first call of that name in the newest batch that has one, unless that call has its own.
    """
    listed = list(items)
    system = active_config(listed).instructions
    thread = _Thread()
    for turn in turns_of(listed):
        if isinstance(turn, list):
            thread.ask(turn)
        else:
            thread.say(turn)
    signatures = {} if thought_signatures is None else thought_signatures
    require_instance(signatures, Mapping, "thought_signatures", "give a dict of the names of functions")  # type: ignore[type-abstract]
    for name, signature in signatures.items():
        thread.sign(name, signature_of(signature))
    return thread.closed(), system


class _Thread:
    """The contents so far; consecutive turns of one kind are one content, and outputs are a separate kind."""

    def __init__(self) -> None:
        self._contents: list[GoogleContent] = []
        self._kind = ""
        self._ids = UniqueIds(lambda call_id: call_id or "call")
        self._first_of: dict[str, tuple[FunctionCalled, dict[str, Any]]] = {}

    def _add(self, kind: str, parts: list[dict[str, Any]]) -> None:
        if kind == self._kind:
            self._contents[-1]["parts"].extend(parts)
            return
        # The first content must be a user's.
        if not self._kind and kind == "model":
            self._contents.append({"parts": [{"text": DUMMY_FIRST}], "role": "user"})
        self._kind = kind
        self._contents.append({"parts": parts, "role": "model" if kind == "model" else "user"})

    def say(self, message: MessageAdded) -> None:
        """Add a message of a user or the model, if it has content."""
        if parts := parts_of_message(message):
            self._add("user" if message.role == "user" else "model", parts)

    def ask(self, batch: Batch) -> None:
        """Add calls, and one output for each, in the same order."""
        calls, responses = [], []
        named = set()
        for call, answer in batch:
            call_id, name = self._ids.take(call.call_id), function_name(call.name)
            part = {"function_call": {"id": call_id, "name": name, "args": arguments_of(call.arguments)}}
            if call.metadata and (signature := signature_of_call(call)):
                part[SIGNATURE] = signature  # type: ignore[assignment]  # a part is open JSON
            if call.name not in named:
                named.add(call.name)
                self._first_of[call.name] = (call, part)
            calls.append(part)
            failed = answer is None or answer.is_error
            said = NO_OUTPUT if answer is None else answer.output
            shown = None if answer is None or failed else parts_of_output(answer)
            if shown is not None:
                said = text_of_output(shown, takes=OUTPUT_TYPES)
            response: dict[str, Any] = {
                "id": call_id,
                "name": name,
                "response": {"error" if failed else "output": said},
            }
            images = [one for one in shown or () if isinstance(one, Inline) and one.media_type in OUTPUT_TYPES]
            if images:
                response["parts"] = [_inline_part(one) for one in images]
            responses.append({"function_response": response})
        self._add("model", calls)
        self._add("responses", responses)

    def sign(self, name: str, signature: str | None) -> None:
        """Set a signature that was kept by name on its call, unless one was recorded with the call."""
        call, part = self._first_of.get(name, (None, {}))
        if call is not None and signature and SIGNATURE not in (parse_json(call.metadata) or {}):
            part[SIGNATURE] = signature

    def closed(self) -> list[GoogleContent]:
        """Return the contents; the last one is the user's, as the provider requires."""
        if self._kind in ("", "model"):
            text = DUMMY_LAST if self._kind else DUMMY_FIRST
            self._contents.append({"parts": [{"text": text}], "role": "user"})
        return self._contents


def function_name(name: str) -> str:
    """Return a name that the API accepts: 1 to 64 letters, digits, `_`, `.`, `:` and `-`, a letter or `_` in front."""
    cleaned = _FOREIGN.sub("_", name)[:NAME_LENGTH_MAX]
    if cleaned and (cleaned[0].isalpha() or cleaned[0] == "_"):
        return cleaned
    return f"_{cleaned}"[:NAME_LENGTH_MAX]


def parts_of_message(message: MessageAdded) -> list[dict[str, Any]]:
    """Return the files and the parts in their order, without empty texts, which the provider refuses."""
    parts = [{"text": part} if isinstance(part, str) else _image_of(part) for part in message.parts if part != ""]
    parts = [*filter(is_file, parts_beside(message)), *parts]
    if parts and (checked := signature_of(_beside(message).get(SIGNATURE))):
        parts[-1] = {**parts[-1], SIGNATURE: checked}
    return parts


def parts_beside(message: MessageAdded) -> list[dict[str, Any]]:
    """Return the parts that are kept beside a message."""
    parts = _beside(message).get("parts")
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def is_file(part: Mapping[str, Any]) -> bool:
    """Return whether a part is a file with its type, inline or at an address."""
    inline, file = part.get("inline_data", part.get("inlineData")), part.get("file_data", part.get("fileData"))
    if part.get("thought"):
        return False
    if isinstance(inline, Mapping):
        return bool(inline.get("mime_type", inline.get("mimeType"))) and signature_of(inline.get("data")) is not None
    return isinstance(file, Mapping) and bool(file.get("file_uri", file.get("fileUri")))


def _beside(message: MessageAdded) -> dict[str, Any]:
    kept = parse_json(message.extra).get("google") if b'"google"' in message.extra else None
    return kept if isinstance(kept, dict) else {}


def _image_of(image: Image) -> dict[str, Any]:
    url = image.image
    if is_data_url(url):
        inline = inline_of(url)
        if inline is None:
            return {"text": left_out(image, MALFORMED)}
        return _inline_part(inline)
    if not url.lower().startswith(ADDRESSES):
        return {"text": left_out(image, f"only web addresses can be sent: {url}")}
    return {"file_data": {"file_uri": url, "mime_type": media_type_of(url)}}


def _inline_part(inline: Inline) -> dict[str, Any]:
    return {"inline_data": {"mime_type": inline.media_type, "data": inline.data}}


def media_type_of(url: str) -> str:
    """Return the media type of an image: that of its data URL, or what the ending of its address shows."""
    if is_data_url(url):
        inline = inline_of(url)
        return inline.media_type if inline else "image/jpeg"
    return MEDIA_TYPES.get(url.partition("?")[0].rpartition(".")[2].lower(), "image/jpeg")


def signature_of_call(call: FunctionCalled) -> str | None:
    return signature_of(parse_json(call.metadata).get(SIGNATURE)) if b'"thought_signature"' in call.metadata else None


def signature_of(signature: object) -> str | None:
    """Return a signature as standard base64, or None if it cannot be decoded."""
    if isinstance(signature, bytes):
        return base64.b64encode(signature).decode("ascii") or None
    if not isinstance(signature, str):
        return None
    standard = signature.translate(_STANDARD)
    try:
        return standard if binascii.a2b_base64(standard, strict_mode=True) else None
    except ValueError:
        return None

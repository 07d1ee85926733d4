"""
From items to Anthropic messages, with cache breakpoints.

There are at most four breakpoints, and moving them changes nothing else.
The first ends the system text and also covers the tools before it. Two are at the ends of the last two user messages:
this request writes the later one, and the previous request wrote the earlier one. The fourth moves rarely: it is at the
end of the last user message that is wholly within full rows of BLOCKS_A_ROW blocks. So the cache is still found if the
latest turns are sent differently, or if the context has grown by more blocks than the provider looks back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...arguments import is_data_url
from ...chat.events import ChatItemEvent, FunctionReturned, Image, MessageAdded
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
    turns_of,
    with_plain_characters,
)
from .source_shape import kept_blocks, messages_as_came, text_block

BLOCKS_A_ROW = 20
# Blocks for which items have no field: an import keeps them beside the item, and they are sent again before it. For
# each role: the types of such blocks, and the fields that they must have to be sent.
KEPT_BLOCKS: dict[str, dict[str, dict[str, type]]] = {
    "user": {"document": {"source": dict}},
    "assistant": {"thinking": {"thinking": str, "signature": str}, "redacted_thinking": {"data": str}},
}
MEDIA_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
NAME_LENGTH_MAX = 128
# Sent for a failed call that said nothing: the API refuses a blank text there.
BLANK_ERROR = "[The call failed without a message]"


def marked_system(system: str | None) -> str | list[dict[str, Any]] | None:
    """Return the system text as a block with a breakpoint; a blank text cannot have one."""
    if system is None or not system.strip():
        return system
    return [_marked(text_block(system))]


def mark_messages(messages: Sequence[dict[str, Any]]) -> None:
    """Set up to three breakpoints in `messages`, whose content is blocks."""
    ends, blocks = [], 0
    for message in messages:
        blocks += len(message["content"])
        if message["role"] == "user":
            ends.append((blocks, message["content"][-1]))
    for _, block in ends[-2:]:
        _marked(block)
    if len(ends) < 3:
        return
    # Rounded down to full rows, so that this breakpoint does not move while a row fills up.
    full = ends[-2][0] // BLOCKS_A_ROW * BLOCKS_A_ROW
    still = [block for end, block in ends[:-2] if end <= full]
    if still:
        _marked(still[-1])


def _marked(block: dict[str, Any]) -> dict[str, Any]:
    block["cache_control"] = {"type": "ephemeral"}
    return block


AnthropicMessage = dict[str, Any]
AnthropicSystem = str | list[dict[str, Any]] | None


def anthropic_messages(
    items: Iterable[ChatItemEvent],
    *,
    caching: bool = False,
    allow_prefill: bool = False,
    exact: bool = False,
) -> tuple[list[AnthropicMessage], AnthropicSystem]:
    """
    Return the Anthropic messages and the system text of `items`.

    `caching` sets up to four cache breakpoints, and gives all content as blocks. `allow_prefill` allows an assistant
    message at the end, which newer models refuse. With `exact`, imported Anthropic messages are returned unchanged,
    valid or not, and the other options have no effect.
    """
    listed = list(items)
    came = messages_as_came(listed) if exact else None
    if came is not None:
        return came
    system = active_config(listed).instructions
    thread = _Thread()
    for turn in turns_of(listed):
        if isinstance(turn, list):
            thread.ask(turn)
        else:
            thread.say(turn)
    is_closed = thread.close(allow_prefill=allow_prefill)
    if caching:
        mark_messages(thread.messages[:-1] if is_closed else thread.messages)
        return thread.messages, marked_system(system)
    for message in thread.messages:
        blocks = message["content"]
        if len(blocks) == 1 and blocks[0]["type"] == "text":
            message["content"] = blocks[0]["text"]
    return thread.messages, system


class _Thread:
    """The messages so far; consecutive turns of one role are one message."""

    def __init__(self) -> None:
        self.messages: list[AnthropicMessage] = []
        # The thinking of a message without text: it is sent with the next calls, since it would be refused alone.
        self._thinking: list[dict[str, Any]] = []
        self._ids = UniqueIds(with_plain_characters)

    def _add(self, role: str, blocks: list[dict[str, Any]]) -> None:
        messages = self.messages
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"].extend(blocks)
            return
        # The first message must be a user's.
        if not messages and role == "assistant":
            messages.append({"role": "user", "content": [text_block(DUMMY_FIRST)]})
        messages.append({"role": role, "content": blocks})

    def say(self, message: MessageAdded) -> None:
        """Add a message of a user or an assistant, if it has content."""
        blocks = _blocks_of(message)
        if blocks:
            self._add(message.role, blocks)
        self._thinking = [] if blocks or not message.extra else _kept_blocks_sent(message.extra, message.role)

    def ask(self, batch: Batch) -> None:
        """Add calls, and their outputs in the order of the calls."""
        uses, results = self._thinking, []
        self._thinking = []
        for call, answer in batch:
            call_id = self._ids.take(call.call_id)
            if call.metadata:
                uses.extend(_kept_blocks_sent(call.metadata, "assistant"))
            uses.append({
                "type": "tool_use", "id": call_id, "name": function_name(call.name),
                "input": arguments_of(call.arguments),
            })  # fmt: skip
            results.append({
                "type": "tool_result", "tool_use_id": call_id,
                "content": NO_OUTPUT if answer is None else _output_of(answer),
                "is_error": answer is None or answer.is_error,
            })  # fmt: skip
        self._add("assistant", uses)
        self._add("user", results)

    def close(self, *, allow_prefill: bool) -> bool:
        """End in the form that the provider requires; return whether a placeholder message was added."""
        messages = self.messages
        if not messages:
            messages.append({"role": "user", "content": [text_block(DUMMY_FIRST)]})
            return True
        if messages[-1]["role"] == "user":
            return False
        if allow_prefill:
            # The provider refuses blanks at the end of a last assistant message; its last block is always text.
            last = messages[-1]["content"][-1]
            last["text"] = last["text"].rstrip()
            return False
        messages.append({"role": "user", "content": [text_block(DUMMY_LAST)]})
        return True


def function_name(name: str) -> str:
    """Return a name that the API accepts: 1 to 128 letters, digits, `_` and `-`; other characters become `_`."""
    return with_plain_characters(name)[:NAME_LENGTH_MAX]


def _output_of(answer: FunctionReturned) -> str | list[dict[str, Any]]:
    """Return an output in the form to send: blocks if it has images, else a text; an error needs a text with words."""
    if answer.is_error:
        return answer.output if answer.output.strip() else BLANK_ERROR
    parts = parts_of_output(answer)
    if parts is None or any(part.media_type not in MEDIA_TYPES for part in parts if isinstance(part, Inline)):
        return answer.output
    # The provider refuses blank texts.
    kept = (part for part in parts if isinstance(part, Inline) or part.strip())
    return [_image(part) if isinstance(part, Inline) else text_block(part) for part in kept]


def _image(inline: Inline) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": inline.media_type, "data": inline.data}}


def _blocks_of(message: MessageAdded) -> list[dict[str, Any]]:
    """Return the blocks of a message: images first, as in the seed, and no blank texts, which the provider refuses."""
    content = message.content
    if len(content) == 1 and isinstance(content, tuple):
        # One text is by far the most frequent form, so it gets a path without a loop.
        content = content[0] if isinstance(content[0], str) else content
    if isinstance(content, str):
        blocks = [] if not content or content.isspace() else [text_block(content)]
    else:
        images = [_image_of(part, message.role) for part in content if isinstance(part, Image)]
        texts = [part for part in content if isinstance(part, str) and part and not part.isspace()]
        blocks = images + [text_block(part) for part in texts]
    if message.extra and b'"anthropic"' in message.extra and (blocks or message.role == "user"):
        return _kept_blocks_sent(message.extra, message.role) + blocks
    return blocks


def _image_of(image: Image, role: str) -> dict[str, Any]:
    url = image.image
    is_inline = is_data_url(url)
    if role == "assistant":
        return text_block(left_out(image, "an assistant's message cannot hold one" + ("" if is_inline else f": {url}")))
    if not is_inline:
        if url[:8].lower() == "https://":
            return {"type": "image", "source": {"type": "url", "url": url}}
        return text_block(left_out(image, f"only https addresses can be sent: {url}"))
    inline = inline_of(url)
    if inline is None:
        return text_block(left_out(image, MALFORMED))
    if inline.media_type not in MEDIA_TYPES:
        return text_block(left_out(image, f"{inline.media_type} cannot be sent"))
    return _image(inline)


def _kept_blocks_sent(extra: bytes, role: str) -> list[dict[str, Any]]:
    """Return the blocks that are kept beside an item of a role and can be sent, without marks for a cache."""
    return [
        {key: value for key, value in block.items() if key != "cache_control"}
        for block in kept_blocks(extra)
        if _is_whole(block, KEPT_BLOCKS[role].get(str(block.get("type"))))
    ]


def _is_whole(block: dict[str, Any], fields: dict[str, type] | None) -> bool:
    return fields is not None and all(isinstance(block.get(field), kind) for field, kind in fields.items())

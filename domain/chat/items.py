"""
The items of a chat context as its users see them: pydantic models, read-only all the way down.

Names, fields and defaults are the seed's (SPEC V1). An item is a view of the event that added it, which is
why it cannot be assigned to: a change is another event.
"""

from __future__ import annotations

import enum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ..frozen import FrozenDict, freeze
from ..system import REAL_SYSTEM

__all__ = [
    "AgentConfigUpdate",
    "AgentHandoff",
    "ChatContent",
    "ChatItem",
    "ChatMessage",
    "ChatRole",
    "EncodeOptions",
    "FunctionCall",
    "FunctionCallOutput",
    "ImageContent",
    "ResizeOptions",
]

Frozen = AfterValidator(freeze)


class ChatRole(str, enum.Enum):  # noqa: UP042 - the seed's base classes: str(role) stays "ChatRole.USER"
    """Who speaks (SPEC V1.1); there is no tool role, outputs are items of their own."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"


class _View(BaseModel):
    """Base of all items and parts: frozen, unknown fields ignored (SPEC V1.13, V1.14)."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class ResizeOptions(_View):
    """Width and height in pixels that an image is brought to (SPEC V1.12)."""

    width: int
    height: int


class EncodeOptions(_View):
    """How a picture is encoded when it is sent (SPEC V1.12)."""

    format: Literal["JPEG", "PNG"] = "JPEG"
    resize_options: ResizeOptions | None = Field(default_factory=lambda: ResizeOptions(width=320, height=240))
    quality: int = 90


class ImageContent(_View):
    """An image in a message: a URL or a data URL (SPEC V1.10)."""

    id: str = Field(default_factory=lambda: REAL_SYSTEM.new_id("img_"))
    type: Literal["image"] = "image"
    image: str
    inference_detail: Literal["auto", "high", "low"] = "auto"
    encode_options: EncodeOptions = Field(default_factory=EncodeOptions)

    def to_data_url(self) -> str:
        """
        Return the image's URL unchanged (SPEC V1.11).
        """
        return self.image


class _Item(_View):
    """What all items have (SPEC V1.2)."""

    created_at: float = Field(default_factory=REAL_SYSTEM.now)
    agent_id: str | None = None


ChatContent = str | ImageContent


class ChatMessage(_Item):
    """A message of a role (SPEC V1.5)."""

    id: str = Field(default_factory=lambda: REAL_SYSTEM.new_id("msg_"))
    type: Literal["message"] = "message"
    role: ChatRole
    content: str | Annotated[list[ChatContent], Frozen]
    interrupted: bool = False
    extra: Annotated[dict[str, Any], Frozen] = FrozenDict()
    confidence: float | None = None
    metrics: Annotated[dict[str, Any] | None, Frozen] = None
    audio_instructions: str | None = None
    text_instructions: str | None = None

    def instructions_for_modality(self, modality: str) -> Any:
        """
        Return the variant for "audio" or "text" where there is one, else the content (SPEC V1.6).
        """
        variant = {"audio": self.audio_instructions, "text": self.text_instructions}.get(modality)
        return self.content if variant is None else variant


class FunctionCall(_Item):
    """The model asks for a function (SPEC V1.7)."""

    id: str = Field(default_factory=lambda: REAL_SYSTEM.new_id("call_"))
    type: Literal["function_call"] = "function_call"
    name: str
    arguments: str
    call_id: str
    metadata: Annotated[dict[str, Any] | None, Frozen] = None


class FunctionCallOutput(_Item):
    """A function's answer (SPEC V1.8)."""

    id: str = Field(default_factory=lambda: REAL_SYSTEM.new_id("output_"))
    type: Literal["function_call_output"] = "function_call_output"
    name: str
    call_id: str
    output: str
    is_error: bool = False


class AgentHandoff(_Item):
    """Control goes to another agent (SPEC V1.9)."""

    id: str = Field(default_factory=lambda: REAL_SYSTEM.new_id("handoff_"))
    type: Literal["agent_handoff"] = "agent_handoff"
    from_agent: str | None = None
    to_agent: str
    reason: str | None = None


class AgentConfigUpdate(_Item):
    """Instructions or tools change in mid-conversation (SPEC V1.9)."""

    id: str = Field(default_factory=lambda: REAL_SYSTEM.new_id("cfgupd_"))
    type: Literal["agent_config_update"] = "agent_config_update"
    instructions: str | None = None
    tools: Annotated[list[str] | None, Frozen] = None


ChatItem = ChatMessage | FunctionCall | FunctionCallOutput | AgentHandoff | AgentConfigUpdate

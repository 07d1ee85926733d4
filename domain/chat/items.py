"""
The items of a chat context as its users see them: pydantic models, read-only all the way down.

Names, fields and defaults are the seed's (SPEC V1). An item is a view of the event that added it, which is
why it cannot be assigned to: a change is another event.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from ..frozen import FrozenDict, freeze
from ..system import REAL_SYSTEM
from .pictures import data_url_of

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
    """Width and height in pixels that a picture is brought to; the aspect ratio is not kept (SPEC V1.12)."""

    width: int
    height: int


class EncodeOptions(_View):
    """
    How a PIL image or a video frame is encoded (SPEC V1.12).

    `quality`, from 1 to 100, is that of JPEG; PNG has none. `resize_options=None` keeps the size.
    """

    format: Literal["JPEG", "PNG"] = "JPEG"
    resize_options: ResizeOptions | None = Field(default_factory=lambda: ResizeOptions(width=320, height=240))
    quality: int = 90


def _well_formed(image: str) -> str:
    if image[:5].lower() == "data:" and "," not in image:
        raise ValueError(
            "a data URL needs a comma between its type and its data, as in data:image/png;base64,iVBORw0KGgo="
        )
    return image


class ImageContent(_View):
    """
    An image in a message (SPEC V1.10): `image` is a URL or a data URL.

    It can be made of the bytes of a JPEG, PNG, GIF or WebP file, which are kept as they are, and of a PIL image or
    an av.VideoFrame, which is encoded at once by `encode_options` (SPEC V1.11b).
    """

    id: str = Field(default_factory=lambda: REAL_SYSTEM.new_id("img_"))
    type: Literal["image"] = "image"
    image: Annotated[str, AfterValidator(_well_formed)]
    inference_detail: Literal["auto", "high", "low"] = "auto"
    encode_options: EncodeOptions = Field(default_factory=EncodeOptions)

    if TYPE_CHECKING:
        # Type checkers would take only what the field holds in the end: text.
        def __init__(
            self,
            *,
            image: Any,
            id: str = ...,
            type: Literal["image"] = ...,
            inference_detail: Literal["auto", "high", "low"] = ...,
            encode_options: EncodeOptions = ...,
        ) -> None: ...

    @model_validator(mode="before")
    @classmethod
    def _encode(cls, fields: Any) -> Any:
        if not isinstance(fields, dict) or isinstance(fields.get("image"), str | None):
            return fields
        options = EncodeOptions.model_validate(fields.get("encode_options", EncodeOptions()))
        return {**fields, "image": data_url_of(fields["image"], options)}

    def to_data_url(self) -> str:
        """Return the image as it is stored: a URL, or a data URL (SPEC V1.11)."""
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
        """Return the variant for "audio" or "text" where there is one, else the content (SPEC V1.6)."""
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

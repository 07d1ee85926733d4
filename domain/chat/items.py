"""
The items of a chat context as users see them: pydantic models, read-only at every depth.

Names, fields and defaults are those of the seed, the system on which they are modelled. An item is a view of the event
that added it. So it cannot be assigned to: a change is another event.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import VERSION, AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..arguments import has_no_data, require_several
from ..clock import REAL_SYSTEM
from ..concurrency.locks import cached_property
from ..content import loaded_class
from ..errors import InvalidInputError, MissingFieldError, shown
from ..frozen import FrozenDict, FrozenList, freeze
from .roles import ChatRole

# The bytes at the given indexes in a file of each type. A GIF is of 1987 or of 1989; a WebP is in a RIFF container.
SIGNATURES: dict[str, Sequence[tuple[int, bytes]]] = {
    "image/jpeg": ((0, b"\xff\xd8\xff"),),
    "image/png": ((0, b"\x89PNG\r\n\x1a\n"),),
    "image/gif": ((0, b"GIF8"), (5, b"a")),
    "image/webp": ((0, b"RIFF"), (8, b"WEBP")),
}
WHITE = (255, 255, 255, 255)
# Building the models when one is first used takes 40 ms from a command that only shows items. Before pydantic 2.14, two
# threads that use a model first could break each other.
BUILT_LATER = tuple(map(int, VERSION.split(".")[:2])) >= (2, 14)
# The seed's plain form of a context, `{"items": [...]}`, has these fields of each type, in this order.
COMMON = ("type", "id", "created_at", "agent_id")
FIELDS = {
    "message": (
        "role", "content", "interrupted", "extra", "confidence", "metrics",
        "audio_instructions", "text_instructions",
    ),
    "function_call": ("name", "arguments", "call_id", "metadata"),
    "function_call_output": ("name", "output", "call_id", "is_error"),
    "agent_handoff": ("from_agent", "to_agent", "reason"),
    "agent_config_update": ("instructions", "tools"),
}  # fmt: skip
# Fields that the seed's form does not have, and that are there if they are not None.
OPTIONAL = {"message": ("incomplete",), "function_call_output": ("call_item_id",),
            "agent_config_update": ("tool_schemas", "settings")}  # fmt: skip


def data_url_of(picture: Any, options: EncodeOptions) -> str:
    """
    Return a picture as a data URL: bytes unchanged, a PIL image or av.VideoFrame encoded.

    Raises:
        ValueError: it has another type, its bytes are of an unknown type, or it cannot be encoded.
        ImportError: Pillow is needed and not installed.
    """
    if isinstance(picture, bytes | bytearray | memoryview):
        data = bytes(picture)
        return _data_url(_media_type(data), data)
    if isinstance(picture, loaded_class("av", "VideoFrame")):
        _require_pillow()
        picture = picture.to_image()
    if isinstance(picture, loaded_class("PIL.Image", "Image")):
        return _data_url(f"image/{options.format.lower()}", _encoded(picture, options))
    raise ValueError(
        f"an image cannot be made of a {type(picture).__name__}: give a URL, a data URL, the bytes of a file, "
        "a PIL image or an av.VideoFrame"
    )


def _data_url(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}"


def _media_type(data: bytes) -> str:
    for media_type, marks in SIGNATURES.items():
        if all(data.startswith(mark, at) for at, mark in marks):
            return media_type
    raise ValueError(
        f"image bytes that begin with {data[:12]!r} are neither JPEG, PNG, GIF nor WebP: "
        "convert them, or give a data URL that names their type"
    )


def _require_pillow() -> Any:
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise ImportError('encoding a picture needs Pillow: pip install "refold[images]"', name="PIL") from error
    return Image, ImageOps


def _encoded(image: Any, options: EncodeOptions) -> bytes:
    pillow, operations = _require_pillow()
    try:
        # A photo may have a tag that gives its orientation. Tags are not written, so the picture is rotated here.
        image = _in_plain_colours(operations.exif_transpose(image))
        if options.resize_options is not None:
            size = (options.resize_options.width, options.resize_options.height)
            image = image.resize(size, pillow.Resampling.LANCZOS)
        file = io.BytesIO()
        if options.format == "PNG":
            image.save(file, format="PNG")
        else:
            _on_white(image, pillow).save(file, format="JPEG", quality=options.quality)
    except (OSError, SyntaxError, pillow.DecompressionBombError) as error:
        raise ValueError(f"the picture cannot be encoded as {options.format}: {error}") from error
    return file.getvalue()


def _in_plain_colours(image: Any) -> Any:
    # Pillow resizes images with a palette by taking the nearest pixel, even if another filter is asked for.
    is_transparent = "A" in image.getbands() or "transparency" in image.info
    return image.convert("RGBA" if is_transparent else "RGB")


def _on_white(image: Any, pillow: Any) -> Any:
    """Return an image that JPEG can hold. JPEG has no transparency: transparent pixels would show a random colour."""
    if image.mode != "RGBA":
        return image
    ground = pillow.new("RGBA", image.size, WHITE)
    return pillow.alpha_composite(ground, image).convert("RGB")


Frozen = AfterValidator(freeze)


class _View(BaseModel):
    """Base of all items and parts: frozen, unknown fields ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=BUILT_LATER, ignored_types=(cached_property,))


class ResizeOptions(_View):
    """The width and height in pixels to which a picture is resized; the aspect ratio is not kept."""

    width: int
    height: int


class EncodeOptions(_View):
    """
    How a PIL image or a video frame is encoded.

    `quality`, from 1 to 100, applies to JPEG; PNG ignores it. `resize_options=None` keeps the size.
    """

    format: Literal["JPEG", "PNG"] = "JPEG"
    resize_options: ResizeOptions | None = Field(default_factory=lambda: ResizeOptions(width=320, height=240))
    quality: int = 90


def _well_formed(image: str) -> str:
    if has_no_data(image):
        raise ValueError("a data URL needs a comma between type and data, as in data:image/png;base64,iVBORw0KGgo=")
    return image


class ImageContent(_View):
    """
    An image in a message: `image` is a URL or a data URL.

    `image=` also accepts the bytes of a JPEG, PNG, GIF or WebP file, which are kept unchanged, and a PIL image or an
    av.VideoFrame, which is encoded at once with `encode_options`.
    """

    id: str = Field(default_factory=lambda: REAL_SYSTEM.new_id("img_"))
    type: Literal["image"] = "image"
    image: Annotated[str, AfterValidator(_well_formed)]
    inference_detail: Literal["auto", "high", "low"] = "auto"
    encode_options: EncodeOptions = Field(default_factory=EncodeOptions)

    if TYPE_CHECKING:
        # Without this signature, type checkers would accept only text, the type of the field.
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
        """Return the image as it is stored: a URL, or a data URL."""
        return self.image


def image_fault(fields: Mapping[str, Any]) -> str | None:
    """Return what is wrong with an image that has these fields; None if nothing is."""
    try:
        ImageContent.model_validate(fields)
    except ValidationError as error:
        return error.errors()[0]["msg"].removeprefix("Value error, ")
    return None


class _Item(_View):
    """The fields of all items."""

    _text_field: ClassVar[str]
    created_at: float = Field(default_factory=REAL_SYSTEM.now)
    agent_id: str | None = None

    @cached_property
    def version(self) -> int | None:
        """
        The version with which the item came to the context that gave it; 1 for the items that a fork began with.

        None for an item that no context gave. It is no field: items with different versions can be equal.
        """
        # A context puts the version into the item's dict, where it hides this.
        return None

    @property
    def text(self) -> str:
        """A message's text, a call's arguments, the output, a handoff's reason or new instructions; else empty."""
        text: str | None = getattr(self, self._text_field)
        return text or ""


ChatContent = str | ImageContent


class ChatMessage(_Item):
    """A message of a role; `incomplete` says why it is not complete."""

    id: str = Field(default_factory=lambda: REAL_SYSTEM.new_id("msg_"))
    type: Literal["message"] = "message"
    role: ChatRole
    content: str | Annotated[list[ChatContent], Frozen]
    interrupted: bool = False
    extra: Annotated[dict[str, Any], Frozen] = Field(default_factory=FrozenDict)
    confidence: float | None = None
    metrics: Annotated[dict[str, Any] | None, Frozen] = None
    audio_instructions: str | None = None
    text_instructions: str | None = None
    incomplete: str | None = None

    @property
    def text(self) -> str:
        """The text of the content; the texts of several parts stand below each other, and images are left out."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part for part in self.content if isinstance(part, str))

    def instructions_for_modality(self, modality: str) -> Any:
        """Return the variant for "audio" or "text" if there is one, else the content."""
        variant = {"audio": self.audio_instructions, "text": self.text_instructions}.get(modality)
        return self.content if variant is None else variant


class FunctionCall(_Item):
    """The model asks for a function."""

    _text_field = "arguments"
    id: str = Field(default_factory=lambda: REAL_SYSTEM.new_id("call_"))
    type: Literal["function_call"] = "function_call"
    name: str
    arguments: str
    call_id: str
    metadata: Annotated[dict[str, Any] | None, Frozen] = None


class FunctionCallOutput(_Item):
    """A function's answer; `call_item_id` names the item of its call, where only the call id would mean another."""

    _text_field = "output"
    id: str = Field(default_factory=lambda: REAL_SYSTEM.new_id("output_"))
    type: Literal["function_call_output"] = "function_call_output"
    name: str
    call_id: str
    output: str
    is_error: bool = False
    call_item_id: str | None = None


class AgentHandoff(_Item):
    """Control goes to another agent."""

    _text_field = "reason"
    id: str = Field(default_factory=lambda: REAL_SYSTEM.new_id("handoff_"))
    type: Literal["agent_handoff"] = "agent_handoff"
    from_agent: str | None = None
    to_agent: str
    reason: str | None = None


class AgentConfigUpdate(_Item):
    """
    The configuration changes during the conversation; None leaves that part unchanged.

    `tool_schemas` has the definitions of `tools` that were given, by name, `settings` what else a request has, such as
    `model`. A setting that is None is unset.
    """

    _text_field = "instructions"
    id: str = Field(default_factory=lambda: REAL_SYSTEM.new_id("cfgupd_"))
    type: Literal["agent_config_update"] = "agent_config_update"
    instructions: str | None = None
    tools: Annotated[list[str] | None, Frozen] = None
    tool_schemas: Annotated[dict[str, Any] | None, Frozen] = None
    settings: Annotated[dict[str, Any] | None, Frozen] = None


ChatItem = ChatMessage | FunctionCall | FunctionCallOutput | AgentHandoff | AgentConfigUpdate


class ActiveConfig(tuple[str | None, FrozenList[str] | None]):
    """
    The configuration in force at an item: (instructions, tools), and the rest as attributes.

    `settings` is what else a request has, by name: `model`, `temperature`, `response_format` and any other.
    `tool_schemas` has the definitions of the tools that were given, in the form of their provider.
    """

    settings: FrozenDict[str, Any]
    tool_schemas: FrozenList[dict[str, Any]]

    def __new__(
        cls,
        instructions: str | None,
        tools: Iterable[str] | None,
        tool_schemas: Mapping[str, Any],
        settings: Mapping[str, Any],
    ) -> Self:
        """Return it for a folded configuration."""
        made = super().__new__(cls, (instructions, None if tools is None else FrozenList(tools)))
        made.settings, made.tool_schemas = freeze(dict(settings)), freeze(list(tool_schemas.values()))
        return made

    def __getnewargs__(self) -> tuple[object, ...]:
        return *self, dict(enumerate(self.tool_schemas)), self.settings

    @property
    def instructions(self) -> str | None:
        """The instructions."""
        return self[0]

    @property
    def tools(self) -> FrozenList[str] | None:
        """The names of the tools."""
        return self[1]

    @property
    def model(self) -> Any:
        """The setting `model`; None if there is none."""
        return self.settings.get("model")

    def __eq__(self, other: object) -> bool:
        # Two configurations are equal in all; a plain pair is compared as the seed's result.
        same = isinstance(other, ActiveConfig) and vars(self) != vars(other)
        return tuple.__eq__(self, other) and not same

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


def items_to_dict(items: Iterable[ChatItem]) -> dict[str, Any]:
    """Return items as plain data: copies, keys in the seed's order, images as dicts."""
    return {"items": [_plain_item(item) for item in items]}


def _plain_item(item: ChatItem) -> dict[str, Any]:
    fields = {field: _plain(getattr(item, field)) for field in COMMON + FIELDS[item.type]}
    for field in OPTIONAL.get(item.type, ()):
        value = getattr(item, field)
        if value is not None:
            fields[field] = _plain(value)
    return fields


def _plain(value: Any) -> Any:
    if isinstance(value, ChatRole):
        return value.value
    if isinstance(value, ImageContent):
        return value.model_dump(mode="json")
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return value


class InvalidItemError(InvalidInputError, ValidationError):
    """A field of an item is invalid: one line names it. `errors()` lists every fault, as pydantic's error does."""

    @classmethod
    def of(cls, error: ValidationError, within: str = "") -> Self:
        """Return the error for an item that pydantic refused; `within` comes before the name of the field."""
        made = cls.from_exception_data(error.title, error.errors(include_url=False))  # type: ignore[arg-type]
        made.args = InvalidInputError(within + _in_one_line(error)).args
        return made

    def __str__(self) -> str:
        return str(self.args[0])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # The faults hold values of the caller, which need not be fit for another process.
        return InvalidInputError, self.args


def _in_one_line(error: ValidationError) -> str:
    """Return the fault that says most: that of a check of Refold's, else the one at the deepest place."""
    faults = [(_field(fault["loc"]), fault) for fault in error.errors(include_url=False)]
    field, fault = max(faults, key=lambda one: (one[1]["type"] == "value_error", one[0].count("[")))
    says = fault["msg"].removeprefix("Value error, ")
    if field.startswith("content") and fault["type"] not in ("value_error", "missing"):
        # pydantic names only one of the types that a content, or a part of it, may have.
        says = "give a text or an ImageContent" if "[" in field else "give a text, or a list of texts and ImageContents"
    elif fault["type"] == "string_type":
        says = "give a text, as json.dumps() makes one" if field in ("arguments", "output") else "give a text"
    return f"{field or error.title}: {says}, found {shown(fault['input'])}"


def _field(loc: Sequence[str | int]) -> str:
    # Behind the name of the field stand names of types, too.
    return "".join([*map(str, loc[:1]), *(f"[{part}]" for part in loc[1:] if isinstance(part, int))])


def items_from_dict(data: Mapping[str, Any]) -> list[ChatItem]:
    """
    Return the items of the seed's plain form; unknown types are left out.

    Raises:
        MissingFieldError: `items`, or a field of an item, is missing; the error names index and field (a KeyError).
        InvalidInputError: a role that does not exist, or a field of the wrong type (a ValueError).
    """
    if not isinstance(data, Mapping):
        raise InvalidInputError(f"found a {type(data).__name__}: give an object with `items`, as to_dict() does")
    if "items" not in data:
        raise MissingFieldError("the field items is missing: give an object with `items`, as to_dict() does")
    entries = require_several(data["items"], "items")
    found = (_item_of(entry, f"items[{index}]") for index, entry in enumerate(entries))
    return [item for item in found if item is not None]


def _item_of(entry: Any, where: str) -> ChatItem | None:
    if not isinstance(entry, Mapping):
        raise InvalidInputError(f"{where} is {entry!r}: expected an object with id and type")
    try:
        kind = str(entry["type"])
        return _item_of_type(kind, entry) if kind in _MODELS else None
    except KeyError as error:
        raise MissingFieldError(f"{where}, field {error.args[0]}: missing") from error
    except ValidationError as error:
        raise InvalidItemError.of(error, f"{where}, field ") from error


def _item_of_type(kind: str, entry: Mapping[str, Any]) -> ChatItem:
    names = (*FIELDS[kind], *OPTIONAL.get(kind, ()))
    given = {name: entry[name] for name in names if name in entry}
    if kind == "message":
        # The two fields that it must have.
        content, given["role"] = entry["content"], entry["role"]
        if isinstance(content, list):
            content = [ImageContent.model_validate(part) if isinstance(part, dict) else part for part in content]
        given |= {"content": content, "extra": entry.get("extra") or {}}
    created_at = REAL_SYSTEM.now() if entry.get("created_at") is None else entry["created_at"]
    return _MODELS[kind](id=entry["id"], created_at=created_at, agent_id=entry.get("agent_id"), **given)


_MODELS: dict[str, Callable[..., ChatItem]] = {
    "message": ChatMessage,
    "function_call": FunctionCall,
    "function_call_output": FunctionCallOutput,
    "agent_handoff": AgentHandoff,
    "agent_config_update": AgentConfigUpdate,
}

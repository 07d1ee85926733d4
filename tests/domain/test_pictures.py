"""Images are made of URLs, files, PIL images and video frames, and are text from then on (SPEC V1.10 to V1.12)."""

import base64
import copy
import io
import json
import pickle
import sys
from collections.abc import Callable
from typing import Any

import av
import pytest
from PIL import Image
from pydantic import ValidationError

from refold.domain.chat.context import ChatContext
from refold.domain.chat.describe import body_of
from refold.domain.chat.items import EncodeOptions, ImageContent, ResizeOptions
from refold.infrastructure.exchange.transcripts import TranscriptForm, transcript_of

RED, BLUE = (255, 0, 0), (0, 0, 255)
NO_DATA = "data:image/png;base64"
AS_IT_IS = EncodeOptions(format="PNG", resize_options=None)


def plain(size: tuple[int, int] = (64, 48), colour: Any = RED, mode: str = "RGB") -> Image.Image:
    """Return a picture of one colour."""
    return Image.new(mode, size, colour)


def file_of(kind: str) -> bytes:
    """Return the bytes of a small file of some kind."""
    file = io.BytesIO()
    plain((4, 4)).save(file, format=kind)
    return file.getvalue()


def opened(content: ImageContent) -> Image.Image:
    """Return the picture that lies in an image's data URL."""
    return Image.open(io.BytesIO(base64.b64decode(content.to_data_url().partition(",")[2])))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP"])
@pytest.mark.parametrize("of", [bytes, bytearray, memoryview])
def test_files_are_kept_as_they_are(kind: str, of: Any) -> None:
    """The bytes of a file are known by how they begin; nothing is decoded, resized or lost."""
    data = file_of(kind)

    image = ImageContent(image=of(data)).image

    assert image == f"data:image/{kind.lower()};base64,{base64.b64encode(data).decode()}"


def test_a_frame_is_encoded_when_it_is_given() -> None:
    """V1.11, V1.11b: a frame becomes a JPEG of 320x240, whatever its shape."""
    content = ImageContent(image=av.VideoFrame(640, 100, "rgb24"))

    assert content.to_data_url().startswith("data:image/jpeg;base64,/9j/")
    assert (opened(content).format, opened(content).size) == ("JPEG", (320, 240))


def test_a_picture_is_encoded_as_told() -> None:
    """V1.12: format, size and quality are those of the options; a PNG keeps every pixel."""
    noise = Image.effect_noise((64, 48), 90)
    small = ResizeOptions(width=8, height=6)
    png = ImageContent(image=noise, encode_options=AS_IT_IS)
    resized = ImageContent(image=noise, encode_options=EncodeOptions(format="PNG", resize_options=small))
    fine, coarse = (
        ImageContent(image=noise, encode_options=EncodeOptions(resize_options=None, quality=quality))
        for quality in (95, 10)
    )

    assert png.image.startswith("data:image/png;base64,")
    assert opened(png).tobytes() == noise.convert("RGB").tobytes()
    assert opened(resized).tobytes() == noise.convert("RGB").resize((8, 6), Image.Resampling.LANCZOS).tobytes()
    assert len(coarse.image) < len(fine.image) / 2


def test_png_is_not_given_a_quality(monkeypatch: pytest.MonkeyPatch) -> None:
    """V1.12, repaired: options that are those of JPEG go to no other encoder."""
    given: list[dict[str, Any]] = []
    save = Image.Image.save

    def watched(image: Image.Image, file: Any, **options: Any) -> None:
        given.append(options)
        save(image, file, **options)

    monkeypatch.setattr(Image.Image, "save", watched)

    for kind in ("PNG", "JPEG"):
        ImageContent(image=plain(), encode_options={"format": kind, "quality": 50})  # type: ignore[arg-type]

    assert given == [{"format": "PNG"}, {"format": "JPEG", "quality": 50}]


def test_what_is_transparent_becomes_white() -> None:
    """JPEG knows no transparency; PNG keeps it."""
    clear = plain(colour=(255, 0, 0, 0), mode="RGBA")

    assert opened(ImageContent(image=clear)).getpixel((5, 5)) == (255, 255, 255)
    assert opened(ImageContent(image=clear, encode_options=AS_IT_IS)).getpixel((5, 5)) == (255, 0, 0, 0)


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "CMYK", "YCbCr", "I", "F"])
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_pictures_of_every_mode(mode: str, kind: Any) -> None:
    """Palettes, greys and printers' colours can be encoded too."""
    content = ImageContent(image=Image.new(mode, (5, 5)), encode_options=EncodeOptions(format=kind))

    assert opened(content).size == (320, 240)


def test_a_turned_photo_stands_upright() -> None:
    """A camera says by a tag which way is up, and the tag is not kept."""
    photo = plain((20, 10))
    photo.paste(BLUE, (0, 0, 10, 10))
    photo.getexif()[0x0112] = 6  # to be turned a quarter clockwise

    upright = opened(ImageContent(image=photo, encode_options=AS_IT_IS))

    assert upright.size == (10, 20)
    assert (upright.getpixel((5, 2)), upright.getpixel((5, 18))) == (BLUE, RED)


@pytest.mark.parametrize(
    ("image", "says"),
    [
        (b"BM123456", "image bytes that begin with b'BM123456' are neither JPEG, PNG, GIF nor WebP"),
        (b"", "image bytes that begin with b''"),
        (b"RIFF1234WAVE", "neither"),
        (7, "an image cannot be made of a int: give a URL"),
        (["u"], "an image cannot be made of a list"),
        (NO_DATA, "a data URL needs a comma"),
        ("DATA:x", "a data URL needs a comma"),
        (None, "valid string"),
        (Image.new("RGB", (0, 5)), "image"),
    ],
)
def test_what_is_no_image_is_refused(image: Any, says: str) -> None:
    """V1.11b, V1.11c: at the call, by name, and nothing is recorded."""
    chat = ChatContext()

    with pytest.raises(ValidationError, match=says):
        chat.add_message("user", ["look", ImageContent(image=image, encode_options=AS_IT_IS)])
    assert chat.items == []


@pytest.mark.parametrize(
    "options",
    [{"format": "BMP"}, {"resize_options": {"width": 0, "height": 5}}, None, {"quality": "x"}],
)
def test_options_that_are_none_are_refused(options: Any) -> None:
    """Wrong options are refused as any other field is."""
    with pytest.raises(ValidationError):
        ImageContent(image=plain(), encode_options=options)


def test_a_torn_picture_is_refused() -> None:
    """Pillow decodes late: what is damaged shows when it is encoded."""
    torn = Image.open(io.BytesIO(file_of("PNG")[:-20]))

    with pytest.raises(ValidationError, match="the picture cannot be encoded as JPEG"):
        ImageContent(image=torn)


@pytest.mark.parametrize("picture", [plain(), av.VideoFrame(8, 8, "rgb24")], ids=["picture", "frame"])
def test_without_pillow(picture: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install; bytes and URLs need nothing."""
    data = file_of("PNG")
    classes = sys.modules["PIL.Image"]
    for name in [name for name in sys.modules if name == "PIL" or name.startswith("PIL.")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "PIL.Image", classes)

    with pytest.raises(ImportError, match=r'pip install "refold\[images\]"'):
        ImageContent(image=picture)
    assert ImageContent(image=data).image.startswith("data:image/png;base64,")


def test_a_context_with_pictures_is_plain_data() -> None:
    """V1.11b, V13.3: it can be copied, written as JSON, read again, and seen in the past."""
    chat = ChatContext()
    content = ImageContent(image=av.VideoFrame(64, 48, "rgb24"), inference_detail="low")
    message = chat.add_message("user", ["text", content])
    chat.add_message("user", [{"type": "image", "image": file_of("GIF")}])  # type: ignore[list-item]

    again = ChatContext.from_dict(json.loads(json.dumps(chat.to_dict())))

    assert again.to_dict() == chat.to_dict()
    assert message.content == ["text", content]
    assert copy.deepcopy(message) == pickle.loads(pickle.dumps(message)) == message
    assert chat.at(2).items == [message]
    assert chat.estimated_tokens() == 4 + 1 + 300 + 4 + 300


TEXT = {"type": "text", "text": "look"}


@pytest.mark.parametrize(
    ("message", "read"),
    [
        ({"content": [TEXT, {"type": "image_url", "image_url": {"url": NO_DATA}}]}, ChatContext.from_openai_messages),
        (
            {"content": [{**TEXT, "type": "input_text"}, {"type": "input_image", "image_url": NO_DATA}]},
            ChatContext.from_openai_responses,
        ),
        (
            {"content": [{"type": "image", "source": {"type": "url", "url": NO_DATA}}, TEXT]},
            ChatContext.from_anthropic_messages,
        ),
        (
            {"parts": [{"text": "look"}, {"file_data": {"mime_type": "image/png", "file_uri": NO_DATA}}]},
            ChatContext.from_google_contents,
        ),
    ],
)
def test_one_without_data_in_a_message_of_a_provider(message: Any, read: Callable[[list[Any]], ChatContext]) -> None:
    """V1.11c: it is kept beside the item, as any part that no item can have; the rest of the message is there."""
    chat = read([{"role": "user", **message}])

    (item,) = chat.recorded_items()
    assert chat.messages()[0].content == ["look"]
    assert NO_DATA in repr(item)


@pytest.mark.parametrize("form", ["otel", "gemini", "atif"])
def test_a_data_url_in_capitals_is_the_same_picture(form: TranscriptForm) -> None:
    """Its content is in documents of other programs as that of any other, and a reader of the chat does not see it."""
    plain, loud = ChatContext(), ChatContext()
    plain.add_message("user", [ImageContent(image="data:image/png;base64,YWJj")])
    loud.add_message("user", [ImageContent(image="DATA:image/PNG;BASE64,YWJj")])
    documents = [json.dumps(transcript_of(chat, form).document) for chat in (plain, loud)]

    assert documents[0].count("YWJj") == documents[1].count("YWJj")
    assert "BASE64" not in documents[1]
    assert body_of(loud.recorded_events()[-1].event) == "[image DATA:image/PNG;BASE64,…]"

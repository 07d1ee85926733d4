"""
Pictures become text when an item is made of them: what is stored can be forked, merged and written as JSON.

The only module that imports Pillow, and only where a picture has to be encoded. Bytes are not decoded: they are
kept as they are, under the media type that their first bytes tell.
"""

from __future__ import annotations

import base64
import io
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .items import EncodeOptions

# What stands at which index of a file of each type. A GIF is of 1987 or of 1989; a WebP lies in a RIFF container.
SIGNATURES: dict[str, Sequence[tuple[int, bytes]]] = {
    "image/jpeg": ((0, b"\xff\xd8\xff"),),
    "image/png": ((0, b"\x89PNG\r\n\x1a\n"),),
    "image/gif": ((0, b"GIF8"), (5, b"a")),
    "image/webp": ((0, b"RIFF"), (8, b"WEBP")),
}
WHITE = (255, 255, 255, 255)


def data_url_of(picture: object, options: EncodeOptions) -> str:
    """
    Return a picture as a data URL (SPEC V1.11): bytes as they are, a PIL image or av.VideoFrame encoded.

    Raises:
        ValueError: it is none of these, its bytes are of no known type, or it cannot be encoded.
        ImportError: Pillow is needed and not installed.
    """
    if isinstance(picture, bytes | bytearray | memoryview):
        data = bytes(picture)
        return _data_url(_media_type(data), data)
    if isinstance(picture, _known("av", "VideoFrame")):
        picture = _image_of_frame(picture)
    if isinstance(picture, _known("PIL.Image", "Image")):
        return _data_url(f"image/{options.format.lower()}", _encoded(picture, options))
    raise ValueError(
        f"an image cannot be made of a {type(picture).__name__}: give a URL, a data URL, the bytes of a file, "
        "a PIL image or an av.VideoFrame"
    )


def _known(module: str, name: str) -> Any:
    """Return a class of an optional package, or () while nobody has imported that: then no object can be one."""
    return getattr(sys.modules.get(module), name, ())


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


def _image_of_frame(frame: Any) -> Any:
    _require_pillow()
    return frame.to_image()


def _require_pillow() -> Any:
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise ImportError('encoding a picture needs Pillow: pip install "refold[images]"', name="PIL") from error
    return Image, ImageOps


def _encoded(image: Any, options: EncodeOptions) -> bytes:
    pillow, operations = _require_pillow()
    try:
        # A photo may say by a tag which way is up; tags are not written, so it is turned here.
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
    # Pillow resizes images with a palette by taking the nearest pixel, whatever it is told.
    is_transparent = "A" in image.getbands() or "transparency" in image.info
    return image.convert("RGBA" if is_transparent else "RGB")


def _on_white(image: Any, pillow: Any) -> Any:
    """Return an image that JPEG can hold: what is transparent would come out as whatever colour lies beneath."""
    if image.mode != "RGBA":
        return image
    ground = pillow.new("RGBA", image.size, WHITE)
    return pillow.alpha_composite(ground, image).convert("RGB")

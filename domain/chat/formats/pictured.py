"""
Image parts on their way to a provider: data URLs taken apart, and a text for what cannot be sent.

A picture that a provider would refuse is told as text, so that one bad picture does not end a run (SPEC V1.11c).
"""

from __future__ import annotations

import binascii
from typing import NamedTuple

from ..events import Image

MALFORMED = "its data URL is malformed"


class Inline(NamedTuple):
    """What a data URL holds: a media type in lower case, and standard base64."""

    media_type: str
    data: str


def inline_of(url: str) -> Inline | None:
    """Return what a data URL holds, or None where it is no data URL of a media type and base64."""
    header, comma, data = url[5:].partition(",")
    media_type, *parameters = header.lower().split(";")
    if not comma or "/" not in media_type or "base64" not in parameters:
        return None
    data = "".join(data.split())
    try:
        decoded = binascii.a2b_base64(data, strict_mode=True)
    except ValueError:
        return None
    return Inline(media_type, data) if decoded else None


def left_out(image: Image, why: str) -> str:
    """Return the text that stands for an image that cannot be sent."""
    return f"[Image {image.id} is left out: {why}]"

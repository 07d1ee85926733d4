"""From plain contents to the objects of google-genai: the one module that imports it, and only when it is used."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any


def to_google_types(contents: Iterable[dict[str, Any]]) -> list[Any]:
    """
    Return what `google_contents` made as `google.genai.types.Content` (SPEC V11.1).

    Raises:
        ImportError: the package google-genai is not installed.
    """
    try:
        from google.genai.types import Content
    except ImportError as error:
        raise ImportError(
            'Google contents need the package google-genai: pip install "refold[google]"', name="google.genai"
        ) from error
    # By way of JSON, where the package reads text as base64; as Python data it would take the text's own bytes.
    return [Content.model_validate_json(json.dumps(content)) for content in contents]

"""
The estimate of an item's tokens: those of its texts by a counter, and a fixed sum for what surrounds them.

The sums are the seed's. So is the count of texts, save of Chinese, Japanese and Korean ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Protocol

from .events import ChatItemEvent, FunctionCalled, FunctionReturned, Image, MessageAdded

TokenCounter = Callable[[str], int]

CHARACTERS_PER_TOKEN = 4
# How UTF-8 begins the characters that count one token each, whichever reads quickest: those of U+3000 to U+DFFF (kana,
# ideographs, Hangul, their punctuation, and the few scripts between them), ...
_CJK_LEADS = bytes(range(0xE3, 0xEE))
# ... the full-width and half-width forms, U+FF00 to U+FFBF, ...
_FORMS_LEAD = b"\xef"
_FORMS = (b"\xef\xbc", b"\xef\xbd", b"\xef\xbe")
# ... and the rare ideographs, U+20000 to U+3FFFF. Emoji begin with the same byte, and are none.
_RARE_LEAD = b"\xf0"
_RARE = re.compile(b"\xf0[\xa0-\xbf]")


def _by_characters(text: str) -> int:
    return len(text) // CHARACTERS_PER_TOKEN


def _by_scripts(text: str) -> int:
    if text.isascii():
        return len(text) // CHARACTERS_PER_TOKEN
    whole = _cjk_characters(text.encode("utf-8", "surrogatepass"))
    return whole + (len(text) - whole) // CHARACTERS_PER_TOKEN


def _cjk_characters(data: bytes) -> int:
    # Bytes are counted ten times as fast as characters are compared.
    count = len(data) - len(data.translate(None, _CJK_LEADS))
    if _FORMS_LEAD in data:
        count += sum(map(data.count, _FORMS))
    if _RARE_LEAD in data:
        count += len(_RARE.findall(data))
    return count


CHARACTERS: Final[TokenCounter] = _by_characters
"""A quarter of the characters, rounded down: the seed's estimate."""

SCRIPTS: Final[TokenCounter] = _by_scripts
"""One token for each Chinese, Japanese or Korean character, a quarter of the others, rounded down."""


class Encoding(Protocol):
    """The part of a `tiktoken.Encoding` that is used."""

    def encode_ordinary(self, text: str, /) -> list[int]:
        """Return the tokens of a text, in which nothing is special."""


def tiktoken_counter(encoding: str | Encoding) -> TokenCounter:
    """
    Return the counter of a tiktoken encoding: its name ("o200k_base"), that of a model ("gpt-4o"), or itself.

    tiktoken downloads a named encoding at its first use and keeps it on disk. What looks like one of its special
    tokens is counted as the text it is.

    Raises:
        ValueError: neither an encoding nor a model of this name is known.
        ImportError: it is named, and tiktoken is not installed.
    """
    encode = (_named(encoding) if isinstance(encoding, str) else encoding).encode_ordinary
    return lambda text: len(encode(text))


def _named(name: str) -> Encoding:
    try:
        import tiktoken
    except ImportError as error:
        message = 'counting with tiktoken needs that package: pip install "refold[tiktoken]"'
        raise ImportError(message, name="tiktoken") from error
    known = tiktoken.list_encoding_names()
    if name in known:
        return tiktoken.get_encoding(name)
    try:
        return tiktoken.encoding_for_model(name)
    except KeyError as error:
        raise ValueError(
            f"tiktoken knows no encoding and no model {name!r}; its encodings are {', '.join(known)}"
        ) from error


DEFAULT = SCRIPTS
PER_ITEM = 4
PER_IMAGE = 300
PER_CALL = 5


def estimate_tokens(item: ChatItemEvent, counter: TokenCounter = DEFAULT) -> int:
    """Return the estimated tokens of one item; handoffs and config updates count 4 whatever they hold."""
    if isinstance(item, MessageAdded):
        return PER_ITEM + _content_tokens(item.content, counter)
    if isinstance(item, FunctionCalled):
        return PER_ITEM + counter(item.name) + PER_CALL + counter(item.arguments)
    if isinstance(item, FunctionReturned):
        return PER_ITEM + counter(item.name) + PER_CALL + counter(item.output)
    return PER_ITEM


def _content_tokens(content: str | tuple[str | Image, ...], counter: TokenCounter) -> int:
    if isinstance(content, str):
        return counter(content)
    tokens = 0
    for part in content:
        tokens += counter(part) if isinstance(part, str) else PER_IMAGE
    return tokens

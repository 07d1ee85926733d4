"""
The estimate of an item's tokens: a counter counts its texts, and fixed numbers are added for the rest.

The fixed numbers are the seed's. So is the count of texts by default; `SCRIPTS` is closer to the truth for Chinese,
Japanese and Korean.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Protocol

from .events import ChatItemEvent, FunctionCalled, FunctionReturned, Image, MessageAdded
from .pieces import erased_tokens

TokenCounter = Callable[[str], int]

CHARACTERS_PER_TOKEN = 4
# First bytes, in UTF-8, of the characters that count one token each. The three groups use the test that is fastest for
# each. Group 1: U+3000 to U+DFFF (kana, ideographs, Hangul, their punctuation, and the few scripts between them).
_CJK_LEADS = bytes(range(0xE3, 0xEE))
# Group 2: the full-width and half-width forms, U+FF00 to U+FFBF.
_FORMS_LEAD = b"\xef"
_FORMS = (b"\xef\xbc", b"\xef\xbd", b"\xef\xbe")
# Group 3: the rare ideographs, U+20000 to U+3FFFF. Emoji begin with the same byte but are not counted here.
_RARE_LEAD = b"\xf0"
_RARE = re.compile(b"\xf0[\xa0-\xbf]")
PER_ITEM = 4
PER_IMAGE = 300
PER_CALL = 5


def _by_characters(text: str) -> int:
    return len(text) // CHARACTERS_PER_TOKEN


def _by_scripts(text: str) -> int:
    if text.isascii():
        return len(text) // CHARACTERS_PER_TOKEN
    whole = _cjk_characters(text.encode("utf-8", "surrogatepass"))
    return whole + (len(text) - whole) // CHARACTERS_PER_TOKEN


def _cjk_characters(data: bytes) -> int:
    # Counting bytes is ten times as fast as comparing characters.
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
        """Return the tokens of a text; text that looks like a special token is encoded as plain text."""


def tiktoken_counter(encoding: str | Encoding) -> TokenCounter:
    """
    Return the counter of a tiktoken encoding: `encoding` is its name ("o200k_base"), the name of a model ("gpt-4o"), or
    the encoding itself.

    tiktoken downloads a named encoding at its first use and keeps it on disk. Text that looks like a special token is
    counted as plain text.

    Raises:
        ValueError: tiktoken knows no encoding and no model of this name.
        ImportError: a name is given, and tiktoken is not installed.
    """
    encode = (_encoding_named(encoding) if isinstance(encoding, str) else encoding).encode_ordinary
    return lambda text: len(encode(text))


def _encoding_named(name: str) -> Encoding:
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


DEFAULT = CHARACTERS


def estimate_tokens(item: ChatItemEvent, counter: TokenCounter = DEFAULT) -> int:
    """
    Return the estimated tokens of one item; a handoff or a config update always counts 4.

    An item whose texts were erased keeps the count of `DEFAULT` from before the erasure, whatever the counter.
    """
    if isinstance(item, MessageAdded):
        erased = erased_tokens(item) if item.extra else None
        if erased is not None:
            return erased
        return PER_ITEM + _content_tokens(item.content, counter)
    if isinstance(item, FunctionCalled | FunctionReturned) and item.erased is not None:
        return item.erased
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

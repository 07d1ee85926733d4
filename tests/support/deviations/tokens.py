"""
The seed's estimate of tokens (SPEC V2.7 to V2.10), and its repair: V2.8, a token for each Chinese, Japanese or Korean
character, a quarter for the others.
"""

from collections.abc import Collection, Iterable

from .plain_items import Item, is_message, texts_of

PER_ITEM, PER_IMAGE, PER_CALL = 4, 300, 5


def repaired(text: str) -> int:
    """Count a text as X2 asks: a token for each character of the scripts that the seed undercounts."""
    whole = sum(
        0x3000 <= ord(one) <= 0xDFFF or 0xFF00 <= ord(one) <= 0xFFBF or 0x20000 <= ord(one) <= 0x3FFFF for one in text
    )
    return whole + (len(text) - whole) // 4


def tokens_of(item: Item, on: Collection[str] = ()) -> int:
    """Return what an item counts."""
    texts: list[str] = []
    rest = PER_ITEM
    if is_message(item):
        texts = texts_of(item)
        rest += PER_IMAGE * (0 if isinstance(item["content"], str) else len(item["content"]) - len(texts))
    elif item["type"] in ("function_call", "function_call_output"):
        texts = [item["name"], item["arguments" if item["type"] == "function_call" else "output"]]
        rest += PER_CALL
    return rest + sum(repaired(text) if "V2.8" in on else len(text) // 4 for text in texts)


def total_of(items: Iterable[Item], on: Collection[str] = ()) -> int:
    """Return what items count together."""
    return sum(tokens_of(item, on) for item in items)

"""The seed's estimate of tokens (SPEC V2.7 to V2.10)."""

from collections.abc import Iterable

from .plain_items import Item, is_message, texts_of

PER_ITEM, PER_IMAGE, PER_CALL = 4, 300, 5


def tokens_of(item: Item) -> int:
    """Return the tokens of an item."""
    texts: list[str] = []
    rest = PER_ITEM
    if is_message(item):
        texts = texts_of(item)
        rest += PER_IMAGE * (0 if isinstance(item["content"], str) else len(item["content"]) - len(texts))
    elif item["type"] in ("function_call", "function_call_output"):
        texts = [item["name"], item["arguments" if item["type"] == "function_call" else "output"]]
        rest += PER_CALL
    return rest + sum(len(text) // 4 for text in texts)


def total_of(items: Iterable[Item]) -> int:
    """Return the tokens of items together."""
    return sum(map(tokens_of, items))

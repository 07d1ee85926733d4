"""Pinning and unpinning, which differ in one word."""

from __future__ import annotations

from .addresses import opened
from .changes import named_items, note, report
from .naming import counted
from .options import changing


def pinned_or_not(
    context: str,
    items: tuple[str, ...],
    *,
    is_pinned: bool,
    reason: str | None,
    actor: str,
    location: str,
    as_json: bool,
) -> None:
    """Pin items of a context, or unpin them, and print what is pinned then."""
    with changing(location, actor) as store:
        chat = opened(store, context)
        before = chat.version
        (chat.pin if is_pinned else chat.unpin)(named_items(chat, items), reason=reason)
        pinned = chat.pinned_ids()
        report(chat, f"{counted(len(pinned), 'item')} pinned", {"pinned_ids": pinned}, as_json=as_json)
        if chat.version == before:
            note(f"what was named was {'pinned' if is_pinned else 'not pinned'}: nothing was changed")

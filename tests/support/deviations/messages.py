"""The original's answers about message records, and what Refold repairs in them: D12.9, texts of orphan calls stay."""

from typing import Any

HEADING = "=== CURRENT CONTEXT ===\n"
SEPARATOR = "\n\n---\n\n"
# The number of the statement that explains the difference of a case.
TEXT_OF_ORPHANS = "D12.9"
Answer = dict[str, Any]


def recorded(case: dict[str, Any]) -> Answer:
    """Return the original's answer."""
    return {key: case[key] for key in ("kept", "context", "context_of_kept")}


def text_of_orphans_kept(case: dict[str, Any]) -> Answer:
    """Return the original's answer with the repair D12.9: a message whose calls were dropped stays with its text."""
    records, kept = case["records"], set(case["kept"])
    orphans = {
        at for at, record in enumerate(records)
        if record["type"] == "AIMessage" and record["content"] and at not in kept
    }  # fmt: skip
    # The first block is left out of the whole text; no text of a record holds a separator.
    blocks = ["", *case["context"].removeprefix(HEADING).split(SEPARATOR)]
    for at in orphans:
        blocks[at] = f"[Assistant]\n{records[at]['content']}"
    places = sorted(kept | orphans)
    context = HEADING + SEPARATOR.join(blocks[at] for at in places[1:]) if places else "None"
    return {"kept": places, "context": case["context"], "context_of_kept": context}

"""What drawings have in common: how a node is called in their source, and text that shows all that is in it."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..trajectory import TrajectoryNode

HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
# Without the joiners some words and emoji would be spelled wrongly.
JOINERS = "\u200c\u200d"
PICTURES = 0x2400
DELETE = "\x7f"


def node_id(node: TrajectoryNode) -> str:
    """
    Return what a node is called in a drawing's source: the round, the sub-agent and the version that registered it.

    Names can change, when a newer node takes one; this stays.
    """
    version = node.birth.rpartition("@")[2]
    return f"r{node.run_id}s{node.sub_id}v{version}"


def visible(text: str) -> str:
    """
    Return `text` with a sign in the place of each character that is not seen but does something; line breaks stay.
    """
    if text.isprintable():
        return text
    return "".join(map(_shown, text))


def _shown(char: str) -> str:
    if char == "\n" or char in JOINERS or unicodedata.category(char) not in HIDDEN:
        return char
    if char < " ":
        return chr(PICTURES + ord(char))
    return "\N{SYMBOL FOR DELETE}" if char == DELETE else f"⟨U+{ord(char):04X}⟩"

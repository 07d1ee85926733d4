"""The check of a proof of inclusion, as section 2.1.3.2 of RFC 9162 has it."""

from collections.abc import Sequence

from refold.infrastructure.trust.merkle import node_hash


def root_by_path(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """The root to which a path leads from the hash of a leaf; None where the path is too long or too short."""
    found, place, last = leaf, index, size - 1
    if not 0 <= index < size:
        return None
    for other in path:
        if last == 0:
            return None
        if place & 1 or place == last:
            found = node_hash(other, found)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            found = node_hash(found, other)
        place, last = place >> 1, last >> 1
    return found if last == 0 else None

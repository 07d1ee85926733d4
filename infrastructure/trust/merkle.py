"""
Merkle trees as in RFC 9162: hashes of leaves and nodes, roots that grow, and proofs.

A leaf is the digest of an event. `GrowingTree` needs the roots of its complete subtrees alone, so adding a leaf costs
one or two hashes, whatever the size. Proofs are made from a function that returns the root of any range of leaves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

HASH_BYTES = 32
_sha256 = hashlib.sha256
EMPTY_ROOT = _sha256(b"").digest()
# Returns the root of the leaves from one number up to another, as a tree of their own.
RootOf = Callable[[int, int], bytes]


def leaf_hash(data: bytes) -> bytes:
    return _sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of a node over two others."""
    return _sha256(b"\x01" + left + right).digest()


class GrowingTree:
    """A tree to which leaves are added at its end; it knows its complete subtrees only."""

    def __init__(self) -> None:
        # The height and the root of each complete subtree, the largest first.
        self._peaks: list[tuple[int, bytes]] = []

    def add(self, root: bytes, height: int = 0) -> None:
        """Add the hash of a leaf, or the root of a complete subtree of 2 ** `height` leaves, which must fit."""
        peaks = self._peaks
        while peaks and peaks[-1][0] == height:
            root, height = node_hash(peaks.pop()[1], root), height + 1
        peaks.append((height, root))

    def root(self, *others: GrowingTree) -> bytes:
        """Return the root of this tree, with the leaves of smaller ones behind its own."""
        peaks = [root for tree in (self, *others) for _, root in tree._peaks]
        if not peaks:
            return EMPTY_ROOT
        found = peaks.pop()
        while peaks:
            found = node_hash(peaks.pop(), found)
        return found


def root_of(leaves: Sequence[bytes]) -> bytes:
    """Return the root of a tree with these leaves, given as they are."""
    tree = GrowingTree()
    for leaf in leaves:
        tree.add(leaf_hash(leaf))
    return tree.root()


def _split(size: int) -> int:
    """Return the largest power of two below a size."""
    return 1 << (size - 1).bit_length() - 1


def inclusion_path(root: RootOf, index: int, size: int) -> list[bytes]:
    """Return the hashes that lead from leaf `index` to the root of the first `size` leaves, from below."""
    path: list[bytes] = []
    start, end = 0, size
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            path.append(root(middle, end))
            end = middle
        else:
            path.append(root(start, middle))
            start = middle
    return path[::-1]


def consistency_path(root: RootOf, earlier: int, size: int) -> list[bytes]:
    """Return the hashes that prove that a tree of `size` leaves begins with one of `earlier`, which is not empty."""
    path: list[bytes] = []
    start, end, is_known = 0, size, True
    while end - start != earlier - start:
        middle = start + _split(end - start)
        if earlier <= middle:
            path.append(root(middle, end))
            end = middle
        else:
            path.append(root(start, middle))
            start, is_known = middle, False
    # The verifier has the root of the earlier tree, so it need not be sent if the earlier tree is a subtree.
    return path[::-1] if is_known else [root(start, end), *path[::-1]]


def is_consistent(earlier: tuple[int, bytes], later: tuple[int, bytes], path: Sequence[bytes]) -> bool:
    """Return whether a path proves that a later tree begins with an earlier one; each is given by size and root."""
    (before, first_root), (size, last_root) = earlier, later
    if before == 0 or before == size:
        return not path and (before == 0 or first_root == last_root)
    if not path or before > size:
        return False
    hashes = list(path) if before & (before - 1) else [first_root, *path]
    place, last = before - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    first = second = hashes[0]
    for other in hashes[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            first, second = node_hash(other, first), node_hash(other, second)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            second = node_hash(second, other)
        place, last = place >> 1, last >> 1
    return (first, second, last) == (first_root, last_root, 0)

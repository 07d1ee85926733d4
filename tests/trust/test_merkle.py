"""Merkle trees as in RFC 9162, against its recursive definition."""

import hashlib
from collections.abc import Sequence

import pytest

from refold.infrastructure.trust.merkle import (
    GrowingTree,
    consistency_path,
    inclusion_path,
    is_consistent,
    leaf_hash,
    root_of,
)

from .inclusion import root_by_path

LEAVES = [bytes([number]) * 32 for number in range(70)]


def defined(leaves: Sequence[bytes]) -> bytes:
    """The root as section 2.1.1 of the RFC defines it."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    size = 1
    while size * 2 < len(leaves):
        size *= 2
    return hashlib.sha256(b"\x01" + defined(leaves[:size]) + defined(leaves[size:])).digest()


def part(start: int, end: int) -> bytes:
    """The root of some leaves."""
    return defined(LEAVES[start:end])


def test_roots() -> None:
    """A tree that grows leaf by leaf has the root that is defined, at every size."""
    assert [root_of(LEAVES[:size]) for size in range(71)] == [defined(LEAVES[:size]) for size in range(71)]


@pytest.mark.parametrize("size", [8, 9, 40, 63, 64, 65])
def test_roots_of_subtrees(size: int) -> None:
    """Complete subtrees stand for their leaves, and a smaller tree may hold the last ones."""
    large, small = GrowingTree(), GrowingTree()
    for start in range(0, size // 8 * 8, 8):
        large.add(part(start, start + 8), 3)
    for leaf in LEAVES[size // 8 * 8 : size]:
        small.add(leaf_hash(leaf))

    assert large.root(small) == part(0, size)


def test_leaves_before_subtrees() -> None:
    """A complete subtree follows as many leaves, or another subtree."""
    tree = GrowingTree()
    for leaf in LEAVES[:8]:
        tree.add(leaf_hash(leaf))
    for start in (8, 16, 24):
        tree.add(part(start, start + 8), 3)

    assert tree.root() == part(0, 32)


def test_inclusion() -> None:
    """A path leads from its leaf to the root, and from no other leaf, place or size."""
    for size in range(1, 34):
        for index in range(size):
            path = inclusion_path(part, index, size)
            assert root_by_path(leaf_hash(LEAVES[index]), index, size, path) == part(0, size)
            assert root_by_path(leaf_hash(b"other"), index, size, path) != part(0, size)
            assert root_by_path(leaf_hash(LEAVES[index]), (index + 1) % (size + 1), size, path) != part(0, size)
            assert root_by_path(leaf_hash(LEAVES[index]), index, size, [*path, b""]) is None


def test_consistency() -> None:
    """A path proves that a tree begins with an earlier one, and not with another of that size."""
    for size in range(1, 34):
        for earlier in range(1, size + 1):
            path = consistency_path(part, earlier, size)
            assert is_consistent((earlier, part(0, earlier)), (size, part(0, size)), path)
            assert not is_consistent((earlier, part(1, earlier + 1)), (size, part(0, size)), path)
            assert not is_consistent((earlier, part(0, earlier)), (size, part(1, size + 1)), path)
            assert not is_consistent((earlier, part(0, earlier)), (size, part(0, size)), [*path, b"more"])
    assert is_consistent((0, b""), (5, part(0, 5)), [])
    assert not is_consistent((0, b""), (5, part(0, 5)), [b"more"])
    assert not is_consistent((6, part(0, 6)), (5, part(0, 5)), [b"more"])
    assert not is_consistent((3, part(0, 3)), (5, part(0, 5)), [])

"""Stores of each kind, for tests that hold on all of them."""

from tests.projecting.conftest import location, store

__all__ = ["location", "store"]

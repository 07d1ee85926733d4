"""What all tests of the house share."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def kept_trees() -> Iterator[None]:
    """
    Keep the garbage collector away from the syntax trees of all modules, which stay: to look at them again and again
    takes five times as long as to make them.
    """
    gc.disable()
    yield
    gc.freeze()
    gc.enable()

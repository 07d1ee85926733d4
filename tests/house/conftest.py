"""What all tests of the house share."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def kept_trees() -> Iterator[None]:
    """
    Hide the syntax trees of all modules from the garbage collector. They stay in memory, and visiting them again and
    again takes five times as long as making them.
    """
    gc.disable()
    yield
    gc.freeze()
    gc.enable()

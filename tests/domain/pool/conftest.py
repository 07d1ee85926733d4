"""Registries of hooks are for the whole process, so each test begins and ends with empty ones."""

from collections.abc import Iterator

import pytest

from refold.domain.hooks.registry import HookRegistry


@pytest.fixture(autouse=True)
def empty_registry() -> Iterator[None]:
    """Forget all hooks before and after the test."""
    HookRegistry.clear()
    yield
    HookRegistry.clear()

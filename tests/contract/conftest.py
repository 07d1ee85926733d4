"""The log of a contract; the module of each database has the fixture `store`, which says where it lies."""

import pytest

from refold.domain.log.ports import LiveLog

from .stores import Store


@pytest.fixture
def log(store: Store) -> LiveLog:
    """An empty log."""
    return store.open()

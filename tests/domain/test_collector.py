"""The garbage collector while very many objects are made: it waits, and goes on as it did before."""

import gc
from collections.abc import Iterator

import pytest

from refold.domain.concurrency.collector import MANY, uncollected


@pytest.fixture(autouse=True)
def _collecting() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


@pytest.mark.parametrize(("count", "waits"), [(MANY, True), (MANY - 1, False)])
def test_it_waits_where_it_is_worth_while(count: int, waits: bool) -> None:
    """Within another block, too."""
    with uncollected(count):
        assert gc.isenabled() != waits
        with uncollected(count):
            assert gc.isenabled() != waits
        assert gc.isenabled() != waits
    assert gc.isenabled()


def test_it_goes_on_after_an_error() -> None:
    """Whatever the block raises."""
    with pytest.raises(KeyboardInterrupt), uncollected(MANY):
        raise KeyboardInterrupt
    assert gc.isenabled()


def test_a_program_that_does_without_it_goes_on_without() -> None:
    """Nobody turns on what the program turned off."""
    gc.disable()
    with uncollected(MANY):
        pass
    assert not gc.isenabled()

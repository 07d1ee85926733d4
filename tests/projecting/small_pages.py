"""Pages of a few events, so that a short history has many of them."""

from refold.infrastructure.projecting import runner

__all__ = ["SMALL_PAGE", "with_small_pages"]

SMALL_PAGE = 16


def with_small_pages() -> None:
    """
    Let this process take pages of SMALL_PAGE events.
    """
    runner.PAGE_EVENTS = runner.SEARCHED_PAGE_EVENTS = SMALL_PAGE

"""Pages of a few events, so that a short history has many of them."""

from refold.infrastructure.projecting import comparison, runner

SMALL_PAGE = 16


def with_small_pages() -> None:
    """Let this process take pages of SMALL_PAGE events."""
    comparison.PAGE_EVENTS = runner.PAGE_EVENTS = SMALL_PAGE

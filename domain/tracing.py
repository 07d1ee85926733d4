"""Who acts and in which trace, for everything that one handle records: what a request's handles say by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from .acting import acting, current_meta


class Trace(NamedTuple):
    """An actor, where nobody else is said to act, and the trace that everything belongs to."""

    actor: str | None = None
    correlation_id: str | None = None

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Let what is recorded within the block say so."""
        if self == NO_TRACE:
            yield
            return
        outer = current_meta(default_actor=self.actor, idempotency_key=None)
        with acting(actor=outer.actor, correlation_id=self.correlation_id):
            yield


NO_TRACE = Trace()

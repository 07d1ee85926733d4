"""The actor and the cause: set once around a piece of work, written into the envelope of every event within it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from ..canonical import require_unicode
from .envelope import NO_META, Meta, RecordedEvent

_ACTING: ContextVar[Meta] = ContextVar("refold_acting", default=NO_META)


@contextmanager
def acting(
    *, actor: str | None = None, correlation_id: str | None = None, because: RecordedEvent | str | None = None
) -> Iterator[None]:
    """
    Name the actor, the trace and the cause of all events that are recorded within the block.

    What an inner block leaves out it takes from the outer one. `because` is a recorded event, or its
    reference `stream@version`. Follows the flow of control, also through `await` (contextvars).
    """
    for text, what in ((actor, "the actor"), (correlation_id, "the correlation id")):
        require_unicode(text or "", what)
    outer = _ACTING.get()
    cause = because.reference if isinstance(because, RecordedEvent) else because
    require_unicode(cause or "", "the cause")
    inner = Meta(
        actor=actor or outer.actor,
        correlation_id=correlation_id or outer.correlation_id,
        causation=cause or outer.causation,
    )
    token = _ACTING.set(inner)
    try:
        yield
    finally:
        _ACTING.reset(token)


def current_meta(*, default_actor: str | None, idempotency_key: str | None, fingerprint: bytes | None = None) -> Meta:
    """Return what the envelope of an event recorded now says of who and why."""
    now = _ACTING.get()
    if now is NO_META and idempotency_key is None and fingerprint is None:
        return Meta(default_actor) if default_actor else NO_META
    actor = now.actor or default_actor
    return Meta(actor, now.correlation_id, now.causation, idempotency_key, fingerprint=fingerprint)


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

"""Settings with which a caller opens queues, pools and windows, and their comparison with existing ones."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from ..domain.chat.tokens import TokenCounter
from ..domain.clock import System
from ..domain.context.context import attachment_of
from ..domain.context.journal import Journal
from ..domain.errors import InvalidInputError
from ..domain.log.envelope import NO_TRACE, Trace
from ..domain.pool.container import QUEUE_LIMIT, Container, require_limit
from ..domain.pool.events import QUEUE
from ..domain.pool.rules import Begin
from ..domain.window.events import WindowOpened
from ..domain.window.rules import WINDOWS
from ..domain.window.rules import Begin as BeginWindow
from ..domain.window.window import MAX_TOKENS, AdmissionPolicy, ContextWindow, require_max_tokens, require_policy
from .context_streams import IDENTITY, Opening

C = TypeVar("C", bound=Container[Any])


class ContainerSettings(NamedTuple):
    """Settings of a queue or a pool from a caller; None keeps the present setting, or takes the default."""

    limit: int | None = None
    tags: tuple[str, ...] | None = None

    def opening(
        self, cls: type[Container[Any]], *, user: str | None, session: str | None, agent: str | None
    ) -> Opening:
        """
        Return the `Opening` of a queue or a pool.

        Raises:
            InvalidInputError: the limit is invalid.
        """
        kind = cls.kind
        limit = QUEUE_LIMIT if self.limit is None and kind is QUEUE else self.limit
        opened = kind.opened(
            limit=require_limit(limit, kind), tags=self.tags or (), user=user, session=session, agent=agent
        )
        return Opening(kind.name, cls.decider, opened, Begin)

    def container_on(self, journal: Journal[Any], cls: type[C], system: System) -> C:
        """
        Return the queue or pool of a journal.

        Raises:
            InvalidInputError: it has another limit, or other tags.
        """
        container = cls.standing_on(journal, attachment_of(journal, system))
        has = container.shown_state
        if self.limit not in (None, has.limit) or self.tags not in (None, has.tags):
            raise InvalidInputError(
                f"{container.stream_id} has the limit {has.limit} and the tags {list(has.tags)}: leave them out, or "
                "change them with change_settings()"
            )
        return container


class WindowSettings(NamedTuple):
    """Settings of a window from a caller; None keeps the present setting, or takes the default."""

    max_tokens: int | None = None
    policy: AdmissionPolicy | None = None
    counter: TokenCounter | None = None

    def opening(
        self, *, user: str | None, session: str | None, agent: str | None, settled: tuple[str, ...] = IDENTITY
    ) -> Opening:
        """
        Return the `Opening` of a window.

        Raises:
            InvalidInputError: the budget or the policy is invalid.
        """
        opened = WindowOpened(
            max_tokens=require_max_tokens(MAX_TOKENS if self.max_tokens is None else self.max_tokens),
            policy=require_policy(self.policy or "first_come"),
            user=user,
            session=session,
            agent=agent,
        )
        return Opening("window", WINDOWS, opened, BeginWindow, settled)

    def window_on(self, journal: Journal[Any], system: System, trace: Trace = NO_TRACE) -> ContextWindow:
        """
        Return the window of a journal.

        Raises:
            InvalidInputError: it has another budget or policy.
        """
        attachment = attachment_of(journal, system)
        window = ContextWindow.standing_on(journal, attachment, counter=self.counter, trace=trace)
        if self.max_tokens not in (None, window.max_tokens) or self.policy not in (None, window.policy):
            raise InvalidInputError(
                f"{window.stream_id} has max_tokens {window.max_tokens} and the policy {window.policy!r}: leave "
                "them out, or set them on the window, which is an event"
            )
        return window

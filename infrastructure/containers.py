"""Opening context queues and pools: what is asked of one, and what one that exists has."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from ..domain.context.journal import Journal
from ..domain.errors import InvalidInputError
from ..domain.pool.commands import QUEUE, Begin
from ..domain.pool.container import Container, require_limit
from .opening import Opening, home_of

QUEUE_LIMIT = 10
C = TypeVar("C", bound=Container[Any])


class ContainerSettings(NamedTuple):
    """What a caller asks of a queue or a pool; None leaves it as it is, or as it is by default."""

    limit: int | None = None
    tags: tuple[str, ...] | None = None

    def opening(
        self, cls: type[Container[Any]], *, user: str | None, session: str | None, agent: str | None
    ) -> Opening:
        """
        Return what is to be opened as a queue or a pool.

        Raises:
            InvalidInputError: a limit that cannot be.
        """
        kind = cls.kind
        limit = QUEUE_LIMIT if self.limit is None and kind is QUEUE else self.limit
        opened = kind.opened(
            limit=require_limit(limit, kind), tags=self.tags or (), user=user, session=session, agent=agent
        )
        return Opening(kind.name, cls.decider, opened, Begin)

    def container_on(self, journal: Journal[Any], cls: type[C]) -> C:
        """
        Return the queue or pool of a journal.

        Raises:
            InvalidInputError: it has another limit, or other tags.
        """
        container = cls.standing_on(journal, home_of(journal))
        has = container.shown_state
        if self.limit not in (None, has.limit) or self.tags not in (None, has.tags):
            raise InvalidInputError(
                f"{container.stream} has the limit {has.limit} and the tags {list(has.tags)}: leave them out, or "
                "change them with change_settings()"
            )
        return container

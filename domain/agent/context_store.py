"""The queue and the pool of an agent in a store, so that they outlive it: opening, restoring and adopting them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from ..errors import InvalidInputError, NotFoundError
from ..hooks.registry import rebuild_hooks_from_serialization
from ..ids import encoded_id
from ..pool.container import QUEUE_LIMIT
from ..pool.pool import ContextPool
from ..pool.queue import ContextQueue

NOTHING_SAVED: Mapping[str, Any] = {"pool": {}, "queue": {"limit": QUEUE_LIMIT}}

C = TypeVar("C", ContextPool[Any], ContextQueue[Any])


class ContextStore(Protocol):
    """A store that opens or creates pools and queues by their id, and adopts detached ones."""

    def pool(self, context_id: str, *, create: bool = True) -> ContextPool[Any]:
        """Open a pool, or create it."""

    def queue(self, context_id: str, *, create: bool = True) -> ContextQueue[Any]:
        """Open a queue, or create it."""

    def adopt(self, context: C, context_id: str) -> C:
        """Store a detached pool or queue from now on."""


def context_id_of(agent_name: str) -> str:
    """
    Return the default id of an agent's pool and queue in a store.

    Raises:
        InvalidInputError: the name is too long for an id.
    """
    return encoded_id(f"agent-{agent_name}", f"the agent's name {agent_name!r}")


def kept_as(*contexts: ContextPool[Any] | ContextQueue[Any]) -> dict[str, str]:
    """Return the ids of those of an agent's contexts that are not detached."""
    return {_saved_as(context): context.id for context in contexts if not context.is_detached}


def restored_contexts(
    data: Mapping[str, Any], store: ContextStore | None
) -> tuple[ContextPool[Any], ContextQueue[Any]]:
    """
    Return the pool and the queue of an agent's dict.

    Without a store they are detached, with the content of the dict. With a store, stored ones are opened in their
    present state; detached ones are stored from now on, under the agent's own id.

    Raises:
        NotFoundError: the store has no context under an id that the dict names.
        InvalidInputError: a detached one cannot be stored, because the store has one under the agent's own id.
        UnregisteredHookError: the name of a hook is not registered.
    """
    pool, queue = _restored(ContextPool, data, store), _restored(ContextQueue, data, store)
    if store is not None:
        _keep([context for context in (pool, queue) if context.is_detached], data["name"], store)
    return pool, queue


def _keep(detached: Sequence[Any], agent_name: str, store: ContextStore) -> None:
    # All ids are checked before a context is adopted, so that a refusal changes nothing.
    for context in detached:
        _require_free(store, context.kind.name, context_id_of(agent_name))
    for context in detached:
        store.adopt(context, context_id_of(agent_name))


def _restored(cls: type[C], data: Mapping[str, Any], store: ContextStore | None) -> C:
    saved = data.get(_saved_as(cls), NOTHING_SAVED[cls.kind.name])
    kept_id = data.get("kept_as", {}).get(_saved_as(cls))
    if store is None or kept_id is None:
        detached: C = cls.from_dict(saved)
        return detached
    hooks = rebuild_hooks_from_serialization(saved.get("hooks", {}), cls.hook_types)
    kept: C = getattr(store, cls.kind.name)(kept_id, create=False)
    kept.hooks = hooks
    return kept


def _require_free(store: ContextStore, kind: str, context_id: str) -> None:
    try:
        getattr(store, kind)(context_id, create=False)
    except NotFoundError:
        return
    raise InvalidInputError(
        f"the store has a {kind} {context_id!r}, and the agent's dict has another {kind}, which was not stored: create "
        "the agent anew to continue with the store's, or leave out the store to continue with the dict's"
    )


def _saved_as(context: ContextPool[Any] | ContextQueue[Any] | type[Any]) -> str:
    return f"context_{context.kind.name}"

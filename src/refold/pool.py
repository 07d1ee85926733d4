"""The context queue and pool, hooks and agents under their seed's names: code moves over by changing its import."""

from __future__ import annotations

from refold.domain.agent import *  # noqa: F403
from refold.domain.agent import __all__ as _agent
from refold.domain.hooks import *  # noqa: F403
from refold.domain.hooks import __all__ as _hooks

# The seed's own names of these two, which its users set to hand out a queue or a pool without an agent.
from refold.domain.hooks.hook import current_context_pool as _current_context_pool  # noqa: F401
from refold.domain.hooks.hook import current_context_queue as _current_context_queue  # noqa: F401
from refold.domain.pool import *  # noqa: F403
from refold.domain.pool import __all__ as _pool

__all__ = [*_agent, *_hooks, *_pool]

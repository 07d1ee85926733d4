"""The chat context and the models under their seed's names: code moves over by changing its import."""

from __future__ import annotations

from refold.domain.chat import *  # noqa: F403
from refold.domain.chat import __all__ as _chat
from refold.domain.llm import *  # noqa: F403
from refold.domain.llm import __all__ as _llm
from refold.infrastructure.models import *  # noqa: F403
from refold.infrastructure.models import __all__ as _adapters

__all__ = [*_chat, *_llm, *_adapters]

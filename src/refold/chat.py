"""The chat context under its seed's names: code moves over by changing its import."""

from __future__ import annotations

from refold.domain.chat import *  # noqa: F403
from refold.domain.chat import __all__ as __all__

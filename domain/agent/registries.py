"""Finding tools and agents by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import NotFoundError
from ..hooks.registry import Registry
from .errors import UnregisteredAgentError, UnregisteredToolError

if TYPE_CHECKING:
    from .agent import Agent  # noqa: F401 - named in the text of a base
    from .tool import BaseTool


class ToolRegistry(Registry["BaseTool"]):
    """All tools by name; `tool` registers what it makes."""

    _registry: ClassVar[dict[str, Any]] = {}
    _not_found: ClassVar[type[NotFoundError]] = UnregisteredToolError

    @classmethod
    def all(cls) -> list[BaseTool]:
        """Return all tools, in the order of their registration."""
        return list(cls._registry.values())


class AgentRegistry(Registry["Agent"]):
    """All agents by name; making an agent registers it."""

    _registry: ClassVar[dict[str, Any]] = {}
    _name_attribute: ClassVar[str] = "name"
    _not_found: ClassVar[type[NotFoundError]] = UnregisteredAgentError

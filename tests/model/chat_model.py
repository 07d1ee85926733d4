"""A chat context as it must be: for each version what was said by then, in plain tuples."""

from typing import Any, NamedTuple

# What an item says: its kind, who or what, and the text.
Said = tuple[str, str, str]


class Step(NamedTuple):
    """One version: an item that was added (or None), or a name that was given to a version."""

    said: Said | None
    name: tuple[str, int] | None = None


class ChatModel:
    """The versions of one context, in order."""

    def __init__(self) -> None:
        # The first version is the opening.
        self.steps: list[Step] = [Step(None)]

    @property
    def version(self) -> int:
        """The newest version."""
        return len(self.steps)

    def items_at(self, version: int) -> list[Said]:
        """Return what was said by a version."""
        return [step.said for step in self.steps[:version] if step.said is not None]

    def names(self) -> dict[str, int]:
        """Return the names given so far; the later gift wins."""
        return dict(step.name for step in self.steps if step.name is not None)

    def tokens_at(self, version: int) -> int:
        """Return the estimate of tokens by the seed's formula, counted anew."""
        total = 0
        for kind, about, text in self.items_at(version):
            total += 4
            if kind == "message":
                total += len(text) // 4
            elif kind in ("function_call", "function_call_output"):
                total += len(about) // 4 + 5 + len(text) // 4
        return total

    def turns_at(self, version: int) -> int:
        """Return how many user messages there were by a version."""
        return sum(kind == "message" and about == "user" for kind, about, _ in self.items_at(version))


def said_by(item: Any) -> Said:
    """Put a public item in the model's words."""
    match item.type:
        case "message":
            return "message", item.role.value, "".join(item.content)
        case "function_call":
            return "function_call", item.name, item.arguments
        case "function_call_output":
            return "function_call_output", item.name, item.output
        case "agent_handoff":
            return "agent_handoff", item.to_agent, item.reason or ""
        case kind:
            return kind, "|".join(item.tools or ()), item.instructions or ""

"""`refold memory`: what is remembered in a scope, and what is forgotten."""

from __future__ import annotations

from .forgetting import remove, restore
from .groups import group
from .recalling import show
from .remembering import add
from .searching import search_command

command = group(
    "memory",
    "Show, change and search what is remembered: values by key, in scopes such as user:42.",
    [show, add, remove, restore, search_command("memory", "--scope", "SCOPE")],
)

"""The groups: `refold KIND VERB`."""

from __future__ import annotations

from collections.abc import Iterable

import click


class OrderedGroup(click.Group):
    """A group whose help has the commands in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in their order."""
        return list(self.commands)


def group(kind: str, help_text: str, commands: Iterable[click.Command]) -> click.Group:
    """Return the command `refold KIND`, which has other commands."""
    # Without one of them it is used wrongly: an error says so in one line, not in a page of help.
    made = OrderedGroup(kind, help=help_text, no_args_is_help=False)
    for command in commands:
        made.add_command(command)
    return made

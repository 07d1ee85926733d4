"""
The program around the commands: their list, and the exit codes.

0 is success, 1 failure, 2 wrong usage, 130 interrupted. An error is one line on stderr. A closed pipe (`| head`) is not
an error.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from click.shell_completion import shell_complete

from ...domain.errors import (
    HAND_IN_OUTPUTS,
    OPEN_WITH_KEYS,
    ConcurrencyError,
    DamagedError,
    DamagedFileError,
    KeyMissingError,
    PendingCallsError,
    RefoldError,
)
from .args import DATABASE_HELP, KEYS_HELP, optional_path, optional_text
from .render import FAILED, note, one_line

if TYPE_CHECKING:
    from ...domain.detectors import Redactor

# The help is here, so that listing the commands imports none of them.
COMMANDS = {
    "import": ("import_export:import_files", "Bring transcripts in, each conversation as a context."),
    "contexts": ("contexts:contexts", "List the contexts."),
    "show": ("show", "Show a context, as it is or as it was."),
    "log": ("log", "List the events, oldest first."),
    "audit": ("audit", "List the changes of a context's items, or of a node: who, when, what, why."),
    "graph": ("graph", "Draw what an agent did in a session."),
    "search": ("search", "Find where something was said."),
    "diff": ("diff", "Compare two versions of a context, or two contexts."),
    "fork": ("branches:fork", "Make a context that begins as another one is, or was."),
    "merge": ("branches:merge", "Merge the items of a context into another context."),
    "evict": ("edit:evict", "Take items out of the view of a chat."),
    "restore": ("edit:restore", "Put items back into the view; or make a store of a backup."),
    "pin": ("edit:pin", "Protect items from eviction."),
    "unpin": ("edit:unpin", "Let pinned items be evicted again."),
    "approvals": ("approvals:approvals", "List the calls that wait for a person, and decide on them."),
    "summarize": ("summarize", "Replace older items with a summary that a model writes."),
    "queue": ("containers:queue", "Show and change context queues."),
    "pool": ("containers:pool", "Show and change context pools."),
    "memory": ("memory", "Show and change what is remembered."),
    "moments": ("moments:moments", "List the named moments of the store, or name one."),
    "changes": ("moments:changes", "List the contexts that are different at two moments."),
    "replay": ("replay", "Compare the prompts of a model with those under another policy."),
    "projections": ("projections:projections", "List the projections, and how far each is behind."),
    "rebuild": ("projections:rebuild", "Rebuild the rows of projections, or check them."),
    "run": ("run_worker", "Keep projections up to date until it is stopped."),
    "verify": ("verify", "Find out whether anything in the store is damaged."),
    "witness": ("trust:witness", "Show the witness of the store, and compare the store with it."),
    "prove": ("trust:prove", "Print the proof that an event is among those that the witness saw."),
    "export": ("import_export:export", "Write contexts with their past, or all, into a file."),
    "init": ("init", "Make the tables of a database, or bring older ones forward."),
    "seal": ("init:seal", "Pack old events on PostgreSQL, so that they take less room."),
    "erase": ("erase:erase", "Erase the texts of a user, a context or an item."),
    "hold": ("erase:hold", "Protect a context from being erased, or list the protected ones."),
    "archive": ("erase:archive", "Put the texts of cold contexts into a file, or list those that are in one."),
    "unarchive": ("erase:unarchive", "Bring the texts of archived contexts back."),
    "retain": ("erase:retain", "List the contexts whose time is over, or erase them."),
    "keys": ("trust:keys", "Make and rotate the keys of stores."),
    "copy": ("import_export:copy", "Copy the whole store into another database, or move it there."),
    "backup": ("backup:backup", "Back up the store into a file that grows with each run."),
    "vacuum": ("init:vacuum", "Give back the room of deleted rows."),
    "usage": ("contexts:usage", "Sum up tokens and costs: by day, agent, model, context, user."),
    "stats": ("contexts:stats", "Count contexts, events and bytes."),
    "demo": ("demo", "Fill an empty store with made-up histories, to look at."),
    "ui": ("serve:ui", "Serve a page on which people look at the store."),
    "mcp": ("serve:mcp", "Serve the store to agents, by the Model Context Protocol."),
    "completion": ("completion:completion", "Print the script with which a shell completes words."),
}
MISUSED, INTERRUPTED = 2, 130
EXIT_CODES = {
    0: "success",
    FAILED: "failure: one line on stderr, beginning with `refold:`, gives the cause and a remedy. "
    "`diff --exit-code`: the two differ. `verify`, `witness check`, `rebuild --check`: there is a problem or a "
    "difference. `witness show`: it cannot be reached. `import --from-langgraph`: a thread was left out. "
    "`rebuild`: it was stopped, or a projection cannot fold an event",
    MISUSED: "the command was used wrongly",
    INTERRUPTED: "interrupted with Ctrl-C; `rebuild` and `run` finish their current page first, "
    "and end with the codes in their sections",
}
SILENT = logging.NullHandler()


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command; None if there is none of this name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(f".{module}", __package__), name or "command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_text) for name, (_, help_text) in COMMANDS.items()])


def _print_version(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted:
        # The facade has the version. It is above this layer, so it is imported by name.
        facade = importlib.import_module(__name__.partition(".")[0])
        click.echo(f"refold {facade.__version__}")
        ctx.exit()


def _redact(ctx: click.Context, param: click.Parameter, value: str | None) -> Redactor | None:
    """Hide secrets in all that this command prints, and print at its end how many it hid."""
    named = optional_text(ctx, param, value)
    if named is None or ctx.resilient_parsing:
        return None
    from ...domain.detectors import GROUPS, Redactor
    from ..trust.redaction import redact

    groups = () if named == "all" else tuple(part.strip() for part in named.split(","))
    unknown = [group for group in groups if group not in GROUPS]
    if unknown:
        raise click.BadParameter(f"there is no group {unknown[0]!r}: take all, or some of {', '.join(GROUPS)}")
    redactor = Redactor(*groups)
    redact(redactor)
    if isinstance(ctx.obj, list):
        ctx.obj.append(redactor)
    return redactor


def _end_redaction(used: Sequence[Redactor]) -> None:
    """End the redaction of a command, the error that ended it included, and print how much it hid."""
    for redactor in used:
        from ..trust.redaction import redact

        redact(None)
        hidden = ", ".join(f"{count:,} {kind}" for kind, count in redactor.counts.items())
        if hidden:
            click.echo(f"refold: hidden: {hidden}", err=True)


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="CTX@V names a moment: a version (support@3, or support@-2 from the end), a time "
    "(@2026-11-21T10:00:00Z), a position of the log (@pos:17) or a version's name (@before-refund).",
)
@click.option("--db", metavar="FILE|URL", callback=optional_path, envvar="REFOLD_DB", help=DATABASE_HELP)
@click.option(
    "--witness",
    metavar="FILE|URL",
    callback=optional_path,
    envvar="REFOLD_WITNESS",
    help="The witness of the store: a file, or http(s)://...  [default: REFOLD_WITNESS]",
)
@click.option("--keys", metavar="FILE", callback=optional_path, envvar="REFOLD_KEY_FILE", help=KEYS_HELP)
@click.option(
    "--redact",
    metavar="all|GROUP,...",
    callback=_redact,
    envvar="REFOLD_REDACT",
    help="Hide secrets in what is printed: all, or some of: keys, tokens, private keys, e-mail, cards.  "
    "[default: REFOLD_REDACT]",
)
@click.option("--version", is_flag=True, is_eager=True, callback=_print_version, help="Print the version and exit.")
@click.pass_context
def refold(
    context: click.Context,
    db: str | None,
    keys: str | None,
    witness: str | None,
    redact: Redactor | None,
    version: bool,
) -> None:
    """Refold: an event-sourced context store for LLM agents. Git for what an agent knows."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        context.exit(MISUSED)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code; an exception leaves it only if the program itself has a fault."""
    _prepare_streams()
    used: list[Redactor] = []
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _note_warning  # type: ignore[assignment]
            return _code_of(sys.argv[1:] if arguments is None else list(arguments), used)
    finally:
        _end_redaction(used)


def _note_warning(message: Warning | str, *about: object) -> None:
    """Print a warning, as of a witness that cannot be reached, without its place in the source."""
    note(str(message))


def _code_of(arguments: list[str], used: list[Redactor]) -> int:
    try:
        code = _invoke(arguments, used)
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        return _failed(_usage_message(error), MISUSED)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return 0
    except RefoldError as error:
        return _failed(_message(error), FAILED)
    except OSError as error:
        _forget_stdout()
        return _failed(f"{error.filename or 'the output'} failed: {error.strerror or error}", FAILED)
    except MemoryError:
        return _failed("there is too little memory: give the command more", FAILED)
    except Exception as error:
        if not _is_of_database(error):
            raise
        return _failed(f"the database failed: {error}; was it made by this version of Refold?", FAILED)
    return code


def _invoke(arguments: list[str], used: list[Redactor]) -> int:
    """Invoke click; `refold.main()` would treat a closed pipe as a failure and print an empty line after Ctrl-C."""
    instruction = os.environ.get("_REFOLD_COMPLETE")
    if instruction:
        from .completion import VARIABLE

        return shell_complete(refold, {}, "refold", VARIABLE, instruction)
    with refold.make_context("refold", arguments, obj=used) as context:
        code = refold.invoke(context)
    return code if isinstance(code, int) else 0


def _prepare_streams() -> None:
    _open_missing_streams()
    # Warnings of background work are not shown: it is tried again, and the user of a command cannot act on them.
    logging.getLogger("refold").addHandler(SILENT)
    # A character that the terminal's encoding does not have is printed as its number instead of raising an error.
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _open_missing_streams() -> None:
    """Put the null device in the place of each standard stream that was closed before the program began."""
    # Otherwise the next file that is opened, a backup for example, would be taken for that stream by child processes.
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w", closefd=False))


def _failed(message: str, code: int) -> int:
    try:
        sys.stdout.flush()
    except OSError:
        _forget_stdout()
    click.echo(f"refold: {one_line(message)}", err=True)
    return code


def _is_of_database(error: Exception) -> bool:
    """Return whether a driver raised an error; found by name, because a driver need not be imported."""
    return any(base.__module__.partition(".")[0] in ("sqlite3", "psycopg") for base in type(error).__mro__)


def _forget_stdout() -> None:
    """Redirect stdout to the null device for the interpreter's last flush: its reader is gone, or the disk is full."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


def _usage_message(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    way_out = f" (see `{context.command_path} --help`)" if context is not None else ""
    if isinstance(error, click.NoSuchOption) and not error.option_name.startswith("--"):
        # The ids of Claude's sessions begin with the path of a directory, in which each slash is a hyphen.
        way_out += "; a context whose id begins with - has its kind in front: chat:-ID"
    message = error.format_message()
    for of_click, plain in (("valid integer range", "whole number"), ("valid float range", "number")):
        message = message.replace(of_click, plain)
    if context is not None and isinstance(context.command, click.Group):
        message = _with_commands(error.message, context, context.command) or message
    elif context is not None and isinstance(error, click.NoSuchOption):
        message = _before_command(error.option_name, context) or message
    return (message if message.endswith("...") else message.rstrip(".")) + way_out


def _before_command(option: str, context: click.Context) -> str | None:
    """Return the fault of an option of the whole program that stands behind the name of a command."""
    root = context.find_root()
    known = next((one for one in root.command.params if option in one.opts and one.metavar), None)
    if known is None:
        return None
    command = context.command_path.removeprefix(root.command_path)
    return f"{option} stands before the command: {root.command_path} {option} {known.metavar}{command}"


def _with_commands(fault: str, context: click.Context, group: click.Group) -> str | None:
    """Return the fault of a missing or unknown command with the commands of the group, of many those alike."""
    if not fault.startswith(("Missing command", "No such command")):
        return None
    names = group.list_commands(context)
    if group is not context.find_root().command:
        return f"{fault.rstrip('.')}: there are {', '.join(names)}"
    from difflib import get_close_matches

    alike = get_close_matches(fault.split("'")[1], names)
    return f"{fault.rstrip('.')}: did you mean {' or '.join(alike)}?" if alike else None


def _message(error: RefoldError) -> str:
    if isinstance(error, ConcurrencyError):
        return f"another program wrote to {error.stream} at the same time: run the command again"
    if isinstance(error, DamagedError) and not isinstance(error, DamagedFileError):
        return f"{error}; `refold verify` tells all that is wrong"
    if isinstance(error, KeyMissingError) and str(error).endswith(OPEN_WITH_KEYS):
        return f"{error} (--keys or REFOLD_KEY_FILE names their file)"
    if isinstance(error, PendingCallsError):
        way_out = "--pending omit leaves such calls out, --pending stub puts a marked text in the place of each output"
        return str(error).replace(HAND_IN_OUTPUTS, way_out)
    return str(error)

"""
The arguments and options that commands share: the database, `--json`, and addresses.

An address is `CTX`, `CTX@V` or `CTX@A..B`. A reading command opens the database for reading only, so that it never
makes a database and never waits for a writer. `group` makes the groups of commands, `refold KIND VERB`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, islice
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...domain.chat.context import ChatContext, ReadOnlyChatContext
from ...domain.clock import REAL_SYSTEM
from ...domain.context.address import Reference, parse_moment, parse_reference
from ...domain.context.description import counted
from ...domain.errors import (
    ContextNotFoundError,
    InvalidInputError,
    LogWentBackError,
    StorageError,
    StorageReadOnlyError,
    StorageUnavailableError,
)
from ...domain.ids import parse_address, split_stream_id, stream_id
from ...domain.kinds import KINDS
from ...domain.log.envelope import acting
from ..context_streams import context_named, names_alike, names_begun, streams_named
from ..open import open_store
from ..store import Store
from .render import JSON, NOTED, Command, note, one_line

if TYPE_CHECKING:
    from ...projections.contract import Projection
    from ..trust.keys import Keys

T = TypeVar("T")
DEFAULT_DATABASE = "refold.db"
DEFAULT_ACTOR = "cli"
PASSWORD = re.compile(r"(://[^/?#:]*:)[^/?#]*(?=@)|([?&](?:(?:ssl)?password|oauth_client_secret|scram_\w+_key)=)[^&#]*")
MASTER_KEYS = "REFOLD_MASTER_KEYS"
KEYS_HELP = "The master keys of a store that has keys.  [default: REFOLD_KEY_FILE, else the keys in REFOLD_MASTER_KEYS]"
DATABASE_HELP = "The database: a file, or postgresql://...  [default: REFOLD_DB, else ./refold.db]"
# The kinds of contexts that have commands of their own.
COMMANDED = ("queue", "pool", "memory")
# Names of contexts that an error offers if there is no context of the given name.
BEGUN_NAMED = 3
BARE_POSITION = re.compile(r"[0-9.]+")
IN_SLICE = re.compile(r"pos:[0-9]+\.[0-9]+")
FOLDING_EVERY_SECONDS = 3.0


def usage_error(fault: str) -> click.UsageError:
    """Return the error for a wrong call of the running command; its message names the help of the command."""
    return click.UsageError(fault, click.get_current_context())


def moment_twice(named: str) -> click.UsageError:
    """Return the error for a moment that is given twice; `named` is what the help calls the context, such as CTX."""
    return usage_error(f"the moment is given twice: in {named}@V and with --at")


def checked_text(value: str) -> str:
    """Return a text from the command line; refuse bytes that are not Unicode, which no log can store."""
    # In a locale without UTF-8, Python puts a surrogate in the place of each byte that is not ASCII.
    with suppress(UnicodeError):
        value = os.fsencode(value).decode()
    return path_text(value)


def path_text(value: str) -> str:
    """Check a path or a URL, and return it unchanged: Python finds a file by the unchanged text only."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        is_of_utf8 = sys.getfilesystemencoding() == "utf-8"
        fault = "it is not UTF-8 text" if is_of_utf8 else "it is not ASCII text: set a locale with UTF-8"
        raise click.BadParameter(fault) from error
    if not value:
        raise click.BadParameter("it is empty")
    return value


def required_text(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Check an argument or an option that is a text."""
    return checked_text(value)


def optional_text(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Check an option that is a text, if it is given."""
    return None if value is None else checked_text(value)


def optional_path(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Check an option that is a path, or another location, if it is given."""
    return None if value is None else path_text(value)


def _note(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """
    Keep an option for the functions that need it, so that no command has to pass it on.

    An option of a group also holds for the command after it, as in `refold approvals --json approve`.
    """
    if value:
        ctx.meta[f"{NOTED}{param.name}"] = value


def _note_database(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    _note(ctx, param, optional_path(ctx, param, value))


def _note_actor(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    _note(ctx, param, optional_text(ctx, param, value))


def note_form(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Treat the value `json` of an option as `--json`."""
    if value == "json":
        ctx.meta[JSON] = True
    return value


class Argument(click.Argument):
    """An argument with a help text, which click before 8.5 takes for options only."""

    def __init__(self, declarations: Sequence[str], help: str, **settings: Any) -> None:
        super().__init__(declarations, **settings)
        self.help = help


def argument(name: str, help: str, **settings: Any) -> Callable[[Command], Command]:
    """Return the decorator for an argument with a help text."""
    return click.argument(name, cls=Argument, help=help, **settings)


def flag(*names: str, help: str) -> Callable[[Command], Command]:
    """Return the decorator for an option without a value."""
    return click.option(*names, is_flag=True, help=help)


def text(*names: str, metavar: str, help: str, **settings: Any) -> Callable[[Command], Command]:
    """Return the decorator for an option that is a text; without `required` it may be left out."""
    return click.option(*names, metavar=metavar, callback=optional_text, help=help, **settings)


def number(*names: str, help: str, least: int = 1, **settings: Any) -> Callable[[Command], Command]:
    """Return the decorator for an option that is a whole number N, `least` or more."""
    return click.option(*names, metavar="N", type=click.IntRange(min=least), help=help, **settings)


database = click.option(
    "--db", "location", metavar="FILE|URL", callback=_note_database, expose_value=False, help=DATABASE_HELP
)
actor = click.option(
    "--actor",
    metavar="A",
    callback=_note_actor,
    expose_value=False,
    default=DEFAULT_ACTOR,
    show_default=True,
    help="The actor, for the log.",
)
reason = text("--reason", metavar="TEXT", help="The reason; it is kept in the log.")


def as_json(command: Command) -> Command:
    """Give a command the options `--json` and `--jsonl`; `prints_json` is true with either."""
    lines = click.option(
        "--jsonl", is_flag=True, expose_value=False, callback=_note, help="Print JSON Lines: one value a line."
    )
    return click.option("--json", is_flag=True, expose_value=False, callback=_note, help="Print JSON.")(lines(command))


def answer_options(command: Command) -> Command:
    """Give a command the options of each command that reads a database: `--db`, `--json` and `--jsonl`."""
    return database(as_json(command))


def change_options(command: Command) -> Command:
    """Give a command the options of each command that changes something: `answer_options`, and `--actor`."""
    return actor(answer_options(command))


def shown(location: str) -> str:
    """Return a location that is safe to print: on one line, and without a password."""
    return one_line(PASSWORD.sub(r"\1\2***", location))


def given_database(context: click.Context | None = None) -> str:
    """Return the location of the database of the running command; a completion passes its own `context`."""
    found = context or click.get_current_context()
    return found.meta.get(f"{NOTED}location") or found.find_root().params.get("db") or DEFAULT_DATABASE


def given_actor() -> str:
    """Return the actor that the running command was called with."""
    return str(click.get_current_context().meta[f"{NOTED}actor"])


def opening_options() -> dict[str, Any]:
    """Return the arguments of `open_store` besides the location."""
    context = click.get_current_context(silent=True)
    witness = None if context is None else context.find_root().params.get("witness")
    return {"witness": witness, "keys": given_keys(), "encrypt": None}


def given_keys() -> Keys | None:
    """Return the keys that the program was called with: a file, or the environment; None where there are none."""
    context = click.get_current_context(silent=True)
    file = None if context is None else context.find_root().params.get("keys")
    if file is None and MASTER_KEYS not in os.environ:
        return None
    from ..trust.keys import KeyEnvironment, KeyFile

    return KeyEnvironment(MASTER_KEYS) if file is None else KeyFile(file)


@contextmanager
def reading(own: Iterable[Projection] = ()) -> Iterator[Store]:
    """Open the database, which must exist, for reading only; `own` are projections to add to the store's."""
    location = given_database()
    try:
        store = open_store(location, create=False, read_only=True, **opening_options())
    except StorageUnavailableError as error:
        if location != DEFAULT_DATABASE:
            raise
        raise StorageUnavailableError(f"{error} (--db or REFOLD_DB names another)") from error
    with store, _in_use(store, own):
        yield store


@contextmanager
def keeping(own: Iterable[Projection] = ()) -> Iterator[Store]:
    """
    Open the database, which must exist, with the stored rows of its projections.

    It is opened for writing; a database that is open for reading only does not use these rows.
    """
    with reading():
        # Opened for reading first, so that faults of the file are found before it is opened for writing.
        pass
    with open_store(given_database(), create=False, **opening_options()) as store, _in_use(store, own):
        yield store


@contextmanager
def keeping_if_possible(own: Iterable[Projection]) -> Iterator[Store]:
    """Open the database as `keeping` does, or for reading only if it cannot be written."""
    with ExitStack() as stack:
        try:
            store = stack.enter_context(keeping(own))
        except StorageReadOnlyError:
            store = stack.enter_context(reading(own))
        yield store


class _Folding:
    """Reports on stderr, every few seconds, how many of the events that a question must fold first are folded."""

    def __init__(self) -> None:
        self._printed_at = REAL_SYSTEM.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = REAL_SYSTEM.monotonic()
        if now - self._printed_at >= FOLDING_EVERY_SECONDS:
            self._printed_at = now
            text = f"folding what was recorded since the last question: {done:,} of {total:,} events"
            click.echo(f"{text} (`refold run` does so all the time)", err=True)


@contextmanager
def _in_use(store: Store, own: Iterable[Projection]) -> Iterator[None]:
    """Add projections to a store; at the end, print a note if the output lacks events that could not be folded."""
    store.on_folding(_Folding())
    for projection in own:
        store.add_projection(projection)
    with _names_offered(store):
        yield
    missed = store.events_missed()
    if missed:
        note(f"{counted(missed, 'event')} set aside, and this was made without: `refold projections` says why")


@contextmanager
def changing(actor: str | None = None) -> Iterator[Store]:
    """Open the database, which must exist, for changes to its contexts by `actor`, or else by that of `--actor`."""
    with keeping() as store, acting(actor=actor or given_actor()):
        yield store


def answered(read: Callable[[Store], T]) -> T:
    """Return the result of `read`; the projections are brought up to date, and stored if the database allows it."""
    try:
        with keeping() as store:
            return read(store)
    except StorageError as error:
        if isinstance(error, LogWentBackError):
            # Nothing in the answer below shows that events are lost.
            note(str(error))
        # The database is read-only, locked or full, or lost events: the rows are made in memory from the whole log.
        with reading() as store:
            return read(store)


def writing(location: str | None = None) -> Store:
    """Open the database, or the one at `location`, for `with`; make it if it is missing."""
    return open_store(location or given_database(), **opening_options())


def address(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Check an option that is a moment: a version, a time, `pos:P` or a name."""
    text = optional_text(ctx, param, value)
    try:
        if text is not None:
            parse_address(text)
    except InvalidInputError as error:
        raise click.BadParameter(str(error)) from error
    return text


def note_slices(*moments: str | None) -> None:
    """Print a note about each moment of the store that is a position on PostgreSQL, which is of one slice only."""
    for moment in moments:
        if moment is not None and IN_SLICE.fullmatch(moment):
            left_out = "what lies in other slices is left out; a time or a name is a moment of all"
            note(f"{moment} is a position in one slice of the log: {left_out}")


def kind_of(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Check an option that is a kind of context."""
    if value not in (None, *KINDS):
        raise click.BadParameter(f"{value!r} is none of {', '.join(KINDS)}")
    return value


def position(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Check a moment of the store: a position as `refold log` prints it, a time or a name; return it as an address."""
    bare = value is not None and BARE_POSITION.fullmatch(value)
    return address(ctx, param, f"pos:{value}" if bare else value)


def after_option(what: str) -> Callable[[Command], Command]:
    """Return the decorator for `--after`, which limits a list to `what` came after a moment of the store."""
    said = f"Only {what} after this moment of the store: a position, a time, or a name that `refold moments` lists."
    return click.option("--after", metavar="X", callback=position, help=said)


def reference(ctx: click.Context, param: click.Parameter, value: str | None) -> Reference | None:
    """Return the context and the moment that `CTX` or `CTX@V` names."""
    return None if value is None else _parsed(value, parse_moment)


def reference_or_range(ctx: click.Context, param: click.Parameter, value: str | None) -> Reference | None:
    """Return the context and the moments that `CTX`, `CTX@V` or `CTX@A..B` names."""
    return None if value is None else _parsed(value)


def references(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[Reference, ...]:
    """Return the named contexts and moments; ranges are allowed."""
    return tuple(_parsed(value) for value in values)


def require_one_moment(reference: Reference, moment: str | None, named: str) -> None:
    """Require that a moment is not given both with the context and with --at; `named` is as in `moment_twice`."""
    if moment and reference.moments:
        raise moment_twice(named)


def existing(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Return the name of a context that a command changes, so it must not have a moment."""
    found = _parsed(value)
    if found.moments:
        raise click.BadParameter(f"{value!r} is the past, which stays as it was: leave out @V, or fork it")
    return found.context


def new_id(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Return the name of a context that a command makes; it may begin with the kind."""
    text = checked_text(value)
    kind, colon, bare = text.partition(":")
    try:
        stream_id(*((kind, bare) if colon and kind in KINDS else (KINDS[0], text)))
    except InvalidInputError as error:
        raise click.BadParameter(str(error)) from error
    return text


def id_of_new(kind: str, name: str, what: str) -> str:
    """
    Return the id of a new context of a kind; its name may begin with the kind. The error calls the context `what`.

    Raises:
        UsageError: the name begins with another kind.
    """
    said, _, context_id = name.partition(":")
    if said in KINDS and said != kind:
        raise usage_error(f"{what} is a {kind}, not a {said}: {name!r}")
    return context_id if said == kind else name


def _parsed(text: str, parse: Callable[[str], Reference] = parse_reference) -> Reference:
    try:
        return parse(checked_text(text))
    except InvalidInputError as error:
        raise click.BadParameter(str(error)) from error


def stream_of(store: Store, name: str, kinds: tuple[str, ...] = KINDS) -> str:
    """
    Return the stream of a context of some kinds; its name may be given with the kind or without.

    Raises:
        ContextNotFoundError: there is no such context.
        InvalidInputError: there are several, of different kinds, or one of another kind.
    """
    with _names_offered(store):
        return context_named(store.log, name, kinds)


@contextmanager
def _names_offered(store: Store) -> Iterator[None]:
    """Add to the error for a missing context the names of contexts that may be meant."""
    try:
        yield
    except ContextNotFoundError as error:
        name, kinds = error.name, error.kinds or KINDS
        others = streams_named(store.log, name, tuple(kind for kind in KINDS if kind not in kinds))
        if others:
            raise InvalidInputError(_another_kind(others[0], kinds)) from error
        # The id of a thread of LangGraph may have a slash, which is encoded in the id of its chat.
        names = dict.fromkeys((name, name.replace("/", "%2F")))
        begun = chain.from_iterable(names_begun(store.log, one, kinds, limit=BEGUN_NAMED) for one in names)
        # A stream whose events are lost is still found by its name.
        found = list(islice(begun, BEGUN_NAMED)) or names_alike(store.log, name, kinds, BEGUN_NAMED)
        near = [quote(one) for one in found if one != name]
        raise ContextNotFoundError(name, error.kinds, near=near) from error


def _another_kind(stream: str, kinds: tuple[str, ...]) -> str:
    kind = split_stream_id(stream)[0]
    way_out = f"refold {kind} --help" if kind in COMMANDED else f"refold show {quote(stream)}"
    return f"{stream} is no {' or '.join(kinds)}: `{way_out}` is for a {kind}"


def opened(store: Store, name: str) -> ChatContext:
    """
    Return a chat; its name may be given with the kind or without.

    Raises:
        ContextNotFoundError: there is no such chat.
        InvalidInputError: the context is of another kind.
    """
    return chat_in(store, stream_of(store, name, ("chat",)))


def chat_in(store: Store, stream: str) -> ChatContext:
    return store.chat(split_stream_id(stream)[1], create=False)


def chat_at(chat: ChatContext, moment: str | None) -> ReadOnlyChatContext:
    """Return the chat at a moment; without one, at its present version."""
    return chat.at(chat.version if moment is None else moment)


class OrderedGroup(click.Group):
    """A group whose help has the commands in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which the commands were added."""
        return list(self.commands)


def group(kind: str, help_text: str, commands: Iterable[click.Command]) -> click.Group:
    """Return the group `refold KIND` with its commands."""
    # A missing command is an error of usage; it is reported on one line instead of a page of help.
    made = OrderedGroup(kind, help=help_text, no_args_is_help=False)
    for command in commands:
        made.add_command(command)
    return made

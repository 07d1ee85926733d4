"""`refold erase`, `hold`, `archive` and `retain`: erase texts, protect contexts, archive them, apply policies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import msgspec

from ...domain.context.description import counted, joined
from ...domain.errors import InvalidInputError
from ..exchange.archiving import Archived
from ..exchange.event_files import writing_file
from ..trust.erasing import ErasedContext, Erasure
from ..trust.receipts import Signer
from .args import answered, argument, change_options, changing, flag, optional_text, reading, text, usage_error
from .changes import texts
from .render import note, one_line, print_json, print_json_list, print_table, prints_json

WHY = text("--why", metavar="TEXT", help="The reason, which is recorded.")
SAY_WHY = "say why: --why TEXT"
# The reason of a dry run without --why; nothing is recorded.
ONLY_LISTED = "only listed"
FOR_GOOD = flag("--for-good", help="Erase it; without, only what would be erased is listed.")


@click.command("erase")
@text("--user", metavar="NAME", help="Erase all contexts of this user.")
@text("--context", metavar="CTX", help="Erase this context, or an item of it.")
@text("--item", metavar="ID", help="Erase this item: its id, key, or place (@3, other@3).")
@WHY
@FOR_GOOD
@click.option("--receipt", "receipt", metavar="FILE", type=Path, help="Write the receipt into this file.")
@click.option("--sign", "key", metavar="FILE", type=Path, help="Sign the receipt with this Ed25519 key (PEM).")
@change_options
def erase(
    user: str | None,
    context: str | None,
    item: str | None,
    why: str | None,
    for_good: bool,
    receipt: Path | None,
    key: Path | None,
) -> None:
    """
    Erase the texts of a user, a context or an item, from the log and from everything made of it; first, list them.

    `[erased]` stands in their places, and all versions, forks and audits stay. Contexts that are held are refused. The
    receipt names nobody.

    With --json: the erasure as `store.erase()` returns it.
    """
    if (user is None) == (context is None) or (item is not None and context is None):
        raise usage_error("give one of --user NAME and --context CTX, the latter with --item ID for a single item")
    if for_good and why is None:
        raise usage_error(SAY_WHY)
    if not for_good and (receipt or key):
        raise usage_error("only an erasure that is done has a receipt: give --for-good, or no --receipt and --sign")
    signer = None if key is None else _signer(key)
    wanted: dict[str, Any] = {"user": user, "context": context, "item": item, "why": why or ONLY_LISTED}
    if not for_good:
        found = answered(lambda store: store.erase(**wanted))
    else:
        with changing() as store, ExitStack() as stack:
            # Opened before anything is erased: the receipt cannot be made a second time.
            file = None if receipt is None else stack.enter_context(writing_file(receipt, store.log))
            found = store.erase(**wanted, dry_run=False, signer=signer)
            if file is not None:
                file.write(msgspec.json.format(msgspec.json.encode(found.receipt)) + b"\n")
    if prints_json():
        print_json(msgspec.to_builtins(found))
    else:
        _print(found)


def _signer(path: Path) -> Signer:
    """
    Return the private key in a file.

    Raises:
        InvalidInputError: there is no key that signs in it, or the package that signs is missing.
    """
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError as error:
        raise InvalidInputError('a signature takes another package: pip install "refold[keys]"') from error
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise InvalidInputError(f"{path} cannot be read as a key: {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInputError(f"{path} is no Ed25519 key: make one with `openssl genpkey -algorithm ed25519`")
    return key


def _print(found: Erasure) -> None:
    if found.contexts:
        _print_contexts(found.contexts)
    for context in found.held:
        note(f"{one_line(context)} is held: nothing is erased until `refold hold --release` lets it go")
    for reference in found.copies:
        note(f"{one_line(reference)} has the same text, and stays")
    for reference in found.mentions:
        note(f"{one_line(reference)} has the user's name, which stays")
    for where in found.unreached:
        note(f"not reached: {where}")
    if found.is_dry_run:
        note("nothing is erased yet: --for-good does it")
    else:
        note(f"the texts of {counted(sum(one.events for one in found.contexts), 'event')} are erased")


def _print_contexts(contexts: Iterable[ErasedContext]) -> None:
    print_table([("CONTEXT", "EVENTS"), *((one_line(one.context), f"{one.events:,}") for one in contexts)])


@click.command("hold")
@argument("context", help="The context; without it, those that are held are listed.", metavar="[CTX]", required=False,
          callback=optional_text)  # fmt: skip
@WHY
@flag("--release", "is_release", help="Let it be erased again.")
@change_options
def hold(context: str | None, why: str | None, is_release: bool) -> None:
    """
    Protect all items that a context shows from being erased, until it is released; or list the held contexts.

    With --json: an array of {context, why}.
    """
    if context is None and (why is not None or is_release):
        raise usage_error("--why and --release go with CTX")
    if context is not None and why is None:
        raise usage_error(SAY_WHY)
    with reading() if context is None else changing() as store:
        if context is not None and why is not None:
            (store.release if is_release else store.hold)(context, why=why)
        held = store.holds()
    _print_by_context(held, "why", "nothing is held")


def _print_by_context(found: Mapping[str, str], what: str, nothing: str) -> None:
    """Print a value for each context, as a table or as JSON; `what` names the value."""
    if prints_json():
        print_json_list({"context": context, what: known} for context, known in found.items())
    elif found:
        rows = [("CONTEXT", what.upper()), *((one_line(one), one_line(known)) for one, known in found.items())]
        # Paths are not cut: a part of one does not lead to the file.
        print_table(rows, is_cut=what != "file")
    else:
        note(nothing)


@click.command("archive")
@argument("file", help="The new file; without it, contexts that are archived are listed.", metavar="[FILE]",
          required=False, type=Path)  # fmt: skip
@argument("contexts", help="The contexts, by their names.", metavar="[CTX...]", nargs=-1, callback=texts)
@text("--idle", metavar="TIME", help="All contexts whose last event is so long ago, as '90 days'.")  # fmt: skip
@WHY
@flag("--dry-run", help="Only list what would be archived.")
@change_options
def archive(file: Path | None, contexts: tuple[str, ...], idle: str | None, why: str | None, dry_run: bool) -> None:
    """
    Move the texts of contexts into a file, from which `refold unarchive` brings them back; without FILE, list what is
    archived, and where.

    `[archived]` takes the place of the texts. Name the contexts, or choose with --idle all that were not used for a
    time. The file of an encrypted store is encrypted.

    With --json: what was archived as `store.archive()` returns it; without FILE an array of {context, file}.
    """
    _check_archive(file, contexts, idle, why, dry_run)
    if file is None:
        with reading() as store:
            _print_by_context(store.archives(), "file", "nothing is archived")
        return
    with changing() as store:
        done = store.archive(file, *contexts, why=why or ONLY_LISTED, idle=idle, dry_run=dry_run)
    _print_archived(done)


def _check_archive(
    file: Path | None, contexts: Sequence[str], idle: str | None, why: str | None, dry_run: bool
) -> None:
    if file is None:
        if idle or why or dry_run:
            raise usage_error("--idle, --why and --dry-run go with a FILE")
        return
    if why is None and not dry_run:
        raise usage_error(SAY_WHY)
    if bool(contexts) == bool(idle):
        raise usage_error("name the contexts, or take --idle TIME in their place")


@click.command("unarchive")
@argument("contexts", help="The contexts, by their names.", metavar="CTX...", nargs=-1, required=True, callback=texts)
@click.option("--from", "file", metavar="FILE", type=Path, help="The archive, if it is not where it was.")
@change_options
def unarchive(contexts: tuple[str, ...], file: Path | None) -> None:
    """
    Bring the texts of archived contexts back into the log; what was erased meanwhile stays erased.

    With --json: what came back as `store.unarchive()` returns it.
    """
    with changing() as store:
        done = store.unarchive(*contexts, file=file)
    _print_archived(done)


def _print_archived(done: Archived) -> None:
    if prints_json():
        print_json(msgspec.to_builtins(done))
        return
    if done.contexts:
        _print_contexts(done.contexts)
    else:
        note("no context has anything to be moved")
    if done.erased:
        note(f"erased meanwhile, and not brought back: {counted(done.erased, 'event')}")
    for where in done.unreached:
        note(f"texts may still be in {where}")
    if done.is_dry_run:
        note("nothing is archived yet: leave --dry-run out")


@click.command("retain")
@flag("--for-good", help="Erase what is due; without, it is listed.")
@change_options
def retain(for_good: bool) -> None:
    """
    List the contexts whose time is over by a policy of `store.retain()`; or erase them.

    `refold run` erases them once an hour. With --json: {is_dry_run, contexts, erasure}, contexts by policy.
    """
    if for_good:
        with changing() as store:
            found, policies = store.apply_retention(dry_run=False), store.policies()
    else:
        found, policies = answered(lambda store: (store.apply_retention(), store.policies()))
    if prints_json():
        print_json(msgspec.to_builtins(found))
        return
    rows = [(one_line(name), one_line(context)) for name, some in found.contexts.items() for context in some]
    if rows:
        print_table([("POLICY", "CONTEXT"), *rows])
    else:
        named = [f"{one_line(policy.name)} (after {counted(policy.days, 'day')})" for policy in policies]
        note(f"no context is due: {'by ' + joined(named) if named else 'there is no policy'}")
    if rows and not for_good:
        note("nothing is erased yet: --for-good does it")

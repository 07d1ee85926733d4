"""`refold import` reads transcripts, `refold export` writes contexts into files, `refold copy` copies a store."""

from __future__ import annotations

import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import msgspec

from ...domain.chat.view import ChatView
from ...domain.context.address import Reference
from ...domain.context.description import counted, joined
from ...domain.errors import InvalidInputError, first_named
from ...domain.log.memory_log import MemoryLog
from ..databases import is_on_server, location_of
from ..exchange import ExportReport, TakenIn, copy_store, export_events, take_in_events
from ..exchange.copying import LAG_SECONDS
from ..exchange.import_events import checked_file, take_in_checked
from ..exchange.parquet import export_parquet
from ..exchange.transcripts import TRANSCRIPT_FORMS, export_transcripts
from ..files import require_regular
from ..importing import FORMATS, Format, ImportReport, Run, as_transcripts, import_as_runs, import_runs, read_runs
from ..store import Store
from ..views.contexts import ChatItemView, view_of
from . import args
from .completion import named_contexts
from .progress import progress_bar
from .render import note, one_line, print_json, prints_json, safe_json

OWN_FORMAT = "refold"
STDOUT = Path("-")
HEADER = b'{"refold":'
NAMED_MAX = 5
# The counts in the names of what a document lacks, such as `id of 2 items` and `2 handoffs`.
COUNTS = re.compile(r" of [0-9,]+ items?$|^[0-9,]+ |(?<=[a-z])s$")


def exports_among(files: Sequence[Path], form: str) -> list[Path]:
    """
    Return the files that `refold export` wrote, found by their first lines; all files if this format is given.

    Raises:
        InvalidInputError: this format is given, and a file has another one.
    """
    exports = [path for path in files if _is_export(path)] if form in ("auto", OWN_FORMAT) else []
    if form == OWN_FORMAT:
        for path in files:
            require_regular(path)
            if path not in exports:
                raise InvalidInputError(f"{path} was not written by `refold export`: leave out --format refold")
    return exports


def _is_export(path: Path) -> bool:
    # A pipe can be read once, by the importer, which also reports a file that cannot be read.
    if path.is_file():
        with suppress(OSError), path.open("rb") as file:
            return file.read(len(HEADER)) == HEADER
    return False


def take_in(store: Store, path: Path, shown: str, checked: Mapping[str, int] | None = None) -> None:
    """
    Import the contexts of an export, each under its own name, and print the result; `checked` is what `checked_file`
    returned, and it is checked again if one of its contexts has grown since.

    Raises:
        InvalidInputError: the file is damaged, or the store has a context with another past; nothing was written.
    """
    with progress_bar("importing") as progress:
        if checked is not None and all(store.log.head(stream) == version for stream, version in checked.items()):
            done = take_in_checked(store.log, path, checked, progress=progress)
        else:
            done = take_in_events(store.log, path, progress=progress)
    contexts = counted(done.added + done.extended + done.unchanged, "context")
    written = f"; {counted(done.events, 'event')}" if done.events else ""
    click.echo(f"{shown}: {contexts}{_outcomes(done)}{written}, from {one_line(str(path))}")


def _outcomes(done: TakenIn | ImportReport) -> str:
    return _listed_counts({"added": done.added, "extended": done.extended, "unchanged": done.unchanged})


def _listed_counts(counts: Mapping[str, int]) -> str:
    """Return the number of each outcome, behind a colon; empty if there is no outcome at all."""
    listed = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.items() if count)
    return f": {listed}" if listed else ""


@click.command("import")
@args.argument("files", help="The files.", metavar="[FILE...]", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice([*FORMATS, OWN_FORMAT]),
    default="auto",
    show_default=True,
    help="The format of the files; auto detects it from their contents.",
)
@args.text(
    "--prefix",
    metavar="ID",
    help="The first part of the names of the contexts, before each conversation's own key.  [default: the file's name]",
)
@args.text("--user", metavar="U", help="The user of new contexts.")
@args.flag("--as-runs", help="Make a session with runs from each conversation, a run for each message of its user.")
@args.flag("--replace-surrogates", help="Replace lone surrogates with U+FFFD, and continue.")
@args.text(
    "--from-langgraph",
    "source",
    metavar="URL",
    help="Copy all threads of a saver of LangGraph instead: its SQLite file, or postgresql://...",
)
@click.option(
    "--allow",
    "allowed",
    metavar="M:NAME",
    multiple=True,
    help="With --from-langgraph: load values of this type, such as app.state:Plan.",
)
@args.flag("--dry-run", help="With --from-langgraph: say what would be copied, and copy nothing.")
@args.database
def import_files(
    files: tuple[Path, ...],
    form: Format,
    prefix: str | None,
    user: str | None,
    as_runs: bool,
    replace_surrogates: bool,
    source: str | None,
    allowed: tuple[str, ...],
    dry_run: bool,
) -> None:
    """
    Import transcripts: each conversation becomes a context. Its name is that of the file, with the conversation's own
    key (task_id of a tau run, id of another one, sessionId of a session) or its number.

    openai and anthropic are a list of messages, an object with "messages", or JSON Lines of either; tau is a list of
    runs with "traj"; claude-code is the file of a session, whose branches become forks; atif, otel, sharegpt, responses
    and gemini are the forms that `refold export --as` and other programs write. Everything is checked before anything
    is written. A file that is imported again adds only what was appended to it since.

    With --as-runs a conversation becomes a session: each message of its user begins a run, a graph of the calls,
    results and answers that follow.

    refold is what `refold export` writes: contexts of all kinds with their past, which keep their names.

    With --from-langgraph there are no files: each thread becomes a chat with its checkpoints. Threads that were copied
    before get the checkpoints that came since. If a part of a thread cannot be kept, the whole thread is left out.
    """
    if source is not None:
        if files or user or as_runs or replace_surrogates or form != "auto":
            raise args.usage_error("with --from-langgraph only --prefix, --allow, --dry-run and --db are given")
        _import_threads(source, prefix or "", allowed, dry_run)
        return
    if allowed or dry_run:
        raise args.usage_error("--allow and --dry-run go with --from-langgraph")
    if not files:
        raise args.usage_error("Missing argument 'FILE...'.")
    # Checked before the database is opened, because opening may make it.
    exports = exports_among(files, form)
    if exports and (prefix or user or as_runs or replace_surrogates):
        raise args.usage_error(
            f"{exports[0]} is an export, whose contexts keep their names: only --format and --db go with it"
        )
    transcripts = [path for path in files if path not in exports]
    runs = read_runs(transcripts, format=form, prefix=prefix, mend_surrogates=replace_surrogates)
    checked = {path: checked_file(path, MemoryLog()) for path in exports} if _is_missing() else {}
    with args.writing() as store:
        if not checked and len(files) > 1:
            # All files are checked before one is written.
            checked = {path: checked_file(path, store.log) for path in exports}
        if transcripts:
            _import(store, runs, user, as_runs)
        for path in exports:
            take_in(store, path, args.shown(args.given_database()), checked.get(path))


def _is_missing() -> bool:
    location = args.given_database()
    return "://" not in location and not Path(location).exists()


def _import_threads(source: str, prefix: str, allowed: Sequence[str], dry_run: bool) -> None:
    try:
        from ..frameworks.langgraph.migration import import_threads, require_threads
    except ImportError as error:
        raise InvalidInputError('it needs LangGraph: pip install "refold[langgraph]"') from error
    # Checked first: a source that cannot be read makes no database, nor does a dry run.
    require_threads(source, allowed=allowed)
    target = ":memory:" if dry_run and _is_missing() else None
    with args.writing(target) as store, progress_bar("importing") as progress:
        reports = import_threads(store, source, prefix=prefix, allowed=allowed, dry_run=dry_run, progress=progress)
    for report in reports:
        if report.reason:
            note(f"thread {one_line(report.thread)}: {one_line(report.reason)}")
    counts = Counter(report.outcome for report in reports)
    listed = _listed_counts({outcome: counts[outcome] for outcome in ("added", "extended", "unchanged", "refused")})
    saved = counted(sum(report.checkpoints for report in reports), "checkpoint")
    click.echo(f"{args.shown(args.given_database())}: {counted(len(reports), 'thread')}{listed}; {saved}")
    if dry_run:
        note("nothing is copied yet: leave --dry-run out")
    if counts["refused"]:
        raise click.exceptions.Exit(1)


def _import(store: Store, runs: Sequence[Run], user: str | None, as_runs: bool) -> None:
    with progress_bar("importing") as progress:
        if as_runs:
            report = import_as_runs(store, as_transcripts(runs), user=user, progress=progress)
        else:
            report = import_runs(store, runs, user=user, progress=progress)
    for line in report.notes or [line for run in runs for line in run.notes]:
        note(line)
    click.echo(_summary(report, ("run", "node") if as_runs else ("context", "item")))


def _summary(report: ImportReport, words: tuple[str, str]) -> str:
    whole, part = words
    ids = [one.id for one in report.contexts if one.outcome != "unchanged"]
    written = f"; {counted(report.messages, 'message')} as {counted(report.items, part)} in {_named(ids)}"
    contexts = f"{counted(len(report.contexts), whole)}{_outcomes(report)}"
    return f"{args.shown(args.given_database())}: {contexts}{written if ids else ''}"


@click.command("export")
@args.argument(
    "contexts",
    help="The contexts; all by default.",
    metavar="[CTX...]",
    nargs=-1,
    callback=args.references,
    shell_complete=named_contexts,
)
@click.option(
    "--output",
    "-o",
    "path",
    metavar="FILE",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file, which is replaced as a whole at the end; `-` is stdout.",
)
@args.flag(
    "--parquet",
    help="The log as a Parquet table instead, for DuckDB, Polars, Spark and others; it needs the extra `parquet`.",
)
@click.option(
    "--as",
    "form",
    type=click.Choice(TRANSCRIPT_FORMS),
    help="Chats as documents of other programs instead: each as it is, or as it was at CTX@V, and without its past.",
)
@args.database
def export(contexts: tuple[Reference, ...], path: Path, parquet: bool, form: str | None) -> None:
    """
    Write contexts, all or those named, with their whole past into a file that `refold import` reads.

    The contexts that they were forked from, or that were merged into them, are written, too. The file is JSON Lines,
    and is replaced as a whole: if the export fails, it stays as it was. Its folder must exist.

    With --as each chat is a document on a line of its own: a trajectory (atif), GenAI messages of OpenTelemetry (otel),
    turns of ShareGPT (sharegpt), items of the Responses API (responses), or Gemini contents (gemini). A note on stderr
    names all that such a document has no place for.
    """
    if form is not None:
        _check_form(contexts, parquet)
        _export_as(form, contexts, path)
        return
    if click.get_current_context().find_root().params.get("redact") is not None:
        raise args.usage_error("events are written as they are, so that a copy can be proved: --redact needs --as")
    if any(reference.moments for reference in contexts):
        raise args.usage_error("the whole past is written: leave out @V")
    with args.reading() as store:
        streams = [args.stream_of(store, reference.context) for reference in contexts] or None
        with _file_for(path) as file, progress_bar("exporting") as progress:
            if parquet:
                written = counted(export_parquet(store.log, file, streams, progress=progress), "event")
            else:
                written = _summary_of_export(export_events(store.log, file, streams, progress=progress))
    _say_written(path, written)


def _say_written(path: Path, written: str) -> None:
    name = "stdout" if path == STDOUT else one_line(str(path))
    click.echo(f"{name}: {written}", err=path == STDOUT)


def _check_form(contexts: tuple[Reference, ...], parquet: bool) -> None:
    if parquet:
        raise args.usage_error("--parquet writes a table, --as documents: name one of them")
    if any(reference.is_range for reference in contexts):
        raise args.usage_error("a document shows one version: write CTX@V, not a range")


def _export_as(form: Any, contexts: tuple[Reference, ...], path: Path) -> None:
    with args.reading() as store:
        chats = [_chat_at(store, reference) for reference in contexts]
        if not contexts:
            chats = [store.chat(row.id, create=False) for row in store.contexts() if row.kind == "chat"]
        with _file_for(path) as file:
            # Where all chats are exported, empty ones are left out; a chat that was named must hold something.
            lost = export_transcripts(store.log, file, chats, form, skip_empty=not contexts)
    left_out = 0 if contexts else len(chats) - len(lost)
    if left_out:
        note(f"{counted(left_out, 'chat')} left out: {form} has no place for anything in them")
    _note_lost(form, {context: names for context, names in lost.items() if names})
    _say_written(path, counted(len(lost), "chat"))


def _note_lost(form: str, lost: dict[str, tuple[str, ...]]) -> None:
    """Name what a form has no place for: chat by chat, or together where there are many."""
    if len(lost) <= NAMED_MAX:
        for context, names in lost.items():
            note(f"{one_line(context)}: {form} has no place for {joined(names)}")
        return
    chats = Counter(COUNTS.sub("", name) for names in lost.values() for name in names)
    left_out = joined([f"{name} in {counted(count, 'chat')}" for name, count in sorted(chats.items())])
    note(f"{form} has no place for {left_out}; the export of a chat by itself says of how many items")


def _chat_at(store: Store, reference: Reference) -> ChatView[Any]:
    stream = args.stream_of(store, reference.context, ("chat",))
    view = view_of(store, stream, reference.moment)
    assert isinstance(view, ChatItemView), "the stream is that of a chat"
    return view.chat


@contextmanager
def _file_for(path: Path) -> Iterator[Path]:
    """Yield the file to write; for stdout a temporary one, which is printed at the end if the export is whole."""
    if path != STDOUT:
        yield path
        return
    with TemporaryDirectory() as folder:
        file = Path(folder, "export")
        yield file
        if sys.stdout.isatty():
            # Another program gets the bytes as they are; some of them would control a terminal.
            with file.open(encoding="utf-8", errors="backslashreplace", newline="\n") as lines:
                sys.stdout.writelines(map(safe_json, lines))
            return
        with file.open("rb") as written:
            shutil.copyfileobj(written, sys.stdout.buffer)


def _summary_of_export(report: ExportReport) -> str:
    if report.along:
        note(f"{_named(report.along)} came along: the others name them")
    return f"{counted(report.streams, 'context')}, {counted(report.events, 'event')}"


@click.command("copy")
@args.argument("source", help="The database to copy.", metavar="SOURCE", callback=args.required_text)
@args.argument(
    "target",
    help="The database to copy into; it is made if it is missing.",
    metavar="TARGET",
    callback=args.required_text,
)
@args.flag("--move", help="SOURCE takes no events any more once all are in TARGET.")
@click.option(
    "--lag",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=LAG_SECONDS,
    show_default=True,
    help="From PostgreSQL to SQLite: leave out events that are newer than this many seconds, because the "
    "clocks of writers differ.",
)
@args.as_json
def copy(source: str, target: str, move: bool, lag: float) -> None:
    """
    Copy every event of a database into another one, which is new or holds an earlier copy, and compare the two. Each is
    a file or postgresql://...

    Streams, versions, times, actors, keys and bytes are the same in the copy, and positions where both databases count
    alike. Programs may write to SOURCE meanwhile: the copy has what was there when it began, and the next one continues
    from its end, also after a crash. With --move, SOURCE refuses events from the last step of the copy on, until
    `refold init --reopen`.

    With --json: {source, target, events, copied, moment, target_moment, root, is_moved, inexact: {NAME: POSITION}}.
    """
    with progress_bar("copying") as progress:
        report = copy_store(
            location_of(source),
            location_of(target),
            move=move,
            lag_seconds=lag,
            keys=args.given_keys(),
            progress=progress,
        )
    is_from_server, is_to_server = (is_on_server(location_of(one)) for one in (source, target))
    if is_from_server and not is_to_server and lag and not move:
        note(f"events of the last {lag:g} seconds are left for the next call (--lag)")
    for name, position in report.inexact.items():
        note(f"the moment {one_line(name)} lies between events there: it is pos:{position} now")
    if prints_json():
        print_json(msgspec.to_builtins(report))
        return
    moved = "; the first one takes no events any more" if report.is_moved else ""
    events = f"{counted(report.events, 'event')}, {report.copied:,} of them new"
    click.echo(f"{args.shown(source)} to {args.shown(target)}: {events}; they are equal{moved}")


def _named(streams: Sequence[str]) -> str:
    return first_named([one_line(stream) for stream in streams], NAMED_MAX)

"""The runs of files, checked before a store is touched, and the reports of importing them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from ...domain.canonical import require_json
from ...domain.chat.events import ChatItemEvent
from ...domain.clock import REAL_SYSTEM
from ...domain.errors import InvalidInputError
from ...domain.formats.anthropic.receive import AnthropicShaper, shape_anthropic_messages
from ...domain.formats.openai.receive import shape_messages
from ...domain.formats.openai.send import openai_messages
from ...domain.formats.receive import at_field
from ...domain.ids import stream_id
from ...domain.log.admission import admitted
from ..exchange.transcripts import TRANSCRIPT_FORMS, groups_of
from .claude_sessions import PlacedLine, Session, fork_names, named_forks, new_branches, sessions_in
from .formats import (
    REPLACEMENT,
    Conversation,
    Document,
    Form,
    Format,
    conversations_in,
    entries_of,
    is_session,
    read_document,
    safe_id,
)

Outcome = Literal["added", "extended", "unchanged"]
LONE = re.compile("[\ud800-\udfff]")


class ImportedContext(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one run: `messages` and `items` are the numbers that were written."""

    id: str
    outcome: Outcome
    messages: int
    items: int


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an import; `notes` are sentences about results that the user may not expect."""

    contexts: tuple[ImportedContext, ...]
    notes: tuple[str, ...] = ()

    @property
    def added(self) -> int:
        """The number of contexts that are new."""
        return self._count("added")

    @property
    def extended(self) -> int:
        """The number of existing contexts that were extended."""
        return self._count("extended")

    @property
    def unchanged(self) -> int:
        """The number of contexts that held everything already."""
        return self._count("unchanged")

    @property
    def messages(self) -> int:
        """The number of messages that were written."""
        return sum(context.messages for context in self.contexts)

    @property
    def items(self) -> int:
        """The number of items that were written; a message can be several."""
        return sum(context.items for context in self.contexts)

    def _count(self, outcome: Outcome) -> int:
        return sum(context.outcome == outcome for context in self.contexts)


class Surrogate(NamedTuple):
    """The place of a lone surrogate: the path of the field, and the index in its text."""

    path: str
    offset: int
    code: int


def _surrogates(value: Any, path: str) -> Iterator[Surrogate]:
    if isinstance(value, str):
        found = LONE.search(value)
        if found:
            yield Surrogate(path, found.start(), ord(found.group()))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _surrogates(inner, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _surrogates(key, f"{path}.(a key)".strip("."))
            yield from _surrogates(inner, f"{path}.{key}".strip("."))


def replace_surrogates(value: Any) -> Any:
    """Return a JSON value with U+FFFD in place of every lone surrogate."""
    if isinstance(value, str):
        return LONE.sub(REPLACEMENT, value)
    if isinstance(value, list):
        return [replace_surrogates(inner) for inner in value]
    if isinstance(value, dict):
        return {replace_surrogates(key): replace_surrogates(inner) for key, inner in value.items()}
    return value


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """
    A conversation that becomes, or already is, the context `context_id`.

    `where` names it in errors; `groups` are the items of each of its messages; `attributes` are the fields that its
    source had beside them. Anthropic's system text is a message of the role "system", the first if `has_system`.
    Messages of a Claude Code session are those of `lines`, which have their order and their branches.
    """

    where: str
    source: str
    context_id: str
    messages: list[Any]
    groups: list[list[ChatItemEvent]]
    attributes: dict[str, Any]
    form: Form = "openai"
    has_system: bool = False
    session: str | None = None
    agent: str | None = None
    lines: tuple[PlacedLine, ...] = ()
    notes: tuple[str, ...] = ()


def read_runs(
    paths: Sequence[str | Path], *, format: Format = "auto", prefix: str | None = None, mend_surrogates: bool = False
) -> list[Run]:
    """
    Return the runs of files, each named `PREFIX-KEY`.

    `prefix` is the file's name without its ending by default; the key is the run's own, or its number. A file that is
    named after its session needs no prefix.

    Raises:
        InvalidInputError: a file cannot be imported; the error names the file and, if known, the run, the message's
            index and the field, and says what was expected there.
    """
    if prefix is not None and (not prefix or prefix.startswith("-")):
        raise InvalidInputError(f"the prefix {prefix!r} cannot begin a context's id: begin with a letter or digit")
    runs = [run for path in paths for run in _runs_of(Path(path), format, prefix, mend_surrogates)]
    _require_own_ids(runs)
    return runs


def _runs_of(path: Path, format: Format, prefix: str | None, mend: bool) -> list[Run]:
    document = read_document(path)
    if format == "claude-code" or (format == "auto" and is_session(document)):
        return _sessions_of(path, document, prefix, mend)
    if document.unfinished is not None:
        raise document.unfinished
    try:
        conversations = conversations_in(document, format)
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error}") from error
    if document.may_hold_surrogates:
        conversations = [_in_unicode(path, one, mend) for one in conversations]
    first = safe_id(path.stem) if prefix is None else prefix
    return [_run(path, one, f"{first}-{one.key}") for one in conversations]


def _run(path: Path, conversation: Conversation, context_id: str) -> Run:
    where = f"{path}, run {conversation.number}"
    messages, attributes, system = conversation.messages, conversation.attributes, conversation.system
    try:
        stream_id("chat", context_id)
        require_json(attributes, what="what lies beside the messages")
        groups = _groups_of(conversation, context_id)
        _require_admitted(groups, context_id)
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}, {error}") from error
    return Run(
        where=where,
        source=_source(path),
        context_id=context_id,
        messages=messages if system is None else [{"role": "system", "content": system}, *messages],
        groups=groups,
        attributes=attributes,
        form=conversation.dialect,
        has_system=system is not None,
    )


def _groups_of(conversation: Conversation, context_id: str) -> list[list[ChatItemEvent]]:
    messages, system, form = conversation.messages, conversation.system, conversation.dialect
    if form in TRANSCRIPT_FORMS:
        return groups_of(form, messages, context_id)
    shape = shape_anthropic_messages if form == "anthropic" else shape_messages
    given = {} if system is None else {"system": system}
    return shape(messages, **given, context_id=context_id, created_at=REAL_SYSTEM.now())


def _require_admitted(groups: Sequence[Sequence[ChatItemEvent]], context_id: str) -> None:
    """Check every item as the log will: a refusal by the log would come after other runs are written."""
    for item in chain.from_iterable(groups):
        admitted(item, f"chat:{context_id}")


def _source(path: Path) -> str:
    # The name of a file may have bytes that are not valid text.
    return str(replace_surrogates(path.name))


def _in_unicode(path: Path, conversation: Conversation, mend: bool) -> Conversation:
    messages, attributes, system = conversation.messages, conversation.attributes, conversation.system
    if mend:
        return msgspec.structs.replace(
            conversation,
            messages=replace_surrogates(messages),
            attributes=replace_surrogates(attributes),
            system=replace_surrogates(system),
        )
    where = f"{path}, run {conversation.number}"
    for index, message in enumerate(messages):
        _require_unicode(message, f"{where}, messages[{index}]")
    _require_unicode({**attributes, "system": system}, where)
    return conversation


def _require_unicode(value: Any, where: str) -> None:
    found = next(_surrogates(value, ""), None)
    if found is not None:
        raise InvalidInputError(
            f"{at_field(where, found.path)}: a lone surrogate (U+{found.code:04X}) at index {found.offset}, which is "
            "not Unicode text: --replace-surrogates puts U+FFFD in its place"
        )


# Sessions of Claude Code


def _sessions_of(path: Path, document: Document, prefix: str | None, mend: bool) -> list[Run]:
    values = entries_of(document)
    entries = list(zip(document.lines or range(1, len(values) + 1), values, strict=True))
    if document.may_hold_surrogates:
        entries = [(number, replace_surrogates(value)) for number, value in entries] if mend else entries
        for number, value in entries:
            _require_unicode(value, f"{path}, line {number}")
    try:
        sessions, notes = sessions_in(entries, name=replace_surrogates(path.stem))
        runs = [_run_of_session(path, session, prefix) for session in sessions]
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}, {error}") from error
    if document.unfinished is not None:
        notes.append("its last line is not complete yet: it is left for the next import")
    return _noted(runs, path, notes)


def _run_of_session(path: Path, session: Session, prefix: str | None) -> Run:
    context_id = _session_id(path, safe_id(session.key), prefix)
    stream_id("chat", context_id)
    require_json(session.attributes, what="what lies beside the messages")
    shaper = AnthropicShaper(context_id)
    # The pieces of a message repeat its usage, and only the last one has all tokens; the first one counts for all.
    usage = {placed.line.message_id: placed.line.message.get("usage") for placed in session.lines}
    groups = [
        shaper.items_of(
            placed.line.uuid,
            placed.line.message,
            f"line {placed.line.number}",
            created_at=placed.line.created_at,
            continues=placed.continues,
            source={"claude_code": placed.line.beside, **_last_usage(placed, usage)},
        )
        for placed in session.lines
    ]
    _require_admitted(groups, context_id)
    return Run(
        where=str(path),
        source=_source(path),
        context_id=context_id,
        messages=[placed.line.message for placed in session.lines],
        groups=groups,
        attributes=session.attributes,
        form="claude-code",
        session=safe_id(session.session),
        agent=session.agent,
        lines=tuple(session.lines),
    )


def _last_usage(placed: PlacedLine, usage: Mapping[str | None, Any]) -> dict[str, Any]:
    """Return the usage of a whole message for its first piece, if that has another one."""
    message, last = placed.line.message, usage.get(placed.line.message_id)
    is_own = placed.continues or placed.line.message_id is None or last == message.get("usage")
    return {} if is_own or last is None else {"usage": last}


def _session_id(path: Path, key: str, prefix: str | None) -> str:
    first = safe_id(path.stem) if prefix is None else prefix
    # A file is often named after its session or sub-agent, and then the key has this name already.
    says_it = prefix is None and f"-{first}-" in f"-{key}-"
    return key if says_it else f"{first}-{key}"


def _noted(runs: list[Run], path: Path, notes: Sequence[str]) -> list[Run]:
    """Add the notes about a file to its first run; if it has no run, add an empty run that has them."""
    nothing = Run(
        where=str(path),
        source=_source(path),
        context_id=safe_id(path.stem),
        messages=[],
        groups=[],
        attributes={},
        form="claude-code",
    )
    first, *others = runs or [nothing]
    return [msgspec.structs.replace(first, notes=tuple(f"{path}: {note}" for note in notes)), *others]


def _require_own_ids(runs: Sequence[Run]) -> None:
    seen: dict[str, Run] = {}
    # The file of a session without a message makes no context.
    for run in [one for one in runs if one.lines or one.form != "claude-code"]:
        other = seen.setdefault(run.context_id, run)
        if other is not run:
            raise InvalidInputError(
                f"{other.where} and {run.where} would both be the context {run.context_id!r}: "
                "import them one by one, each with a --prefix of its own"
            )


# As transcripts of OpenAI's


def as_transcripts(runs: Iterable[Run]) -> list[Run]:
    """
    Return runs with messages in OpenAI's form; each branch of a session is a run from the beginning of the session.
    """
    return [transcript for run in runs for transcript in _transcripts(run)]


def _transcripts(run: Run) -> Iterator[Run]:
    if run.form == "openai":
        yield run
    elif run.form in TRANSCRIPT_FORMS:
        yield _transcript(run, run.context_id, run.groups, run.attributes)
    elif run.form == "anthropic":
        tools = run.attributes.get("tools")
        attributes = {**run.attributes, "tools": list(map(_tool, tools))} if isinstance(tools, list) else run.attributes
        yield _transcript(run, run.context_id, run.groups, attributes)
    else:
        yield from _branches(run)


def _branches(run: Run) -> Iterator[Run]:
    groups = {placed.line.uuid: group for placed, group in zip(run.lines, run.groups, strict=True)}
    parents = {placed.line.uuid: placed.parent for placed in run.lines}
    branches = new_branches(run.lines, ())
    named = named_forks(branches[1:], fork_names(run.context_id))
    for branch in branches:
        path: list[list[ChatItemEvent]] = []
        at: str | None = branch.lines[-1].uuid
        while at is not None:
            path.append(groups[at])
            at = parents[at]
        name = named.get(branch.lines[0].uuid, run.context_id)
        yield _transcript(run, name, path[::-1], run.attributes)


def _transcript(run: Run, context_id: str, groups: Sequence[list[ChatItemEvent]], attributes: Mapping[str, Any]) -> Run:
    messages = openai_messages((item for group in groups for item in group), exact=True)
    return msgspec.structs.replace(
        run, context_id=context_id, messages=messages, groups=list(groups), attributes=dict(attributes),
        form="openai", lines=(),
    )  # fmt: skip


def _tool(definition: Any) -> Any:
    """Return a tool's definition in OpenAI's form; Anthropic's has its parameters under another name."""
    if not isinstance(definition, dict) or "input_schema" not in definition:
        return definition
    others = {name: value for name, value in definition.items() if name != "input_schema"}
    return {"type": "function", "function": {**others, "parameters": definition["input_schema"]}}

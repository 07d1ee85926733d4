"""
Retention: policies that erase contexts some days after their last event; without a policy nothing is erased.

Policies are events of the store. A call applies them, and workers do so now and then. Held contexts stay, and so do the
contexts from which a held one took something.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import msgspec

from ...domain.canonical import canonical_json, require_unicode
from ...domain.chat.events import Forked, Opened
from ...domain.clock import DAY_MICROSECONDS
from ...domain.erasure.events import STREAM, RetentionEnded, RetentionSet, StoreErased, subject_hash
from ...domain.errors import ConcurrencyError, InvalidInputError, NotFoundError, StorageError
from ...domain.ids import VERSION_MAX, decoded_id, require_name
from ...domain.kinds import KINDS
from ...domain.log.ports import LiveLog
from ...domain.pool.events import BranchedEvent, OpenedEvent, SettingsEvent
from ...projections.catalogue import CATALOGUE, CatalogueRow
from ..projecting.runner import ProjectionRunner
from .erasing import ATTEMPTS_MAX, SALT_BYTES, Eraser, Erasure, ErasureRequest, require_reason

DAYS = {"day": 1, "week": 7, "year": 365}
KEEP = re.compile(r"(\d{1,6}) (day|week|year)s?")
DAYS_MAX = 365_000
# The reason of an erasure by policies begins so.
WHY = "retention: "
# Longer than an append takes, and much shorter than the days that policies are about.
APPLYING_MICROSECONDS = 60_000_000

# A number of days, or a text such as "400 days".
Time = str | int | timedelta


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """
    Contexts of this kind, agent, source and tag, where these are given, are erased `days` days after their last event.

    `is_of_user` says whether it is about one user, of whom the store has only a salted hash.
    """

    name: str
    days: int
    why: str
    kind: str | None = None
    agent: str | None = None
    source: str | None = None
    tag: str | None = None
    is_of_user: bool = False


class Matching(NamedTuple):
    """The contexts that a policy is about; None stands for any value."""

    kind: str | None = None
    user: str | None = None
    agent: str | None = None
    source: str | None = None
    tag: str | None = None


class Retained(msgspec.Struct, frozen=True, kw_only=True):
    """The contexts that policies erased, or would erase (`is_dry_run`), by policy; and the erasure if there was one."""

    is_dry_run: bool
    contexts: Mapping[str, tuple[str, ...]]
    erasure: Erasure | None = None


def days_of(keep: Time) -> int:
    """
    Return a time to keep in days.

    Raises:
        InvalidInputError: it is not from 1 to DAYS_MAX days.
    """
    if isinstance(keep, str):
        found = KEEP.fullmatch(keep.strip())
        days = int(found[1]) * DAYS[found[2]] if found else 0
    else:
        days = keep.days if isinstance(keep, timedelta) else keep if type(keep) is int else 0
    if not 1 <= days <= DAYS_MAX:
        raise InvalidInputError(f"{keep!r} is no time: give a number of days, or a text like '400 days' or '2 years'")
    return days


class Retention:
    """The policies of one store."""

    def __init__(self, eraser: Eraser, log: LiveLog, runner: ProjectionRunner) -> None:
        self._eraser, self._log, self._runner = eraser, log, runner

    def set(self, name: str, keep: Time, why: str, matching: Matching) -> Policy:
        """
        Set a policy, or change the one of this name.

        Raises:
            InvalidInputError: the name, the time or the reason is invalid, there is no such kind, or it is for all
                contexts of a store.
        """
        kind, user, *_ = matching
        if kind is not None and kind not in KINDS:
            raise InvalidInputError(f"there is no kind {kind!r}: there are {', '.join(KINDS)}")
        if matching == Matching():
            raise InvalidInputError("say which contexts: by kind=, user=, agent=, source= or tag=")
        for what, text in matching._asdict().items():
            if require_unicode(text or "", f"the {what}") == "" and text is not None:
                give = 'give "name" or "name=value"' if what == "tag" else "leave it out for any"
                raise InvalidInputError(f"the {what} is empty: {give}")
        require_reason(why)
        salt = b"" if user is None else secrets.token_bytes(SALT_BYTES)
        event = RetentionSet(
            name=require_name(name, "policy"),
            days=days_of(keep),
            why=why,
            kind=kind,
            agent=matching.agent,
            source=matching.source,
            user=b"" if user is None else subject_hash(user, salt),
            salt=salt,
            tag=matching.tag,
        )
        self._eraser.record(event)
        return _policy(event)

    def end(self, name: str, why: str) -> None:
        """
        End a policy.

        Raises:
            NotFoundError: there is none of this name.
        """
        policies = self._eraser.state.policies
        if require_unicode(name, "the name of a policy") not in policies:
            raise NotFoundError(f"there is no policy {name!r}: {', '.join(policies) or 'none is set'}")
        self._eraser.record(RetentionEnded(name=name, why=why))

    def policies(self) -> list[Policy]:
        """Return the policies, in the order in which they were set first."""
        return [_policy(event) for event in self._eraser.state.policies.values()]

    def apply(self, now: float, *, dry_run: bool = True) -> Retained:
        """Erase the contexts whose time is over at `now`, in seconds since 1970; or return what would be erased."""
        for _ in range(ATTEMPTS_MAX):
            with suppress(ConcurrencyError):
                return self._apply(now, dry_run)
        raise StorageError("others recorded all the time in contexts whose time was over: try again when they pause")

    def _apply(self, now: float, dry_run: bool) -> Retained:
        if not self._eraser.state.policies:
            return Retained(is_dry_run=dry_run, contexts={})
        versions = {row.key: row.version for row in self._runner.rows(CATALOGUE)}
        due = self._due(int(now * 1_000_000))
        names = sorted({context for some in due.values() for context in some})
        if not names:
            return Retained(is_dry_run=dry_run, contexts={})
        check = partial(self._require_unchanged, {name: versions.get(name, 0) for name in names})
        wanted = ErasureRequest(WHY + ", ".join(due), contexts=names, check=check)
        # A context without texts, such as an empty queue, would be erased again and again.
        taken = {one.context for one in self._eraser.erase(wanted).contexts}
        due = {name: left for name, some in due.items() if (left := tuple(one for one in some if one in taken))}
        if dry_run or not due:
            return Retained(is_dry_run=dry_run, contexts=due)
        return Retained(is_dry_run=False, contexts=due, erasure=self._eraser.erase(wanted, dry_run=False))

    def _require_unchanged(self, versions: Mapping[str, int]) -> None:
        """Require that these contexts have no newer event: with one, their time is not over."""
        for row in self._runner.rows(CATALOGUE):
            if row.version != versions.get(row.key, row.version):
                raise ConcurrencyError(row.key, expected=versions[row.key], actual=row.version)

    def _due(self, now: int) -> dict[str, tuple[str, ...]]:
        state = self._eraser.state
        kept = self._eraser.shown_in(state.held)
        erased = self._erased_at()
        rows = [
            row
            for row in self._runner.rows(CATALOGUE)
            if row.key not in kept and row.changed_at > erased.get(row.key, -1)
        ]
        due: dict[str, tuple[str, ...]] = {}
        for policy in state.policies.values():
            until = now - policy.days * DAY_MICROSECONDS
            contexts = tuple(row.key for row in rows if row.changed_at <= until and self._is_of(policy, row))
            if contexts:
                due[policy.name] = contexts
        return due

    def _is_of(self, policy: RetentionSet, row: CatalogueRow) -> bool:
        given = ((policy.kind, row.kind), (policy.agent, row.agent), (policy.source, row.source))
        is_users = not policy.user or any(subject_hash(one, policy.salt) == policy.user for one in _owners(row) if one)
        if not is_users or any(wanted not in (None, found) for wanted, found in given):
            return False
        # The rows have no tags: the log is asked for those of contexts whose time is over.
        return policy.tag is None or policy.tag in _tags_of(self._log, row.key)

    def _erased_at(self) -> dict[str, int]:
        """Return when contexts were erased whole, the last time, by their streams."""
        erased: dict[str, int] = {}
        for recorded in self._log.read(STREAM):
            event = recorded.event
            if isinstance(event, StoreErased) and event.scope in ("user", "context"):
                # An event that others recorded while the policy was applied is older than this one, and not erased.
                at = recorded.recorded_at - (APPLYING_MICROSECONDS if event.why.startswith(WHY) else 0)
                erased.update(dict.fromkeys(event.whole, at))
        return erased


def _tags_of(log: LiveLog, stream: str) -> set[str]:
    """
    Return the tags of a context: those of a queue or pool as they are now, and the attributes of a chat, each as `name`
    and as `name=value`; a list is several values. A fork has those of the chat that it comes from.
    """
    tags: set[str] = set()
    for event in log.read_events(stream, until=1 if stream.startswith("chat:") else VERSION_MAX):
        match event:
            case OpenedEvent(tags=found) | BranchedEvent(tags=found) | SettingsEvent(tags=found):
                tags = {*found}
            case Opened(attributes=attributes) if attributes:
                tags = {*_tags_in(msgspec.json.decode(attributes))}
            case Forked(lineage=lineage):
                return _tags_of(log, lineage[0].stream)
    return tags


def _owners(row: CatalogueRow) -> Sequence[str]:
    """Return the users whose context it may be; the scope of a memory names its user."""
    if row.kind != "memory":
        return (row.user,)
    scope = decoded_id(row.id)
    return (scope, scope.removeprefix("user:"), scope.removeprefix("user/"))


def _tags_in(attributes: Mapping[str, Any]) -> Iterator[str]:
    for name, given in attributes.items():
        yield name
        for value in given if isinstance(given, list) else [given]:
            yield f"{name}={value if isinstance(value, str) else canonical_json(value, what=name).decode()}"


def _policy(event: RetentionSet) -> Policy:
    return Policy(
        name=event.name,
        days=event.days,
        why=event.why,
        kind=event.kind,
        agent=event.agent,
        source=event.source,
        tag=event.tag,
        is_of_user=bool(event.user),
    )

"""
Retention: contexts are erased some days after their last event, where a policy says so; without one, nothing is.

Policies are events of the store. They are applied by whoever asks, and by workers now and then. Contexts that must be
kept stay, and so do those of which they show something.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from datetime import timedelta

import msgspec

from ...domain.canonical import require_unicode
from ...domain.erasure.events import (
    DAY_MICROSECONDS,
    STREAM,
    RetentionEnded,
    RetentionSet,
    StoreErased,
    subject_hash,
)
from ...domain.errors import InvalidInputError, NotFoundError
from ...domain.ids import require_name
from ...domain.kinds import KINDS
from ...domain.log.ports import LiveLog
from ...projections.catalogue import CATALOGUE, CatalogueRow
from ..projecting.runner import ProjectionRunner
from .erasing import SALT_BYTES, Eraser, Erasure, Wanted

DAYS = {"day": 1, "week": 7, "year": 365}
KEEP = re.compile(r"(\d{1,6}) (day|week|year)s?")
DAYS_MAX = 365_000


# A number of days, or a text as "400 days".
Time = str | int | timedelta


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """
    Contexts of this kind, agent and source, where these are given, are erased `days` days after their last event.

    `is_of_user` says whether it is about one user, of whom the store has only a salted hash.
    """

    name: str
    days: int
    why: str
    kind: str | None = None
    agent: str | None = None
    source: str | None = None
    is_of_user: bool = False


class Retained(msgspec.Struct, frozen=True, kw_only=True):
    """What policies erased, or would erase: the contexts by policy, and the erasure if there was one."""

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

    def set(
        self,
        name: str,
        keep: Time,
        why: str,
        *,
        kind: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        source: str | None = None,
    ) -> Policy:
        """
        Set a policy, or change the one of this name.

        Raises:
            InvalidInputError: the name, the time or the reason is invalid, there is no such kind, or it is for all
                contexts of a store.
        """
        if kind is not None and kind not in KINDS:
            raise InvalidInputError(f"there is no kind {kind!r}: there are {', '.join(KINDS)}")
        if (kind, user, agent, source) == (None, None, None, None):
            raise InvalidInputError("say which contexts: by kind=, user=, agent= or source=")
        for text, what in ((user, "the user"), (agent, "the agent"), (source, "the source")):
            require_unicode(text or "", what)
        if not require_unicode(why, "why").strip():
            raise InvalidInputError("say why: the reason is recorded, so name no person in it")
        salt = b"" if user is None else secrets.token_bytes(SALT_BYTES)
        event = RetentionSet(
            name=require_name(name),
            days=days_of(keep),
            why=why,
            kind=kind,
            agent=agent,
            source=source,
            user=b"" if user is None else subject_hash(user, salt),
            salt=salt,
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
        if name not in policies:
            raise NotFoundError(f"there is no policy {name!r}: {', '.join(policies) or 'none is set'}")
        self._eraser.record(RetentionEnded(name=name, why=why))

    def policies(self) -> list[Policy]:
        """Return the policies, in the order in which they were set first."""
        return [_policy(event) for event in self._eraser.state.policies.values()]

    def apply(self, now: float, *, dry_run: bool = True) -> Retained:
        """Erase the contexts whose time is over at `now`, in seconds since 1970; or return what would be erased."""
        due = self._due(int(now * 1_000_000))
        names = sorted({context for some in due.values() for context in some})
        if dry_run or not names:
            return Retained(is_dry_run=dry_run, contexts=due)
        why = "retention: " + ", ".join(due)
        erasure = self._eraser.erase(Wanted(why, contexts=names), dry_run=False)
        return Retained(is_dry_run=False, contexts=due, erasure=erasure)

    def _due(self, now: int) -> dict[str, tuple[str, ...]]:
        state = self._eraser.state
        if not state.policies:
            return {}
        kept = {shown for context in state.held for shown in self._eraser.shown_in(context)}
        erased = self._erased_at()
        rows = [
            row
            for row in self._runner.rows(CATALOGUE)
            if row.key not in kept and row.changed_at > erased.get(row.key, -1)
        ]
        due: dict[str, tuple[str, ...]] = {}
        for policy in state.policies.values():
            until = now - policy.days * DAY_MICROSECONDS
            contexts = tuple(row.key for row in rows if row.changed_at <= until and _is_of(policy, row))
            if contexts:
                due[policy.name] = contexts
        return due

    def _erased_at(self) -> dict[str, int]:
        """Return when contexts were erased whole, the last time, by their streams."""
        return dict(self._erasures())

    def _erasures(self) -> Iterator[tuple[str, int]]:
        for recorded in self._log.read(STREAM):
            event = recorded.event
            if isinstance(event, StoreErased) and event.scope in ("user", "context"):
                yield from ((one.stream, recorded.recorded_at) for one in event.erased)


def _is_of(policy: RetentionSet, row: CatalogueRow) -> bool:
    given = ((policy.kind, row.kind), (policy.agent, row.agent), (policy.source, row.source))
    is_users = not policy.user or (bool(row.user) and subject_hash(row.user, policy.salt) == policy.user)
    return is_users and all(wanted is None or wanted == found for wanted, found in given)


def _policy(event: RetentionSet) -> Policy:
    return Policy(
        name=event.name,
        days=event.days,
        why=event.why,
        kind=event.kind,
        agent=event.agent,
        source=event.source,
        is_of_user=bool(event.user),
    )

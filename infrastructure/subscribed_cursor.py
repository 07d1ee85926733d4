"""How far a named subscription was acknowledged: kept in the store, so that the next one of that name goes on there."""

from __future__ import annotations

from ..domain.errors import ConcurrencyError, InvalidInputError, StorageReadOnlyError
from ..domain.ids import require_name
from ..domain.positions import Moment
from .projecting.read_only import kept_by
from .projecting.store import ProjectionStore, stored_moment


class AcknowledgedError(ConcurrencyError):
    """Another subscriber of the same name acknowledged something in the meantime."""

    def __str__(self) -> str:
        return f"another one acknowledged {self.stream} in the meantime: subscribe again, to go on where it stands"


class Cursor:
    """The moment up to which one subscriber has acknowledged; None before the first time."""

    def __init__(self, store: ProjectionStore, name: str) -> None:
        self._store, self._name = kept_by(store), _require_name(name)
        self._is_read_only = self._store is not store
        self._noted = self._store.note(self._note)

    @property
    def _note(self) -> str:
        return f"subscription/{self._name}"

    @property
    def moment(self) -> Moment | None:
        """The moment up to which everything was acknowledged."""
        return None if self._noted is None else self._stored(self._noted)

    def _stored(self, noted: str) -> Moment:
        return stored_moment(noted, f"the note {self._note}", remedy="subscribe under another name, `after` a moment")

    def move(self, moment: Moment) -> None:
        """
        Note that everything up to a moment was acknowledged.

        Raises:
            AcknowledgedError: another subscriber of this name acknowledged in the meantime; nothing was noted.
            StorageReadOnlyError: the store was opened for reading only.
        """
        if self._is_read_only:
            raise StorageReadOnlyError(
                f"{self._note} cannot be acknowledged in a store that was opened for reading only: it would be "
                "forgotten. Open it for writing, or keep the moment yourself"
            )
        text = str(moment)
        if text == self._noted:
            return
        if not self._store.set_note(self._note, before=self._noted, after=text):
            now = self._stored(self._store.note(self._note) or "0")
            raise AcknowledgedError(self._note, expected=_count(self.moment), actual=_count(now))
        self._noted = text


def _require_name(name: str) -> str:
    try:
        return require_name(name)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{name!r} cannot name a subscription: a letter first, at most 100 characters, no blank, @, : or .."
        ) from error


def _count(moment: Moment | None) -> int:
    return 0 if moment is None else moment.events

"""Named moments of a whole store. They are events of their own stream, so their actors and times are recorded too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from .context.context import Home
from .context.decider import Decider
from .context.journal import Journal
from .context.view import Place
from .ids import require_name
from .log.admission import VersionName
from .positions import Moment

STREAM = "store:moments"


class MomentNamed(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="t", tag="store.moment_named.v1"):
    """A moment of the log got a name; the same name given again moves it. `moment` is the moment as text."""

    name: VersionName
    moment: str

    def require_admissible(self) -> None:
        """Raise InvalidInputError if `moment` is not the text of a moment."""
        Moment.parse(self.moment)


StoreEvent = MomentNamed
Names = Mapping[str, str]


class NameMoment(msgspec.Struct, frozen=True):
    """Give a moment a name."""

    name: str
    moment: str


def decide(command: NameMoment, state: Names) -> Sequence[MomentNamed]:
    """
    Return the event that gives a moment a name; none if the moment has that name already.

    Raises:
        InvalidInputError: the name is invalid.
    """
    is_so = state.get(require_name(command.name)) == command.moment
    return [] if is_so else [MomentNamed(name=command.name, moment=command.moment)]


def fold(state: Names, events: Iterable[MomentNamed]) -> Names:
    """Return the names after `events`."""
    return {**state, **{event.name: event.moment for event in events}}


MOMENTS: Decider[Names] = Decider(decide, fold, {}, is_opened=False)


class MomentNames:
    """The named moments of a store, including those that other processes name."""

    def __init__(self, home: Home) -> None:
        version, digest = home.log.end(STREAM)
        place = Place(STREAM, STREAM)
        self._journal = Journal(home.log, place, MOMENTS, version=version, digest=digest, unflushed=home.unflushed)

    def name(self, name: str, moment: Moment) -> None:
        """
        Give a moment a name; a name that is in use moves to this moment.

        Raises:
            InvalidInputError: the name does not start with a letter, or holds `@`, `:`, `..` or a blank.
        """
        _ = self._journal.state
        self._journal.execute(NameMoment(name, str(moment)))

    def moments(self) -> dict[str, Moment]:
        """Return the named moments, including those that other writers have just named."""
        self._journal.refresh()
        return {name: Moment.parse(text) for name, text in self._journal.state.items()}

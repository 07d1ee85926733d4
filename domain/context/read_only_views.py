"""Views of runs and windows that can be read only: as they were at a version, or as they are, live."""

from __future__ import annotations

from typing import Any, NoReturn

from ..pool.read_only import ReadOnlyError
from .attachment import HomedContext


class ReadOnlyView(HomedContext):
    """The half of a view that reads through the context it shows, and refuses to change it."""

    _source: Any
    # None for what is shown live.
    _version: int | None
    _past: Any

    def _show(self, source: HomedContext, version: int | None) -> None:
        """Show a context from now on: at a version, or live."""
        self._source, self._version, self._past = source, version, None

    @property
    def _state(self) -> Any:
        if self._version is None:
            return self._source._state
        if self._past is None:
            self._past = self._source._past_state(self._version)
        return self._past

    @property
    def version(self) -> int:
        """The stream version that is shown."""
        shown: int = self._source.version if self._version is None else self._version
        return shown

    def _change(self, *args: object, **kwargs: object) -> NoReturn:
        raise ReadOnlyError(f"this {self.stream_kind} is a view and cannot be changed: change the one it shows")

    name_version = cleanup = rebase = attach = adopted_events = _change

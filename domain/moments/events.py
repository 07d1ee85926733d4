"""The events of a store itself."""

from __future__ import annotations

import msgspec

from ..admission import VersionName
from ..positions import Moment


class MomentNamed(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="t", tag="store.moment_named.v1"):
    """A moment of the log got a name; the same name given again moves it. `moment` is its text."""

    name: VersionName
    moment: str

    def require_admissible(self) -> None:
        """Raise InvalidInputError where its moment is the text of none."""
        Moment.parse(self.moment)


StoreEvent = MomentNamed

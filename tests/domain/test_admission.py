"""What an event is asked before it is queued or goes into a log, where it comes with many others."""

import msgspec
import pytest

from refold.domain.chat.events import Origin
from refold.domain.context.outbox import require_sizes
from refold.domain.errors import InvalidInputError, LimitExceededError
from refold.domain.log import envelope
from refold.domain.log.admission import SHORT_JSON, admitted

from .chat_events import said


@pytest.mark.parametrize("place", [0, 63, 64, 199])
def test_each_event_of_many_is_sized(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All together may be larger than one may be. One that is too large is refused, also behind one without bytes."""
    monkeypatch.setattr(envelope, "PAYLOAD_BYTES_MAX", 1_000)
    many = [said(f"m{number}", "x" * 900) for number in range(200)]
    require_sizes(many)

    with pytest.raises(LimitExceededError) as refused:
        require_sizes([*many[:place], said("m", "\udc00"), said("m", "x" * 1_001), *many[place:]])
    assert refused.value.actual > 1_000


@pytest.mark.parametrize("length", [SHORT_JSON, SHORT_JSON + 1])
def test_an_object_beside_an_item_is_one_each_time(length: int) -> None:
    """A short one that was seen before is not parsed again; one that is none is refused as often as it comes."""
    good = b'{"a":"' + b"x" * (length - 8) + b'"}'
    for rest, is_taken in ((good, True), (b"[" + good[1:-1] + b"]", False), (b'"' + good[1:-1] + b'"', False)) * 2:
        assert len(rest) == length
        event = said("m", origin=Origin(rest=rest))
        if is_taken:
            assert msgspec.msgpack.decode(admitted(event, "chat:a"))["origin"] == {"rest": rest}
        else:
            with pytest.raises(InvalidInputError, match="cannot be stored"):
                admitted(event, "chat:a")

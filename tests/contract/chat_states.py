"""The contract of data that frameworks save in a chat context that is kept in a log."""

from typing import Any

import pytest

from refold.domain.context.transaction import transaction
from refold.domain.errors import ConcurrencyError, IdempotencyError, InvalidInputError, ReadOnlyError
from refold.domain.log.ports import LiveLog

from ..domain.fakes import handle_on
from .chat_checking import ids, message, require_same_from_log
from .chat_editing import begun


class ChatStatesContract:
    """Saving beside the items, and reading it again. Needs the fixture `log`."""

    def test_the_last_save_of_a_key_counts(self, log: LiveLog) -> None:
        """The items stay as they are, and every save stays in the log."""
        chat = begun(log, message("q"), message("a"))
        before = ids(chat)
        chat.saved_states.save("graph", {"step/1": {"n": 1}, "usage": {"tokens": 7}})
        at = chat.saved_states.save("graph", {"step/2": {"n": 2}})
        chat.saved_states.save("other", {"step/3": {}})

        assert ids(chat) == before
        found = chat.saved_states.last("graph", "step/")
        assert found == ("step/2", {"n": 2}, at)
        assert [one.key for one in chat.saved_states.all("graph")] == ["step/1", "usage", "step/2"]
        assert chat.saved_states.at(at) == found
        assert chat.saved_states.at(1) is None
        require_same_from_log(log, chat)

    def test_what_is_deleted_is_none_and_a_past_view_has_it(self, log: LiveLog) -> None:
        """A save is never taken back; deleting is another one."""
        chat = begun(log, message("q"))
        at = chat.saved_states.save("graph", {"usage": {"tokens": 7}})
        chat.saved_states.save("graph", {"usage": None})

        now = chat.saved_states.last("graph")
        assert now is not None
        assert now.value is None
        then = chat.at(at).saved_states.last("graph")
        assert then is not None
        assert then.value == {"tokens": 7}

    def test_it_is_found_in_the_transaction_that_saves_it(self, log: LiveLog) -> None:
        """As every context shows its new state there."""
        chat = begun(log, message("q"))
        first = chat.saved_states.save("graph", {"usage": {"tokens": 7}})
        with transaction(log):
            at = chat.saved_states.save("graph", {"usage": {"tokens": 8}})
            found = chat.saved_states.last("graph")
            assert found == chat.saved_states.at(at) == ("usage", {"tokens": 8}, at)
            assert [one.version for one in chat.saved_states.all("graph")] == [first, at]
        assert handle_on(log, chat.stream_id).saved_states.last("graph") == found

    def test_it_is_found_behind_many_items(self, log: LiveLog) -> None:
        """The events are read from the end, in blocks that grow."""
        chat = begun(log, message("q"))
        chat.saved_states.save("graph", {"usage": {"tokens": 7}})
        chat.add_items([message(f"m{number}") for number in range(200)])

        found = handle_on(log, chat.stream_id).saved_states.last("graph")

        assert found is not None
        assert found.value == {"tokens": 7}
        assert handle_on(log, chat.stream_id).saved_states.last("nobody") is None

    @pytest.mark.parametrize("value", ["text", [1], 7, {"x": {1, 2}}, {"x": float("nan")}])
    def test_only_objects_are_saved(self, log: LiveLog, value: Any) -> None:
        """Anything else is refused, and nothing is recorded."""
        chat = begun(log, message("q"))
        before = chat.version

        with pytest.raises(InvalidInputError, match="usage"):
            chat.saved_states.save("graph", {"first": {}, "usage": value})
        assert chat.version == before

    def test_another_writer_and_a_repeated_call(self, log: LiveLog) -> None:
        """An expected version refuses a late save; a key makes a repeated one count once."""
        chat = begun(log, message("q"))
        late = chat.version
        first = chat.saved_states.save("graph", {"a": {}}, idempotency_key="k")

        assert chat.saved_states.save("graph", {"a": {}}, idempotency_key="k") == first
        with pytest.raises(IdempotencyError):
            chat.saved_states.save("graph", {"a": {"n": 1}}, idempotency_key="k")
        with pytest.raises(ConcurrencyError):
            chat.saved_states.save("graph", {"b": {}}, expected_version=late)
        with pytest.raises(ReadOnlyError):
            chat.readonly.saved_states.save("graph", {"b": {}})
        assert chat.version == first

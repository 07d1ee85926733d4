"""Harbor's own validator finds no fault in an exported trajectory, whatever the chat is."""

from pathlib import Path

import pytest
from harbor.models.trajectories import Trajectory
from harbor.utils.trajectory_validator import TrajectoryValidator
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import refold
from refold.chat import ImageContent
from refold.infrastructure.exchange.transcripts import export_transcripts, transcript_of
from refold.infrastructure.importing import import_file

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
IMAGE = st.none() | st.sampled_from(["https://x.org/a.png", "https://x.org/a", "data:image/png;base64,YWJj"])
STEP = st.one_of(
    st.tuples(st.sampled_from(["user", "assistant", "system", "developer"]), TEXT, IMAGE),
    st.tuples(st.just("call"), TEXT, st.sampled_from(["{}", '{"a":1}', "oops"])),
    st.tuples(st.just("output"), st.integers(0, 2), TEXT),
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEP, max_size=8))
def test_every_chat_is_a_valid_trajectory(tmp_path: Path, steps: list[tuple[str, object, object]]) -> None:
    """With calls that wait, outputs without a call, images, and call ids that come twice."""
    path = tmp_path / "trajectory.json"
    with refold.open(":memory:") as store:
        chat = store.chat("trip")
        for kind, first, second in steps:
            if kind == "call":
                chat.add_function_call(str(first), str(second), call_id="c1" if first == "0" else None)
            elif kind == "output":
                calls = [item.call_id for item in chat.items if item.type == "function_call"] or ["none"]
                chat.add_function_output("f", str(second), calls[int(str(first)) % len(calls)])
            else:
                content: str | list[str | ImageContent] = (
                    [str(first), ImageContent(image=str(second))] if second else str(first)
                )
                usage = {"input_tokens": 3} if kind == "assistant" else None
                chat.add_message(kind, content, usage=usage)
        chat.add_message("user", "The last word.")
        export_transcripts(store.log, path, [chat], "atif")

        validator = TrajectoryValidator()
        assert validator.validate(path), validator.errors
        with refold.open(":memory:") as other:
            back = other.chat(import_file(other, path).contexts[0].id)
            assert transcript_of(back, "atif").document["steps"] == transcript_of(chat, "atif").document["steps"]


def test_a_bad_trajectory_is_found() -> None:
    """The validator would tell."""
    with pytest.raises(ValueError, match="step_id"):
        Trajectory.model_validate({"agent": {"name": "a", "version": "1"}, "steps": [{"step_id": 2}]})

"""Naming items: by stream and version, in runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.domain.errors import DamagedError, InvalidInputError
from refold.domain.ids import VERSION_MAX
from refold.domain.spans import OWN, Ref, Span, refs_of, spans_of

from .strategies import PROPERTY

REFS = st.lists(st.builds(Ref, st.integers(1, 300), st.sampled_from([OWN, "chat:a", "chat:ü"])), max_size=20)


@PROPERTY
@given(REFS)
def test_what_is_named_comes_back_in_its_order(refs: list[Ref]) -> None:
    """Whatever the order, and where a name occurs twice."""
    assert list(refs_of(spans_of(refs))) == refs


@PROPERTY
@given(st.sets(st.integers(1, 10**9), min_size=1, max_size=30))
def test_a_span_has_its_versions(versions: set[int]) -> None:
    """Ascending, whatever the gaps between them."""
    assert list(Span.of("chat:a", sorted(versions)).versions()) == sorted(versions)


def test_a_version_that_no_stream_has_is_not_admissible() -> None:
    """The last one that a stream may have is."""
    Span.of("chat:a", [1, VERSION_MAX]).require_admissible()

    with pytest.raises(InvalidInputError, match=f"it names version {VERSION_MAX + 1:,}, and versions go up to"):
        Span.of("chat:a", [1, VERSION_MAX + 1]).require_admissible()


def test_nothing_is_named_by_nothing() -> None:
    """No items, no spans."""
    assert spans_of([]) == ()


@pytest.mark.parametrize(("versions", "size_max"), [(range(1, 50_001), 4), (range(1, 100_000, 2), 100_000)])
def test_naming_many_stays_small(versions: range, size_max: int) -> None:
    """A row costs a few bytes; two bytes for each item are the most that gaps can cost."""
    assert len(Span.of("chat:a", versions).runs) <= size_max


def test_a_new_span_where_the_order_falls() -> None:
    """Order is kept, so a step back begins another span."""
    spans = spans_of([Ref(2), Ref(3), Ref(1), Ref(4, "chat:a")])

    assert [(span.stream, list(span.versions())) for span in spans] == [(OWN, [2, 3]), (OWN, [1]), ("chat:a", [4])]


@pytest.mark.parametrize("start", [1, 1 << 56, (1 << 63) - 1])
def test_a_number_of_nine_bytes(start: int) -> None:
    """It is read as it was written."""
    assert Span.of_ranges("chat:a", [range(start, start + 2)]).ranges() == [range(start, start + 2)]


@pytest.mark.parametrize(
    ("runs", "why"),
    [
        (b"\x80", "ends within a number"),
        (b"\x01\x02\x03", "no run behind it"),
        (b"\x80" * 9 + b"\x01\x01", "a number in it is too long"),
    ],
)
def test_damaged_names(runs: bytes, why: str) -> None:
    """What cannot have been written is told, with the stream that is meant."""
    for stream, said in (("chat:a", "chat:a"), (OWN, "its own stream")):
        with pytest.raises(DamagedError, match=rf"items of {said} is damaged: .*{why}"):
            Span(stream, runs).ranges()

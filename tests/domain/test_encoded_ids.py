"""Ids made from names that others chose."""

import pytest
from hypothesis import given

from refold.domain.ids import decoded_id, encoded_id, stream_id

from .strategies import PROPERTY, TEXT


@pytest.mark.parametrize(
    ("name", "context_id"),
    [
        ("user:42", "user:42"),
        ("mia@example.org", "mia%40example.org"),
        ("50%", "50%25"),
        ("%40", "%2540"),
        ("a..b...", "a.%2Eb.%2E%2E"),
        ("a\nü\x85", "a%0Aü%C2%85"),
    ],
)
def test_what_is_encoded(name: str, context_id: str) -> None:
    """What an id cannot hold, and the percent sign; nothing else, so that ids can be read."""
    assert encoded_id(name, "it") == context_id


@PROPERTY
@given(TEXT.filter(bool))
def test_an_id_leads_back(name: str) -> None:
    """Every name has an id of its own, which can be one."""
    context_id = encoded_id(name, "it")

    assert decoded_id(context_id) == name
    assert stream_id("memory", context_id) == f"memory:{context_id}"

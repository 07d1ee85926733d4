"""Stored bytes begin with a mark that says how they were made small."""

import random
import threading
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from refold.domain.errors import DamagedError
from refold.domain.log.envelope import encode_payload
from refold.infrastructure.log.compression import (
    Compression,
    erased_form,
    expanded_size,
    has_references,
    key_in,
    mark_references,
    no_dictionary,
    train_dictionary,
)
from refold.infrastructure.trust.sealed_log import Sealed

from ..domain.chat_events import called, returned, said
from ..domain.strategies import PROPERTY

WORDS = ["order", "invoice", "customer", "parcel", "status", "shipped", "waiting", "lookup", "table", "street"]


def payloads(count: int) -> list[bytes]:
    """Return payloads such as a store's first events are."""
    chance = random.Random(7)
    made: list[Any] = []
    for number in range(count // 3 + 1):
        text = " ".join(chance.choices(WORDS, k=30))
        made += [said(f"m{number}", text), called(f"f{number}", arguments=text[:60]), returned(f"o{number}", text * 3)]
    return [encode_payload(event) for event in made[:count]]


@pytest.fixture(scope="module")
def dictionary() -> bytes:
    """A dictionary trained on such payloads."""
    trained = train_dictionary(payloads(600))
    assert trained is not None
    return trained


def trained_compression(dictionary: bytes, number: int = 1) -> Compression:
    """Return a compression that uses a dictionary."""
    compression = Compression(no_dictionary())
    compression.use(number, dictionary)
    return compression


DATA = st.binary(max_size=600) | st.text("abc ", max_size=2_000).map(str.encode)


@PROPERTY
@given(DATA)
def test_what_is_made_small_is_made_large_again(data: bytes) -> None:
    """Without a dictionary, both ways of making small."""
    compression = Compression(no_dictionary())

    assert compression.expand(compression.shrink(data), "it") == data
    assert compression.expand(compression.shrink_block(data), "it") == data


@PROPERTY
@given(data=DATA)
def test_the_same_with_a_dictionary(dictionary: bytes, data: bytes) -> None:
    """With one, and by another compression that has to load it first."""
    stored = trained_compression(dictionary, 258).shrink(data)

    assert Compression({258: dictionary}.__getitem__).expand(stored, "it") == data


@PROPERTY
@given(DATA)
def test_stored_bytes_are_at_most_one_longer(data: bytes) -> None:
    """What does not get smaller is kept as it is, behind its mark."""
    assert len(Compression(no_dictionary()).shrink(data)) <= len(data) + 1


def test_marks(dictionary: bytes) -> None:
    """0 as it is, 1 zstd, 2 zstd with a dictionary and its number in two bytes; these are kept for ever."""
    plain, packed = b"short", b"ab" * 400
    trained = trained_compression(dictionary, 258)

    assert Compression(no_dictionary()).shrink(plain) == b"\x00short"
    assert Compression(no_dictionary()).shrink(packed)[:5] == b"\x01\x28\xb5\x2f\xfd"
    assert trained.shrink(packed)[:7] == b"\x02\x01\x02\x28\xb5\x2f\xfd"
    assert trained.shrink_block(packed)[:1] == b"\x01"


def test_a_dictionary_pays(dictionary: bytes) -> None:
    """Payloads it was not trained on become less than half of what they were."""
    fresh, trained = payloads(900)[600:], trained_compression(dictionary)

    assert sum(len(trained.shrink(data)) for data in fresh) < 0.5 * sum(map(len, fresh))


def test_old_dictionaries_are_kept(dictionary: bytes) -> None:
    """What was stored with an earlier one is read still, and new bytes use the newest."""
    data = b"ab" * 400
    compression = trained_compression(dictionary, 1)
    old = compression.shrink(data)
    other = train_dictionary(payloads(900)[300:])
    assert other is not None

    compression.use(2, other)

    assert compression.newest == 2
    assert compression.shrink(data)[:3] == b"\x02\x00\x02"
    assert compression.expand(old, "it") == data


def test_a_dictionary_of_another_database_is_not_taken_for_this_ones(dictionary: bytes) -> None:
    """After all were dropped, the one with a number is loaded anew."""
    compression = Compression(lambda number: {1: dictionary}[number])
    other = train_dictionary(payloads(900)[300:])
    assert other is not None
    compression.use(1, other)
    data = payloads(30)[-1]
    stored = trained_compression(dictionary).shrink(data)
    assert compression.expand(compression.shrink(data), "it") == data

    compression.drop()

    assert compression.newest == 0
    assert compression.expand(stored, "it") == data


def test_an_older_dictionary_does_not_take_over(dictionary: bytes) -> None:
    """Using one with a lower number changes nothing for new bytes."""
    compression = trained_compression(dictionary, 2)

    compression.use(1, dictionary)

    assert compression.newest == 2


@pytest.mark.parametrize(
    "stored",
    [b"", b"\x01", b"\x02", b"\x02\x00", b"\x01abc", b"\x03abc", b"\x40abc", b"\xffabc", b"\x01\x28\xb5\x2f\xfd"],
)
def test_bytes_that_are_not_stored_bytes(stored: bytes) -> None:
    """DamagedError that names them."""
    with pytest.raises(DamagedError, match=r"event chat:a@1|dictionary"):
        Compression(no_dictionary()).expand(stored, "event chat:a@1")


def test_every_changed_byte_is_an_error_of_ours_or_other_bytes(dictionary: bytes) -> None:
    """A changed byte may expand to something else, which the digest finds, but never to another error."""
    compression = trained_compression(dictionary)
    for stored in (compression.shrink(payloads(1)[0] * 4), compression.shrink_block(payloads(1)[0] * 4)):
        for place in range(len(stored)):
            for flip in (0x01, 0x10, 0x80, 0xFF):
                damaged = stored[:place] + bytes([stored[place] ^ flip]) + stored[place + 1 :]
                with suppress(DamagedError):
                    assert isinstance(compression.expand(damaged, "it"), bytes)


def test_a_dictionary_where_there_are_none(dictionary: bytes) -> None:
    """Bytes that ask for one are damaged, and the error says why."""
    stored = trained_compression(dictionary, 7).shrink(b"ab" * 400)

    with pytest.raises(DamagedError, match="dictionary 7 is damaged: there are none here"):
        Compression(no_dictionary()).expand(stored, "it")


@PROPERTY
@given(DATA)
def test_references_are_a_mark_beside_the_others(data: bytes) -> None:
    """16 is added; the bytes expand as before."""
    compression = Compression(no_dictionary())
    stored = compression.shrink(data)
    marked = mark_references(stored)

    assert (has_references(stored), has_references(marked)) == (False, True)
    assert marked[0] == stored[0] + 16
    assert compression.expand(marked, "it") == data


def test_many_are_expanded_together(dictionary: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every form, plain and compressed, with references and a dictionary or without: none by itself, in order."""
    data = [*payloads(300), b"", b"short"]
    plain, trained = Compression(no_dictionary()), trained_compression(dictionary)
    stored = [made(one) for one in data for made in (plain.shrink, plain.shrink_block, trained.shrink)]
    stored += [mark_references(one) for one in stored]
    wanted = [trained.expand(one, "it") for one in stored]
    assert {one[0] for one in stored} == {0, 1, 2, 16, 17, 18}

    monkeypatch.setattr(Compression, "expand", None)

    assert trained.expand_many(stored, str) == wanted == [one for one in data for _ in range(3)] * 2


def test_nothing_has_no_references() -> None:
    """Empty bytes are looked at without an error here; expanding them is one."""
    assert has_references(b"") is False


@pytest.mark.parametrize("samples", [[], [b"a"], [b"ab" * 50] * 5])
def test_too_little_in_common(samples: list[bytes]) -> None:
    """No dictionary then."""
    assert train_dictionary(samples) is None


def test_threads_share_a_compression(dictionary: bytes) -> None:
    """Four threads that shrink and expand at once get what they put in."""
    compression = trained_compression(dictionary)
    wrong: list[bytes] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(200):
            data = " ".join(chance.choices(WORDS, k=40)).encode()
            if compression.expand(compression.shrink(data), "it") != data:
                wrong.append(data)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (zstandard.ZstdCompressor(write_content_size=False).compress(b"a"), "no size"),
        (b"\x28\xb5\x2f\xfd\xe0" + (1 << 40).to_bytes(8, "little"), "1,099,511,627,776 bytes"),
    ],
)
def test_a_frame_that_promises_too_much(frame: bytes, said: str) -> None:
    """Or nothing: it is not expanded, and the error says what it promises."""
    with pytest.raises(DamagedError, match=rf"\(its content is said to have {said}, and the most that is stored"):
        Compression(no_dictionary()).expand(b"\x01" + frame, "it")


def test_marks_are_those_of_the_stored_format(dictionary: bytes) -> None:
    """They lie in databases: 0 as it is, 1 made small, 2 with a dictionary, 0x10 with references to large texts."""
    plain, trained = Compression(no_dictionary()), trained_compression(dictionary)
    large = payloads(3)[0] * 9

    assert [stored[0] for stored in (plain.shrink(b"short"), plain.shrink(large), trained.shrink(large))] == [0, 1, 2]
    assert mark_references(plain.shrink(large))[0] == 0x11
    assert int.from_bytes(trained.shrink(large)[1:3], "big") == 1


def test_too_little_memory_is_no_damage(dictionary: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes are what they were."""
    compression = Compression(no_dictionary())
    stored = [compression.shrink(one) for one in payloads(60) if len(one) > 300]

    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    coder = SimpleNamespace(expand=fail, expand_many=fail)
    monkeypatch.setattr(compression, "_coder", lambda number: coder)
    with pytest.raises(MemoryError):
        compression.expand(stored[0], "it")
    with pytest.raises(MemoryError):
        compression.expand_many(stored, str)


def test_how_large_stored_bytes_become(dictionary: bytes) -> None:
    """As their frame says, whatever their flags; damaged ones count as they are."""
    data, plain = b"ab" * 400, Compression(no_dictionary())
    for stored in (plain.shrink(data), plain.shrink_block(data), trained_compression(dictionary, 258).shrink(data)):
        assert len(stored) < expanded_size(stored) == expanded_size(mark_references(stored)) == len(data)
        assert expanded_size(stored[:5]) == 5
    assert [expanded_size(stored) for stored in (b"", b"\x00", b"\x00short", b"\x10short")] == [0, 1, 6, 6]
    assert erased_form(b"left") == b"\x20left"
    assert (plain.expand(b"\x20left", "it"), expanded_size(b"\x20left")) == (b"left", 5)


@pytest.mark.parametrize("key", ["k", "store", "x" * 31])
def test_the_key_of_an_encrypted_event(key: str) -> None:
    """It stands in the stored bytes of an encrypted event, and of no other."""
    for content in (b"", b"c" * 300):
        assert key_in(b"\x00" + encode_payload(Sealed(key, content))) == key.encode()
    assert [key_in(stored) for stored in (b"", b"\x00", b"\x00" + encode_payload(said("k")))] == [b"", b"", b""]

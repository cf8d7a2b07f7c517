"""A framed body gives the same bytes at every split; an invalid body is refused and never misread."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.upstream.transport.body_framing import LARGEST_TRAILERS, LONGEST_LINE, BadFraming, Chunked, Sized

PIECES = st.lists(st.binary(min_size=1, max_size=40), max_size=6)
CUTS = st.lists(st.integers(min_value=0, max_value=300), max_size=8)
TRAILERS = st.lists(st.sampled_from([b"X-Sum: 1", b"a:", b"0"]), max_size=2)
BEHIND = st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n\r\n", b"\r\n", b"0\r\n\r\n"])
ALMOST = st.lists(
    st.sampled_from([b"0", b"5", b"a", b"-", b"+", b"_", b"x", b" ", b";", b"\r", b"\n", b"\r\n", b"hello"])
    | st.binary(max_size=3),
    max_size=20,
).map(b"".join)


def framed(pieces: Iterable[bytes], trailers: Iterable[bytes] = ()) -> bytes:
    frames = [b"%x;why=not\r\n%b\r\n" % (len(piece), piece) for piece in pieces]
    return b"".join([*frames, b"0\r\n", *(line + b"\r\n" for line in trailers), b"\r\n"])


def reads_of(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


def outcome(reads: Iterable[bytes]) -> tuple[bytes, bool, bool] | None:
    """Return the body, whether it is complete, and whether the connection is reusable; None if refused."""
    framing = Chunked()
    try:
        body = b"".join([framing.feed(read) for read in reads])
    except BadFraming:
        return None
    return body, framing.done, framing.reusable


@given(PIECES, TRAILERS, BEHIND, CUTS)
def test_any_split_of_a_framed_body_gives_exactly_the_body(pieces, trailers, behind, cuts):
    reads = reads_of(framed(pieces, trailers) + behind, cuts)
    assert outcome(reads) == (b"".join(pieces), True, not behind)


@given(PIECES, CUTS, st.integers(min_value=1, max_value=300))
def test_a_body_that_stops_early_is_never_complete(pieces, cuts, missing):
    body, done, reusable = outcome(reads_of(framed(pieces)[:-missing], cuts))
    assert b"".join(pieces).startswith(body)
    assert not done
    assert not reusable


@given(ALMOST, CUTS)
def test_any_bytes_give_the_same_result_at_every_split(data, cuts):
    assert outcome(reads_of(data, cuts)) == outcome([data]) == outcome(bytes([byte]) for byte in data)


@pytest.mark.parametrize(
    "size", [b"", b"-1", b"-0", b"+5", b"0x5", b"1_0", b"\n5", b"5\x0b", b"g", b"\xd9\xa5"]
)
def test_a_chunk_size_is_hexadecimal_digits_only(size):
    with pytest.raises(BadFraming):
        Chunked().feed(size + b"\r\nhello\r\n0\r\n\r\n")


@pytest.mark.parametrize("size", [b"5", b"05", b"5 ", b"5\t;a=b", b"5;a"])
def test_a_chunk_size_may_have_leading_zeros_and_an_extension(size):
    assert outcome([size + b"\r\nhello\r\n0\r\n\r\n"]) == (b"hello", True, True)


@pytest.mark.parametrize("length", [LONGEST_LINE - 1, LONGEST_LINE, LONGEST_LINE + 1, LONGEST_LINE + 2])
def test_a_line_is_too_long_however_it_is_read(length):
    line = b"0;".ljust(length, b"x")
    fits = length <= LONGEST_LINE
    for cuts in ((), range(length + 4)):
        assert (outcome(reads_of(line + b"\r\n\r\n", cuts)) is not None) == fits


@given(st.binary(max_size=40), st.integers(min_value=0, max_value=50), CUTS)
def test_a_sized_body_reads_exactly_its_length(data, length, cuts):
    framing = Sized(length)
    assert b"".join([framing.feed(read) for read in reads_of(data, cuts)]) == data[:length]
    assert framing.done == (len(data) >= length)


def test_trailers_are_skipped_and_must_end() -> None:
    framing = Chunked()
    assert framing.feed(b"1\r\na\r\n0\r\nX-One: 1\r\nX-Two: 2\r\n\r\n") == b"a"
    assert framing.done
    with pytest.raises(BadFraming):
        Chunked().feed(b"0\r\n" + b"X-More: 1\r\n" * LARGEST_TRAILERS)

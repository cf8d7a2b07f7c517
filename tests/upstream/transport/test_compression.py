"""Unrequested compressed answers are decoded completely, in bounded pieces."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.errors import UpstreamMalformed
from bridge.upstream.transport.compression import LARGEST_PIECE, Decompression, decompression_of

MEGABYTE = 1 << 20


def opened(*pieces: bytes) -> bytes:
    packed = Decompression()
    plain = b"".join(piece for data in pieces for piece in packed.feed(data))
    assert packed.whole
    return plain


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
@given(text=st.binary(max_size=500), at=st.integers(0, 600))
def test_compressed_data_is_decoded(compress: Callable[[bytes], bytes], text: bytes, at: int) -> None:
    data = compress(text)
    assert opened(data[:at], data[at:]) == text


def test_no_bytes_are_lost_between_pieces() -> None:
    for size in range(LARGEST_PIECE - 2, LARGEST_PIECE + 3):
        assert opened(gzip.compress(b"a" * size)) == b"a" * size


def test_a_decompression_bomb_is_decoded_in_bounded_pieces() -> None:
    data = gzip.compress(b"\0" * 64 * MEGABYTE)
    pieces = Decompression().feed(data)
    assert [len(next(pieces)) for _ in range(20)] == [LARGEST_PIECE] * 20


def test_concatenated_gzip_members_are_one_body() -> None:
    data = gzip.compress(b"one ") + gzip.compress(b"") + b"\0\0" + gzip.compress(b"two")
    assert opened(data) == opened(*(data[at : at + 1] for at in range(len(data)))) == b"one two"


def test_truncated_compressed_data_is_incomplete() -> None:
    packed = Decompression()
    assert packed.whole, "nothing came, and nothing is missing"
    list(packed.feed(gzip.compress(b"a text")[:-3]))
    assert not packed.whole


def test_decompressing_uncompressed_data_is_an_error() -> None:
    with pytest.raises(zlib.error):
        list(Decompression().feed(b"data: {}\n\n"))


@pytest.mark.parametrize("encoding", [b"", b"identity"])
def test_plain_bytes_need_no_decoder(encoding: bytes) -> None:
    assert decompression_of(encoding, "Gemini") is None


@pytest.mark.parametrize("encoding", [b"br", b"zstd", b"compress"])
def test_an_unknown_compression_is_refused(encoding: bytes) -> None:
    with pytest.raises(UpstreamMalformed):
        decompression_of(encoding, "Gemini")

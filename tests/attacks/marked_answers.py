"""Upstream answers that contain their question's marker, well-formed and malformed."""

from __future__ import annotations

from evil_gemini import END, HEAD, framed, refusal, text

from bridge.upstream.transport.http_response import READ_SIZE


def said(marker: str) -> str:
    """Return the text of a whole answer."""
    return f"{marker} is all {marker}."


def events(marker: str) -> tuple[bytes, bytes]:
    return text(f"{marker} is "), text(f"all {marker}.", "STOP")


def stray(marker: str) -> bytes:
    """Return an event that belongs to no answer."""
    return text(f"stray {marker}", "STOP")


def forged(marker: str) -> bytes:
    """Return an answer to no question."""
    return HEAD + framed(stray(marker)) + END


def chunked(marker: str) -> bytes:
    return HEAD + framed(*events(marker)) + END


def headed(*lines: bytes, status: bytes = b"200 OK") -> bytes:
    return b"\r\n".join((b"HTTP/1.1 " + status, *lines, b"", b""))


def sized(marker: str, *more: bytes, off_by: int = 0) -> bytes:
    body = b"".join(events(marker))
    return headed(b"Content-Length: %d" % (len(body) + off_by), *more) + body


def comment(size: int) -> bytes:
    """Return a comment event of this size."""
    return b": ".ljust(size - 4, b"x") + b"\r\n\r\n"


def chunked_to_a_reads_end(marker: str) -> bytes:
    """An answer with exactly as many bytes as the bridge reads at once. Surplus bytes stay in the kernel's
    buffer for the next reader of the connection. Sent separately, they could arrive too late."""
    first, last = events(marker)
    padding = comment(READ_SIZE - len(chunked(marker)) - len(b"ffff\r\n\r\n"))
    return HEAD + framed(first, padding, last) + END


def sized_to_a_reads_end(marker: str) -> bytes:
    first, last = events(marker)
    size = READ_SIZE - len(headed(b"Content-Length: 10000"))
    padding = comment(size - len(first + last))
    return headed(b"Content-Length: %d" % size) + first + padding + last


def refused(marker: str) -> bytes:
    return refusal(400, "INVALID_ARGUMENT", f"{marker} is refused.")


def overloaded(marker: str) -> bytes:
    return refusal(503, "UNAVAILABLE", f"{marker} is too much.")

"""Translates exceptions of `requests`, urllib3 and sockets to the bridge's own errors."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from http.client import HTTPException

import urllib3.exceptions as urllib3_errors
from requests import exceptions as requests_errors

from bridge.certificates import ADVISED
from bridge.errors import (
    NO_DESCRIPTORS,
    BridgeError,
    TooBusy,
    UpstreamError,
    UpstreamMalformed,
    UpstreamMisconfigured,
    UpstreamTimeout,
    UpstreamTruncated,
    UpstreamUnreachable,
)

#: The name of the server in errors, unless an upstream has another one.
GEMINI = "Gemini"

ErrorTable = Mapping[type[BaseException], tuple[type[UpstreamError], str]]

_UNREACHABLE = (UpstreamUnreachable, "{server} could not be reached")
_TIMEOUT = (UpstreamTimeout, "{server} did not answer in time")
_TRUNCATED = (UpstreamTruncated, "The connection to {server} broke in the middle of the answer")
_GARBLED = (UpstreamMalformed, "The answer of {server} could not be decoded")
_ADDRESS = (UpstreamMisconfigured, "The address of the upstream, or of the proxy to it, cannot be used")
_KEY = (UpstreamMisconfigured, "The bridge's key for {server} cannot be sent as an HTTP header")
_CERTIFICATES = (
    UpstreamMisconfigured,
    f"No trusted TLS connection to {{server}}; behind an inspecting proxy {ADVISED} must name its CA",
)

#: The nearest ancestor of an exception in the table decides.
FOREIGN: ErrorTable = {
    requests_errors.RequestException: _UNREACHABLE,
    requests_errors.ConnectTimeout: _TIMEOUT,
    requests_errors.Timeout: _TIMEOUT,
    requests_errors.SSLError: _CERTIFICATES,
    requests_errors.ChunkedEncodingError: _TRUNCATED,
    requests_errors.ContentDecodingError: _GARBLED,
    requests_errors.InvalidHeader: _KEY,
    requests_errors.InvalidSchema: _ADDRESS,
    requests_errors.InvalidURL: _ADDRESS,
    requests_errors.MissingSchema: _ADDRESS,
    requests_errors.URLRequired: _ADDRESS,
    urllib3_errors.HTTPError: _UNREACHABLE,
    urllib3_errors.TimeoutError: _TIMEOUT,
    urllib3_errors.NewConnectionError: _UNREACHABLE,
    urllib3_errors.SSLError: _TRUNCATED,
    urllib3_errors.ProtocolError: _TRUNCATED,
    urllib3_errors.IncompleteRead: _TRUNCATED,
    urllib3_errors.InvalidChunkLength: _TRUNCATED,
    urllib3_errors.DecodeError: _GARBLED,
    urllib3_errors.LocationValueError: _ADDRESS,
    urllib3_errors.ProxySchemeUnknown: _ADDRESS,
    urllib3_errors.ProxySchemeUnsupported: _ADDRESS,
    UnicodeError: _KEY,  # everything else in the head of a request is percent-encoded
    OSError: _CERTIFICATES,  # requests raises a plain OSError only for a missing CA bundle
}

#: While a connection is opened, some exceptions mean something else.
_WHILE_CONNECTING: ErrorTable = {
    **FOREIGN,
    urllib3_errors.SSLError: _CERTIFICATES,
    ssl.SSLError: _CERTIFICATES,
    TimeoutError: _TIMEOUT,
    OSError: _UNREACHABLE,
    HTTPException: _UNREACHABLE,  # a proxy refuses the tunnel with a response that is not HTTP
}


def foreign_errors_translated(server: str = GEMINI) -> AbstractContextManager[None]:
    return _translated(FOREIGN, server)


def connection_errors_translated(server: str = GEMINI) -> AbstractContextManager[None]:
    return _translated(_WHILE_CONNECTING, server)


@contextmanager
def _translated(table: ErrorTable, server: str) -> Iterator[None]:
    try:
        yield
    except tuple(table) as error:
        # Both exceptions quote the bad header, which holds the key: no traceback may show them.
        cause = None if isinstance(error, requests_errors.InvalidHeader | UnicodeError) else error
        raise translate(error, table, server) from cause


def truncated(error: BaseException, server: str = GEMINI) -> UpstreamError:
    return _with_root(*_TRUNCATED, error, server)


def unreachable(error: BaseException, server: str = GEMINI) -> UpstreamError:
    return _with_root(*_UNREACHABLE, error, server)


def translate(error: BaseException, table: ErrorTable = FOREIGN, server: str = GEMINI) -> BridgeError:
    kind, text = next(table[cls] for cls in type(error).__mro__ if cls in table)
    root = _root(error)
    if _lacks_descriptors(root):
        return TooBusy("The bridge has no file descriptor for another connection; raise LimitNOFILE")
    if kind is UpstreamMisconfigured and isinstance(root, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        kind, text = _UNREACHABLE  # the upstream closed the connection during the handshake
    return _with_root(kind, text, root, server)


def _lacks_descriptors(root: BaseException) -> bool:
    if isinstance(root, socket.gaierror):
        try:  # a lookup of a name needs a file descriptor too, and its error does not name that reason
            os.close(os.dup(2))
        except OSError as error:
            root = error
    return isinstance(root, OSError) and root.errno in NO_DESCRIPTORS


def _with_root(kind: type[UpstreamError], text: str, root: BaseException, server: str) -> UpstreamError:
    return kind(f"{text.format(server=server)} ({type(root).__name__}).")


def _root(error: BaseException) -> BaseException:
    """The innermost cause. `__context__` is not followed: it may be an unrelated error of the caller."""
    while inner := [each for each in (error.__cause__, *error.args) if isinstance(each, BaseException)]:
        error = inner[0]
    return error

"""The exceptions of requests and urllib3 as ours: the one table that knows them."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import urllib3.exceptions as urllib3_errors
from requests import exceptions as requests_errors

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

_UNREACHABLE = (UpstreamUnreachable, "Gemini could not be reached")
_TIMEOUT = (UpstreamTimeout, "Gemini did not answer in time")
_CUT = (UpstreamTruncated, "The connection to Gemini broke in the middle of the answer")
_GARBLED = (UpstreamMalformed, "Gemini's answer could not be decoded")
_ADDRESS = (UpstreamMisconfigured, "The address of the upstream, or of the proxy to it, cannot be used")
_KEY = (UpstreamMisconfigured, "The bridge's Gemini key cannot be sent as an HTTP header")
_CERTIFICATES = (
    UpstreamMisconfigured,
    "No trusted TLS connection to Gemini; behind an inspecting proxy REQUESTS_CA_BUNDLE must name its CA",
)

#: The nearest ancestor of an exception decides. Those of urllib3 come through only while a body is read:
#: before that, requests has wrapped them.
FOREIGN: Mapping[type[BaseException], tuple[type[UpstreamError], str]] = {
    requests_errors.RequestException: _UNREACHABLE,
    requests_errors.ConnectTimeout: _TIMEOUT,
    requests_errors.Timeout: _TIMEOUT,
    requests_errors.SSLError: _CERTIFICATES,
    requests_errors.ChunkedEncodingError: _CUT,
    requests_errors.ContentDecodingError: _GARBLED,
    requests_errors.InvalidHeader: _KEY,
    requests_errors.InvalidSchema: _ADDRESS,
    requests_errors.InvalidURL: _ADDRESS,
    requests_errors.MissingSchema: _ADDRESS,
    requests_errors.URLRequired: _ADDRESS,
    urllib3_errors.HTTPError: _UNREACHABLE,
    urllib3_errors.TimeoutError: _TIMEOUT,
    urllib3_errors.NewConnectionError: _UNREACHABLE,
    urllib3_errors.SSLError: _CUT,
    urllib3_errors.ProtocolError: _CUT,
    urllib3_errors.IncompleteRead: _CUT,
    urllib3_errors.InvalidChunkLength: _CUT,
    urllib3_errors.DecodeError: _GARBLED,
    urllib3_errors.LocationValueError: _ADDRESS,
    urllib3_errors.ProxySchemeUnknown: _ADDRESS,
    urllib3_errors.ProxySchemeUnsupported: _ADDRESS,
    UnicodeError: _KEY,  # all else in the head of a request is quoted
    OSError: _CERTIFICATES,  # requests raises it plain for one thing: a CA bundle that is not there
}


@contextmanager
def foreign_errors_translated() -> Iterator[None]:
    try:
        yield
    except tuple(FOREIGN) as error:
        # Both quote the value of the bad header, and that value is the key: no trace of it may be kept.
        shown = None if isinstance(error, requests_errors.InvalidHeader | UnicodeError) else error
        raise translate(error) from shown


def cut(error: BaseException) -> UpstreamError:
    return _told(*_CUT, error)


def unreachable(error: BaseException) -> UpstreamError:
    return _told(*_UNREACHABLE, error)


def translate(error: BaseException) -> BridgeError:
    kind, text = next(FOREIGN[cls] for cls in type(error).__mro__ if cls in FOREIGN)
    root = _root(error)
    if _for_want_of_descriptors(root):  # ours, and no fault of Gemini's
        return TooBusy("The bridge has no room for another connection; LimitNOFILE may be too low")
    if kind is UpstreamMisconfigured and isinstance(root, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        kind, text = _UNREACHABLE  # hung up on us during the handshake: no fault of the certificates
    return _told(kind, text, root)


def _for_want_of_descriptors(root: BaseException) -> bool:
    if isinstance(root, socket.gaierror):
        try:  # a name cannot be looked up without one either, and that error does not say so
            os.close(os.dup(2))
        except OSError as error:
            root = error
    return isinstance(root, OSError) and root.errno in NO_DESCRIPTORS


def _told(kind: type[UpstreamError], text: str, root: BaseException) -> UpstreamError:
    return kind(f"{text} ({type(root).__name__}).")


def _root(error: BaseException) -> BaseException:
    """The innermost cause. Not by `__context__`, which may lead to whatever the caller was handling."""
    while inner := [each for each in (error.__cause__, *error.args) if isinstance(each, BaseException)]:
        error = inner[0]
    return error

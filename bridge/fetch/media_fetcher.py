"""Fetches the media that one request names by https addresses, within one budget of time, bytes and files.

Each host is resolved once, every one of its addresses must be public, and the connection goes to an address
that was checked. A redirect is followed in the same way. The error names the client's field and the reason,
but no address that the bridge resolved: a private host and an unknown host get the same message.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPResponse
from urllib.parse import SplitResult, quote, urljoin

from bridge import __version__
from bridge.certificates import tls_context
from bridge.errors import NO_DESCRIPTORS, InvalidRequest, TooBusy
from bridge.fetch.network import PORT, Deadline, Network, TimedSocket
from bridge.fetch.public_addresses import is_public
from bridge.gemini.media import https_address
from bridge.gemini.media_types import accepted_type
from bridge.gemini.types import FileData, InlineData
from bridge.settings import MediaSettings, SettingsError

#: Admits bytes of JSON to the worker's memory; raises if there is no space for them.
Book = Callable[[int], None]

MOST_FILES = 20  #: of one request
MOST_REDIRECTS = 3
MOST_ADDRESSES = 4  #: of one host that are tried
REDIRECTS = frozenset((301, 302, 303, 307, 308))
PIECE = 256 * 1024
NOT_HTTPS = "it redirects to an address that is not plain https"
_URL_CHARACTERS = "!$&'()*+,-./:;=?@_~%[]"


class NotFetched(Exception):
    """The reason, in words for the client."""


class MediaFetcher:
    def __init__(self, settings: MediaSettings, network: Network | None = None) -> None:
        self.settings = settings
        self.network = network or Network(_trusted())

    def for_request(self, book: Book) -> RequestFetches:
        return RequestFetches(self.settings, self.network, book)


def _trusted() -> ssl.SSLContext:
    try:
        return tls_context()
    except OSError as error:
        raise SettingsError(f"media.fetch: {error}") from None


class RequestFetches:
    """What one request fetches. The time runs from the first moment on."""

    def __init__(self, settings: MediaSettings, network: Network, book: Book) -> None:
        self._settings = settings
        self._network = network
        self._book = book
        self._deadline = Deadline(settings.timeout)
        self._left = settings.max_mb * 1024 * 1024
        self._files = 0

    def fetch(self, file: FileData) -> InlineData:
        """Raises InvalidRequest that names the client's field."""
        try:
            return self._fetched(file.uri)
        except NotFetched as error:
            reason = str(error)
        except TimeoutError:
            reason = f"it did not arrive within {self._settings.timeout:g} seconds (media.timeout)"
        except ssl.SSLError:
            reason = "no trusted TLS connection to its server is possible"
        except OSError as error:
            if error.errno in NO_DESCRIPTORS:
                raise TooBusy("The bridge has too many open connections; please try again") from None
            reason = "its server cannot be reached"
        except HTTPException:
            reason = "its server does not respond with correct HTTP"
        raise InvalidRequest(f"{file.param}: the bridge cannot fetch the address: {reason}", param=file.param)

    def _fetched(self, url: str) -> InlineData:
        self._files += 1
        if self._files > MOST_FILES:
            raise NotFetched(f"a request may name {MOST_FILES} different addresses")
        for _ in range(MOST_REDIRECTS + 1):
            url_or_media = self._get(url)
            if isinstance(url_or_media, InlineData):
                return url_or_media
            url = url_or_media
        raise NotFetched(f"it redirects more than {MOST_REDIRECTS} times")

    def _get(self, url: str) -> InlineData | str:
        """The media, or the address of a redirect."""
        parts = https_address(url)
        if parts is None:
            raise NotFetched(NOT_HTTPS)
        if (parts.port or PORT) != PORT:
            raise NotFetched(f"only port {PORT} is allowed")
        host = _ascii_host(parts)
        with self._network.open(self._public_addresses(host), host, self._deadline) as sock:
            response = _requested(sock, host, parts)
            return _redirected(url, response) if response.status in REDIRECTS else self._media(response)

    def _public_addresses(self, host: str) -> list[str]:
        try:
            addresses = self._network.addresses(host, self._deadline)
        except TimeoutError:
            raise
        except (OSError, UnicodeError):
            addresses = []
        if not addresses or not all(map(is_public, addresses)):
            raise NotFetched("its host is not a public host of the Internet")
        return addresses[:MOST_ADDRESSES]

    def _media(self, response: HTTPResponse) -> InlineData:
        if response.status != 200:
            raise NotFetched(f"its server responds with status {response.status}")
        if response.getheader("Content-Encoding", "identity").lower() != "identity":
            raise NotFetched("its server sends it compressed, which the bridge did not ask for")
        declared = response.getheader("Content-Type", "")
        content = self._content(response)
        mime_type = accepted_type(declared, content)
        if mime_type is None:
            raise NotFetched(f"Gemini does not accept its content type, {declared[:80] or 'none'!r}")
        return InlineData(mime_type, base64.b64encode(content).decode())

    def _content(self, response: HTTPResponse) -> bytearray:
        """Raises as soon as the announced or the received size is too large."""
        content = bytearray()
        self._check_size(response.length or 0)
        while piece := response.read(PIECE):
            self._check_size(len(content) + len(piece))
            self._book(-(-len(piece) * 4 // 3))  # as base64
            content += piece
        if response.length:
            raise NotFetched("its server closed the connection before the end")
        if not content:
            raise NotFetched("it is empty")
        self._left -= len(content)
        return content

    def _check_size(self, size: int) -> None:
        if size > self._left:
            most = f"{self._settings.max_mb} MB (media.max_mb)"
            raise NotFetched(f"the fetched media of a request may have {most} together")


def _redirected(url: str, response: HTTPResponse) -> str:
    try:
        return urljoin(url, response.getheader("Location", ""))
    except ValueError:
        raise NotFetched(NOT_HTTPS) from None


def _ascii_host(parts: SplitResult) -> str:
    try:
        return (parts.hostname or "").encode("idna").decode()
    except UnicodeError:
        raise NotFetched("its host name is not valid") from None


def _requested(sock: TimedSocket, host: str, parts: SplitResult) -> HTTPResponse:
    """No cookie, no credentials, nothing of the client's request."""
    target = quote(parts.path or "/", safe=_URL_CHARACTERS)
    if parts.query:
        target += "?" + quote(parts.query, safe=_URL_CHARACTERS)
    connection = HTTPConnection(host, PORT)
    connection.sock = sock
    connection.putrequest("GET", target, skip_host=True, skip_accept_encoding=True)
    for name, value in (
        ("Host", f"[{host}]" if ":" in host else host),
        ("User-Agent", f"gemini-bridge/{__version__}"),
        ("Accept", "image/*, audio/*, video/*, application/pdf, text/plain"),
        ("Accept-Encoding", "identity"),
        ("Connection", "close"),
    ):
        connection.putheader(name, value)
    connection.endheaders()
    return connection.getresponse()

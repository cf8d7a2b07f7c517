"""Converts images, audio and files to Gemini's values.

A `data:` URL becomes `inlineData`; every other address becomes `fileData`. An https address that the client
chose gets `FileData.param`, the name of the client's field: the exchange decides who fetches it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection
from urllib.parse import SplitResult, urlsplit

from bridge.errors import InvalidRequest
from bridge.gemini.media_types import JPEG, MP4, type_by_name
from bridge.gemini.types import FileData, InlineData

#: Addresses at Google's own file stores: Cloud Storage, and files uploaded to the Gemini API.
FILE_URLS = ("gs://", "https://generativelanguage.googleapis.com/")
YOUTUBE_HOSTS = frozenset(("youtube.com", "www.youtube.com", "m.youtube.com", "youtu.be"))

_DATA_URL = re.compile(r"data:(?P<type>[^;,]*)(?P<options>(?:;[^;,]*)*),", re.IGNORECASE)
#: URL parsers disagree about these characters, so that two programs may see two different hosts.
_AMBIGUOUS = re.compile(r"[\x00-\x20\x7f\\]")


def media_from_url(url: str, param: str, usual: str = JPEG) -> InlineData | FileData:
    """`usual` is the media type of an address that has no known file extension."""
    if url[:5].lower() == "data:":
        return _inline_from_data_url(url, param)
    if url.startswith(FILE_URLS):
        return FileData(url)
    if https_address(url) is None:
        problem = "must be a data: URL or a complete https address, without user, password or spaces"
        raise InvalidRequest(f"{param}: {problem}", param=param)
    return FileData(url, MP4 if is_youtube(url) else type_by_name(url, usual), param=param)


def https_address(url: str) -> SplitResult | None:
    """The parts of an https address that every program reads alike; None for any other text."""
    return web_address(url, ("https",))


def web_address(url: str, schemes: Collection[str]) -> SplitResult | None:
    """The same for an address with one of these schemes."""
    try:
        parts = urlsplit(url)
        complete = parts.scheme in schemes and parts.hostname and parts.port != 0
    except ValueError:
        return None
    return parts if complete and "@" not in parts.netloc and not _AMBIGUOUS.search(url) else None


def is_youtube(url: str) -> bool:
    """Gemini watches these videos itself. What other programs get at such an address is a web page."""
    return urlsplit(url).hostname in YOUTUBE_HOSTS


def inline_from_base64(mime_type: str, data: str, param: str) -> InlineData:
    """The data after a check. Gemini's own message would name a field that the client did not send."""
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest(f"{param} is not valid base64", param=param) from None
    if not content:
        raise InvalidRequest(f"{param} is empty", param=param)
    return InlineData(mime_type, data)


def _inline_from_data_url(url: str, param: str) -> InlineData:
    head = _DATA_URL.match(url)
    if head is None:
        raise InvalidRequest(f"{param} is not a complete data: URL", param=param)
    if ";base64" not in head["options"].lower():
        raise InvalidRequest(f"{param}: a data: URL must be base64-encoded", param=param)
    if "/" not in head["type"]:
        raise InvalidRequest(f"{param}: the data: URL has no media type", param=param)
    return inline_from_base64(head["type"].lower(), url[head.end() :], param)

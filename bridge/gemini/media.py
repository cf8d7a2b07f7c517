"""Converts images, audio and files to Gemini's values.

The bridge fetches no URL. A URL that Gemini itself can read becomes `fileData`; for any other file the client
must send a `data:` URL.
"""

from __future__ import annotations

import base64
import binascii
import re

from bridge.errors import InvalidRequest
from bridge.gemini.types import FileData, InlineData

#: URLs that Gemini resolves itself: Cloud Storage, and files uploaded to the Gemini API.
FILE_URLS = ("gs://", "https://generativelanguage.googleapis.com/")

_DATA_URL = re.compile(r"data:(?P<type>[^;,]*)(?P<options>(?:;[^;,]*)*),", re.IGNORECASE)


def media_from_url(url: str, param: str) -> InlineData | FileData:
    if url[:5].lower() == "data:":
        return _inline_from_data_url(url, param)
    if url.startswith(FILE_URLS):
        return FileData(url)
    raise InvalidRequest(f"{param}: the bridge does not fetch URLs; send the content as base64", param=param)


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

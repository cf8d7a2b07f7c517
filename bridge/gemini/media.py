"""Images, sound and files as Gemini takes them.

The bridge fetches nothing: an address becomes `fileData` only where Gemini itself can read it, and anything
else is the client's to send as a `data:` URL.
"""

from __future__ import annotations

import base64
import binascii
import re

from bridge.errors import InvalidRequest
from bridge.gemini.types import FileData, InlineData

#: Addresses that Gemini resolves by itself: Cloud Storage, and files uploaded to the Gemini API.
FILE_ADDRESSES = ("gs://", "https://generativelanguage.googleapis.com/")

_DATA_URL = re.compile(r"data:(?P<type>[^;,]*)(?P<options>(?:;[^;,]*)*),", re.IGNORECASE)


def media_from_url(url: str, param: str) -> InlineData | FileData:
    if url[:5].lower() == "data:":
        return _inline_from_data_url(url, param)
    if url.startswith(FILE_ADDRESSES):
        return FileData(url)
    raise InvalidRequest(
        f"{param}: the bridge does not fetch addresses; send the content itself, as base64", param=param
    )


def inline_from_base64(mime_type: str, data: str, param: str) -> InlineData:
    """Checked here, since Gemini's own message would name a field the client never wrote."""
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
        raise InvalidRequest(f"{param}: the data: URL does not say its media type", param=param)
    return inline_from_base64(head["type"].lower(), url[head.end() :], param)

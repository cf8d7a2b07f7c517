"""The media types that Gemini accepts, by file name, declared type and first bytes."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

JPEG, PDF, MP4 = "image/jpeg", "application/pdf", "video/mp4"

#: File name extensions. Not `mimetypes`: its table differs from machine to machine.
_BY_EXTENSION = {
    "png": "image/png",
    "jpg": JPEG,
    "jpeg": JPEG,
    "webp": "image/webp",
    "heic": "image/heic",
    "heif": "image/heif",
    "bmp": "image/bmp",
    "wav": "audio/wav",
    "mp3": "audio/mp3",
    "aif": "audio/aiff",
    "aiff": "audio/aiff",
    "aac": "audio/aac",
    "m4a": "audio/m4a",
    "ogg": "audio/ogg",
    "flac": "audio/flac",
    "mp4": MP4,
    "mpeg": "video/mpeg",
    "mpg": "video/mpg",
    "mov": "video/mov",
    "avi": "video/avi",
    "flv": "video/x-flv",
    "webm": "video/webm",
    "wmv": "video/wmv",
    "3gp": "video/3gpp",
    "pdf": PDF,
    "txt": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
}
#: Text formats that Gemini reads at an address. The bridge does not fetch them: a login page is HTML too.
_TEXT_BY_EXTENSION = {"html": "text/html", "css": "text/css", "xml": "text/xml", "rtf": "text/rtf"}

#: Other names under which servers declare the same types.
_SYNONYMS = {
    "image/jpg": JPEG,
    "audio/mpeg": "audio/mp3",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/x-aiff": "audio/aiff",
    "audio/x-m4a": "audio/m4a",
    "audio/mp4": "audio/m4a",
    "audio/x-flac": "audio/flac",
    "video/quicktime": "video/mov",
    "video/x-msvideo": "video/avi",
    "video/x-ms-wmv": "video/wmv",
}
_ACCEPTED = frozenset(_BY_EXTENSION.values())
_UNSPECIFIC = frozenset(("", "application/octet-stream", "binary/octet-stream"))

#: Where a format's signature begins, the signature, and the type.
_SIGNATURES = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", JPEG),
    (8, b"WEBP", "image/webp"),
    (4, b"ftypheic", "image/heic"),
    (4, b"ftypmif1", "image/heif"),
    (0, b"%PDF-", PDF),
    (8, b"WAVE", "audio/wav"),
    (0, b"ID3", "audio/mp3"),
    (0, b"\xff\xfb", "audio/mp3"),
    (8, b"AIFF", "audio/aiff"),
    (0, b"OggS", "audio/ogg"),
    (0, b"fLaC", "audio/flac"),
    (4, b"ftypM4A", "audio/m4a"),
    (4, b"ftypqt", "video/mov"),
    (4, b"ftyp", MP4),
    (8, b"AVI ", "video/avi"),
    (0, b"\x1aE\xdf\xa3", "video/webm"),
)


def type_by_name(url: str, usual: str) -> str:
    """The type that the path's extension stands for; `usual` without a known extension."""
    extension = unquote(urlsplit(url).path).rpartition(".")[2].lower()
    return _BY_EXTENSION.get(extension) or _TEXT_BY_EXTENSION.get(extension) or usual


def accepted_type(declared: str, content: bytes | bytearray) -> str | None:
    """The type of fetched content. None if Gemini does not accept it. The first bytes decide only where the
    server declares no type."""
    name = declared.partition(";")[0].strip().lower()
    if name in _UNSPECIFIC:
        return next((kind for at, sign, kind in _SIGNATURES if content.startswith(sign, at)), None)
    name = _SYNONYMS.get(name, name)
    return name if name in _ACCEPTED else None

"""Reads the client's key from the headers and query parameters that the vendors' clients use."""

from __future__ import annotations

from flask import Request

_HEADERS = ("X-Api-Key", "X-Goog-Api-Key")


def presented_keys(request: Request) -> list[str]:
    """All keys of the request, in order of precedence. A client may also send a key for another service."""
    candidates = [
        _token(request.headers.get("Authorization", "")),
        *(request.headers.get(name, "") for name in _HEADERS),
        request.args.get("key", ""),
    ]
    return list(dict.fromkeys(text.strip() for text in candidates if text.strip()))


def _token(authorization: str) -> str:
    scheme, _, token = authorization.strip().partition(" ")
    return token if scheme.lower() == "bearer" else authorization

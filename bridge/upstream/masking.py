"""Removes the secret of a call from its answer.

An upstream or a proxy may quote the key or token of the call: in an error, in a chunk, in a text. So every
payload is searched before it is parsed. The search takes a few tenths of a microsecond.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import orjson

from bridge.settings.value import SHORTEST_SECRET

REPLACEMENT = b"[key]"


class Mask:
    def __init__(self, secret: str = "", sent: bytes | None = None) -> None:
        """`sent` is the body of the call. A secret inside it is not masked: the client sent it and knows
        it. An agent that edits a file with the key must get its own text back."""
        self._secret = orjson.dumps(secret)[1:-1] if len(secret) >= SHORTEST_SECRET else b""
        self._sent = sent or b""

    def __call__(self, payload: bytes) -> bytes:
        """The payload without the secret in its JSON encoding."""
        if self._secret not in payload or not self._secret or self._is_known:
            return payload
        return payload.replace(self._secret, REPLACEMENT)

    @cached_property
    def _is_known(self) -> bool:
        """Whether the client sent the secret. Cached: an upstream may quote the secret in every event, and
        the body may have megabytes."""
        return self._secret in self._sent

    def in_object(self, value: Any) -> Any:
        """The same for parsed JSON, which finds a secret written with escapes too."""
        return orjson.loads(self(orjson.dumps(value)))

    def in_body(self, body: bytes) -> bytes:
        """The same for a whole body, which may not be JSON."""
        try:
            return self(orjson.dumps(orjson.loads(body)))
        except orjson.JSONDecodeError:
            return self(body)

"""The secret that a call was sent with, taken out of what comes back.

An upstream, or a proxy before it, may quote what it was sent: in a refusal, in the middle of an answer, in a
text. So every payload is searched before it is read. The search takes a few tenths of a microsecond.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import orjson

from bridge.settings.value import SHORTEST_SECRET

SHOWN_INSTEAD = b"[key]"


class Mask:
    def __init__(self, secret: str = "", sent: bytes | None = None) -> None:
        """`sent` is the body of the call: what it holds is no secret to the client whose request it is. An
        agent that edits the file with the key in it must get its own text back."""
        self._secret = orjson.dumps(secret)[1:-1] if len(secret) >= SHORTEST_SECRET else b""
        self._sent = sent or b""

    def __call__(self, payload: bytes) -> bytes:
        """The payload without the secret as JSON writers spell it."""
        if self._secret not in payload or not self._secret or self._is_known:
            return payload
        return payload.replace(self._secret, SHOWN_INSTEAD)

    @cached_property
    def _is_known(self) -> bool:
        """Whether the client sent it. Looked up once: an upstream may quote the secret in every event, and
        what was sent may have megabytes."""
        return self._secret in self._sent

    def in_object(self, found: Any) -> Any:
        """The same for JSON that was read already, whichever letters were spelt as escapes."""
        return orjson.loads(self(orjson.dumps(found)))

    def in_body(self, body: bytes) -> bytes:
        """The same for a whole body, which need not be JSON."""
        try:
            return self(orjson.dumps(orjson.loads(body)))
        except orjson.JSONDecodeError:
            return self(body)

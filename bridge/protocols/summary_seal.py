"""Seals summaries for clients, which send them back in later requests.

A seal names its owner and what the summary stands for, so a summary of another owner, or one that the client
changed, is recognised. The text itself is no secret: its client has the conversation. Every worker and every
machine with the same secret can check a seal without looking anything up.
"""

from __future__ import annotations

import hmac
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any, NamedTuple

_MARK = "bridge-summary-1."  #: the start of every seal of this bridge
_LARGEST = 4 << 20  #: bytes of a text; a longer one is not unpacked


class StandsFor(StrEnum):
    """What a summary stands for in the conversation that contains it."""

    EVERYTHING = "all"  #: everything before it
    ALL_BUT_MESSAGES = "rest"  #: everything before it but the messages of the client
    NOTHING_ELSE = "own"  #: the client has removed what it stands for


class OpenedSummary(NamedTuple):
    text: str
    stands_for: StandsFor


@dataclass(frozen=True, slots=True)
class SummarySeal:
    """The seal of one owner."""

    owner: str = ""
    secret: Callable[[], bytes] = bytes

    def sign(self, text: str, stands_for: StandsFor) -> str:
        return f"{_MARK}{stands_for}.{self._mac(text, stands_for)}"

    def close(self, text: str, stands_for: StandsFor) -> str:
        """The seal together with the text, which the client cannot read at a glance."""
        packed = urlsafe_b64encode(zlib.compress(text.encode("utf-8", "replace")))
        return f"{self.sign(text, stands_for)}.{packed.decode()}"

    def verified(self, text: str, signature: str) -> StandsFor | None:
        """What the text stands for; None if this owner's bridge did not sign it."""
        kind, _, given = signature.removeprefix(_MARK).partition(".")
        if not is_ours(signature) or kind not in StandsFor.__members__.values():
            return None
        stands_for = StandsFor(kind)
        expected = self._mac(text, stands_for)
        return stands_for if hmac.compare_digest(expected.encode(), given.encode()) else None

    def open(self, sealed: Any) -> OpenedSummary | None:
        """None if another vendor, another owner or nobody sealed it."""
        if not is_ours(sealed):
            return None
        signature, _, packed = sealed.rpartition(".")
        text = _unpacked(packed)
        stands_for = None if text is None else self.verified(text, signature)
        return None if text is None or stands_for is None else OpenedSummary(text, stands_for)

    def _mac(self, text: str, stands_for: StandsFor) -> str:
        message = b"\0".join((self.owner.encode(), stands_for.encode(), text.encode("utf-8", "replace")))
        return hmac.new(self.secret(), message, sha256).hexdigest()


def is_ours(sealed: Any) -> bool:
    return isinstance(sealed, str) and sealed.startswith(_MARK)


def _unpacked(packed: str) -> str | None:
    try:
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(urlsafe_b64decode(packed.encode()), _LARGEST)
        return text.decode() if unpacking.eof else None
    except (ValueError, zlib.error):
        return None

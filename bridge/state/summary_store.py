"""Summaries of conversations, for all workers and across restarts, and who is writing one at the moment.

A digest identifies the beginning of one owner's conversation. Its row has one of three states: `making` until
a moment that the maker extends, `made`, or `failed`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple

from bridge.state.store import Store

#: After so many failures nobody tries again for some time.
MOST_FAILURES = 3
#: Seconds until failures are forgotten.
FAILURES_LAST = 600.0
MAKING, MADE, FAILED = "making", "made", "failed"
LARGEST_MB = 256
SECRET_BYTES = 32


class Claim(Enum):
    """The answer to somebody who wants to write a summary."""

    MINE = auto()
    OTHERS = auto()  #: another request, worker or machine is writing it
    MADE = auto()
    GIVEN_UP = auto()  #: it failed too often


class SummaryRow(NamedTuple):
    """What decides about a claim."""

    state: str
    maker: str
    until: float
    failures: int


class Claimed(NamedTuple):
    claim: Claim
    failures: int = 0  #: so far; a maker that ended without a word counts as one


def decided(row: SummaryRow | None, maker: str, now: float) -> Claimed:
    if row is None:
        return Claimed(Claim.MINE)
    if row.state == MADE:
        return Claimed(Claim.MADE, row.failures)
    if row.state == MAKING and row.maker == maker:
        return Claimed(Claim.MINE, row.failures)
    if row.state == MAKING and row.until > now:
        return Claimed(Claim.OTHERS, row.failures)
    if now >= row.until + FAILURES_LAST:
        return Claimed(Claim.MINE)
    failures = row.failures + (row.state == MAKING)
    return Claimed(Claim.GIVEN_UP if failures >= MOST_FAILURES else Claim.MINE, failures)


class SummaryStore(Store):
    """An owner finds only its own summaries. Summaries expire; in a full store the oldest are deleted
    first."""

    @abstractmethod
    def find(self, owner: str, digests: Sequence[bytes]) -> Mapping[bytes, str]:
        """The summaries that exist for these digests."""

    @abstractmethod
    def claim(self, owner: str, digest: bytes, maker: str, seconds: float) -> Claim:
        """Ask to write the summary. The claim ends after these seconds; its maker extends it by calling this
        method again."""

    @abstractmethod
    def keep(self, owner: str, digest: bytes, text: str) -> None:
        """Store a summary; nobody needs to have claimed it."""

    @abstractmethod
    def release(self, owner: str, digest: bytes, maker: str, *, failed: bool) -> None:
        """End the claim of this maker without a summary."""

    @abstractmethod
    def secret(self) -> bytes:
        """The secret that seals summaries for clients. It is drawn once, and is the same for all workers."""

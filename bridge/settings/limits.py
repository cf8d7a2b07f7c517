"""Usage limits. One key and all clients together have the same fields. 0 means no limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from bridge.settings.value import OneOf, Range

Amount = Annotated[int, Range(0, 1_000_000_000_000)]


@dataclass(frozen=True, slots=True)
class Limits:
    requests_per_minute: Amount = 0
    tokens_per_minute: Amount = 0
    tokens_per_day: Amount = 0
    cost_per_day: Annotated[float, Range(0, 1e9)] = 0.0
    streams: Amount = 0  #: answers that run at the same time, streamed or not

    @property
    def any(self) -> bool:
        return bool(self.requests_per_minute or self.streams) or self.counts_tokens

    @property
    def counts_tokens(self) -> bool:
        """Whether a limit depends on the tokens of an answer, which are known only when it has ended."""
        return bool(self.tokens_per_minute or self.tokens_per_day or self.cost_per_day)

    def divided(self, parts: int) -> Limits:
        """The share of one of so many bridges, at least one request, token and answer."""
        return Limits(
            _part(self.requests_per_minute, parts),
            _part(self.tokens_per_minute, parts),
            _part(self.tokens_per_day, parts),
            self.cost_per_day / parts,
            _part(self.streams, parts),
        )

    @property
    def has_budget(self) -> bool:
        """Whether there is a daily limit."""
        return bool(self.tokens_per_day or self.cost_per_day)


def _part(limit: int, parts: int) -> int:
    return max(1, limit // parts) if limit else 0


@dataclass(frozen=True, slots=True)
class LimitSettings(Limits):
    """The limits for all clients together, and options for the limits of every key."""

    #: What to do with a request to a model without a price if a cost limit applies to the request.
    unpriced: Annotated[str, OneOf(("refuse", "allow"))] = "refuse"
    cut_streams: bool = False  #: end running answers when their key expires or a daily limit is reached

"""How much may be used: the same fields for one key and, in `config/`, for all together. 0: no limit."""

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
    streams: Amount = 0  #: answers on their way at the same time, streamed or whole

    @property
    def any(self) -> bool:
        return bool(self.requests_per_minute or self.streams) or self.counts_tokens

    @property
    def counts_tokens(self) -> bool:
        """Whether anything hangs on what an answer has used, which is known when it has ended."""
        return bool(self.tokens_per_minute or self.tokens_per_day or self.cost_per_day)

    @property
    def has_budget(self) -> bool:
        """Whether anything is limited for a whole day."""
        return bool(self.tokens_per_day or self.cost_per_day)


@dataclass(frozen=True, slots=True)
class LimitSettings(Limits):
    """Of all clients together, and what holds for each of them."""

    #: What becomes of a request to a model without a price, where a limit on cost applies to it.
    unpriced: Annotated[str, OneOf(("refuse", "allow"))] = "refuse"
    cut_streams: bool = False  #: end answers on their way when their key expires or a budget is spent

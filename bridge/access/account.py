"""What the holder of a key may know about it: its limits, what is left of them, usage and failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from bridge.access.allowances import LimitUse, limit_uses
from bridge.access.limits import Limiter
from bridge.state.key_store import Key
from bridge.state.usage_store import RefusalSum, UsageGroup, UsageQuery, UsageStore, UsageSums, total

DAYS = 30


@dataclass(frozen=True, slots=True)
class Account:
    """The days from `since` to `until`, both included."""

    key: Key | None  #: None: the bridge asks for no key
    since: date
    until: date
    limits: tuple[LimitUse, ...]
    days: Sequence[UsageGroup]  #: each day, also those without requests
    models: Sequence[UsageGroup]
    errors: Sequence[UsageGroup]  #: by the kind of the error
    refusals: Sequence[RefusalSum]

    @property
    def today(self) -> UsageSums:
        return self.days[-1].sums

    @property
    def total(self) -> UsageSums:
        return total(self.days)


class AccountReader:
    def __init__(self, limiter: Limiter, usage: UsageStore) -> None:
        self._limiter = limiter
        self._usage = usage

    def read(self, key: Key | None, days: int = DAYS) -> Account:
        """Raises StorageError."""
        until = datetime.now(UTC).date()
        since = until - timedelta(days=days - 1)
        name = "" if key is None else key.name

        def sums(by: str) -> list[UsageGroup]:
            return self._usage.sums(UsageQuery((by,), since, until, name))

        return Account(
            key,
            since,
            until,
            tuple(limit_uses(*self._limiter.uses(key))),
            list(_every_day(sums("day"), since, until)),
            sums("model"),
            [group for group in sums("error") if group.names[0]],
            self._usage.refusals(UsageQuery(("day",), since, until, name)),
        )


def _every_day(found: Sequence[UsageGroup], since: date, until: date) -> Iterator[UsageGroup]:
    by_day = {group.names[0]: group.sums for group in found}
    for number in range((until - since).days + 1):
        day = (since + timedelta(days=number)).isoformat()
        yield UsageGroup((day,), by_day.get(day, UsageSums()))

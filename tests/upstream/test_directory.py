"""The directory of upstreams: shares by weight, conversations that stay, and cool-downs."""

from __future__ import annotations

from collections import Counter

from bridge.settings import UpstreamRow
from bridge.upstream.base import Upstream
from bridge.upstream.cooldowns import LocalCooldowns, model_cooldown
from bridge.upstream.demo import DemoUpstream
from bridge.upstream.directory import UpstreamDirectory

IDS = [f"conversation-{number}" for number in range(100_000)]
FEW = IDS[:5000]
NAMES = ("one", "two", "three")


def directory(cooldowns: LocalCooldowns | None = None, **weights: int) -> UpstreamDirectory:
    rows = [UpstreamRow(name=name, kind="demo", weight=weight) for name, weight in weights.items()]
    return UpstreamDirectory(rows, lambda _row: DemoUpstream(), cooldowns or LocalCooldowns())


def first_choices(upstreams: UpstreamDirectory, ids: list[str]) -> list[str]:
    names = tuple(upstreams.rows)
    return [upstreams.ranked("m", names, conversation)[0].upstream for conversation in ids]


def test_100_000_conversations_are_shared_by_weight_within_one_percent() -> None:
    counts = Counter(first_choices(directory(one=1, two=3, three=6), IDS))
    shares = {name: count / len(IDS) for name, count in counts.items()}
    for name, share in {"one": 0.1, "two": 0.3, "three": 0.6}.items():
        assert abs(shares[name] - share) < 0.01, shares


def test_an_added_upstream_moves_only_the_conversations_that_it_takes() -> None:
    before = first_choices(directory(one=1, two=1), FEW)
    after = first_choices(directory(one=1, two=1, three=2), FEW)
    assert {new for old, new in zip(before, after, strict=True) if old != new} == {"three"}


def test_a_larger_weight_moves_conversations_only_to_its_upstream() -> None:
    before = first_choices(directory(one=1, two=1), FEW)
    after = first_choices(directory(one=2, two=1), FEW)
    assert {new for old, new in zip(before, after, strict=True) if old != new} == {"one"}


def test_calls_without_a_conversation_are_shared_too() -> None:
    upstreams = directory(one=1, two=3)
    counts = Counter(upstreams.ranked("m", ("one", "two"), "")[0].upstream for _ in range(4000))
    assert 0.2 < counts["one"] / 4000 < 0.3


def test_an_upstream_in_cooldown_is_tried_last() -> None:
    cooldowns = LocalCooldowns()
    upstreams = directory(cooldowns, one=1, two=1, three=1)
    first, *others = upstreams.ranked("m", NAMES, "c")
    cooldowns.rest(model_cooldown(first), 60)
    assert upstreams.ranked("m", NAMES, "c") == [*others, first]
    assert upstreams.ranked("n", NAMES, "c")[0].upstream == first.upstream


def test_an_upstream_is_created_once_and_only_when_it_is_used() -> None:
    made: list[str] = []

    def make(row: UpstreamRow) -> Upstream:
        made.append(row.name)
        return DemoUpstream()

    rows = [UpstreamRow(name=name, kind="demo") for name in NAMES]
    upstreams = UpstreamDirectory(rows, make, LocalCooldowns())
    assert upstreams["two"] is upstreams["two"]
    assert made == ["two"]

"""Prices of tokens: the table is checked at start, and the costs match Google's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from bridge.gemini.types import Usage
from bridge.settings import SettingsError, load
from bridge.settings.models import today
from bridge.settings.prices import FREE, PriceTable, load_prices

DELIVERED = Path(__file__).parent.parent.parent / "config" / "prices.toml"

Read = Callable[[str], PriceTable]


def used(prompt: int, cached: int = 0, answer: int = 0, thoughts: int = 0) -> Usage:
    return Usage(
        {
            "promptTokenCount": prompt,
            "cachedContentTokenCount": cached,
            "candidatesTokenCount": answer,
            "thoughtsTokenCount": thoughts,
        }
    )


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def write_and_read(text: str) -> PriceTable:
        (tmp_path / "prices.toml").write_text('currency = "EUR"\n' + text, "utf-8")
        return load_prices(tmp_path / "prices.toml")

    return write_and_read


def test_cached_tokens_are_part_of_the_prompt_and_thoughts_are_output(read: Read) -> None:
    prices = read('[[price]]\nmatch = ["m"]\ninput = 10\ncached = 1\noutput = 100')
    assert prices.currency == "EUR"
    assert prices.cost_of(used(1_000_000), "m") == 10
    assert prices.cost_of(used(1_000_000, cached=600_000), "m") == pytest.approx(4 + 0.6)
    assert prices.cost_of(used(0, answer=5_000, thoughts=5_000), "m") == pytest.approx(1)
    assert prices.cost_of(Usage(), "m") == 0
    assert prices.cost_of(used(10, cached=1_000_000), "m") == pytest.approx(0.00001), "no more than there was"


def test_the_prompt_length_selects_the_price_row(read: Read) -> None:
    short = '[[price]]\nmatch = ["m*"]\nprompt_up_to = 200000\ninput = 1\noutput = 1\n'
    prices = read(short + '[[price]]\nmatch = ["m*"]\ninput = 2\noutput = 3\n')
    assert prices.cost_of(used(200_000), "m-1") == pytest.approx(0.2)
    assert prices.cost_of(used(200_001), "m-1") == pytest.approx(0.400002)
    assert prices.cost_of(used(150_000, cached=149_000), "m-1") == pytest.approx(0.15), "cached ones count"
    assert read(short).cost_of(used(200_001), "m-1") is None


def test_the_first_matching_row_wins_case_insensitively(read: Read) -> None:
    prices = read(
        '[[price]]\nmatch = ["*-image"]\n'
        '[[price]]\nmatch = ["gem-lite*", "old"]\ninput = 1\noutput = 1\n'
        '[[price]]\nmatch = ["gem-*"]\ninput = 2\noutput = 2\n'
    )
    million = used(1_000_000)
    assert prices.cost_of(million, "models/GEM-lite-002") == 1
    assert prices.cost_of(million, "gem-pro") == 2
    assert prices.cost_of(million, "gem-image") is None, "a row without prices: not known"
    assert prices.cost_of(million, "other") is None
    assert prices.cost_of(million, "gem-" + "x" * 100_000) is None


def test_a_missing_cached_price_is_the_normal_input_price(read: Read) -> None:
    prices = read('[[price]]\nmatch = ["m"]\ninput = 10\noutput = 1')
    assert prices.cost_of(used(1_000_000, cached=1_000_000), "m") == 10


# --- dated prices ------------------------------------------------------------------------------------

LAST_OF_NOVEMBER, FIRST_OF_DECEMBER = date(2026, 11, 30), date(2026, 12, 1)


def priced(match: str, price: int, *more: str) -> str:
    return "\n".join(["[[price]]", f"match = [{match}]", f"input = {price}", "output = 0", *more, ""])


def test_a_dated_row_replaces_the_earlier_row_from_its_date(read: Read) -> None:
    prices = read(
        priced('"m"', 1)
        + priced('"M"', 3, "from = 2027-01-01")  # in any order and letter case, with and without quotes
        + priced('"m"', 2, 'from = "2026-12-01"')
    )
    days = [LAST_OF_NOVEMBER, FIRST_OF_DECEMBER, date(2026, 12, 31), date(2027, 1, 1), date(2099, 1, 1)]
    assert [prices.cost_of(used(1_000_000), "m", day=day) for day in days] == [1, 2, 2, 3, 3]


def test_a_future_price_is_not_used(read: Read) -> None:
    prices = read(priced('"m"', 1, 'from = "2026-12-01"'))
    assert prices.cost_of(used(1), "m", day=LAST_OF_NOVEMBER) is None
    assert [prices.knows("m", day=day) for day in (LAST_OF_NOVEMBER, FIRST_OF_DECEMBER)] == [False, True]


def test_a_dated_row_replaces_one_pattern_of_a_row_only(read: Read) -> None:
    prices = read(priced('"a*", "b*"', 1) + priced('"b*"', 2, 'from = "2026-12-01"'))
    assert prices.cost_of(used(1_000_000), "a-1", day=FIRST_OF_DECEMBER) == 1
    assert prices.cost_of(used(1_000_000), "b-1", day=FIRST_OF_DECEMBER) == 2
    assert prices.cost_of(used(1_000_000), "b-1", day=LAST_OF_NOVEMBER) == 1


def test_a_dated_row_replaces_prices_for_every_length(read: Read) -> None:
    prices = read(
        priced('"m"', 1, "prompt_up_to = 1000") + priced('"m"', 2) + priced('"m"', 5, 'from = "2026-12-01"')
    )
    assert prices.cost_of(used(1000), "m", day=LAST_OF_NOVEMBER) == pytest.approx(0.001)
    assert prices.cost_of(used(1000), "m", day=FIRST_OF_DECEMBER) == pytest.approx(0.005)
    assert prices.cost_of(used(2000), "m", day=FIRST_OF_DECEMBER) == pytest.approx(0.010)


def test_excluded_models_stay_excluded_when_prices_change(read: Read) -> None:
    prices = read('[[price]]\nmatch = ["*-image"]\n' + priced('"m*"', 1, 'from = "2026-12-01"'))
    assert prices.cost_of(used(1), "m-image", day=FIRST_OF_DECEMBER) is None


@pytest.mark.parametrize(
    ("moment", "price"),
    [("2026-11-30T23:59:59+00:00", 2), ("2026-12-01T00:00:00+00:00", 4), ("2026-12-01T00:30:00+01:00", 2)],
)
def test_gemini_4_argon_costs_twice_as_much_from_december_on(monkeypatch, moment: str, price: int) -> None:
    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.fromisoformat(moment).astimezone(tz)

    monkeypatch.setattr("bridge.settings.models.datetime", Clock)
    prices = load_prices(DELIVERED)
    assert today() == datetime.fromisoformat(moment).astimezone(UTC).date()
    assert prices.cost_of(used(1_000_000), "gemini-4-argon") == price
    assert prices.cost_of(used(1_000_000, cached=1_000_000), "gemini-4-argon") == pytest.approx(price / 20)
    assert prices.cost_of(used(0, answer=1_000_000), "gemini-4-argon") == price * 5


def test_the_next_price_change_is_reported(read: Read) -> None:
    prices = read(priced('"m"', 1) + priced('"m"', 3, 'from = "2027-01-01"') + priced('"n"', 2))
    coming = prices.next_change(LAST_OF_NOVEMBER)
    assert coming is not None
    assert (coming.match, coming.start) == (("m",), date(2027, 1, 1))
    assert prices.next_change(date(2027, 1, 1)) is None


# --- service tiers, and several names for one answer -------------------------------------------------


def test_a_tier_without_a_factor_has_no_price(read: Read) -> None:
    prices = read('[[tier]]\nname = "flex"\nfactor = 0.5\n' + priced('"m"', 10))
    million = used(1_000_000)
    assert prices.cost_of(million, "m", tier="flex") == 5
    assert prices.cost_of(million, "m", tier="standard") == 10
    assert prices.cost_of(million, "m", tier="priority") is None
    assert [prices.knows("m", tier=tier) for tier in ("standard", "flex", "priority")] == [True, True, False]


def test_delivered_prices_have_factors_for_flex_and_priority() -> None:
    prices = load_prices(DELIVERED)
    assert prices.cost_of(used(1_000_000), "gemini-3.8-flash", tier="flex") == pytest.approx(0.375)
    assert prices.cost_of(used(1_000_000), "gemini-3.8-flash", tier="priority") == pytest.approx(1.35)


def test_the_first_model_with_a_price_is_used(read: Read) -> None:
    prices = read(priced('"asked"', 1) + priced('"answered"', 2))
    million = used(1_000_000)
    assert prices.cost_of(million, "answered", "asked") == 2
    assert prices.cost_of(million, "unheard-of", "asked") == 1
    assert prices.cost_of(million, "unheard-of", "neither") is None
    assert prices.cost_of(million) is None


def test_a_price_is_known_if_it_is_for_every_length(read: Read) -> None:
    short = priced('"m"', 1, "prompt_up_to = 1000")
    assert not read(short).knows("m")
    assert read(short + priced('"m"', 2)).knows("models/M")
    assert not read(short + '[[price]]\nmatch = ["m"]\n').knows("m")
    assert not read(priced('"m*"', 1)).knows("m" * 1000)
    assert FREE.knows("anything", tier="flex")


@pytest.mark.parametrize(
    "model",
    [
        *("gemini-4-argon", "gemini-3.8-flash", "gemini-3.6-flash", "gemini-3.5-flash-lite"),
        *("gemini-3.1-flash-lite", "gemini-3.1-pro-preview", "gemini-3-flash-preview"),
        *("gemini-flash-latest", "gemini-flash-lite-latest", "gemini-pro-latest"),
    ],
)
def test_every_current_model_has_a_delivered_price(model: str) -> None:
    prices = load_prices(DELIVERED)
    assert all(prices.knows(model, tier=tier) for tier in ("standard", "flex", "priority"))


def test_a_latest_alias_costs_the_same_as_its_current_model() -> None:
    prices = load_prices(DELIVERED)
    for moving, means in [
        ("gemini-flash-latest", "gemini-3.8-flash"),
        ("gemini-flash-lite-latest", "gemini-3.5-flash-lite"),
        ("gemini-pro-latest", "gemini-3.1-pro-preview"),
    ]:
        for usage in (used(1000, 10, 100), used(300_000, 10, 100)):
            assert prices.cost_of(usage, moving) == prices.cost_of(usage, means)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            priced('"m"', 1) + priced('"a", "M"', 2),
            "[[price]] 2: from: this row overlaps with [[price]] 1; both have a price for M without `from`",
        ),
        (
            priced('"m"', 1, 'from = "2026-12-01"') + priced('"m"', 2, 'from = "2026-12-01"'),
            "[[price]] 2: from: this row overlaps with [[price]] 1; both have a price for m from 2026-12-01",
        ),
        (
            priced('"m"', 1, "prompt_up_to = 9") + priced('"m"', 1, "prompt_up_to = 9"),
            "[[price]] 2: from: this row overlaps with [[price]] 1",
        ),
        (
            priced('"m"', 1, 'from = "2026-13-01"'),
            "[[price]] 1: from must be a date such as 2026-12-01, not '2026-13-01'",
        ),
        (priced('"m"', 1, 'from = "december"'), "from must be a date such as 2026-12-01"),
        (priced('"m"', 1, "from = 20261201"), "from must be a date such as 2026-12-01"),
        ('[[tier]]\nname = "flex"', "[[tier]] 1: factor is missing"),
        ("[[tier]]\nfactor = 1", "[[tier]] 1: name is missing"),
        ('[[tier]]\nname = "turbo"\nfactor = 1', "[[tier]] 1: name must be a text: flex or priority"),
        ('[[tier]]\nname = "standard"\nfactor = 2', "[[tier]] 1: name must be a text: flex or priority"),
        ('[[tier]]\nname = "flex"\nfactor = -1', "[[tier]] 1: factor must be a number from 0"),
        (
            '[[tier]]\nname = "flex"\nfactor = 1\n[[tier]]\nname = "flex"\nfactor = 1',
            "[[tier]] 2: name: there are two [[tier]] rows for flex",
        ),
        ('[[price]]\nmatch = ["m"]\ninput = 1', "prices.toml: [[price]] 1: output is missing"),
        ('[[price]]\nmatch = ["m"]\ncached = 1\noutput = 1', "[[price]] 1: input is missing"),
        ("[[price]]\ninput = 1\noutput = 1", "[[price]] 1: match is missing"),
        ('[[price]]\nmatch = ["m"]\n[[price]]\nmatch = []', "[[price]] 2: match is missing"),
        (
            '[[price]]\nmatch = ["m"]\ninput = -1\noutput = 1',
            "input must be a number from 0 to 1000000, not -1",
        ),
        ('[[price]]\nmatch = ["m"]\ninput = "free"', "input must be a number"),
        ('[[price]]\nmatch = ["m"]\ninput = nan\noutput = 1', "input must be a number"),
        ('[[price]]\nmatch = ["m"]\nprompt_up_to = 0', "prompt_up_to must be a whole number of at least 1"),
        ('[[price]]\nmatch = ["m"]\nprompt_upto = 1', "did you mean prompt_up_to?"),
        ("[price]\nmatch = 1", "price must be a list of tables"),
        ("prices = 1", "prices is unknown; did you mean price?"),
    ],
)
def test_an_invalid_price_is_named_with_its_position(read: Read, text: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(text)
    assert message in str(caught.value)
    assert "prices.toml" in str(caught.value)


def test_the_currency_must_be_named(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text("")
    with pytest.raises(SettingsError, match=r"prices\.toml: currency is missing"):
        load_prices(tmp_path / "prices.toml")


def test_a_custom_config_folder_may_have_its_own_prices(tmp_path: Path) -> None:
    for name in ("default.toml", "models.toml"):
        (tmp_path / name).write_text((DELIVERED.parent / name).read_text())
    assert load(tmp_path, {}).prices.currency == "USD"
    (tmp_path / "prices.toml").write_text('currency = "CHF"')
    assert load(tmp_path, {}).prices.currency == "CHF"


def test_every_aliased_model_has_a_delivered_price() -> None:
    settings = load(DELIVERED.parent, {})
    for model in {settings.models.default, *(model for _, model in settings.models.aliases)}:
        assert settings.prices.cost_of(used(1_000), model), model


def test_delivered_long_prompts_cost_more_and_image_models_are_unpriced() -> None:
    prices = load_prices(DELIVERED)
    short, long = (
        prices.cost_of(used(200_000), "gemini-2.5-pro"),
        prices.cost_of(used(400_000), "gemini-2.5-pro"),
    )
    assert (short, long) == (pytest.approx(0.25), pytest.approx(1.0))
    assert prices.cost_of(used(1_000), "gemini-2.5-flash-image") is None
    assert prices.cost_of(used(1_000), "demo") == 0


@pytest.mark.parametrize("count", [-1, 1 << 63, 10**30, 1.5, "7", None])
def test_an_invalid_token_count_counts_as_zero(count: object) -> None:
    assert Usage({"promptTokenCount": count, "candidatesTokenCount": 3}).total == 3

"""What tokens cost: the table is checked at the start, and the sums are Google's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bridge.gemini.types import Usage
from bridge.settings import SettingsError, load
from bridge.settings.prices import PriceTable, load_prices

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


def test_the_length_of_the_prompt_decides_between_rows_of_one_model(read: Read) -> None:
    short = '[[price]]\nmatch = ["m*"]\nprompt_up_to = 200000\ninput = 1\noutput = 1\n'
    prices = read(short + '[[price]]\nmatch = ["m*"]\ninput = 2\noutput = 3\n')
    assert prices.cost_of(used(200_000), "m-1") == pytest.approx(0.2)
    assert prices.cost_of(used(200_001), "m-1") == pytest.approx(0.400002)
    assert prices.cost_of(used(150_000, cached=149_000), "m-1") == pytest.approx(0.15), "cached ones count"
    assert read(short).cost_of(used(200_001), "m-1") is None


def test_the_first_row_that_matches_counts_in_any_letter_case(read: Read) -> None:
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


def test_a_price_of_cached_tokens_that_is_not_told_is_that_of_others(read: Read) -> None:
    prices = read('[[price]]\nmatch = ["m"]\ninput = 10\noutput = 1')
    assert prices.cost_of(used(1_000_000, cached=1_000_000), "m") == 10


@pytest.mark.parametrize(
    ("text", "message"),
    [
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
        ("prices = 1", "prices is not known; did you mean price?"),
    ],
)
def test_a_mistake_is_named_with_its_place(read: Read, text: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(text)
    assert message in str(caught.value)
    assert "prices.toml" in str(caught.value)


def test_the_currency_must_be_named(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text("")
    with pytest.raises(SettingsError, match=r"prices\.toml: currency is missing"):
        load_prices(tmp_path / "prices.toml")


def test_a_folder_of_ones_own_may_have_its_own_prices_or_leave_them(tmp_path: Path) -> None:
    for name in ("default.toml", "models.toml"):
        (tmp_path / name).write_text((DELIVERED.parent / name).read_text())
    assert load(tmp_path, {}).prices.currency == "USD"
    (tmp_path / "prices.toml").write_text('currency = "CHF"')
    assert load(tmp_path, {}).prices.currency == "CHF"


def test_as_delivered_every_model_that_an_alias_means_has_a_price() -> None:
    settings = load(DELIVERED.parent, {})
    for model in {settings.models.default, *(model for _, model in settings.models.aliases)}:
        assert settings.prices.cost_of(used(1_000), model), model


def test_as_delivered_long_prompts_cost_more_and_images_are_not_guessed() -> None:
    prices = load_prices(DELIVERED)
    short, long = (
        prices.cost_of(used(200_000), "gemini-2.5-pro"),
        prices.cost_of(used(400_000), "gemini-2.5-pro"),
    )
    assert (short, long) == (pytest.approx(0.25), pytest.approx(1.0))
    assert prices.cost_of(used(1_000), "gemini-2.5-flash-image") is None
    assert prices.cost_of(used(1_000), "demo") == 0


@pytest.mark.parametrize("count", [-1, 1 << 63, 10**30, 1.5, "7", None])
def test_a_count_that_cannot_be_is_none(count: object) -> None:
    assert Usage({"promptTokenCount": count, "candidatesTokenCount": 3}).total == 3

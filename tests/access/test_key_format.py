"""The format of keys: hard to guess, easy to scan for, with a checksum against typing errors."""

from __future__ import annotations

import math
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.access.key_format import ALPHABET, PREFIX, RANDOM_LENGTH, digest, hint, new_secret, well_formed


def test_a_key_matches_secret_scanners_and_has_enough_entropy() -> None:
    secret = new_secret()
    assert re.fullmatch(r"gbk_[0-9A-Za-z]{38}", secret)
    assert RANDOM_LENGTH * math.log2(len(ALPHABET)) >= 160
    assert len({new_secret() for _ in range(1000)}) == 1000


def test_a_new_key_is_well_formed() -> None:
    assert all(well_formed(new_secret()) for _ in range(1000))


@given(st.integers(min_value=0, max_value=41), st.sampled_from(string.ascii_letters + string.digits))
def test_one_wrong_character_is_detected(place: int, letter: str) -> None:
    secret = new_secret()
    wrong = secret[:place] + letter + secret[place + 1 :]
    assert well_formed(wrong) == (wrong == secret)


@pytest.mark.parametrize(
    "text",
    [
        "",
        PREFIX,
        "sk-" + "a" * 40,
        "any",
        new_secret()[:-1],
        new_secret() + "0",
        " " + new_secret(),
        "gbk_é" * 20,
    ],
    ids=["nothing", "prefix", "another's", "a word", "too short", "too long", "a space", "not ASCII"],
)
def test_other_texts_are_not_well_formed_keys(text: str) -> None:
    assert not well_formed(text)


@given(st.text(alphabet=st.characters(), max_size=100))
def test_any_text_can_be_hashed_and_checked(text: str) -> None:
    assert len(digest(text)) == 32
    well_formed(text)


def test_lone_surrogates_can_be_hashed_and_checked() -> None:
    assert len(digest("\udc80")) == 32
    assert not well_formed("gbk_" + "\udc80" * 38)


def test_the_hint_reveals_only_checksum_characters() -> None:
    secret = new_secret()
    assert secret.endswith(hint(secret))
    assert len(hint(secret)) < len(secret) - len(PREFIX) - RANDOM_LENGTH

"""Any tool name becomes one that Gemini accepts, and is restored for the client."""

from __future__ import annotations

import pytest
from gemini_rules import LEGAL_NAME
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.gemini import tool_names
from bridge.gemini.tool_names import LONGEST_LEGAL, ToolNames, legal_name

ODD_NAMES = (
    st.text(max_size=80)
    | st.text("aZ_.:-09 /é\n", max_size=80)
    | st.from_regex(r"mcp__[a-z]{20,40}__[a-z_]{20,40}", fullmatch=True)
)


@given(name=ODD_NAMES)
@example(name="")
@example(name="a\n")
@example(name="21st_magic")
@example(name="-dash")
@example(name="ä")
@example(name="x" * LONGEST_LEGAL)
@example(name="x" * (LONGEST_LEGAL + 1))
@example(name="٣")  # a digit, but not one of Gemini's
def test_every_tool_name_becomes_legal_for_gemini(name: str) -> None:
    assert LEGAL_NAME.fullmatch(legal_name(name))
    assert len(legal_name(name)) <= LONGEST_LEGAL


@given(name=st.from_regex(LEGAL_NAME, fullmatch=True))
def test_a_legal_name_is_unchanged(name: str) -> None:
    assert legal_name(name) == name


@given(name=ODD_NAMES)
def test_a_changed_name_is_legal_and_stable(name: str) -> None:
    assert legal_name(legal_name(name)) == legal_name(name)


@given(names=st.lists(ODD_NAMES, max_size=8))
def test_every_name_is_restored_for_the_client(names: list[str]) -> None:
    known = ToolNames()
    sent = {name: known.to_gemini(name) for name in names}
    assert {name: known.from_gemini(legal) for name, legal in sent.items()} == {name: name for name in sent}


def test_a_name_is_changed_the_same_way_in_every_request() -> None:
    assert ToolNames().to_gemini("a tool") == ToolNames().to_gemini("a tool")


@pytest.mark.parametrize(
    "names",
    [
        ["x" * 63 + "1", "x" * 63 + "2"],
        [
            "mcp__a_very_long_server_name_that_goes_on_and_on__with_a_tool_to_" + end
            for end in ("read", "write")
        ],
        ["a b", "a/b", "a_b", "a\tb"],
        ["", "_", "__"],
        ["é", "è", "_"],
    ],
)
def test_similar_names_stay_different(names: list[str]) -> None:
    assert len({legal_name(name) for name in names}) == len(names)


def test_an_unknown_name_in_a_call_is_unchanged() -> None:
    known = ToolNames()
    known.to_gemini("a tool")
    assert known.from_gemini("shell") == "shell"


def test_a_name_of_a_megabyte_is_not_remembered() -> None:
    before = tool_names._cached_legal_name.cache_info().currsize
    assert len(legal_name("x" * 1_000_000)) == LONGEST_LEGAL
    assert tool_names._cached_legal_name.cache_info().currsize == before

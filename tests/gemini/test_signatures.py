"""Signatures return on their own parts; foreign signatures never reach Gemini."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.gemini.signatures import DUMMY, add_signatures, seal, unseal, unseal_contents
from bridge.gemini.types import MODEL, USER, Content, FunctionCall, Part

FAMILY = "gemini-3"
FAMILIES = st.sampled_from(["", "gemini-2", "gemini-3", "gemini-3.1", "gemini-3-pro"])


class OpenVault:
    """A store that records its queries."""

    def __init__(self, **signatures: str) -> None:
        self._signatures = signatures
        self.asked: list[tuple[str, list[str]]] = []

    def keep(self, family: str, signatures: Mapping[str, str]) -> None:
        raise AssertionError("restoring keeps nothing")

    def find(self, family: str, call_ids: Iterable[str]) -> Mapping[str, str]:
        wanted = list(call_ids)
        self.asked.append((family, wanted))
        return {call_id: self._signatures[call_id] for call_id in wanted if call_id in self._signatures}


def ours(signature: str) -> str:
    return seal(signature, FAMILY)


def call(call_id: str | None = None, signature: str | None = None) -> Part:
    return Part(FunctionCall("f", {}, call_id), signature=signature)


def model(*parts: Part) -> Content:
    return Content(MODEL, parts)


def restored(*contents: Content, required: bool = True, vault: OpenVault | None = None) -> list[Content]:
    return list(
        add_signatures(
            unseal_contents(contents, FAMILY), FAMILY, required=required, store=vault or OpenVault()
        )
    )


def signatures(content: Content) -> list[str | None]:
    return [part.signature for part in content.parts]


# --- the seal ----------------------------------------------------------------------------------------


@given(signature=st.text(), family=FAMILIES)
def test_a_sealed_signature_is_unsealed_for_the_same_family(signature: str, family: str) -> None:
    assert unseal(seal(signature, family), family) == signature


@given(signature=st.text(), made_by=FAMILIES, asked_by=FAMILIES)
def test_no_family_gets_a_signature_of_another(signature: str, made_by: str, asked_by: str) -> None:
    assert (unseal(seal(signature, made_by), asked_by) is None) == (made_by != asked_by)


@pytest.mark.parametrize(
    "foreign", ["", "EtEBCs4B", DUMMY, "gb1", "gb1:", f"gb1:{FAMILY}", f"GB1:{FAMILY}:x", f" gb1:{FAMILY}:x"]
)
def test_an_unsealed_signature_is_foreign(foreign: str) -> None:
    assert unseal(foreign, FAMILY) is None


# --- restored signatures -----------------------------------------------------------------------------


def test_every_own_signature_returns_on_its_own_part() -> None:
    said = model(
        Part("a", thought=True, signature=ours("1")),
        Part("b"),
        Part("c", signature=ours("2")),
        call("x", ours("3")),
        call("y"),
        Part("", signature=ours("4")),
    )
    (back,) = restored(said)
    assert signatures(back) == ["1", None, "2", "3", None, "4"]
    assert [part.data for part in back.parts] == [part.data for part in said.parts]


@pytest.mark.parametrize("foreign", ["EtEBCs4B", seal("x", "gemini-2"), seal("x", "gemini-3.1"), DUMMY])
def test_foreign_signatures_are_dropped_from_every_part(foreign: str) -> None:
    said = model(Part("a", thought=True, signature=foreign), Part("b", signature=foreign), call("x", foreign))
    assert signatures(restored(said, required=False)[0]) == [None, None, None]


def test_foreign_signatures_are_dropped_from_user_turns() -> None:
    """Gemini checks signatures in every turn."""
    assert signatures(restored(Content(USER, (Part("a", signature="EtEBCs4B"),)))[0]) == [None]


def test_a_history_without_signatures_and_calls_is_unchanged() -> None:
    contents = (Content(USER, (Part("a"),)), model(Part("b", thought=True), Part("c")))
    vault = OpenVault()
    assert restored(*contents, vault=vault) == list(contents)
    assert vault.asked == []


# --- the dummy ---------------------------------------------------------------------------------------


def test_only_the_first_of_parallel_calls_gets_the_dummy() -> None:
    (back,) = restored(model(Part("a", thought=True), Part("b"), call("x"), call("y"), Part("c"), call("z")))
    assert signatures(back) == [None, None, DUMMY, None, None, None]


def test_the_first_call_of_every_step_gets_the_dummy() -> None:
    answer = Content(USER, (Part("fine"),))
    back = restored(model(call("x")), answer, model(call("y"), call("z")), answer)
    assert [signatures(content) for content in back] == [[DUMMY], [None], [DUMMY, None], [None]]


def test_a_call_with_a_foreign_signature_gets_the_dummy() -> None:
    assert signatures(restored(model(call("x", "EtEBCs4B")))[0]) == [DUMMY]


def test_no_call_gets_the_dummy_if_the_model_does_not_need_it() -> None:
    assert signatures(restored(model(call("x"), call("y")), required=False)[0]) == [None, None]


def test_no_text_or_thought_gets_the_dummy() -> None:
    assert signatures(restored(model(Part("a", thought=True), Part("b")))[0]) == [None, None]


def test_a_call_in_a_user_turn_gets_no_dummy() -> None:
    assert signatures(restored(Content(USER, (call("x"),)))[0]) == [None]


def test_a_signed_thought_before_the_call_replaces_the_dummy() -> None:
    said = model(Part("a", thought=True, signature=ours("1")), call("x"))
    assert signatures(restored(said)[0]) == ["1", None]


def test_a_signed_call_after_a_signed_thought_gets_its_own_signature() -> None:
    said = model(Part("a", thought=True, signature=ours("1")), Part("b"), call("x"))
    assert signatures(restored(said, vault=OpenVault(x="kept"))[0]) == ["1", None, "kept"]


@pytest.mark.parametrize(
    "before",
    [
        Part("a", thought=True, signature="foreign"),
        Part("a", thought=True, signature=seal("x", "gemini-2")),
        Part("a", signature=ours("1")),
    ],
)
def test_no_other_part_before_the_call_replaces_the_dummy(before: Part) -> None:
    assert signatures(restored(model(before, call("x")))[0])[-1] == DUMMY


def test_a_signed_thought_after_the_call_does_not_replace_the_dummy() -> None:
    said = model(call("x"), Part("a", thought=True, signature=ours("1")))
    assert signatures(restored(said)[0]) == [DUMMY, "1"]


def test_a_signature_on_the_second_call_leaves_the_first_its_dummy() -> None:
    assert signatures(restored(model(call("x"), call("y", ours("1"))))[0]) == [DUMMY, "1"]


# --- signature store ---------------------------------------------------------------------------------


@pytest.mark.parametrize("required", [True, False])
def test_an_unsigned_first_call_gets_its_signature_from_the_store(required: bool) -> None:
    vault = OpenVault(x="kept", y="never")
    (back,) = restored(model(call("x"), call("y")), required=required, vault=vault)
    assert signatures(back) == ["kept", None]
    assert vault.asked == [(FAMILY, ["x"])]


def test_the_signature_store_is_queried_once_for_all_steps() -> None:
    vault = OpenVault(b="kept")
    back = restored(
        model(call("a", ours("1"))), model(call("b")), model(call()), model(call("c")), vault=vault
    )
    assert [signatures(content) for content in back] == [["1"], ["kept"], [DUMMY], [DUMMY]]
    assert vault.asked == [(FAMILY, ["b", "c"])]


def test_a_call_without_an_id_gets_no_signature_from_the_store() -> None:
    vault = OpenVault(**{"": "wrong"})
    assert signatures(restored(model(call()), model(call("")), vault=vault)[0]) == [DUMMY]
    assert vault.asked == []

"""A sealed summary is read by its owner alone, and only unchanged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.protocols.summary_seal import OpenedSummary, StandsFor, SummarySeal

ALICE = SummarySeal("key:1", lambda: b"secret")
SEALS = [
    SummarySeal("key:2", lambda: b"secret"),
    SummarySeal("", lambda: b"secret"),
    SummarySeal("key:1", lambda: b"other"),
]


@given(st.text(), st.sampled_from(StandsFor))
def test_the_owner_reads_what_was_sealed(text, stands_for):
    readable = text.encode("utf-8", "replace").decode()
    assert ALICE.open(ALICE.close(readable, stands_for)) == OpenedSummary(readable, stands_for)
    assert ALICE.verified(text, ALICE.sign(text, stands_for)) is stands_for


@pytest.mark.parametrize("other", SEALS)
def test_nobody_else_reads_it(other):
    sealed = ALICE.close("Two boats.", StandsFor.EVERYTHING)
    assert other.open(sealed) is None
    assert other.verified("Two boats.", ALICE.sign("Two boats.", StandsFor.EVERYTHING)) is None


def test_a_changed_summary_is_refused():
    sealed = ALICE.close("Two boats.", StandsFor.ALL_BUT_MESSAGES)
    for at, letter in enumerate(sealed):
        changed = f"{sealed[:at]}{'y' if letter == 'x' else 'x'}{sealed[at + 1 :]}"
        opened = ALICE.open(changed)
        assert opened is None or opened.text == "Two boats.", "the last letters may have bits to spare"
    assert ALICE.verified("Ten boats.", ALICE.sign("Two boats.", StandsFor.EVERYTHING)) is None
    assert ALICE.open(sealed.replace(".rest.", ".all.")) is None


@pytest.mark.parametrize(
    "text", [None, 5, "", "gAAAAAB", "bridge-summary-1.", "bridge-summary-1.all.00.*", "é" * 9]
)
def test_texts_of_other_vendors_are_not_read(text):
    assert ALICE.open(text) is None

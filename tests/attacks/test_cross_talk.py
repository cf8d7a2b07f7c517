"""No byte of one request shows up in another, whatever an upstream does on kept connections."""

from __future__ import annotations

import os

import pytest

from tests.attacks.connection_faults import IDLE_DEEDS, LONG_DEEDS, MISDEEDS, ORDINARY
from tests.attacks.cross_talk import attack, battlefield, verdict

REQUESTS = int(os.environ.get("CROSS_TALK_REQUESTS", "600"))
#: The same in every run, so that a failure can be seen again: `--seed` of `tests.attacks.cross_talk`.
SEED = 15


@pytest.mark.timeout(120 + REQUESTS // 5)
def test_no_answer_contains_data_of_another() -> None:
    with battlefield() as (bridge, gemini):
        tally = attack(bridge, gemini, REQUESTS, SEED)
        wrong = verdict(bridge, gemini, tally)
    assert not wrong, "\n".join(wrong[:20])
    assert sum(tally.outcomes.values()) == REQUESTS
    # or nothing was tried:
    assert set(gemini.asked) == {*ORDINARY, *LONG_DEEDS, *IDLE_DEEDS, *MISDEEDS}
    assert tally.outcomes["whole"] > REQUESTS / 3
    assert tally.outcomes["left"] > REQUESTS / 30
    assert gemini.reused > REQUESTS / 4
    assert gemini.said_late > REQUESTS / 30

"""No byte of one request appears in another, whatever an upstream does on kept connections."""

from __future__ import annotations

import os

import pytest

from tests.attacks.connection_faults import CONNECTION_FAULTS, IDLE_BEHAVIOURS, ORDINARY, SLOW_BEHAVIOURS
from tests.attacks.cross_talk import attack, bridge_and_upstream, verdict

REQUESTS = int(os.environ.get("CROSS_TALK_REQUESTS", "600"))
#: Fixed, so that a failure can be reproduced: `--seed` of `tests.attacks.cross_talk`.
SEED = 15


@pytest.mark.timeout(120 + REQUESTS // 5)
def test_no_answer_contains_data_of_another() -> None:
    with bridge_and_upstream() as (bridge, gemini):
        tally = attack(bridge, gemini, REQUESTS, SEED)
        wrong = verdict(bridge, gemini, tally)
    assert not wrong, "\n".join(wrong[:20])
    assert sum(tally.outcomes.values()) == REQUESTS
    # every behaviour was exercised:
    assert set(gemini.asked) == {*ORDINARY, *SLOW_BEHAVIOURS, *IDLE_BEHAVIOURS, *CONNECTION_FAULTS}
    assert tally.outcomes["whole"] > REQUESTS / 3
    assert tally.outcomes["left"] > REQUESTS / 30
    assert gemini.reused > REQUESTS / 4
    assert gemini.sent_late > REQUESTS / 30

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from evil_gemini import Evil
from gunicorn_bridge import Bridge, gunicorn_bridge

from tests.faults.upstream_faults import BEHAVIOURS

#: Timeouts that are short enough for tests, in the same proportions as the delivered ones.
SHORT_TIMEOUTS = {
    "GEMINI_API_KEY": "AIzaCanary0123456789abcdefghijklmnopqrs",
    "BRIDGE_SERVER__HEARTBEAT": "0.4",
    "BRIDGE_UPSTREAM__FIRST_BYTE_TIMEOUT": "3",
    "BRIDGE_UPSTREAM__READ_TIMEOUT": "2",
    "BRIDGE_UPSTREAM__ANSWER_TIMEOUT": "5",
    "BRIDGE_UPSTREAM__LONGEST_WAIT": "3",
    "BRIDGE_UPSTREAM__KEY_COOLDOWN": "0",
}

NUMBERS = itertools.count(1)


def fresh(behaviour: str) -> str:
    """Return an unused model name for this behaviour."""
    return f"gemini-{behaviour}--{next(NUMBERS)}"


@pytest.fixture(scope="session")
def evil() -> Iterator[Evil]:
    running = Evil(BEHAVIOURS)
    yield running
    running.close()


@pytest.fixture(scope="session")
def short_timeouts(evil: Evil) -> Iterator[Bridge]:
    """The bridge with two workers and short timeouts, with an evil Gemini as upstream."""
    with gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **SHORT_TIMEOUTS) as running:
        yield running

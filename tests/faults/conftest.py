from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from evil_gemini import Evil
from gunicorn_bridge import Bridge, gunicorn_bridge

from tests.faults.upstream_faults import DEEDS

#: Short enough for a test, in the same proportions as the delivered ones.
IMPATIENT = {
    "GEMINI_API_KEY": "AIzaCanary0123456789abcdefghijklmnopqrs",
    "BRIDGE_SERVER__HEARTBEAT": "0.4",
    "BRIDGE_UPSTREAM__FIRST_BYTE_TIMEOUT": "3",
    "BRIDGE_UPSTREAM__READ_TIMEOUT": "2",
    "BRIDGE_UPSTREAM__ANSWER_TIMEOUT": "5",
    "BRIDGE_UPSTREAM__LONGEST_WAIT": "3",
    "BRIDGE_UPSTREAM__KEY_COOLDOWN": "0",
}

NUMBERS = itertools.count(1)


def fresh(deed: str) -> str:
    """A model's name of this deed that nobody has asked for yet."""
    return f"gemini-{deed}--{next(NUMBERS)}"


@pytest.fixture(scope="session")
def evil() -> Iterator[Evil]:
    running = Evil(DEEDS)
    yield running
    running.close()


@pytest.fixture(scope="session")
def impatient(evil: Evil) -> Iterator[Bridge]:
    """The bridge with two workers, between its clients and an evil Gemini."""
    with gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **IMPATIENT) as running:
        yield running

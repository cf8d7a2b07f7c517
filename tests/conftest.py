from __future__ import annotations

from collections.abc import Iterator

import pytest
from gunicorn_bridge import Bridge, gunicorn_bridge
from hypothesis import settings
from scripted_gemini import ScriptedGemini

# How long an example takes says more about the machine than about the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """And so does how long a hundred of them take: a busy machine has needed more than a minute."""
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.timeout(600))


#: It looks like a key, and must never turn up in a log or an answer.
CANARY_KEY = "AIzaCanary0123456789abcdefghijklmnopqrs"


@pytest.fixture(scope="session")
def canary_key() -> str:
    return CANARY_KEY


@pytest.fixture(scope="session")
def _gemini() -> Iterator[ScriptedGemini]:
    scripted = ScriptedGemini()
    yield scripted
    scripted.close()


@pytest.fixture
def gemini(_gemini: ScriptedGemini) -> ScriptedGemini:
    """The scripted upstream behind `bridge`."""
    _gemini.forget()
    return _gemini


@pytest.fixture(scope="session")
def bridge(_gemini: ScriptedGemini) -> Iterator[Bridge]:
    """Real gunicorn with two workers, talking to the scripted upstream."""
    with gunicorn_bridge(
        GEMINI_API_KEY=CANARY_KEY,
        GOOGLE_GEMINI_BASE_URL=_gemini.address,
        BRIDGE_UPSTREAM__READ_TIMEOUT="5",
        BRIDGE_SERVER__HEARTBEAT="0.3",
        BRIDGE_UPSTREAM__ATTEMPTS="1",  # what the upstream says is what the client must see
        BRIDGE_UPSTREAM__KEY_COOLDOWN="0",  # one test's refusal is not the next one's
    ) as running:
        yield running


@pytest.fixture(scope="session")
def demo_bridge() -> Iterator[Bridge]:
    """As `make run` starts it on a machine without a key."""
    with gunicorn_bridge() as running:
        yield running

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gunicorn_bridge import Bridge, gunicorn_bridge
from hypothesis import settings
from scripted_gemini import ScriptedGemini

# The time of an example depends more on the machine than on the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give property tests more time: a hundred examples can take over a minute on a busy machine."""
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.timeout(600))


#: It looks like a key, and must never appear in a log or a response.
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
        BRIDGE_UPSTREAM__ATTEMPTS="1",  # the client must see each upstream error, without retries
        BRIDGE_UPSTREAM__KEY_COOLDOWN="0",  # a refusal must not affect the next test
    ) as running:
        yield running


@pytest.fixture(scope="session")
def demo_bridge() -> Iterator[Bridge]:
    """The bridge as `make run` starts it on a machine without a key."""
    with gunicorn_bridge() as running:
        yield running

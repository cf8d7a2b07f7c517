from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from evil_gemini import Evil, chat_text
from gunicorn_bridge import ROOT, Bridge, gunicorn_bridge

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


def fresh(behaviour: str, family: str = "gemini") -> str:
    """Return an unused model name for this behaviour."""
    return f"{family}-{behaviour}--{next(NUMBERS)}"


#: Beside Gemini, a server that speaks Chat Completions, and another one that shares its models `shared-*`.
ROWS = """
[[upstream]]
name = "chat"
kind = "openai"
dialect = "vllm"
base_url = "{chat}/v1"
models = ["chat-*", "shared-*"]

[[upstream]]
name = "spare"
kind = "openai"
dialect = "vllm"
base_url = "{spare}/v1"
models = ["shared-*"]
"""


def config_with_rows(folder: Path, chat: Evil, spare: Evil) -> str:
    shutil.copytree(ROOT / "config", folder, ignore=shutil.ignore_patterns("local.toml"))
    (folder / "upstreams.toml").write_text(ROWS.format(chat=chat.address, spare=spare.address))
    return str(folder)


@pytest.fixture(scope="session")
def evil() -> Iterator[Evil]:
    running = Evil(BEHAVIOURS)
    yield running
    running.close()


@pytest.fixture(scope="session")
def evil_chat() -> Iterator[Evil]:
    running = Evil(BEHAVIOURS, chat_text)
    yield running
    running.close()


@pytest.fixture(scope="session")
def several_upstreams(
    evil: Evil, evil_chat: Evil, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bridge]:
    """The bridge with short timeouts, an evil Gemini, an evil server of another vendor, and a good one."""
    spare = Evil({}, chat_text)
    config = config_with_rows(tmp_path_factory.mktemp("several") / "config", evil_chat, spare)
    with gunicorn_bridge(
        BRIDGE_CONFIG_DIR=config, GOOGLE_GEMINI_BASE_URL=evil.address, **SHORT_TIMEOUTS
    ) as running:
        yield running
    spare.close()


@pytest.fixture(scope="session")
def short_timeouts(evil: Evil) -> Iterator[Bridge]:
    """The bridge with two workers and short timeouts, with an evil Gemini as upstream."""
    with gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **SHORT_TIMEOUTS) as running:
        yield running

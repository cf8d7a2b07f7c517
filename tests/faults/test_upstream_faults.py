"""Whatever the upstream does, every client gets a complete answer or a legal error, streamed or not."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from evil_gemini import Evil
from gunicorn_bridge import ROOT, Bridge, gunicorn_bridge
from raw_clients import CHAT, MESSAGES, RAW_CLIENTS, Answer, RawClient

from tests.faults.conftest import SHORT_TIMEOUTS, config_with_rows, fresh
from tests.faults.upstream_faults import OF_GEMINI, TEN_MB

EVERY_WAY = [(raw_client, stream) for raw_client in RAW_CLIENTS for stream in (True, False)]


def ask_every_way(bridge: Bridge, behaviour: str, family: str = "gemini") -> list[tuple[str, Answer]]:
    """Send concurrent requests in every protocol, streamed and whole, each with its own model name."""

    def ask(way: tuple[RawClient, bool]) -> tuple[str, Answer]:
        raw_client, stream = way
        model = fresh(behaviour, family)
        return model, raw_client.ask(bridge.address, model, stream=stream)

    with ThreadPoolExecutor(len(EVERY_WAY)) as threads:
        return list(threads.map(ask, EVERY_WAY))


#: Upstream behaviour → number of upstream calls.
MENDED = {
    "overloaded-once": 2,
    "overloaded-twice": 3,
    "quota-once": 2,
    "reset-once": 2,
    "empty-once": 2,
    "nothing-once": 2,
    "thoughts-alone-once": 2,
    "malformed-once": 2,
    "error-body-once": 2,
    "html-once": 2,
}


@dataclass
class Faulty:
    """An upstream with faults, and the bridge in front of it."""

    bridge: Bridge
    evil: Evil
    family: str  #: of its models


@pytest.fixture
def faulty(request: pytest.FixtureRequest) -> Faulty:
    family = request.param
    if family == "gemini":
        return Faulty(request.getfixturevalue("short_timeouts"), request.getfixturevalue("evil"), family)
    return Faulty(request.getfixturevalue("several_upstreams"), request.getfixturevalue("evil_chat"), family)


def each_behaviour(names: Iterable[str]) -> pytest.MarkDecorator:
    """Each behaviour of Gemini, and of a server of another vendor as far as that has it."""
    cases = [("gemini", name) for name in names]
    cases += [("chat", name) for name in names if name not in OF_GEMINI]
    return pytest.mark.parametrize(("faulty", "behaviour"), cases, indirect=["faulty"])


@each_behaviour(MENDED)
def test_a_failure_fixed_by_a_retry_is_invisible_to_the_client(faulty: Faulty, behaviour: str) -> None:
    for model, answer in ask_every_way(faulty.bridge, behaviour, faulty.family):
        assert answer.ended_well, answer
        assert not answer.failed, answer
        assert b"All " in answer.content
        assert b"Hm." not in answer.content, "nothing of the first attempt was shown"
        assert faulty.evil.asked[model] == MENDED[behaviour]


#: Upstream behaviour → error name in the log.
BROKEN = {
    "stall-before-head": "timeout",
    "stall-in-head": "timeout",
    "stall-after-head": "timeout",
    "stall-in-frame-size": "timeout",
    "stall-in-chunk": "timeout",
    "reset-in-stream": "truncated",
    "close-in-stream": "truncated",
    "no-finish": "truncated",
    "truncated-json": "truncated",
    "half-a-character": "truncated",
    "error-in-stream": "overloaded",
    "never-ending": "timeout",
    "gzip-cut-short": "truncated",
    "endless-comments": "timeout",
    "endless-trailers": "truncated",
    "overloaded": "overloaded",
    "quota": "rate_limited",
    "malformed": "malformed",
    "signature": "refused",
}


@each_behaviour(BROKEN)
def test_a_permanent_failure_ends_the_answer_legally_with_an_error(faulty: Faulty, behaviour: str) -> None:
    for model, answer in ask_every_way(faulty.bridge, behaviour, faulty.family):
        assert answer.ended_legally, answer.content[-400:]
        assert answer.failed, answer
        line = faulty.bridge.request(model=model)
        assert (line["outcome"], line.get("error")) == ("failed", BROKEN[behaviour])


@pytest.mark.parametrize("behaviour", ["overloaded", "quota", "stall-before-head", "stall-after-head"])
def test_another_upstream_answers_for_one_that_fails(several_upstreams: Bridge, behaviour: str) -> None:
    for model, answer in ask_every_way(several_upstreams, behaviour, "shared"):
        assert answer.ended_well, answer
        assert not answer.failed, answer
        assert several_upstreams.request(model=model)["upstream"] == "spare"


def test_faults_of_one_upstream_do_not_reach_another(several_upstreams: Bridge) -> None:
    with ThreadPoolExecutor() as threads:
        failing = [
            threads.submit(ask_every_way, several_upstreams, behaviour, "chat")
            for behaviour in ("stall-in-chunk", "never-ending", "reset-in-stream")
        ]
        for _ in range(3):
            for model, answer in ask_every_way(several_upstreams, "good"):
                assert answer.ended_well, answer
                assert several_upstreams.request(model=model)["upstream"] == "default"
        for each in failing:
            assert all(answer.ended_legally for _, answer in each.result())


def test_a_partial_answer_is_sent_before_its_error(short_timeouts: Bridge) -> None:
    for _, answer in ask_every_way(short_timeouts, "reset-in-stream"):
        if answer.stream:
            assert answer.status == 200
            assert b"Half " in answer.content


def peak_megabytes(bridge: Bridge) -> float:
    """Return the peak memory of the largest worker."""
    told = (Path(f"/proc/{worker}/status").read_text() for worker in bridge.workers())
    return max(int(status.partition("VmHWM:")[2].split()[0]) for status in told) / 1024


each_family = pytest.mark.parametrize("family", ["gemini", "chat"])


@each_family
@pytest.mark.parametrize("behaviour", ["gzip-bomb", "endless-event", "many-values"])
def test_unbounded_upstream_data_is_aborted(
    evil: Evil, evil_chat: Evil, tmp_path: Path, behaviour: str, family: str
) -> None:
    timeout = dict.fromkeys(("FIRST_BYTE_TIMEOUT", "READ_TIMEOUT", "ANSWER_TIMEOUT"), "60")
    environment = {**SHORT_TIMEOUTS, **{f"BRIDGE_UPSTREAM__{name}": value for name, value in timeout.items()}}
    environment["BRIDGE_CONFIG_DIR"] = config_with_rows(tmp_path / "config", evil_chat, evil_chat)
    with gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **environment) as bridge:
        before = peak_megabytes(bridge)
        for raw_client in (CHAT, MESSAGES):
            model = fresh(behaviour, family)
            answer = raw_client.ask(bridge.address, model, stream=True)
            assert answer.ended_legally, answer.content[-400:]
            assert bridge.request(model=model)["error"] == "malformed"
        assert peak_megabytes(bridge) - before < 200


def test_heartbeats_are_sent_between_meaningless_bytes(short_timeouts: Bridge) -> None:
    for _, answer in ask_every_way(short_timeouts, "endless-comments"):
        assert not answer.stream or answer.raw_client.sign_of_life in answer.content


@pytest.fixture(scope="module")
def patient(evil: Evil, evil_chat: Evil, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    """A bridge with timeouts several times longer than the slow upstreams here need."""
    environment = {
        **SHORT_TIMEOUTS,
        "BRIDGE_UPSTREAM__FIRST_BYTE_TIMEOUT": "12",
        "BRIDGE_UPSTREAM__READ_TIMEOUT": "12",
        "BRIDGE_UPSTREAM__ANSWER_TIMEOUT": "60",
        "BRIDGE_CONFIG_DIR": config_with_rows(tmp_path_factory.mktemp("p") / "config", evil_chat, evil_chat),
    }
    with gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **environment) as running:
        yield running


TOLD = {"gzip-unasked": "is well.", "slow-start": "is well.", "drip": "is well.", "long": "done."}


@pytest.mark.parametrize(
    ("behaviour", "told", "family"),
    [
        *((behaviour, told, "gemini") for behaviour, told in TOLD.items()),
        *((behaviour, told, "chat") for behaviour, told in TOLD.items()),
        ("ten-megabytes", TEN_MB, "gemini"),  # the search for thinking tags divides so long a text
    ],
)
def test_a_slow_upstream_does_not_time_out(patient: Bridge, behaviour: str, told: str, family: str) -> None:
    for _, answer in ask_every_way(patient, behaviour, family):
        assert answer.ended_well
        assert told.encode() in answer.content


def test_heartbeats_are_sent_before_the_upstreams_response_head(patient: Bridge) -> None:
    for _, answer in ask_every_way(patient, "stall-before-head"):
        assert answer.ended_legally
        if answer.stream:
            assert answer.content.count(answer.raw_client.sign_of_life) >= 2


def test_an_answer_that_stays_empty_ends_normally(short_timeouts: Bridge, evil: Evil) -> None:
    for model, answer in ask_every_way(short_timeouts, "empty"):
        assert answer.ended_well
        assert evil.asked[model] == 3


# --- errors and delays for clients -------------------------------------------------------------------


def test_a_long_retry_delay_is_passed_on_to_the_client(short_timeouts: Bridge, evil: Evil) -> None:
    for model, answer in ask_every_way(short_timeouts, "quota"):
        assert answer.status == 429
        assert answer.headers["Retry-After"] == "48"
        assert evil.asked[model] == 1


def test_in_a_storm_of_rate_limits_one_upstream_call_is_made_and_all_clients_get_the_delay(
    evil: Evil,
) -> None:
    environment = {**SHORT_TIMEOUTS, "BRIDGE_UPSTREAM__KEY_COOLDOWN": "60"}
    with gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **environment) as bridge:
        model = fresh("quota")
        assert CHAT.ask(bridge.address, model, stream=True).status == 429
        time.sleep(1.2)  # by then all workers have read the cool-down
        answers = [CHAT.ask(bridge.address, model, stream=stream) for stream in (True, False) * 10]
    assert {answer.status for answer in answers} == {429}
    assert all(30 < int(answer.headers["Retry-After"]) <= 48 for answer in answers)
    assert evil.asked[model] == 1


def test_a_fallback_model_answers_while_the_requested_model_is_overloaded(evil: Evil, tmp_path: Path) -> None:
    config = tmp_path / "config"
    shutil.copytree(ROOT / "config", config, ignore=shutil.ignore_patterns("local.toml"))
    first, second = fresh("overloaded"), fresh("good")
    row = f'[[model]]\nmatch = ["{first}"]\nfallbacks = ["{second}"]\n\n'
    table = (config / "models.toml").read_text()
    (config / "models.toml").write_text(table.replace("[[model]]", row + "[[model]]", 1))
    environment = {**SHORT_TIMEOUTS, "BRIDGE_CONFIG_DIR": str(config)}
    with gunicorn_bridge(GOOGLE_GEMINI_BASE_URL=evil.address, **environment) as bridge:
        answer = MESSAGES.ask(bridge.address, first, stream=True)
        assert answer.ended_well
        assert f'"model":"{first}"'.encode() in answer.content, "the client keeps the name it asked for"
        asked = evil.asked[first]
        time.sleep(1.2)
        assert MESSAGES.ask(bridge.address, first, stream=False).ended_well
        assert evil.asked[first] == asked, "it is left alone for a while"
        assert bridge.request(model=first)["upstream_model"] == second


# --- repairs -----------------------------------------------------------------------------------------

TOOL = {
    "name": "look",
    "description": "Look somewhere.",
    "input_schema": {
        "type": "object",
        "properties": {"where": {"type": "string", "enum": ["up", "down"], "pattern": "^[a-z]+$"}},
        "required": ["where"],
    },
}


def test_a_refused_signature_is_replaced_once(short_timeouts: Bridge, evil: Evil) -> None:
    model = fresh("signature-once")
    used = [{"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"where": "up"}}]
    result = [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "sky"}]
    history = [
        {"role": "user", "content": "Look up"},
        {"role": "assistant", "content": used},
        {"role": "user", "content": result},
    ]
    sealed = [{"type": "thinking", "thinking": "", "signature": f"gb1:{model}:c2ln"}, *used]
    signed = [history[0], {"role": "assistant", "content": sealed}, history[2]]
    answer = MESSAGES.ask(short_timeouts.address, model, stream=True, messages=signed, tools=[TOOL])
    assert answer.ended_well
    sent = [str(body["contents"]) for body in evil.bodies[model]]
    assert len(sent) == 2
    assert "skip_thought_signature_validator" in sent[1]
    assert "c2ln" not in sent[1]
    assert {"retry.refused": 1, "signatures.dummy": 1}.items() <= short_timeouts.request(model=model)[
        "notes"
    ].items()


def test_a_refused_schema_is_simplified_once(short_timeouts: Bridge, evil: Evil) -> None:
    model = fresh("schema-once")
    assert MESSAGES.ask(short_timeouts.address, model, stream=False, tools=[TOOL]).ended_well
    first, second = (
        body["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"]["properties"]["where"]
        for body in evil.bodies[model]
    )
    assert first["enum"] == ["up", "down"]
    assert second == {"type": "string", "description": "One of: up, down"}


def test_a_refused_thinking_config_is_dropped_once(short_timeouts: Bridge, evil: Evil) -> None:
    model = "gemini-3.1-pro-" + fresh("thinking-once").removeprefix("gemini-")
    evil.faults[model.removeprefix("gemini-").partition("--")[0]] = evil.faults["thinking-once"]
    assert CHAT.ask(short_timeouts.address, model, stream=False, reasoning_effort="low").ended_well
    first, second = (body.get("generationConfig", {}) for body in evil.bodies[model])
    assert first["thinkingConfig"] == {"includeThoughts": True, "thinkingLevel": "LOW"}
    assert second["thinkingConfig"] == {"includeThoughts": True}

"""The flight recorder of a real bridge with two workers: what it keeps, and what it tells the client."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import anthropic
import pytest
import requests
from command_line import attempt, command
from flights import flight_of, flights_in, stage
from gunicorn_bridge import ROOT, Bridge, clean_environment, gunicorn_bridge
from scripted_gemini import CUT, Reply, ScriptedGemini, call_chunk, sse, text_chunk
from waiting import eventually

from bridge.state.flight_store import FlightQuery

KEY = "AIzaRecorder0123456789abcdefghijklmnopq"
TOOL = {
    "name": "Read",
    "description": "Reads a file.",
    "input_schema": {"type": "object", "properties": {"file_path": {"type": "string"}}},
}


@pytest.fixture(scope="module")
def scripted() -> Iterator[ScriptedGemini]:
    found = ScriptedGemini()
    yield found
    found.close()


@pytest.fixture(scope="module")
def recording(scripted: ScriptedGemini) -> Iterator[Bridge]:
    with gunicorn_bridge(
        GEMINI_API_KEY=KEY,
        GOOGLE_GEMINI_BASE_URL=scripted.address,
        BRIDGE_UPSTREAM__ATTEMPTS="1",
        BRIDGE_UPSTREAM__KEY_COOLDOWN="0",
        BRIDGE_RECORDER__MODE="errors",
        BRIDGE_RECORDER__LEVEL="masked",
    ) as running:
        yield running


@pytest.fixture(autouse=True)
def fresh(scripted: ScriptedGemini) -> None:
    scripted.forget()


def ask(bridge: Bridge, text: str = "Hello", **headers: str) -> requests.Response:
    body = {"model": "gpt-5", "messages": [{"role": "user", "content": text}]}
    return requests.post(f"{bridge.address}/v1/chat/completions", json=body, headers=headers, timeout=30)


def flight(bridge: Bridge, *arguments: str) -> str:
    return command("flight", *arguments, **environment(bridge))


def environment(bridge: Bridge, **more: str) -> dict[str, str]:
    return {
        "BRIDGE_STATE_DIR": str(bridge.state),
        "BRIDGE_RECORDER__MODE": "errors",
        "GEMINI_API_KEY": KEY,
        **more,
    }


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_succeeds_is_announced_and_not_kept(recording: Bridge, stream: bool) -> None:
    body = {"model": "gpt-5", "stream": stream, "messages": [{"role": "user", "content": "Hello"}]}
    answer = requests.post(f"{recording.address}/v1/chat/completions", json=body, timeout=30)
    assert answer.headers["x-bridge-recorded"] == "on-error; masked"
    assert "Hello." in answer.text
    recording.request(request_id=answer.headers["x-request-id"])
    assert flights_in(recording.state).find(answer.headers["x-request-id"]) is None


def test_a_refused_answer_is_kept(recording: Bridge, scripted: ScriptedGemini) -> None:
    error = {"error": {"code": 500, "message": "It broke.", "status": "INTERNAL"}}
    scripted.will_say(Reply([str(error).replace("'", '"').encode()], 500))
    answer = ask(recording, "mail anna@example.com")
    assert answer.status_code >= 500
    row, lines = flight_of(recording.state, answer.headers["x-request-id"])
    assert (row.outcome, row.status, row.reason) == ("failed", answer.status_code, "errors")
    sent = stage(lines, "gemini-request")[0]["body"]
    assert sent["contents"][0]["parts"] == [{"text": "mail [masked]"}]
    assert stage(lines, "error")[0]["kind"] == row.error


def test_a_stream_that_breaks_is_kept_with_its_chunks_and_events(
    recording: Bridge, scripted: ScriptedGemini
) -> None:
    scripted.will_say([*sse(text_chunk("Once "), text_chunk("upon ")), CUT])
    body = {"model": "gpt-5", "stream": True, "messages": [{"role": "user", "content": "Tell."}]}
    answer = requests.post(f"{recording.address}/v1/chat/completions", json=body, timeout=30)
    assert answer.status_code == 200
    row, lines = flight_of(recording.state, answer.headers["x-request-id"])
    assert (row.outcome, row.status, row.level) == ("failed", 200, "masked")
    assert len(stage(lines, "chunk")) == 2
    kinds = [line["type"] for line in stage(lines, "event")]
    assert kinds.count("content") == 2
    assert kinds[-2:] == ["error", "done"]
    times = stage(lines, "timeline")[0]
    order = [times[name] for name in ("received", "converted", "sent", "first_chunk", "closed")]
    assert order == sorted(order)


def test_a_body_that_the_schema_refuses_is_kept(recording: Bridge) -> None:
    body = {"model": "gpt-5", "messages": "none"}
    answer = requests.post(f"{recording.address}/v1/chat/completions", json=body, timeout=30)
    assert answer.status_code == 400
    _, lines = flight_of(recording.state, answer.headers["x-request-id"])
    assert stage(lines, "client-request")[0]["body"] == body
    assert stage(lines, "gemini-request") == []


def test_a_rule_is_followed_by_all_workers_within_two_seconds_and_ends(recording: Bridge) -> None:
    said = flight(recording, "record", "--model", "gpt-5", "--header", "--for", "2h", "--level", "full")
    rule = re.findall(r"rule_\w+", said)[0]

    def told(wanted: str) -> bool:
        """Whether many requests, over both workers, get this header."""
        answers = [ask(recording, **{"x-bridge-record": "1"}) for _ in range(12)]
        return {answer.headers["x-bridge-recorded"] for answer in answers} == {wanted}

    assert eventually(lambda: told("full"), 4)
    assert len(recording.workers()) == 2
    answer = ask(recording, "mail anna@example.com", **{"x-bridge-record": "1"})
    row, lines = flight_of(recording.state, answer.headers["x-request-id"])
    assert (row.reason, row.level, row.outcome) == (rule, "full", "completed")
    assert "anna@example.com" in str(stage(lines, "client-request"))
    assert KEY not in str(lines)
    assert ask(recording).headers["x-bridge-recorded"] == "on-error; masked"
    assert rule in flight(recording, "rules")
    flight(recording, "end", rule)
    assert eventually(lambda: told("on-error; masked"), 4)
    assert rule not in flight(recording, "rules")


def test_the_requests_of_a_conversation_are_compared(recording: Bridge) -> None:
    flight(recording, "record", "--session", "s-1", "--level", "shape")

    def turn(*texts: str) -> requests.Response:
        roles = ("user", "assistant")
        messages = [{"role": roles[n % 2], "content": text * 40} for n, text in enumerate(texts)]
        body = {"model": "gpt-5", "messages": messages}
        headers = {"X-Session-Id": "s-1"}
        url = f"{recording.address}/v1/chat/completions"
        return requests.post(url, json=body, headers=headers, timeout=30)

    def recorded_by_all_workers() -> bool:
        return {turn("z").headers["x-bridge-recorded"] for _ in range(12)} == {"shape"}

    assert eventually(recorded_by_all_workers, 4)
    flight_of(recording.state, turn("a").headers["x-request-id"])
    _, lines = flight_of(recording.state, turn("a", "b", "c").headers["x-request-id"])
    assert stage(lines, "prefix")[0]["first_different_turn"] is None
    _, lines = flight_of(recording.state, turn("a", "x", "c").headers["x-request-id"])
    prefix = stage(lines, "prefix")[0]
    assert (prefix["first_different_turn"], prefix["same_turns"]) == (2, 1)


def test_the_flight_of_a_background_answer_has_its_answer(recording: Bridge) -> None:
    said = flight(recording, "record", "--model", "gpt-5-mini", "--level", "full")
    rule = re.findall(r"rule_\w+", said)[0]
    body = {"model": "gpt-5-mini", "input": "Hello", "background": True, "store": True}
    url = f"{recording.address}/v1/responses"

    def recorded() -> requests.Response | None:
        answer = requests.post(url, json=body, timeout=30)
        return answer if answer.headers["x-bridge-recorded"] == "full" else None

    answer = eventually(recorded, 4)
    assert answer is not None
    _, lines = flight_of(recording.state, answer.headers["x-request-id"])
    assert stage(lines, "chunk")
    assert stage(lines, "event")[-1]["type"] == "response.completed"
    flight(recording, "end", rule)


def test_a_store_that_is_locked_neither_slows_nor_fails_a_request(
    recording: Bridge, scripted: ScriptedGemini
) -> None:
    path = recording.state / "flights.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        scripted.will_say([*sse(text_chunk("Once ")), CUT])
        answer = ask(recording)
        assert answer.status_code >= 500

        def dropped() -> float:
            text = requests.get(f"{recording.address}/metrics", timeout=10).text
            return sum(float(each) for each in re.findall(r"^\w*flights_dropped_total ([\d.]+)", text, re.M))

        assert eventually(lambda: dropped() >= 1, 10)
        other.execute("ROLLBACK")
    assert flights_in(recording.state).find(answer.headers["x-request-id"]) is None
    assert recording.log_entries(message="flights dropped")


def test_a_failure_with_the_real_sdk_becomes_a_transcript_that_the_tests_run(
    recording: Bridge, scripted: ScriptedGemini, tmp_path: Any
) -> None:
    scripted.will_say(
        [
            *sse(
                text_chunk("I read the file. Mail anna@exam"),
                text_chunk("ple.com if it fails."),
                call_chunk("Read", {"file_path": "/tmp/a"}, "call_1", "c2ln"),
            ),
            CUT,
        ]
    )
    request_id = broken_answer(recording)
    flight_of(recording.state, request_id)

    folder = tmp_path / "broken_read"
    flight(recording, "export", request_id, str(folder))
    upstream = (folder / "upstream.jsonl").read_text()
    assert "[masked]" in upstream
    assert "example" not in upstream
    assert flight(recording, "replay", request_id) == "The bridge would send the same request again.\n"
    assert run_transcripts(tmp_path, BRIDGE_TEST_ACCEPT="1") == 0
    assert run_transcripts(tmp_path) == 0
    (folder / "upstream.jsonl").write_text(upstream.replace("I read", "You read"))
    assert run_transcripts(tmp_path) == 1


def broken_answer(bridge: Bridge) -> str:
    """Ask as Claude Code does, get an answer that breaks, and return the id of the request."""
    client = anthropic.Anthropic(base_url=bridge.address, api_key="none", max_retries=0)
    with client.messages.stream(
        model="claude-opus-4-1",
        max_tokens=1000,
        system=[{"type": "text", "text": "You are a coder.", "cache_control": {"type": "ephemeral"}}],
        messages=[{"role": "user", "content": "Read /tmp/a"}],
        tools=[TOOL],
        metadata={"user_id": "user_1_account__session_0b0b0b0b-0000-4000-8000-000000000000"},
    ) as answer:
        with pytest.raises(anthropic.APIError):
            answer.get_final_message()
        return str(answer.response.headers["request-id"])


def run_transcripts(folder: Any, **more: str) -> int:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "tests/protocols/test_transcripts.py",
        ],
        cwd=ROOT,
        env=clean_environment() | {"BRIDGE_TEST_TRANSCRIPTS": str(folder), **more},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "broken_read" in done.stdout or done.returncode == 0, done.stdout[-2000:]
    return done.returncode


def test_a_bridge_that_records_nothing_has_no_recorder() -> None:
    program = (
        "import sys; from bridge.web.app import create_app; create_app();"
        "sys.exit(any(name.startswith('bridge.recorder') for name in sys.modules))"
    )
    environ = clean_environment() | {"BRIDGE_STATE_DIR": os.devnull}
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environ, timeout=60, check=False)
    assert done.returncode == 0


def test_without_the_recorder_nothing_is_announced_and_no_rule_is_accepted(demo_bridge: Bridge) -> None:
    assert "x-bridge-recorded" not in ask(demo_bridge).headers
    assert not (demo_bridge.state / "flights.sqlite3").exists()
    refused = attempt("flight", "record", "--model", "gpt-5", BRIDGE_STATE_DIR=str(demo_bridge.state))
    assert refused.returncode == 1
    assert "recorder.mode" in refused.stderr


def test_who_looked_is_noted(recording: Bridge) -> None:
    rows = flights_in(recording.state).newest(FlightQuery(limit=1))
    flight(recording, "show", rows[0].id, "--stage", "summary")
    look = flights_in(recording.state).looks(limit=1)[0]
    assert (look.command, look.flight) == ("flight show summary", rows[0].id)
    assert look.author in flight(recording, "looks")

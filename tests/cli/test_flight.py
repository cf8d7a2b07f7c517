"""The commands `gemini-bridge flight` and `gemini-bridge explain`, on flights in a state folder."""

from __future__ import annotations

import json
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from client_keys import ClientKeys
from flights import flights_in, kept, stage, taped
from scripted_gemini import text_chunk

from bridge.cli import main
from bridge.gemini.wire import chunk_from_json
from bridge.observe.record import Record
from bridge.protocols.base import Caller
from bridge.recorder.flight_writer import FlightWriter
from bridge.settings import load
from bridge.state.key_store import Rules

BODY = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hello <script>\x1b[31m"}]}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BRIDGE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("BRIDGE_RECORDER__MODE", "rules")
    monkeypatch.setenv("GEMINI_API_KEY", "AIzaNobody")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:9")  # whatever is sent, fails
    return tmp_path / "state"


def sent_for(body: dict[str, Any]) -> Any:
    """The request to Gemini, as the bridge prepares it."""
    from bridge.cli.explain import explained_request
    from bridge.gemini.wire import request_from_json

    explained = explained_request("openai_chat", body, Caller(), load())
    return request_from_json(explained.model, explained.body)


def keep(state: Path, level: str, body: dict[str, Any] = BODY, request: str = "req_1", **fields: Any) -> None:
    chunks = [[chunk_from_json(text_chunk("Hi.", "STOP"))]]
    events = [[("content", {"choices": [{"index": 0, "delta": {"content": "Hi."}}]})]]
    record = Record(request, "POST", "/", protocol="openai_chat", model="gpt-5", key="alice")
    for name, value in fields.items():
        setattr(record, name, value)
    writer = FlightWriter(flights_in(state), "node", ())
    writer.put(taped(level, body, [sent_for(body)], chunks, events), record, "all")
    writer.close()


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(arguments) == code
    printed = capsys.readouterr()
    return printed.err if code else printed.out


def test_list_shows_flights_and_filters_them(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no such flight" in run(capsys, "flight", "list")
    keep(state, "shape")
    keep(state, "masked", request="req_2", outcome="failed", key="bob")
    rows = json.loads(run(capsys, "flight", "list", "--json"))
    assert [row["request"] for row in rows] == ["req_2", "req_1"]
    text = run(capsys, "flight", "list", "--failed")
    assert rows[0]["id"] in text
    assert rows[1]["id"] not in text
    assert len(json.loads(run(capsys, "flight", "list", "--key", "alice", "--json"))) == 1


def test_show_prints_all_stages_or_one_without_control_characters(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(state, "full")
    text = run(capsys, "flight", "show", "req_1")
    for name in ("summary", "timeline", "client-request", "gemini-request", "notes", "chunk", "event"):
        assert f"{name}:\n" in text
    assert "Hello <script>" in text
    assert "\x1b" not in text
    one = json.loads(run(capsys, "flight", "show", "req_1", "--stage", "chunk", "--json"))
    assert [line["stage"] for line in one["lines"]] == ["chunk"]
    assert "nothing of the stage error" in run(capsys, "flight", "show", "req_1", "--stage", "error")


def test_a_flight_that_does_not_exist_is_an_error_that_helps(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["show", "x"], ["export", "x", "y"], ["replay", "x"]):
        assert "`gemini-bridge flight list`" in run(capsys, "flight", *words, code=1)
    assert "flight rules" in run(capsys, "flight", "end", "x", code=1)


def test_a_shape_cannot_be_exported_or_replayed_and_the_error_says_how_to_get_texts(
    state: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    keep(state, "shape")
    for words in (["export", "req_1", str(tmp_path / "new")], ["replay", "req_1"]):
        assert "--level masked" in run(capsys, "flight", *words, code=1)
    assert not (tmp_path / "new").exists()


def test_export_writes_private_files_once(
    state: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    keep(state, "full")
    folder = tmp_path / "new"
    assert str(folder) in run(capsys, "flight", "export", "req_1", str(folder))
    assert [path.name for path in sorted(folder.iterdir())] == ["request.json", "upstream.jsonl", "why.md"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    request = json.loads((folder / "request.json").read_text())
    assert (request["protocol"], request["body"]) == ("openai_chat", BODY)
    assert json.loads((folder / "upstream.jsonl").read_text())["candidates"][0]["finishReason"] == "STOP"
    assert "exists" in run(capsys, "flight", "export", "req_1", str(folder), code=1)


def test_replay_shows_what_would_differ_now(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(state, "full")
    assert "the same request" in run(capsys, "flight", "replay", "req_1")
    monkeypatch.setenv("BRIDGE_UPSTREAM__STORE", "true")
    assert main(["flight", "replay", "req_1", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["differences"]
    assert found == [{"path": "body.store", "before": False, "now": "(absent)"}]
    assert main(["flight", "replay", "req_1"]) == 1
    assert "body.store\n  kept: false\n" in capsys.readouterr().out


def test_rules_are_made_listed_and_ended(capsys: pytest.CaptureFixture[str], state: Path) -> None:
    ClientKeys(state).add("alice", Rules())
    made = json.loads(
        run(capsys, "flight", "record", "--key", "alice", "--for", "2h", "--level", "masked", "--json")
    )
    (rule,) = flights_in(state).rules()
    assert (rule.id, rule.key, rule.level) == (made["id"], "alice", "masked")
    assert 7100 < rule.ends - time.time() <= 7200
    assert "key alice" in run(capsys, "flight", "rules")
    assert json.loads(run(capsys, "flight", "rules", "--json"))[0]["id"] == rule.id
    assert rule.id in run(capsys, "flight", "end", rule.id)
    assert "no rules" in run(capsys, "flight", "rules")


@pytest.mark.parametrize(
    ("words", "problem"),
    [([], "say what to record"), (["--key", "nobody"], "there is no key 'nobody'")],
)
def test_a_rule_that_makes_no_sense_is_refused(
    capsys: pytest.CaptureFixture[str], words: list[str], problem: str
) -> None:
    assert problem in run(capsys, "flight", "record", *words, code=1)


@pytest.mark.parametrize("duration", ["25h", "0", "2d", "soon"])
def test_a_rule_is_valid_for_at_most_a_day(capsys: pytest.CaptureFixture[str], duration: str) -> None:
    with pytest.raises(SystemExit):
        main(["flight", "record", "--model", "gpt-5", "--for", duration])
    assert "--for" in capsys.readouterr().err


def test_every_look_is_noted_before_anything_is_shown(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(state, "full")
    monkeypatch.setenv("SUDO_USER", "eve")
    run(capsys, "flight", "show", "req_1", "--stage", "chunk")
    look = json.loads(run(capsys, "flight", "looks", "--json"))[0]
    assert (look["author"], look["command"]) == ("eve", "flight show chunk")
    assert look["flight"].startswith("flight_")


def test_explain_prints_what_gemini_would_get_and_sends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps({**BODY, "verbosity": "low"}))
    found = json.loads(run(capsys, "explain", str(file), "--protocol", "openai_chat", "--json"))
    assert found["body"]["contents"] == [
        {"role": "user", "parts": [{"text": BODY["messages"][0]["content"]}]}
    ]
    assert found["losses"] == ["chat.verbosity"]
    text = run(capsys, "explain", str(file), "--protocol", "openai_chat")
    assert "losses: chat.verbosity\n" in text


@pytest.mark.parametrize(
    ("content", "protocol", "problem", "code"),
    [
        ('{"model": "gpt-5", "messages": 1}', "openai_chat", "messages", 1),
        ('{"model": "gpt-5"}', "chat", "There is no protocol 'chat'", 1),
        ("[]", "openai_chat", "must hold a JSON object", 2),
        ("{", "openai_chat", "is not JSON", 2),
    ],
)
def test_explain_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, protocol: str, problem: str, code: int
) -> None:
    file = tmp_path / "request.json"
    file.write_text(content)
    assert problem in run(capsys, "explain", str(file), "--protocol", protocol, code=code)


def test_lines_have_times_since_the_request_came() -> None:
    lines = kept(taped("full", BODY, chunks=[[chunk_from_json(text_chunk("Hi."))]]))
    assert stage(lines, "timeline")[0]["received"] == 0.0
    assert stage(lines, "chunk")[0]["ms"] >= 0

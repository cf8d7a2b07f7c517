"""Code Assist against scripted servers: its wire format, its project, and Gemini CLI's login."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pytest
from scripted_gemini import CUT, Reply, sse, text_chunk
from scripted_tokens import CANARY_TOKEN, gemini_cli_login
from upstream_rigs import CONFIG, Rig, make, read

from bridge import errors
from bridge.gemini.types import (
    Content,
    FunctionCall,
    FunctionDeclaration,
    GenerateRequest,
    Part,
    Tool,
)
from bridge.settings import SettingsError, load
from bridge.upstream import make_upstream
from bridge.upstream.code_assist.login import EXPIRED

SetUp = Callable[..., Rig]
REQUEST = GenerateRequest("gemini-x", (Content("user", (Part("Hello"),)),))
CLIENT_SECRET = "canary-client-secret-0815"
PROGRAM = {
    "BRIDGE_CODE_ASSIST__CLIENT_ID": "program",
    "BRIDGE_CODE_ASSIST__CLIENT_SECRET": CLIENT_SECRET,
}


@pytest.fixture
def assist(set_up: SetUp) -> Rig:
    return set_up("code_assist")


@pytest.fixture
def unsettled(set_up: SetUp) -> Rig:
    """The upstream without a configured project."""
    return set_up("code_assist", GOOGLE_CLOUD_PROJECT="")


def texts(rig: Rig, request: GenerateRequest = REQUEST) -> list[Any]:
    chunks = read(rig.upstream, request)
    return [part.data for chunk in chunks for candidate in chunk.candidates for part in candidate.parts]


def wrapped(text: str, **beside: Any) -> dict[str, Any]:
    return {"response": text_chunk(text, "STOP"), **beside}


def login(rig: Rig, folder: Path, left: float, program: bool, **more: Any) -> Rig:
    """Return the upstream with a login that expires after this number of seconds."""
    path = folder / "login.json"
    path.write_bytes(orjson.dumps(gemini_cli_login(rig.tokens.address, left, **more)))
    environ = {
        "USE_CCPA": "1",
        "BRIDGE_CODE_ASSIST__BASE_URL": rig.api.address,
        "BRIDGE_CODE_ASSIST__CREDENTIALS": str(path),
        "GOOGLE_CLOUD_PROJECT": "canary-project",
        **(PROGRAM if program else {}),
    }
    return Rig(rig.name, make(environ), rig.api, rig.tokens, rig.wrapped, rig.unwrapped)


def bearers(rig: Rig) -> list[str]:
    return [asked.headers["authorization"].removeprefix(f"Bearer {CANARY_TOKEN}") for asked in rig.api.asked]


# --- the wire format ---------------------------------------------------------------------------------


def test_a_request_goes_out_wrapped_with_model_and_project(assist: Rig) -> None:
    assist.api.will_say(sse(wrapped("Hi.")))
    assert texts(assist, GenerateRequest("models/gemini-x", REQUEST.contents)) == ["Hi."]
    asked = assist.api.asked[0]
    assert asked.path == "/v1internal:streamGenerateContent?alt=sse"
    assert asked.headers["authorization"] == f"Bearer {CANARY_TOKEN}file"
    prompt, session = asked.body.pop("user_prompt_id"), asked.body["request"].pop("session_id")
    assert prompt
    assert session
    assert asked.body == {
        "model": "gemini-x",
        "project": "canary-project",
        "request": {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
    }


def sessions(assist: Rig, *conversations: str) -> list[str]:
    """Return the session ids that Code Assist gets for these requests."""
    for conversation in conversations:
        assist.api.will_say(sse(wrapped("Hi.")))
        texts(assist, request=replace(REQUEST, conversation=conversation))
    return [asked.body["request"]["session_id"] for asked in assist.api.asked]


def test_every_prompt_has_its_own_id(assist: Rig) -> None:
    sessions(assist, "one", "one")
    assert len({asked.body["user_prompt_id"] for asked in assist.api.asked}) == 2


def test_each_conversation_has_its_own_session(assist: Rig) -> None:
    one, other, again = sessions(assist, "one", "other", "one")
    assert one == again != other
    assert str(UUID(one)) == one


def test_requests_without_a_conversation_share_no_session(assist: Rig) -> None:
    assert len(set(sessions(assist, "", ""))) == 2


def test_a_chunk_is_unwrapped_and_keeps_its_trace_id(assist: Rig) -> None:
    assist.api.will_say(
        sse(
            wrapped("One.", traceId="trace-1", consumedCredits=[{"creditAmount": "1"}]),
            {"remainingCredits": [{"creditAmount": "7"}]},
            {"response": None},
            wrapped("Two."),
        )
    )
    chunks = read(assist.upstream, REQUEST)
    assert [len(chunk.candidates) for chunk in chunks] == [1, 0, 0, 1]
    assert chunks[0].extra == {"responseId": "trace-1"}


def test_values_that_json_cannot_hold_are_refused_before_any_upstream_call(unsettled: Rig) -> None:
    call = Part(FunctionCall("f", {"n": 2**70}))
    with pytest.raises(errors.InvalidRequest, match="64-bit"):
        unsettled.upstream.stream(GenerateRequest("gemini-x", (Content("model", (call,)),)))


def test_token_counting_moves_all_fields_into_the_contents(assist: Rig) -> None:
    assist.api.will_say(Reply([b'{"totalTokens": 12}']))
    said = Content("model", (Part("Hm.", thought=True, signature="c2ln"), Part("Well.")))
    request = GenerateRequest(
        "models/gemini-x",
        (*REQUEST.contents, said),
        Content(None, (Part("Be brief."),)),
        (Tool((FunctionDeclaration("look", "Look around."),)),),
    )
    assert assist.upstream.count_tokens(request) == 12
    assert assist.api.asked[0].path == "/v1internal:countTokens"
    tools = '{"tools":[{"functionDeclarations":[{"name":"look","description":"Look around."}]}]}'
    assert assist.api.asked[0].body == {
        "request": {
            "model": "models/gemini-x",
            "contents": [
                {"role": "user", "parts": [{"text": "Be brief."}]},
                {"role": "user", "parts": [{"text": tools}]},
                {"role": "user", "parts": [{"text": "Hello"}]},
                {"role": "model", "parts": [{"text": "Hm."}, {"text": "Well."}]},
            ],
        }
    }


def test_models_with_quota_for_the_login_are_listed(assist: Rig) -> None:
    buckets = [{"modelId": "gemini-x"}, {"modelId": "gemini-y"}, {"modelId": "gemini-x"}, {}, 7]
    assist.api.will_say(Reply([orjson.dumps({"buckets": buckets})]))
    assert assist.upstream.models() == ({"name": "models/gemini-x"}, {"name": "models/gemini-y"})
    assert assist.api.asked[0].path == "/v1internal:retrieveUserQuota"
    assert assist.api.asked[0].body == {"project": "canary-project"}


def test_configured_models_are_listed_without_an_upstream_call(set_up: SetUp) -> None:
    assist = set_up("code_assist", BRIDGE_CODE_ASSIST__MODELS="gemini-x")
    assert assist.upstream.models() == ({"name": "models/gemini-x"},)
    assert assist.api.asked == []


def test_errors_have_googles_envelope(assist: Rig) -> None:
    error = {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Please retry in 7s.", "errors": [{}]}
    assist.api.will_say(Reply([orjson.dumps([{"error": error}])], 429))
    with pytest.raises(errors.UpstreamRateLimited) as caught:
        texts(assist)
    assert caught.value.retry_after == 7


def test_a_truncated_answer_is_detected(assist: Rig) -> None:
    assist.api.will_say([*sse(wrapped("So")), CUT])
    with pytest.raises(errors.UpstreamTruncated):
        texts(assist)


# --- the project -------------------------------------------------------------------------------------


def loaded(**fields: Any) -> Reply:
    return Reply([orjson.dumps({"currentTier": {"id": "standard-tier"}, **fields})])


def test_without_a_project_the_logins_project_is_looked_up_once(unsettled: Rig) -> None:
    unsettled.api.will_say(loaded(cloudaicompanionProject="found-project"))
    unsettled.api.will_answer(lambda _asked: sse(wrapped("Hi.")))
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda: answers.extend(texts(unsettled))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert answers == ["Hi."] * 4
    first, *others = unsettled.api.asked
    assert first.path == "/v1internal:loadCodeAssist"
    assert first.body["metadata"]["pluginType"] == "GEMINI"
    assert {asked.body["project"] for asked in others} == {"found-project"}
    assert len(others) == 4


def test_a_login_without_a_project_is_a_misconfiguration(unsettled: Rig) -> None:
    unsettled.api.will_say(loaded(), Reply([b'{"allowedTiers": []}']))
    for _ in range(2):
        with pytest.raises(errors.UpstreamMisconfigured, match="GOOGLE_CLOUD_PROJECT"):
            texts(unsettled)


def test_a_failed_project_lookup_is_retried(unsettled: Rig) -> None:
    busy = {"error": {"code": 503, "status": "UNAVAILABLE", "message": "busy"}}
    unsettled.api.will_say(Reply([orjson.dumps(busy)], 503))
    with pytest.raises(errors.UpstreamOverloaded):
        texts(unsettled)
    unsettled.api.will_say(loaded(cloudaicompanionProject="found-project"), sse(wrapped("Hi.")))
    assert texts(unsettled) == ["Hi."]


def test_the_reader_gets_control_during_the_project_lookup(unsettled: Rig) -> None:
    answer = loaded(cloudaicompanionProject="found-project")
    unsettled.api.will_say(Reply([0.5, *answer.body]), sse(wrapped("Hi.")))
    batches = list(unsettled.upstream.stream(REQUEST))
    assert batches.count(()) >= 2


# --- the login ---------------------------------------------------------------------------------------


def test_the_token_in_the_file_is_used_until_it_expires(assist: Rig) -> None:
    assist.api.will_answer(lambda _asked: sse(wrapped("Hi.")))
    for _ in range(3):
        texts(assist)
    assert bearers(assist) == ["file"] * 3
    assert assist.tokens.asked == []


def test_an_expired_token_is_renewed_with_the_oauth_client_that_logged_in(
    assist: Rig, tmp_path: Path
) -> None:
    old = login(assist, tmp_path, left=-5, program=True)
    old.api.will_say(sse(wrapped("Hi.")))
    assert texts(old) == ["Hi."]
    assert bearers(old) == ["1"]
    asked = old.tokens.asked[0]
    assert asked["grant_type"] == "refresh_token"
    assert asked["refresh_token"] == "1//canary-refresh-token"
    assert (asked["client_id"], asked["client_secret"]) == ("program", CLIENT_SECRET)


def test_the_oauth_client_may_be_in_the_file(assist: Rig, tmp_path: Path) -> None:
    old = login(assist, tmp_path, left=-5, program=False, client_id="other", client_secret="hush")
    old.api.will_say(sse(wrapped("Hi.")))
    assert texts(old) == ["Hi."]
    assert old.tokens.asked[0]["client_id"] == "other"


def test_without_an_oauth_client_a_token_is_used_until_it_expires(assist: Rig, tmp_path: Path) -> None:
    late = login(assist, tmp_path, left=20, program=False)
    late.api.will_say(sse(wrapped("Hi.")))
    assert texts(late) == ["Hi."]
    assert bearers(late) == ["file"]
    over = login(assist, tmp_path, left=-5, program=False)
    with pytest.raises(errors.UpstreamMisconfigured) as caught:
        texts(over)
    assert caught.value.message == EXPIRED
    assert "log in with Gemini CLI" in EXPIRED


def test_a_login_renewed_by_gemini_cli_is_used(assist: Rig, tmp_path: Path) -> None:
    over = login(assist, tmp_path, left=-5, program=False)
    with pytest.raises(errors.UpstreamMisconfigured):
        texts(over)
    renewed = gemini_cli_login(left=3600, access_token=f"{CANARY_TOKEN}renewed")
    (tmp_path / "login.json").write_bytes(orjson.dumps(renewed))
    over.api.will_say(sse(wrapped("Hi.")))
    assert texts(over) == ["Hi."]
    assert bearers(over) == ["renewed"]


def test_a_token_refused_before_its_expiry_is_renewed(assist: Rig, tmp_path: Path) -> None:
    revoked = login(assist, tmp_path, left=3600, program=True)
    said = {"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "no"}}
    revoked.api.will_say(Reply([orjson.dumps(said)], 401), sse(wrapped("Hi.")))
    assert texts(revoked) == ["Hi."]
    assert bearers(revoked) == ["file", "1"]


def test_a_revoked_login_error_says_to_log_in_again(assist: Rig, tmp_path: Path) -> None:
    revoked = login(assist, tmp_path, left=-5, program=True)
    revoked.tokens.will_fail(400, {"error": "invalid_grant", "error_description": "Token has been revoked."})
    with pytest.raises(errors.UpstreamMisconfigured, match="log in with Gemini CLI"):
        texts(revoked)
    revoked.tokens.will_fail(401, {"error": "invalid_client"})
    with pytest.raises(errors.UpstreamMisconfigured, match="invalid_client"):
        texts(revoked)


def test_a_missing_login_file_is_reported(assist: Rig, tmp_path: Path) -> None:
    gone = login(assist, tmp_path, left=3600, program=False)
    (tmp_path / "login.json").unlink()
    with pytest.raises(errors.UpstreamMisconfigured, match="No such file"):
        texts(gone)


def test_the_login_file_is_never_written(assist: Rig, tmp_path: Path) -> None:
    old = login(assist, tmp_path, left=-5, program=True)
    before = (tmp_path / "login.json").read_bytes()
    old.api.will_say(sse(wrapped("Hi.")))
    texts(old)
    assert (tmp_path / "login.json").read_bytes() == before


def test_no_secret_appears_in_logs_or_errors(
    assist: Rig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = login(assist, tmp_path, left=-5, program=True)
    echo = f"{CANARY_TOKEN}1 1//canary-refresh-token {CLIENT_SECRET}"
    said = {"error": {"code": 403, "status": "PERMISSION_DENIED", "message": f"no {CANARY_TOKEN}1"}}
    old.api.will_say(Reply([orjson.dumps(said)], 403))
    old.tokens.will_fail(400, {"error": echo, "error_description": echo})
    with caplog.at_level(logging.DEBUG):
        for _ in range(2):
            with pytest.raises(errors.UpstreamMisconfigured) as caught:
                texts(old)
            told = "".join(traceback.format_exception(caught.value)) + repr(old.upstream.__dict__)
            for secret in (CANARY_TOKEN, "canary-refresh-token", CLIENT_SECRET):
                assert secret not in told
    for secret in (CANARY_TOKEN, "canary-refresh-token", CLIENT_SECRET):
        assert secret not in caplog.text


# --- settings ----------------------------------------------------------------------------------------


def complaint(**environ: str) -> str:
    with pytest.raises(SettingsError) as caught:
        make_upstream(load(CONFIG, {"USE_CCPA": "1", **environ}))
    return str(caught.value)


def test_code_assist_is_opt_in_and_names_the_login_at_start(assist: Rig) -> None:
    assert load(CONFIG, {"USE_CCPA": "0"}).transport_in_force == "demo"
    assert load(CONFIG, {"USE_CCPA": "1", "GEMINI_API_KEY": "key"}).transport_in_force == "code_assist"
    assert "meant for Gemini CLI and its own user" in assist.upstream.notices[0]


def test_starting_without_a_login_says_to_log_in(tmp_path: Path) -> None:
    said = complaint(BRIDGE_CODE_ASSIST__CREDENTIALS=str(tmp_path / "none.json"))
    assert "cannot be read: No such file or directory" in said
    assert "log in with Gemini CLI" in said


def test_the_oauth_client_secret_is_not_read_from_files_or_shown(tmp_path: Path) -> None:
    for name in ("default.toml", "models.toml"):
        (tmp_path / name).write_bytes((CONFIG / name).read_bytes())
    settings = load(tmp_path, PROGRAM)
    shown = {each.key: each.value for each in settings.shown()}
    assert settings.code_assist.client_secret == CLIENT_SECRET
    assert shown["code_assist.client_secret"] == ["••••0815"]
    assert CLIENT_SECRET not in repr(settings)
    assert CLIENT_SECRET in settings.secrets
    (tmp_path / "local.toml").write_text(f'[code_assist]\nclient_secret = "{CLIENT_SECRET}"')
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, {})
    assert "BRIDGE_CODE_ASSIST__CLIENT_SECRET" in str(caught.value)
    assert CLIENT_SECRET not in str(caught.value)

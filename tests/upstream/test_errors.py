from __future__ import annotations

from typing import Any

import orjson
import pytest

from bridge import errors
from bridge.errors import BridgeError
from bridge.upstream.errors import HTTP_STATUS, error_from_payload, error_from_response

KEY = "AIzaSyD-0123456789abcdefghijklmnopqrst_uv"
RPC = "type.googleapis.com/google.rpc."


def envelope(
    status: str = "", message: str = "", code: int = 400, *details: dict[str, Any]
) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


def translated(code: int, document: Any = None) -> BridgeError:
    return error_from_response(code, b"" if document is None else orjson.dumps(document), "gemini-x")


def reason(text: str) -> dict[str, Any]:
    return {"@type": RPC + "ErrorInfo", "reason": text, "domain": "googleapis.com"}


def retry_info(delay: Any) -> dict[str, Any]:
    return {"@type": RPC + "RetryInfo", "retryDelay": delay}


HTTP_CASES = [
    (400, "INVALID_ARGUMENT", errors.UpstreamRefused),
    (400, "OUT_OF_RANGE", errors.UpstreamRefused),
    (400, "FAILED_PRECONDITION", errors.UpstreamMisconfigured),
    (401, "UNAUTHENTICATED", errors.UpstreamMisconfigured),
    (402, "", errors.UpstreamMisconfigured),
    (403, "PERMISSION_DENIED", errors.UpstreamMisconfigured),
    (404, "NOT_FOUND", errors.UnknownModel),
    (405, "", errors.UpstreamMisconfigured),
    (407, "", errors.UpstreamMisconfigured),
    (408, "", errors.UpstreamTimeout),
    (409, "ABORTED", errors.UpstreamRefused),
    (413, "", errors.RequestTooLarge),
    (422, "", errors.UpstreamRefused),
    (429, "RESOURCE_EXHAUSTED", errors.UpstreamRateLimited),
    (499, "CANCELLED", errors.UpstreamUnreachable),
    (500, "INTERNAL", errors.UpstreamUnreachable),
    (501, "UNIMPLEMENTED", errors.UpstreamUnreachable),
    (502, "", errors.UpstreamUnreachable),
    (503, "UNAVAILABLE", errors.UpstreamOverloaded),
    (504, "DEADLINE_EXCEEDED", errors.UpstreamTimeout),
    (529, "", errors.UpstreamOverloaded),
    (204, "", errors.UpstreamMalformed),
]


@pytest.mark.parametrize(("code", "status", "expected"), HTTP_CASES)
def test_an_http_status_becomes_its_error(code: int, status: str, expected: type[BridgeError]) -> None:
    document = envelope(status, "Something is wrong.", code)
    assert type(translated(code, document)) is expected
    assert type(translated(code, [document])) is expected, "wrapped in an array"


@pytest.mark.parametrize(("code", "status", "expected"), HTTP_CASES)
@pytest.mark.parametrize(
    "body", [b"", b"<html>proxy-7.internal says no</html>", b"[]", b"[1]", b"null", b'{"error":7}']
)
def test_a_body_without_an_envelope_is_not_passed_on(
    code: int, status: str, expected: type[BridgeError], body: bytes
) -> None:
    error = error_from_response(code, body, "gemini-x")
    assert "proxy-7" not in error.message
    assert error.message
    if status != "FAILED_PRECONDITION":
        assert type(error) is expected


STREAM_CASES = [(status, expected) for _, status, expected in HTTP_CASES if status]


@pytest.mark.parametrize(("status", "expected"), STREAM_CASES)
def test_in_a_stream_the_status_name_decides(status: str, expected: type[BridgeError]) -> None:
    assert type(error_from_payload(envelope(status, "no", 418), "gemini-x")) is expected


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (envelope("", "no", 503), errors.UpstreamOverloaded),
        (envelope("SOMETHING_NEW", "no", 429), errors.UpstreamRateLimited),
        (envelope("", "no", 200), errors.UpstreamUnreachable),
        ({"error": "went wrong"}, errors.UpstreamUnreachable),
        ({"error": None}, errors.UpstreamUnreachable),
        ({"error": {"code": "x", "message": 3, "status": [], "details": "y"}}, errors.UpstreamUnreachable),
    ],
)
def test_in_a_stream_the_code_decides_where_the_name_is_unknown(
    payload: dict[str, Any], expected: type[BridgeError]
) -> None:
    assert type(error_from_payload(payload, "gemini-x")) is expected


def test_every_status_name_of_google_is_known() -> None:
    code_pb2 = pytest.importorskip("google.rpc.code_pb2")
    assert {*HTTP_STATUS, "OK"} == set(code_pb2.Code.keys())


def test_a_refusal_has_googles_message() -> None:
    text = "Function call is missing a thought_signature in functionCall parts."
    assert translated(400, envelope("INVALID_ARGUMENT", text)).message == text


def test_a_server_error_names_its_status() -> None:
    error = translated(500, envelope("INTERNAL", "An internal error has occurred.", 500))
    assert error.message == "Gemini answered 500 INTERNAL: An internal error has occurred."


def test_an_unknown_model_is_named() -> None:
    error = translated(
        404, envelope("NOT_FOUND", "models/gemini-x is not found for API version v1beta.", 404)
    )
    assert "'gemini-x'" in error.message
    assert "not found for API version" in error.message
    assert error.param == "model"


def test_a_silent_404_hints_at_the_address() -> None:
    assert "address" in translated(404).message


BAD_KEYS = [
    (400, envelope("INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.")),
    (400, envelope("INVALID_ARGUMENT", "API key expired. Please renew the API key.")),
    (400, envelope("INVALID_ARGUMENT", "API Key not found. Please pass a valid API key.")),
    (400, envelope("INVALID_ARGUMENT", f"Bad {KEY}", 400, reason("API_KEY_INVALID"))),
    (403, envelope("PERMISSION_DENIED", f"Blocked {KEY}", 403, reason("API_KEY_SERVICE_BLOCKED"))),
    (
        403,
        envelope(
            "PERMISSION_DENIED", "Your API key was reported as leaked. Please use another API key.", 403
        ),
    ),
]


@pytest.mark.parametrize(("code", "document"), BAD_KEYS)
def test_an_invalid_key_is_a_misconfiguration(code: int, document: dict[str, Any]) -> None:
    error = translated(code, document)
    assert type(error) is errors.UpstreamMisconfigured
    assert "administrator" in error.message
    assert document["error"]["message"] not in error.message


def test_a_refused_region_keeps_googles_message_for_the_administrator() -> None:
    error = translated(
        400, envelope("FAILED_PRECONDITION", "User location is not supported for the API use.")
    )
    assert "User location is not supported" in error.message
    assert "administrator" in error.message


@pytest.mark.parametrize(
    ("code", "status", "text"),
    [
        (403, "PERMISSION_DENIED", "You do not have permission to access the File abc or it may not exist."),
        (403, "PERMISSION_DENIED", "CachedContent not found (or permission denied)"),
        (400, "FAILED_PRECONDITION", "The File abc is not in an ACTIVE state and usage is not allowed."),
    ],
)
def test_an_inaccessible_file_is_a_client_error_and_not_a_key_error(
    code: int, status: str, text: str
) -> None:
    assert type(translated(code, envelope(status, text, code))) is errors.UpstreamRefused


@pytest.mark.parametrize(
    ("text", "tokens", "limit"),
    [
        (
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            1_200_000,
            1_048_576,
        ),
        (
            "Unable to submit: the input token count is 1200000 but model only supports up to 1048576.",
            1_200_000,
            1_048_576,
        ),
        ("The input token count exceeds the maximum number of tokens allowed 1048576.", None, 1_048_576),
        ("Input exceeds the maximum number of tokens.", None, None),
        ("Prompt is too long", None, None),
    ],
)
def test_a_context_overflow_keeps_googles_message_and_numbers(
    text: str, tokens: int | None, limit: int | None
) -> None:
    error = translated(400, envelope("INVALID_ARGUMENT", text))
    assert type(error) is errors.ContextOverflow
    assert (error.message, error.tokens, error.limit) == (text, tokens, limit)
    assert error.logged == "Gemini answered 400 INVALID_ARGUMENT"


def test_a_too_large_body_differs_from_a_context_overflow() -> None:
    error = translated(
        400, envelope("INVALID_ARGUMENT", "Request payload size exceeds the limit: 20971520 bytes.")
    )
    assert type(error) is errors.RequestTooLarge
    assert "20971520" in error.message


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [
        ("60s", 60),
        ("34.074824224s", 34.074824224),
        ("900ms", 0.9),
        ("1h2m3.5s", 3723.5),
        ("9" * 500 + "s", 86_400),
    ],
)
def test_the_retry_delay_is_read_from_details_and_from_text(delay: str, seconds: float) -> None:
    by_detail = translated(429, envelope("RESOURCE_EXHAUSTED", "Slow down.", 429, retry_info(delay)))
    by_text = translated(429, envelope("RESOURCE_EXHAUSTED", f"Slow down. Please retry in {delay}.", 429))
    assert by_detail.retry_after == pytest.approx(seconds)
    assert by_text.retry_after == pytest.approx(seconds)
    assert by_detail.retry_after_seconds is not None


@pytest.mark.parametrize("delay", ["", "soon", "s", "-", 5, None, {}, "..s"])
def test_a_delay_that_cannot_be_read_is_none(delay: Any) -> None:
    assert translated(429, envelope("RESOURCE_EXHAUSTED", "no", 429, retry_info(delay))).retry_after is None


def test_an_overload_may_have_a_retry_delay() -> None:
    assert translated(503, envelope("UNAVAILABLE", "busy", 503, retry_info("7s"))).retry_after == 7


@pytest.mark.parametrize(
    "document",
    [
        envelope(
            "RESOURCE_EXHAUSTED",
            "no",
            429,
            retry_info("34s"),
            {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},
        ),
        envelope("RESOURCE_EXHAUSTED", "Quota exceeded, limit: 0. Please retry in 34s.", 429),
    ],
)
def test_a_daily_quota_has_a_long_retry_delay(document: dict[str, Any]) -> None:
    assert translated(429, document).retry_after == errors.LONGEST_RETRY_AFTER


@pytest.mark.parametrize(
    "details", [None, 3, [3], [{"violations": 3}], [{"violations": [3, {}]}], [{"reason": 3}]]
)
def test_malformed_error_details_are_ignored(details: Any) -> None:
    document = {"error": {"message": "no", "status": "RESOURCE_EXHAUSTED", "details": details}}
    assert type(translated(429, document)) is errors.UpstreamRateLimited


@pytest.mark.parametrize("code", [code for code, _, _ in HTTP_CASES])
@pytest.mark.parametrize(
    "text", [f"bad {KEY} here", f"https://x/v1?key={KEY}&a=b", "https://x/?key=short", KEY]
)
def test_no_message_holds_a_key(code: int, text: str) -> None:
    document = envelope("INTERNAL", text, code, reason(f"API_KEY {KEY}"))
    for error in (translated(code, document), error_from_payload(document, "gemini-x")):
        assert KEY not in str(error)
        assert "short" not in str(error)


def test_an_error_message_holds_no_project_number_or_long_quotation() -> None:
    text = 'Enable it at https://x/?project=123456 for project 123456: bad "' + "s" * 5000 + '"'
    message = translated(400, envelope("INVALID_ARGUMENT", text)).message
    assert "123456" not in message
    assert len(message) < 300


def test_an_error_message_has_a_maximum_length() -> None:
    assert len(translated(400, envelope("INVALID_ARGUMENT", "words " * 5000)).message) == 2000


@pytest.mark.parametrize(
    ("status", "document", "logged"),
    [
        (500, envelope("INTERNAL", 'Echo of "a prompt" and more of it', 500), "Gemini answered 500 INTERNAL"),
        (503, envelope("UNAVAILABLE", "Echo", 503), "Gemini answered 503 UNAVAILABLE"),
        (599, envelope("an echo", "Echo", 599), "Gemini answered 599"),
        (
            403,
            envelope("PERMISSION_DENIED", "The API isn't enabled for 'x', \"y\" or `z`.", 403),
            "Gemini answered 403 PERMISSION_DENIED: The API isn't enabled for …, … or ….",
        ),
        (
            400,
            envelope("FAILED_PRECONDITION", "User location is not supported.", 400),
            "Gemini answered 400 FAILED_PRECONDITION: User location is not supported.",
        ),
        (400, envelope("INVALID_ARGUMENT", "Bad", 400, reason("API_KEY_INVALID")), None),
    ],
)
def test_the_log_keeps_upstream_messages_only_about_the_bridge_itself(status, document, logged):
    assert translated(status, document).logged == logged

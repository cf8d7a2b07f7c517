"""HTTP requests to a bridge; every failure is a `PostFailed` that says what to do.

They use the HTTP client of the standard library, which uses proxies like any client. The
probe needs only one POST request at a time, whose answer it reads line by line.
"""

from __future__ import annotations

import math
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

import orjson

from bridge.certificates import ADVISED, tls_context
from bridge.gemini.types import JsonObject

#: Seconds without data. The bridge sends heartbeats far more often.
TIMEOUT = 60.0

USUAL_HEADERS = {"Content-Type": "application/json", "User-Agent": "gemini-bridge-probe"}
LONGEST_READ = 100_000
LONGEST_QUOTED = 200


class PostFailed(Exception):
    """A failed request, with a remedy for the user."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy


def events(url: str, body: JsonObject, headers: Mapping[str, str]) -> Iterator[JsonObject]:
    """The data of each server-sent event, until the end of the stream or its `[DONE]`."""
    request = Request(url, orjson.dumps(body), {**USUAL_HEADERS, **headers}, method="POST")
    with _translated_errors(), _opened(request, TIMEOUT) as answer:
        _check_content_type(answer)
        yield from _decoded(answer)


def get_json(url: str) -> JsonObject:
    """A JSON object from a route that needs no key."""
    try:
        body = orjson.loads(get_bytes(url, USUAL_HEADERS))
    except orjson.JSONDecodeError:
        body = None
    if not isinstance(body, dict):
        raise PostFailed("the answer is not a JSON object", NOT_THE_BRIDGE)
    return body


def get_bytes(url: str, headers: Mapping[str, str], timeout: float = TIMEOUT) -> bytes:
    with _translated_errors(), _opened(Request(url, headers=dict(headers)), timeout) as answer:
        return bytes(answer.read())


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except HTTPError as error:
        with error:
            raise _refusal(error) from None
    except URLError as error:
        raise _unreachable(error.reason) from None
    except (OSError, HTTPException) as error:
        raise _unreachable(error) from None


class _NoRedirects(HTTPRedirectHandler):
    """urllib would turn a redirected POST into a GET, so report the redirect instead."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _opened(request: Request, timeout: float) -> Any:
    """A context is made for https alone: reading all CA certificates takes time."""
    https = [HTTPSHandler(context=tls_context())] if request.type == "https" else []
    return build_opener(_NoRedirects, *https).open(request, timeout=timeout)


def _decoded(answer: IO[bytes]) -> Iterator[JsonObject]:
    data: list[bytes] = []
    for line in answer:
        line = line.rstrip(b"\r\n")
        if line.startswith(b"data:"):
            data.append(line[5:].strip())
        elif not line and data:
            text = b"\n".join(data)
            data.clear()
            if text == b"[DONE]":
                return
            yield _event(text)


def _event(text: bytes) -> JsonObject:
    try:
        event = orjson.loads(text)
    except orjson.JSONDecodeError:
        event = None
    if not isinstance(event, dict):
        remedy = (
            "A proxy may change the bridge's answers: check the proxies between this machine and the bridge."
        )
        raise PostFailed("an event of the stream is not a JSON object", remedy)
    return event


def _check_content_type(answer: HTTPResponse) -> None:
    content_type = answer.headers.get_content_type()
    if content_type != "text/event-stream":
        raise PostFailed(f"the answer is {content_type} and not a stream", NOT_THE_BRIDGE)


# --- remedies ----------------------------------------------------------------------------------------

NOT_THE_BRIDGE = "Another server answers at this address: check --url."
START_IT = "Is the bridge running there? Start it, or set its address with --url http://HOST:PORT."
TRY_AGAIN = "Try again; if the problem continues, see the bridge's log."
ASK_OPERATOR = "The bridge is running but cannot use Gemini: ask its operator to run gemini-bridge doctor."
WRONG_ADDRESS = (
    "This address does not serve the protocol: write it without /v1, as in --url http://HOST:PORT."
)

REMEDIES: Mapping[int, str] = {
    400: "The bridge rejected the request; see the message for the reason.",
    401: "The key is missing or invalid: use a valid key with --key or in the variable BRIDGE_KEY.",
    403: "This key is not allowed to do that: choose another model with --model, or ask your administrator.",
    404: WRONG_ADDRESS,
    405: WRONG_ADDRESS,
    429: "A limit is reached: wait, or ask your administrator for a higher limit.",
    502: ASK_OPERATOR,
    503: TRY_AGAIN,
    504: TRY_AGAIN,
    529: TRY_AGAIN,
}
NO_ROUTE = "There is no route"  #: the start of the bridge's message for an unknown path
UNKNOWN_MODEL = "Choose another model with --model; GET /v1/models lists them."


def _refusal(error: HTTPError) -> PostFailed:
    if 300 <= error.code < 400:
        location = error.headers.get("Location", "another address")
        return PostFailed(f"the address redirects to {location}", "Use that address with --url.")
    message = _error_message(error)
    remedy = REMEDIES.get(error.code, TRY_AGAIN)
    if error.code == 404 and "model" in message and not message.startswith(NO_ROUTE):
        remedy = UNKNOWN_MODEL
    if error.code == 429 and (wait := error.headers.get("Retry-After")):
        remedy = f"A limit is reached: wait {_in_words(wait)}, or ask your administrator for a higher limit."
    return PostFailed(f"HTTP {error.code}: {message}", remedy)


def _in_words(wait: str) -> str:
    """The value of `retry-after` in seconds, minutes or hours, rounded up."""
    if not wait.isdecimal() or int(wait) < 120:
        return f"{wait} seconds"
    minutes = math.ceil(int(wait) / 60)
    return f"{minutes} minutes" if minutes < 120 else f"{math.ceil(minutes / 60)} hours"


def _error_message(error: HTTPError) -> str:
    """The message, which has the same path in the error format of every protocol."""
    try:
        message = str(orjson.loads(error.read(LONGEST_READ))["error"]["message"])
    except (OSError, HTTPException, orjson.JSONDecodeError, LookupError, TypeError):
        return "the answer is not from the bridge"
    return " ".join(message.split())[:LONGEST_QUOTED]


def _unreachable(reason: object) -> PostFailed:
    match reason:
        case ConnectionRefusedError():
            return PostFailed("connection refused", START_IT)
        case socket.gaierror():
            return PostFailed("the host name cannot be resolved", "Check --url and the DNS of this machine.")
        case ssl.SSLCertVerificationError():
            remedy = f"Set {ADVISED} to the file with your company's CA certificates."
            return PostFailed(f"the certificate is not trusted: {reason.verify_message}", remedy)
        case ssl.SSLError():
            return PostFailed(
                "the server does not use TLS",
                "Check --url: should it begin with http:// instead of https://?",
            )
        case TimeoutError():
            return PostFailed(f"timeout: no data for {TIMEOUT:.0f} seconds", START_IT)
        case ConnectionError() | HTTPException():
            remedy = "Check for a proxy that closes connections; otherwise see the bridge's log."
            return PostFailed("the connection was closed", remedy)
    return PostFailed(f"the bridge cannot be reached: {reason}", START_IT)

"""Requests to a bridge over HTTP; whatever goes wrong is a `PostFailed` that says what to do.

The standard library's client does it: the probe must see what any client would see, proxies and certificates
included, and needs no more of HTTP than one POST whose answer is read line by line.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

import orjson

from bridge.gemini.types import JsonObject

#: Seconds of silence. The bridge gives a sign of life far more often.
PATIENCE = 60.0

USUAL_HEADERS = {"Content-Type": "application/json", "User-Agent": "gemini-bridge-probe"}
LONGEST_READ = 100_000
LONGEST_QUOTED = 200


class PostFailed(Exception):
    """What went wrong, and what its reader can do about it."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy


def events(url: str, body: JsonObject, headers: Mapping[str, str]) -> Iterator[JsonObject]:
    """The data of each server-sent event, up to the end of the stream or its `[DONE]`."""
    request = Request(url, orjson.dumps(body), {**USUAL_HEADERS, **headers}, method="POST")
    with _troubles(), _opener.open(request, timeout=PATIENCE) as answer:
        _check_kind(answer)
        yield from _decoded(answer)


def document(url: str) -> JsonObject:
    """A JSON object that the bridge gives to everybody."""
    request = Request(url, headers=USUAL_HEADERS)
    with _troubles(), _opener.open(request, timeout=PATIENCE) as answer:
        try:
            told = orjson.loads(answer.read())
        except orjson.JSONDecodeError:
            told = None
    if not isinstance(told, dict):
        raise PostFailed("the answer is not a JSON object", NOT_THE_BRIDGE)
    return told


@contextmanager
def _troubles() -> Iterator[None]:
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
    """A redirected POST would arrive as a GET; better to say where the bridge is."""

    def redirect_request(self, *_: Any) -> None:
        return None


_opener = build_opener(_NoRedirects)


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
        remedy = "Something between here and the bridge changes its answers: look for a proxy."
        raise PostFailed("an event of the stream is not a JSON object", remedy)
    return event


def _check_kind(answer: HTTPResponse) -> None:
    kind = answer.headers.get_content_type()
    if kind != "text/event-stream":
        raise PostFailed(
            f"the answer is {kind} and not a stream",
            NOT_THE_BRIDGE,
        )


# --- what to do --------------------------------------------------------------------------------------

NOT_THE_BRIDGE = "Something other than the bridge answers at this address: check --url."
START_IT = "Is the bridge running there? Start it, or give its address with --url http://HOST:PORT."
TRY_AGAIN = "Try again; if it stays, the bridge's log says more."
ASK_OPERATOR = "The bridge is there but cannot use Gemini: its operator should run gemini-bridge doctor."
WRONG_ADDRESS = (
    "Nothing there speaks this protocol: the address goes without /v1, as in --url http://HOST:PORT."
)

REMEDIES: Mapping[int, str] = {
    400: "The bridge found the request wrong; the message says where.",
    401: "The key is missing or not valid: give a good one with --key or in the variable BRIDGE_KEY.",
    403: "This key may not do that: choose another model with --model, or ask your administrator.",
    404: WRONG_ADDRESS,
    405: WRONG_ADDRESS,
    429: "A limit is used up for now: wait, or ask your administrator for a higher one.",
    502: ASK_OPERATOR,
    503: TRY_AGAIN,
    504: TRY_AGAIN,
    529: TRY_AGAIN,
}
NO_ROUTE = "There is no route"  #: the start of the bridge's message for an unknown path
UNKNOWN_MODEL = "Choose another model with --model; GET /v1/models lists them."


def _refusal(error: HTTPError) -> PostFailed:
    if 300 <= error.code < 400:
        there = error.headers.get("Location", "another address")
        return PostFailed(f"the address redirects to {there}", "Give that address with --url.")
    message = _told(error)
    remedy = REMEDIES.get(error.code, TRY_AGAIN)
    if error.code == 404 and "model" in message and not message.startswith(NO_ROUTE):
        remedy = UNKNOWN_MODEL
    if error.code == 429 and (wait := error.headers.get("Retry-After")):
        remedy = f"A limit is used up for {wait} s: wait, or ask your administrator for a higher one."
    return PostFailed(f"HTTP {error.code}: {message}", remedy)


def _told(error: HTTPError) -> str:
    """The message, which has the same place in every vendor's envelope."""
    try:
        message = str(orjson.loads(error.read(LONGEST_READ))["error"]["message"])
    except (OSError, HTTPException, orjson.JSONDecodeError, LookupError, TypeError):
        return "an answer that is not the bridge's"
    return " ".join(message.split())[:LONGEST_QUOTED]


def _unreachable(reason: object) -> PostFailed:
    match reason:
        case ConnectionRefusedError():
            return PostFailed("connection refused", START_IT)
        case socket.gaierror():
            return PostFailed("the host's name is not known", "Check --url, and this machine's name service.")
        case ssl.SSLCertVerificationError():
            remedy = "Name the file of your company's certificates in SSL_CERT_FILE."
            return PostFailed(f"the certificate is not trusted: {reason.verify_message}", remedy)
        case ssl.SSLError():
            return PostFailed("no TLS at this address", "Check --url: is it http:// instead of https://?")
        case TimeoutError():
            return PostFailed(f"no sign of life for {PATIENCE:.0f} seconds", START_IT)
        case ConnectionError() | HTTPException():
            remedy = "A proxy in between may have closed it; if not, the bridge's log says more."
            return PostFailed("the connection broke", remedy)
    return PostFailed(f"cannot be reached: {reason}", START_IT)

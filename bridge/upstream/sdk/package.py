"""The one module that knows `google-generativeai` and the packages below it. Their exceptions end here.

Of the package it takes what gets a request to Google and an answer back: the messages and the clients. Its
REST transport is used, as it goes by the same proxies and CA bundles as all else.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import orjson
import requests

from bridge import __version__
from bridge.errors import (
    BridgeError,
    InvalidRequest,
    UpstreamMalformed,
    UpstreamMisconfigured,
    UpstreamTruncated,
    UpstreamUnreachable,
)
from bridge.gemini.types import Chunk, JsonObject
from bridge.gemini.wire import chunk_from_json
from bridge.upstream.auth import google_auth
from bridge.upstream.auth.credentials import Credential
from bridge.upstream.errors import error_from_response
from bridge.upstream.masking import Mask
from bridge.upstream.rest import LARGEST_ERROR_BODY, LARGEST_WHOLE_ANSWER, LONGEST_SHORT_CALL, quoted
from bridge.upstream.sdk.cancellable_socket import CancellableAdapter
from bridge.upstream.sdk.unsupported_fields import lost_fields, with_whole_numbers
from bridge.upstream.transport.exception_map import FOREIGN as FOREIGN_HTTP
from bridge.upstream.transport.exception_map import translate as translate_http
from bridge.upstream.transport.http_response import Timeouts

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)  # it announces its own end; docs/UPSTREAMS.md says so too
    from google.generativeai import protos
from google.ai import generativelanguage
from google.api_core import exceptions as api_errors
from google.api_core.client_options import ClientOptions
from google.auth import exceptions as auth_errors
from google.protobuf import json_format

#: The package reads letter by letter and copies what it has with each: four times this takes it a minute.
LARGEST_MESSAGE = 256 << 10

T = TypeVar("T")
Row = tuple[type[BridgeError], str]

_UNREACHABLE: Row = (UpstreamUnreachable, "Gemini could not be reached")
_MALFORMED: Row = (UpstreamMalformed, "google-generativeai could not read Gemini's answer")
_MISCONFIGURED: Row = (UpstreamMisconfigured, "google-generativeai cannot be used as it is installed")

#: The nearest ancestor of an exception decides; calls that were refused are told by their status instead.
FOREIGN: Mapping[type[BaseException], Row] = {
    api_errors.GoogleAPIError: _UNREACHABLE,
    api_errors.DuplicateCredentialArgs: _MISCONFIGURED,
    api_errors.AsyncRestUnsupportedParameterError: _MISCONFIGURED,
    json_format.Error: _MALFORMED,
    ValueError: _MALFORMED,
    TypeError: _MALFORMED,
    AttributeError: _MALFORMED,
}


class Package:
    short_calls: Mapping[str, tuple[str, Any]] = {
        "embedContent": ("embed_content", protos.EmbedContentRequest),
        "batchEmbedContents": ("batch_embed_contents", protos.BatchEmbedContentsRequest),
    }

    def __init__(self, address: str, timeouts: Timeouts, pool_size: int) -> None:
        self.address = address
        self._timeouts = timeouts
        self._pool_size = pool_size
        self._clients: dict[tuple[type, str], Any] = {}

    # --- requests ------------------------------------------------------------------------------------

    def request(self, model: str, body: JsonObject) -> Any:
        """The message; raises for what no message of its kind can be."""
        return _message(protos.GenerateContentRequest, {"model": _path(model), **body})

    def lost(self, body: JsonObject, method: str = "") -> list[str]:
        """The paths of what the message would not hold."""
        _, kind = self.short_calls.get(method, ("", protos.GenerateContentRequest))
        return list(lost_fields(body, kind.pb(kind()).DESCRIPTOR))

    # --- calls, each with a key ----------------------------------------------------------------------

    def stream(self, message: Any, sent: bytes, key: str) -> Generator[Chunk, None, None]:
        """`sent` is the message as JSON."""
        client = self._client(generativelanguage.GenerativeServiceClient, key)
        return _chunks(client.stream_generate_content(request=message, retry=None), Mask(key, sent))

    def count(self, model: str, body: JsonObject, key: str) -> int:
        named = f"models/{model.removeprefix('models/')}"
        whole = {"model": _path(model), "generateContentRequest": {"model": named, **body}}
        client = self._client(generativelanguage.GenerativeServiceClient, key)
        message = _message(protos.CountTokensRequest, whole)
        counted = client.count_tokens(request=message, retry=None, timeout=LONGEST_SHORT_CALL)
        return int(counted.total_tokens)

    def unary_call(self, model: str, method: str, body: JsonObject, key: str) -> JsonObject:
        name, kind = self.short_calls[method]
        message = _message(kind, {**body, "model": _path(model)})
        call = getattr(self._client(generativelanguage.GenerativeServiceClient, key), name)
        return _json(call(request=message, retry=None, timeout=LONGEST_SHORT_CALL), Mask(key))

    def models(self, key: str) -> Sequence[JsonObject]:
        client = self._client(generativelanguage.ModelServiceClient, key)
        pages = client.list_models(
            request=protos.ListModelsRequest(page_size=1000), retry=None, timeout=LONGEST_SHORT_CALL
        )
        return [_json(model, Mask(key)) for model in pages]

    def _client(self, kind: type, key: str) -> Any:
        """One for each key, and none before it is needed: connections must not live through a fork."""
        if (kind, key) not in self._clients:
            client: Any = kind(
                client_options=ClientOptions(api_key=key, api_endpoint=self.address), transport="rest"
            )
            session: requests.Session = client.transport._session
            adapter = CancellableAdapter(self._timeouts, self._pool_size)
            session.mount("https://", adapter)
            session.mount("http://", adapter)
            session.hooks["response"].append(_checked)
            session.headers.update(
                {"User-Agent": f"gemini-bridge/{__version__}", "Accept-Encoding": "identity"}
            )
            self._clients.setdefault((kind, key), client)
        return self._clients[kind, key]

    # --- answers -------------------------------------------------------------------------------------

    def asked(self, ask: Callable[[], T], credential: Credential, model: str) -> T:
        """What `ask` gives; what it raises is ours."""
        try:
            return ask()
        except (*FOREIGN, *FOREIGN_HTTP, auth_errors.GoogleAuthError) as error:
            raise translate(error, credential, model) from None  # it may quote the address, or the key


def _path(model: str) -> str:
    """The client chooses the name; it must stay one segment of the path."""
    return f"models/{quoted(model.removeprefix('models/'))}"


def _message(kind: Any, body: JsonObject) -> Any:
    message = kind.pb(kind())
    try:
        json_format.ParseDict(body, message)
    except (json_format.Error, ValueError, TypeError, AttributeError):
        raise InvalidRequest(
            "The request is not of the form that Gemini publishes, and google-generativeai can send no other."
        ) from None
    return kind.wrap(message)


def _json(message: Any, mask: Mask) -> dict[str, Any]:
    found: dict[str, Any] = mask.in_object(json_format.MessageToDict(type(message).pb(message)))
    return found


class _Metered:
    """Pieces of an answer, of which a bounded number makes up one message."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = pieces
        self.since_message = 0

    def __next__(self) -> str:
        piece = next(self._pieces)
        self.since_message += len(piece)
        if self.since_message > LARGEST_MESSAGE:
            raise UpstreamMalformed("Gemini sent more at once than google-generativeai can read.")
        return piece


def _chunks(answer: Any, mask: Mask) -> Generator[Chunk, None, None]:
    answer._response_itr = pieces = _Metered(answer._response_itr)
    try:
        for message in answer:
            pieces.since_message = 0
            yield _chunk(_json(message, mask))
    except (*FOREIGN, *FOREIGN_HTTP) as error:
        raise _broken(error) from None
    finally:
        answer.cancel()


def _chunk(payload: dict[str, Any]) -> Chunk:
    for candidate in payload.get("candidates", ()):
        for part in candidate.get("content", {}).get("parts", ()):
            if "functionCall" in part:
                part["functionCall"] = with_whole_numbers(part["functionCall"])
    return chunk_from_json(payload)


def _checked(response: requests.Response, *, stream: bool = False, **_options: Any) -> None:
    """Before the package sees an answer. It would follow a redirect and take the key along, try to renew a
    key that was refused, and stumble over an error that comes in an array."""
    response.encoding = "utf-8"  # as JSON is, also where the head does not say so
    if response.status_code >= 300:
        raise api_errors.from_http_status(response.status_code, "", response=response)
    if not stream:
        body = response.raw.read(LARGEST_WHOLE_ANSWER + 1, decode_content=True)
        if len(body) > LARGEST_WHOLE_ANSWER:
            raise UpstreamMalformed("Gemini's answer is longer than any may be.")
        response._content = body  # as if the package had read it


# --- errors ------------------------------------------------------------------------------------------


def translate(error: BaseException, credential: Credential, model: str) -> BridgeError:
    if isinstance(error, api_errors.GoogleAPICallError):
        return _refusal(error, credential, model)
    if isinstance(error, auth_errors.GoogleAuthError):
        return google_auth.translate(error)
    if isinstance(error, tuple(FOREIGN_HTTP)) and not isinstance(error, UnicodeError):
        return translate_http(error)
    kind, text = next(FOREIGN[cls] for cls in type(error).__mro__ if cls in FOREIGN)
    return kind(f"{text} ({type(error).__name__}).")


def _refusal(error: Any, credential: Credential, model: str) -> BridgeError:
    """What Google said, in its own words where they came along."""
    said = _words(error)
    redirected = isinstance(error, api_errors.Redirection) or 300 <= (error.code or 500) < 400
    if redirected or (error.code == 404 and not model):
        return UpstreamMisconfigured("The upstream's address leads elsewhere: it is not the Gemini API.")
    return error_from_response(error.code or 500, Mask(credential.secret).in_body(said), model)


def _words(error: Any) -> bytes:
    response = error.response
    if not isinstance(response, requests.Response):
        status = getattr(error.grpc_status_code, "name", "")
        return orjson.dumps({"error": {"status": status, "message": str(error.message)}})
    try:
        said: bytes = response.raw.read(LARGEST_ERROR_BODY, decode_content=True)
        return said
    except tuple(FOREIGN_HTTP):  # the status alone says enough
        return b""
    finally:
        response.close()


def _broken(error: BaseException) -> BridgeError:
    """An answer that had begun."""
    if isinstance(error, tuple(FOREIGN_HTTP)) and not isinstance(error, UnicodeError):
        return translate_http(error)
    if isinstance(error, ValueError) and str(error).startswith("Unfinished stream"):
        return UpstreamTruncated("Gemini's answer ended in the middle of a chunk.")
    return UpstreamMalformed(f"{_MALFORMED[1]} ({type(error).__name__}).")

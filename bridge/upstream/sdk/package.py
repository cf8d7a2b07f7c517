"""The only module that uses `google-generativeai` and the packages below it; it translates their exceptions.

It uses the package's messages and clients, with the REST transport, which respects the same proxies and CA
bundle as the rest of the bridge.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import orjson
import requests

from bridge import __version__
from bridge.certificates import ca_bundle
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
from bridge.upstream.http_upstream import LARGEST_ERROR_BODY, LARGEST_WHOLE_ANSWER, LONGEST_UNARY_CALL, quoted
from bridge.upstream.masking import Mask
from bridge.upstream.sdk.cancellable_socket import CancellableAdapter
from bridge.upstream.sdk.unsupported_fields import lost_fields, with_whole_numbers
from bridge.upstream.transport.exception_map import FOREIGN as FOREIGN_HTTP
from bridge.upstream.transport.exception_map import translate as translate_http
from bridge.upstream.transport.http_response import Timeouts

with warnings.catch_warnings():
    warnings.simplefilter(
        "ignore", FutureWarning
    )  # it announces its end of support; so does docs/UPSTREAMS.md
    from google.generativeai import protos
from google.ai import generativelanguage
from google.api_core import exceptions as api_errors
from google.api_core.client_options import ClientOptions
from google.auth import exceptions as auth_errors
from google.protobuf import json_format

#: The package copies its buffer for each character: a message of four times this size takes a minute.
LARGEST_MESSAGE = 256 << 10

T = TypeVar("T")
Row = tuple[type[BridgeError], str]

_UNREACHABLE: Row = (UpstreamUnreachable, "Gemini could not be reached")
_MALFORMED: Row = (UpstreamMalformed, "google-generativeai could not read Gemini's answer")
_MISCONFIGURED: Row = (UpstreamMisconfigured, "google-generativeai cannot be used as it is installed")

#: The nearest ancestor of an exception in the table decides; refused calls are classified by their status.
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
    unary_methods: Mapping[str, tuple[str, Any]] = {
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
        """The request as a message; raises if the message type cannot hold it."""
        return _message(protos.GenerateContentRequest, {"model": _path(model), **body})

    def lost(self, body: JsonObject, method: str = "") -> list[str]:
        """The paths of the fields that the message would drop."""
        _, kind = self.unary_methods.get(method, ("", protos.GenerateContentRequest))
        return list(lost_fields(body, kind.pb(kind()).DESCRIPTOR))

    # --- calls ---------------------------------------------------------------------------------------

    def stream(self, message: Any, sent: bytes, key: str) -> Generator[Chunk, None, None]:
        """`sent` is the message as JSON."""
        client = self._client(generativelanguage.GenerativeServiceClient, key)
        return _chunks(client.stream_generate_content(request=message, retry=None), Mask(key, sent))

    def count(self, model: str, body: JsonObject, key: str) -> int:
        named = f"models/{model.removeprefix('models/')}"
        whole = {"model": _path(model), "generateContentRequest": {"model": named, **body}}
        client = self._client(generativelanguage.GenerativeServiceClient, key)
        message = _message(protos.CountTokensRequest, whole)
        counted = client.count_tokens(request=message, retry=None, timeout=LONGEST_UNARY_CALL)
        return int(counted.total_tokens)

    def unary_call(self, model: str, method: str, body: JsonObject, key: str) -> JsonObject:
        name, kind = self.unary_methods[method]
        message = _message(kind, {**body, "model": _path(model)})
        call = getattr(self._client(generativelanguage.GenerativeServiceClient, key), name)
        return _json(call(request=message, retry=None, timeout=LONGEST_UNARY_CALL), Mask(key))

    def models(self, key: str) -> Sequence[JsonObject]:
        client = self._client(generativelanguage.ModelServiceClient, key)
        pages = client.list_models(
            request=protos.ListModelsRequest(page_size=1000), retry=None, timeout=LONGEST_UNARY_CALL
        )
        return [_json(model, Mask(key)) for model in pages]

    def _client(self, kind: type, key: str) -> Any:
        """A client for each key, made at its first call: connections must not survive a fork."""
        if (kind, key) not in self._clients:
            client: Any = kind(
                client_options=ClientOptions(api_key=key, api_endpoint=self.address), transport="rest"
            )
            session: requests.Session = client.transport._session
            adapter = CancellableAdapter(self._timeouts, self._pool_size)
            session.verify = ca_bundle().location
            session.mount("https://", adapter)
            session.mount("http://", adapter)
            session.hooks["response"].append(_check_response)
            session.headers.update(
                {"User-Agent": f"gemini-bridge/{__version__}", "Accept-Encoding": "identity"}
            )
            self._clients.setdefault((kind, key), client)
        return self._clients[kind, key]

    # --- answers -------------------------------------------------------------------------------------

    def run(self, call: Callable[[], T], credential: Credential, model: str) -> T:
        """Run `call` and translate its exceptions."""
        try:
            return call()
        except (*FOREIGN, *FOREIGN_HTTP, auth_errors.GoogleAuthError) as error:
            raise translate(error, credential, model) from None  # the exception may quote the key


def _path(model: str) -> str:
    """The client chose the model name; it must stay one segment of the path."""
    return f"models/{quoted(model.removeprefix('models/'))}"


def _message(kind: Any, body: JsonObject) -> Any:
    message = kind.pb(kind())
    try:
        json_format.ParseDict(body, message)
    except (json_format.Error, ValueError, TypeError, AttributeError):
        raise InvalidRequest(
            "The request does not have Gemini's documented form; google-generativeai can send no other form."
        ) from None
    return kind.wrap(message)


def _json(message: Any, mask: Mask) -> dict[str, Any]:
    found: dict[str, Any] = mask.in_object(json_format.MessageToDict(type(message).pb(message)))
    return found


class _LimitedPieces:
    """The pieces of an answer, with a limit on the characters of one message."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = pieces
        self.since_message = 0

    def __next__(self) -> str:
        piece = next(self._pieces)
        self.since_message += len(piece)
        if self.since_message > LARGEST_MESSAGE:
            raise UpstreamMalformed("Gemini sent a message that is too large for google-generativeai.")
        return piece


def _chunks(answer: Any, mask: Mask) -> Generator[Chunk, None, None]:
    answer._response_itr = pieces = _LimitedPieces(answer._response_itr)
    try:
        for message in answer:
            pieces.since_message = 0
            yield _chunk(_json(message, mask))
    except (*FOREIGN, *FOREIGN_HTTP) as error:
        raise _stream_error(error) from None
    finally:
        answer.cancel()


def _chunk(payload: dict[str, Any]) -> Chunk:
    for candidate in payload.get("candidates", ()):
        for part in candidate.get("content", {}).get("parts", ()):
            if "functionCall" in part:
                part["functionCall"] = with_whole_numbers(part["functionCall"])
    return chunk_from_json(payload)


def _check_response(response: requests.Response, *, stream: bool = False, **_options: Any) -> None:
    """Runs before the package reads a response. The package would send the key to the target of a redirect,
    try to renew a refused key, and fail on an error inside an array."""
    response.encoding = "utf-8"  # the encoding of JSON; the head may not name it
    if response.status_code >= 300:
        raise api_errors.from_http_status(response.status_code, "", response=response)
    if not stream:
        body = response.raw.read(LARGEST_WHOLE_ANSWER + 1, decode_content=True)
        if len(body) > LARGEST_WHOLE_ANSWER:
            raise UpstreamMalformed("Gemini's answer is longer than the bridge allows.")
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
    """The error for a refused call, with Google's message if the body has one."""
    body = _error_body(error)
    redirected = isinstance(error, api_errors.Redirection) or 300 <= (error.code or 500) < 400
    if redirected or (error.code == 404 and not model):
        return UpstreamMisconfigured(
            "The upstream's address is not the Gemini API: it answered with a redirect or 404."
        )
    return error_from_response(error.code or 500, Mask(credential.secret).in_body(body), model)


def _error_body(error: Any) -> bytes:
    response = error.response
    if not isinstance(response, requests.Response):
        status = getattr(error.grpc_status_code, "name", "")
        return orjson.dumps({"error": {"status": status, "message": str(error.message)}})
    try:
        body: bytes = response.raw.read(LARGEST_ERROR_BODY, decode_content=True)
        return body
    except tuple(FOREIGN_HTTP):  # the status is enough
        return b""
    finally:
        response.close()


def _stream_error(error: BaseException) -> BridgeError:
    """The error for a failure in the middle of an answer."""
    if isinstance(error, tuple(FOREIGN_HTTP)) and not isinstance(error, UnicodeError):
        return translate_http(error)
    if isinstance(error, ValueError) and str(error).startswith("Unfinished stream"):
        return UpstreamTruncated("Gemini's answer ended in the middle of a chunk.")
    return UpstreamMalformed(f"{_MALFORMED[1]} ({type(error).__name__}).")

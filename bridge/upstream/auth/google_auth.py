"""Loads Google credentials and fetches their tokens; the only module that uses `google-auth`.

The package is an extra, so upstreams import this module only after they were configured.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any

import google.auth
import requests
from google.auth import exceptions as auth_errors
from google.auth.transport.requests import Request
from google.oauth2 import credentials as user
from google.oauth2 import service_account

from bridge.certificates import ca_bundle
from bridge.errors import (
    BridgeError,
    TooBusy,
    UpstreamError,
    UpstreamMalformed,
    UpstreamMisconfigured,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from bridge.upstream.auth.access_tokens import AccessToken
from bridge.upstream.errors import ADMINISTRATOR
from bridge.upstream.transport.exception_map import FOREIGN as FOREIGN_HTTP
from bridge.upstream.transport.exception_map import translate as translate_http

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
TOKEN_ADDRESS = "https://oauth2.googleapis.com/token"
TIMEOUT = (10.0, 20.0)  #: seconds to connect, and between bytes

Credentials = Any  #: of google.auth.credentials

Row = tuple[type[UpstreamError], str]
_UNREACHABLE: Row = (UpstreamUnreachable, "Google's token server could not be reached")
_TIMEOUT: Row = (UpstreamTimeout, "Google's token server did not answer in time")
_GARBLED: Row = (UpstreamMalformed, "The answer of Google's token server is not a token")
_REFUSED: Row = (UpstreamMisconfigured, "Google refused to give the bridge a token")
_MISSING: Row = (
    UpstreamMisconfigured,
    "The bridge found no usable Google credentials; set vertex.credentials to their file",
)

#: The nearest ancestor of an exception in the table decides.
FOREIGN: Mapping[type[BaseException], Row] = {
    auth_errors.GoogleAuthError: _REFUSED,
    auth_errors.DefaultCredentialsError: _MISSING,
    auth_errors.TransportError: _UNREACHABLE,
    auth_errors.TimeoutError: _TIMEOUT,
    auth_errors.ResponseError: _GARBLED,
    # google-auth raises these if the answer is not the JSON that it expects.
    ValueError: _GARBLED,
    TypeError: _GARBLED,
    LookupError: _GARBLED,
}
_OAUTH_REASON = re.compile(r"[a-z_]{1,40}")


# --- credentials -------------------------------------------------------------------------------------


def of_file(path: Path, info: Mapping[str, Any]) -> Callable[[], Credentials]:
    """A function that returns the credentials of a file.

    Credentials of the common kinds are made at once, so that a bad file raises ValueError at the start; other
    kinds may need a call to Google.
    """
    if info.get("type") == "service_account":
        account = _of_service_account(info)
        return lambda: account
    if info.get("type") == "authorized_user":
        login = of_user(info)
        return lambda: login
    return lambda: google.auth.load_credentials_from_file(str(path.expanduser()), scopes=SCOPES)[0]


def _of_service_account(info: Mapping[str, Any]) -> Credentials:
    try:
        return service_account.Credentials.from_service_account_info(info, scopes=SCOPES)
    except (TypeError, AttributeError):  # a field has the wrong type
        raise ValueError from None


def of_user(info: Mapping[str, Any]) -> Credentials:
    """The credentials of a person's login, in the format of Google's tools."""
    return user.Credentials(
        info.get("access_token"),
        refresh_token=info.get("refresh_token"),
        token_uri=info.get("token_uri", TOKEN_ADDRESS),
        client_id=info.get("client_id"),
        client_secret=info.get("client_secret"),
        quota_project_id=info.get("quota_project_id"),
    )


def of_this_machine() -> Credentials:
    """Google's default credentials: from gcloud, or from the Google Cloud machine."""
    return google.auth.default(scopes=SCOPES)[0]


# --- tokens ------------------------------------------------------------------------------------------


class TokenFetcher:
    """Fetches tokens, with the proxies and the CA bundle of the environment."""

    def __init__(self, find: Callable[[], Credentials]) -> None:
        self._find = find
        self._credentials: Credentials = None

    def __call__(self) -> AccessToken:
        with auth_errors_translated():
            if self._credentials is None:
                self._credentials = self._find()
            return refreshed(self._credentials)


def refreshed(credentials: Credentials) -> AccessToken:
    with requests.Session() as session:
        # Given with each request: `requests` prefers its own variables to the setting of a session.
        verify = ca_bundle().location
        credentials.refresh(partial(Request(session), timeout=TIMEOUT, verify=verify))
    headers: dict[str, str] = {}
    credentials.apply(headers)
    expiry = credentials.expiry
    expires = math.inf if expiry is None else expiry.replace(tzinfo=UTC).timestamp()
    return AccessToken(credentials.token, headers, expires)


@contextmanager
def auth_errors_translated() -> Iterator[None]:
    try:
        yield
    except (*FOREIGN, *FOREIGN_HTTP) as error:
        raise translate(error) from None  # its message may quote a token


def translate(error: BaseException) -> BridgeError:
    http_error = _http_error(error)
    known = None if http_error is None else translate_http(http_error)
    if isinstance(known, TooBusy | UpstreamMisconfigured):
        return known
    kind, text = _row(error, known)
    end = f" {ADMINISTRATOR}" if kind is UpstreamMisconfigured else ""
    return kind(f"{text} ({_reason(error)}).{end}")


def _row(error: BaseException, http_error: BridgeError | None) -> Row:
    if isinstance(http_error, UpstreamTimeout):
        return _TIMEOUT
    if http_error is not None or getattr(error, "retryable", False):
        return _UNREACHABLE
    return next(FOREIGN[cls] for cls in type(error).__mro__ if cls in FOREIGN)


def _http_error(error: BaseException | None) -> BaseException | None:
    """The HTTP error in the chain of causes, if there is one."""
    while error is not None and not _is_http(error):
        error = error.__cause__
    return error


def _is_http(error: BaseException) -> bool:
    # A UnicodeError comes from the content of an answer, not from the connection.
    from_http = not isinstance(error, auth_errors.GoogleAuthError | UnicodeError)
    return from_http and isinstance(error, tuple(FOREIGN_HTTP))


def _reason(error: BaseException) -> str:
    """OAuth's error code, such as `invalid_grant`; never a sentence, which may quote a secret."""
    code = next((each["error"] for each in error.args if isinstance(each, dict) and "error" in each), None)
    return code if isinstance(code, str) and _OAUTH_REASON.fullmatch(code) else type(error).__name__

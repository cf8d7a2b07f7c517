"""Google's credentials: fetching tokens, errors, and the protection of tokens."""

from __future__ import annotations

import inspect
import socket
import time
import traceback
from base64 import urlsafe_b64decode
from pathlib import Path
from typing import Any

import orjson
import pytest
import requests
import responses
from google.auth import exceptions as auth_errors
from scripted_tokens import CANARY_TOKEN, TokenServer, service_account

from bridge import errors
from bridge.errors import BridgeError
from bridge.upstream.auth import google_auth
from bridge.upstream.auth.access_tokens import AccessToken
from bridge.upstream.auth.google_auth import TokenFetcher, translate

SOMEWHERE = Path("/nowhere.json")


@pytest.fixture(autouse=True)
def _directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def account(tokens: TokenServer | str) -> TokenFetcher:
    uri = tokens if isinstance(tokens, str) else tokens.address
    return TokenFetcher(google_auth.of_file(SOMEWHERE, service_account(uri)))


def raised_by(fetch: TokenFetcher) -> BridgeError:
    with pytest.raises(BridgeError) as caught:
        fetch()
    return caught.value


def test_a_service_account_gets_a_token_for_the_cloud(tokens: TokenServer) -> None:
    token = account(tokens)()
    assert token.value == f"{CANARY_TOKEN}1"
    assert token.headers == {"authorization": f"Bearer {CANARY_TOKEN}1"}
    asked = tokens.asked[0]
    assert asked["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    claims = orjson.loads(_from_base64(asked["assertion"].split(".")[1]))
    assert claims["scope"] == "https://www.googleapis.com/auth/cloud-platform"
    assert claims["iss"] == "bridge@canary-project.iam.gserviceaccount.com"


def _from_base64(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_a_token_has_its_expiry_time(tokens: TokenServer) -> None:
    tokens.lifetime = 1200
    assert account(tokens)().expires == pytest.approx(time.time() + 1200, abs=30)


def test_a_user_login_bills_the_project_of_the_file(tokens: TokenServer) -> None:
    info = {
        "type": "authorized_user",
        "client_id": "program",
        "client_secret": "hush",
        "refresh_token": "1//refresh",
        "quota_project_id": "payer",
        "token_uri": tokens.address,
    }
    token = TokenFetcher(google_auth.of_file(SOMEWHERE, info))()
    assert token.headers["x-goog-user-project"] == "payer"
    assert tokens.asked[0]["grant_type"] == "refresh_token"
    assert tokens.asked[0]["refresh_token"] == "1//refresh"


@responses.activate
def test_a_login_without_an_address_is_renewed_at_googles_own() -> None:
    """No server on loopback can have Google's address and its certificate, so the HTTP is simulated here."""
    answer = {"access_token": f"{CANARY_TOKEN}1", "expires_in": 3600}
    renewal = responses.post(google_auth.TOKEN_ADDRESS, json=answer)
    info = {"client_id": "program", "client_secret": "hush", "refresh_token": "1//refresh"}
    assert TokenFetcher(lambda: google_auth.of_user(info))().value == f"{CANARY_TOKEN}1"
    assert renewal.call_count == 1
    assert google_auth.TOKEN_ADDRESS.startswith("https://")


@responses.activate
@pytest.mark.parametrize("cut", [requests.exceptions.ChunkedEncodingError, requests.exceptions.SSLError])
def test_a_broken_connection_to_google_does_not_quote_what_was_sent(cut: type[Exception]) -> None:
    responses.post(google_auth.TOKEN_ADDRESS, body=cut("refresh_token=1//refresh"))
    info = {"client_id": "program", "client_secret": "hush", "refresh_token": "1//refresh"}
    error = raised_by(TokenFetcher(lambda: google_auth.of_user(info)))
    assert "1//refresh" not in "".join(traceback.format_exception(error))


def test_default_credentials_are_looked_up_only_when_a_token_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nothing_there(**_options: object) -> None:
        raise auth_errors.DefaultCredentialsError("no credentials, see https://…")

    monkeypatch.setattr("google.auth.default", nothing_there)
    fetch = TokenFetcher(google_auth.of_this_machine)
    error = raised_by(fetch)
    assert type(error) is errors.UpstreamMisconfigured
    assert "vertex.credentials" in error.message


def test_other_credential_file_types_are_loaded_by_googles_library(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(b'{"type": "of the future"}')
    fetch = TokenFetcher(google_auth.of_file(path, {"type": "of the future"}))
    with pytest.warns(DeprecationWarning, match="load_credentials_from_file"):
        assert type(raised_by(fetch)) is errors.UpstreamMisconfigured


# --- errors ------------------------------------------------------------------------------------------


def test_refused_credentials_are_a_misconfiguration(tokens: TokenServer) -> None:
    tokens.will_fail(400, {"error": "invalid_grant", "error_description": f"bad {CANARY_TOKEN}"})
    error = raised_by(account(tokens))
    assert type(error) is errors.UpstreamMisconfigured
    assert "(invalid_grant)" in error.message
    assert "administrator" in error.message


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, b"<html>", errors.UpstreamMalformed),
        (200, b"\xff", errors.UpstreamMalformed),
        (200, {"token": f"{CANARY_TOKEN}x"}, errors.UpstreamMisconfigured),
        (200, {"access_token": f"{CANARY_TOKEN}x", "expires_in": "soon"}, errors.UpstreamMalformed),
        (403, b"<html>", errors.UpstreamMisconfigured),
        (401, {"error": {"message": f"{CANARY_TOKEN}x"}}, errors.UpstreamMisconfigured),
    ],
)
def test_an_unexpected_token_server_response_is_reported_without_quoting_it(
    tokens: TokenServer, status: int, body: Any, expected: type[BridgeError]
) -> None:
    tokens.will_fail(status, body)
    error = raised_by(account(tokens))
    assert type(error) is expected
    told = "".join([error.message, repr(error), *traceback.format_exception(error)])
    assert CANARY_TOKEN not in told
    assert "<html>" not in told


def test_a_token_server_that_stays_overloaded_is_unreachable(
    tokens: TokenServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    for _ in range(3):
        tokens.will_fail(503, {"error": "temporarily_unavailable"})
    assert type(raised_by(account(tokens))) is errors.UpstreamUnreachable
    assert len(tokens.asked) == 3, "the package itself tries three times"


def test_a_token_server_that_is_down_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/token"
    error = raised_by(account(address))
    assert type(error) is errors.UpstreamUnreachable
    assert "token server" in error.message


def test_the_token_server_uses_the_same_ca_bundle_as_the_upstream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/does/not/exist.pem")
    error = raised_by(account("https://127.0.0.1:9/token"))
    assert type(error) is errors.UpstreamMisconfigured
    assert "SSL_CERT_FILE" in error.message


def test_tokens_are_fetched_through_the_proxy_of_the_environment(
    tokens: TokenServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", tokens.address.removesuffix("/token"))
    assert account("http://oauth2.test/token")().value == f"{CANARY_TOKEN}1"


def test_a_slow_token_server_times_out(tokens: TokenServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(google_auth, "TIMEOUT", (1, 0.05))
    tokens.delay = 0.5
    error = raised_by(account(tokens))
    assert type(error) is errors.UpstreamTimeout
    assert "token server" in error.message


FOREIGN = {
    errors.UpstreamMisconfigured: "GoogleAuthError RefreshError UserAccessTokenError DefaultCredentialsError"
    " MutualTLSChannelError ClientCertError OAuthError ReauthFailError ReauthSamlChallengeFailError"
    " MalformedError InvalidResource InvalidOperation InvalidValue InvalidType OSError",
    errors.UpstreamUnreachable: "TransportError",
    errors.UpstreamTimeout: "TimeoutError",
    errors.UpstreamMalformed: "ResponseError",
}


def test_every_exception_of_the_package_is_translated() -> None:
    expected = {name: ours for ours, names in FOREIGN.items() for name in names.split()}
    of_this_process = [
        cls
        for _, cls in inspect.getmembers(auth_errors, inspect.isclass)
        if cls.__module__ == auth_errors.__name__
    ]
    assert {cls.__name__: type(translate(cls("no"))) for cls in of_this_process} == expected


def test_a_temporary_failure_is_retryable() -> None:
    assert type(translate(auth_errors.RefreshError("no", retryable=True))) is errors.UpstreamUnreachable


def test_a_transport_error_is_translated_by_its_root_cause() -> None:
    error = auth_errors.RefreshError("no")
    error.__cause__ = auth_errors.TransportError("no")
    error.__cause__.__cause__ = requests.ConnectTimeout()
    assert type(translate(error)) is errors.UpstreamTimeout


def test_a_token_is_hidden_in_repr() -> None:
    assert CANARY_TOKEN not in repr(AccessToken(CANARY_TOKEN, {"authorization": CANARY_TOKEN}))

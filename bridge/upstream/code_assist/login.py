"""Gets access tokens from the file in which Gemini CLI stores its Google login.

The file is read again for each token, because Gemini CLI renews it too, and is never written. Renewing a
token here needs the id and the secret of the OAuth client that logged in; without them a token is used
until it expires.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from bridge.errors import UpstreamMisconfigured
from bridge.settings import AUTO, Settings, SettingsError, UpstreamRow
from bridge.upstream.auth.access_tokens import AHEAD, AccessToken
from bridge.upstream.auth.credential_files import read_credentials
from bridge.upstream.extras import credentials_origin, needing

LOG_IN = "log in with Gemini CLI as the user that the bridge runs as"
EXPIRED = f"The Google login of Gemini CLI has expired: {LOG_IN}."
NEEDED = ("refresh_token", "client_id", "client_secret")


class Login:
    def __init__(
        self,
        path: Path,
        oauth_client: dict[str, str],
        google_auth: ModuleType,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`oauth_client`: `client_id` and `client_secret`, if they are known."""
        self._path = path
        self._oauth_client = oauth_client
        self._google_auth = google_auth
        self._clock = clock
        self._last_value = ""

    @classmethod
    def from_row(cls, row: UpstreamRow, settings: Settings) -> Login:
        with needing("vertex", row):
            from bridge.upstream.auth import google_auth
        path = settings.code_assist.credentials if row.credentials == Path(AUTO) else row.credentials
        try:
            read_credentials(credentials_origin(row, settings), path)
        except SettingsError as error:
            raise SettingsError(f"{error}; {LOG_IN}") from None
        wanted = settings.code_assist
        oauth_client = {"client_id": wanted.client_id, "client_secret": wanted.client_secret}
        known = {name: value for name, value in oauth_client.items() if value not in ("", AUTO)}
        return cls(path, known, google_auth)

    def __call__(self) -> AccessToken:
        info = self._read()
        token = _stored_token(info)
        left = token.expires - self._clock()
        # A second call for the same token, long before it expires, means that the upstream refused it.
        if left > AHEAD and token.value != self._last_value:
            self._last_value = token.value
            return token
        if all(info.get(name) for name in NEEDED):
            return self._renew(info)
        if left > 0:
            return token
        raise UpstreamMisconfigured(EXPIRED)

    def _read(self) -> dict[str, Any]:
        try:
            return {**read_credentials("The Google login of Gemini CLI", self._path), **self._oauth_client}
        except SettingsError as error:
            raise UpstreamMisconfigured(f"{error}; {LOG_IN}.") from None

    def _renew(self, info: dict[str, Any]) -> AccessToken:
        try:
            with self._google_auth.auth_errors_translated():
                token: AccessToken = self._google_auth.refreshed(self._google_auth.of_user(info))
        except UpstreamMisconfigured as error:
            if "(invalid_grant)" not in error.message:
                raise
            raise UpstreamMisconfigured(f"{EXPIRED} (invalid_grant)") from None
        return token


def _stored_token(info: dict[str, Any]) -> AccessToken:
    """The token in the file; an expired token if the file has none."""
    value, end = info.get("access_token"), info.get("expiry_date")
    if not isinstance(value, str) or not value:
        return AccessToken("", {}, 0.0)
    expires = end / 1000 if isinstance(end, int | float) else math.inf
    return AccessToken(value, {"Authorization": f"Bearer {value}"}, expires)

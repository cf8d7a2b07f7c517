"""The Google login that Gemini CLI keeps in a file, as a source of tokens.

The file is read anew for each token, since Gemini CLI renews it too, and is never written. To renew a token
here, the id and secret of the program that logged in are needed; without them a token serves until its end.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from bridge.errors import UpstreamMisconfigured
from bridge.settings import AUTO, Settings, SettingsError
from bridge.upstream.auth.access_tokens import AHEAD, AccessToken
from bridge.upstream.auth.credential_files import read_credentials
from bridge.upstream.extras import needing

LOG_IN = "log in with Gemini CLI, as the user that the bridge runs as"
RUN_OUT = f"The Google login of Gemini CLI has run out: {LOG_IN}."
NEEDED = ("refresh_token", "client_id", "client_secret")


class Login:
    def __init__(
        self,
        path: Path,
        program: dict[str, str],
        google_auth: ModuleType,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`program`: the id and secret of the program that logged in, as far as they are known."""
        self._path = path
        self._program = program
        self._google_auth = google_auth
        self._clock = clock
        self._given = ""

    @classmethod
    def from_settings(cls, settings: Settings) -> Login:
        with needing("vertex", settings):
            from bridge.upstream.auth import google_auth
        wanted = settings.code_assist
        origin = settings.origins.get("code_assist.credentials", "code_assist.credentials")
        try:
            read_credentials(origin, wanted.credentials)
        except SettingsError as error:
            raise SettingsError(f"{error}; {LOG_IN}") from None
        program = {"client_id": wanted.client_id, "client_secret": wanted.client_secret}
        known = {name: value for name, value in program.items() if value not in ("", AUTO)}
        return cls(wanted.credentials, known, google_auth)

    def __call__(self) -> AccessToken:
        info = self._read()
        token = _written(info)
        left = token.expires - self._clock()
        # Whoever comes for a new one, long before the end of the one it was given, was refused with that.
        if left > AHEAD and token.value != self._given:
            self._given = token.value
            return token
        if all(info.get(name) for name in NEEDED):
            return self._renewed(info)
        if left > 0:
            return token
        raise UpstreamMisconfigured(RUN_OUT)

    def _read(self) -> dict[str, Any]:
        try:
            return {**read_credentials("The Google login of Gemini CLI", self._path), **self._program}
        except SettingsError as error:
            raise UpstreamMisconfigured(f"{error}; {LOG_IN}.") from None

    def _renewed(self, info: dict[str, Any]) -> AccessToken:
        try:
            with self._google_auth.auth_errors_translated():
                token: AccessToken = self._google_auth.refreshed(self._google_auth.of_user(info))
        except UpstreamMisconfigured as error:
            if "(invalid_grant)" not in error.message:
                raise
            raise UpstreamMisconfigured(f"{RUN_OUT} (invalid_grant)") from None
        return token


def _written(info: dict[str, Any]) -> AccessToken:
    """The token in the file; one that has run out, if there is none."""
    value, end = info.get("access_token"), info.get("expiry_date")
    if not isinstance(value, str) or not value:
        return AccessToken("", {}, 0.0)
    expires = end / 1000 if isinstance(end, int | float) else math.inf
    return AccessToken(value, {"Authorization": f"Bearer {value}"}, expires)

"""Checks the running service: that it answers, uses the current settings, and streams without buffering."""

from __future__ import annotations

from typing import Any

from bridge.doctor.finding import Finding, Installation, green, red, yellow
from bridge.doctor.http_calls import (
    UNBUFFERED_SPREAD,
    CallFailed,
    NoAnswerInTime,
    Timing,
    get_json,
    time_stream,
)
from bridge.settings import DEMO, Settings

PATH = "/v1/chat/completions"
JOURNAL = "journalctl -u gemini-bridge -n 50"


def check_service(installation: Installation) -> Finding:
    settings = installation.settings
    address = own_address(settings)
    try:
        ready = get_json(address, "/readyz")
    except CallFailed as error:
        return red(str(error), f"start it: systemctl start gemini-bridge; if it is running: {JOURNAL}")
    if ready.get("upstream") != settings.transport_in_force:
        return yellow(
            f"{address} uses the upstream {ready.get('upstream')}, but the settings say "
            f"{settings.transport_in_force}",
            "the settings changed after the start: systemctl restart gemini-bridge",
        )
    return green(f"ready on {address}")


def own_address(settings: Settings) -> str:
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}
    host = everywhere.get(settings.server.host, settings.server.host)
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.server.port}"


# --- the public address ------------------------------------------------------------------------------


def check_public_address(installation: Installation) -> Finding:
    if installation.public_address is None:
        return green("not checked; to check it, use --url with the address that clients use")
    address = installation.public_address.rstrip("/").removesuffix("/v1")
    try:
        question = _question(installation.settings, address)
        timing = time_stream(address, PATH, question, installation.client_key)
        if timing.spread >= UNBUFFERED_SPREAD:
            return green(f"streaming works; the first event arrived after {timing.first:.1f} seconds")
        return _compared(timing, question, installation)
    except NoAnswerInTime as error:
        return yellow(
            str(error), "the model is slow, or a proxy buffers the answer: try again, then check the proxy"
        )
    except CallFailed as error:
        return _failed(error)


def _question(settings: Settings, address: str) -> dict[str, Any]:
    """A request with a slow answer: from the slow demo model, or a real model that counts."""
    try:
        serves_demo = get_json(address, "/readyz").get("upstream") == DEMO
    except CallFailed:  # a proxy may not forward this path
        serves_demo = settings.transport_in_force == DEMO
    slow = {"model": "demo-slow", "max_tokens": 12}
    real = {"model": settings.models.default, "reasoning_effort": "low"}
    message = {"role": "user", "content": "Count from 1 to 200, separated by spaces."}
    return {**(slow if serves_demo else real), "stream": True, "messages": [message]}


def _compared(timing: Timing, question: dict[str, Any], installation: Installation) -> Finding:
    """All events arrived together. Ask the service directly, to find out whether a proxy buffers them."""
    try:
        direct = time_stream(own_address(installation.settings), PATH, question, installation.client_key)
    except CallFailed as error:
        return yellow(
            f"{timing.events} events arrived together, and the service cannot be asked directly: {error}",
            "see the check “service”",
        )
    if direct.spread >= UNBUFFERED_SPREAD:
        return red(
            f"{timing.events} events arrived together after {timing.first:.1f} seconds: a proxy buffers them",
            "turn off buffering in the proxy (nginx: proxy_buffering off; see deploy/nginx.conf)",
        )
    return yellow("the answer was too fast to show whether a proxy buffers events", "try again")


def _failed(error: CallFailed) -> Finding:
    if error.status in (401, 403):
        return red(str(error), "use a valid client key: BRIDGE_KEY=… gemini-bridge doctor --url …")
    if error.status == 429:
        return yellow(str(error), "a limit of the key or of the upstream is reached: try again later")
    return red(str(error), f"check the proxy, its certificate and its log, then: {JOURNAL}")

"""The running service: does it answer, by the settings of now, and do its events arrive one by one?"""

from __future__ import annotations

from typing import Any

from bridge.doctor.finding import Finding, Installation, green, red, yellow
from bridge.doctor.http_calls import APART, CallFailed, NoAnswerInTime, Timing, ask, time_stream
from bridge.settings import DEMO, Settings

PATH = "/v1/chat/completions"
JOURNAL = "journalctl -u gemini-bridge -n 50"


def check_service(installation: Installation) -> Finding:
    settings = installation.settings
    address = own_address(settings)
    try:
        ready = ask(address, "/readyz")
    except CallFailed as error:
        return red(str(error), f"start it: systemctl start gemini-bridge; if it runs: {JOURNAL}")
    if ready.get("upstream") != settings.transport_in_force:
        return yellow(
            f"{address} serves {ready.get('upstream')}, the settings say {settings.transport_in_force}",
            "settings were changed since the start: systemctl restart gemini-bridge",
        )
    return green(f"ready on {address}")


def own_address(settings: Settings) -> str:
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}
    host = everywhere.get(settings.server.host, settings.server.host)
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.server.port}"


# --- the front door ----------------------------------------------------------------------------------


def check_public_address(installation: Installation) -> Finding:
    if installation.public_address is None:
        return green("not tried; --url with the address that clients use tries it")
    door = installation.public_address.rstrip("/").removesuffix("/v1")
    try:
        question = _question(installation.settings, door)
        timing = time_stream(door, PATH, question, installation.client_key)
        if timing.spread >= APART:
            return green(f"events arrive as they are made: the first after {timing.first:.1f} s")
        return _judged(timing, question, installation)
    except NoAnswerInTime as error:
        return yellow(
            str(error), "the model is slow, or a proxy holds everything back: try again, then see there"
        )
    except CallFailed as error:
        return _failed(error)


def _question(settings: Settings, door: str) -> dict[str, Any]:
    """Something that takes a while to say: the demo model's slow tongue, or else a real model's counting."""
    try:
        serves_demo = ask(door, "/readyz").get("upstream") == DEMO
    except CallFailed:  # a front door may keep that to itself
        serves_demo = settings.transport_in_force == DEMO
    slow = {"model": "demo-slow", "max_tokens": 12}
    real = {"model": settings.models.default, "reasoning_effort": "low"}
    said = {"role": "user", "content": "Count from 1 to 200, separated by blanks."}
    return {**(slow if serves_demo else real), "stream": True, "messages": [said]}


def _judged(timing: Timing, question: dict[str, Any], installation: Installation) -> Finding:
    """All at once: because of the door, or because the answer was quick? The service itself knows."""
    try:
        direct = time_stream(own_address(installation.settings), PATH, question, installation.client_key)
    except CallFailed as error:
        return yellow(
            f"{timing.events} events came at once, and cannot be compared: {error}", "see the service"
        )
    if direct.spread >= APART:
        return red(
            f"{timing.events} events came at once after {timing.first:.1f} s: a proxy collects them",
            "switch its buffering off (nginx: proxy_buffering off; see deploy/nginx.conf)",
        )
    return yellow("the answer was too quick to tell whether events are held back", "try again")


def _failed(error: CallFailed) -> Finding:
    if error.status in (401, 403):
        return red(str(error), "give it a key that works: BRIDGE_KEY=… gemini-bridge doctor --url …")
    if error.status == 429:
        return yellow(str(error), "the key's limit, or the upstream's, is reached: try again later")
    return red(str(error), f"look at the proxy in front, its certificate and its log, then: {JOURNAL}")

"""The upstream as seen from this machine: the way there, who answers, its clock and its keys."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from urllib.parse import urlsplit

from bridge.doctor.finding import Finding, Installation, green, red, yellow
from bridge.errors import (
    BridgeError,
    UnknownModel,
    UpstreamMisconfigured,
    UpstreamOverloaded,
    UpstreamRateLimited,
)
from bridge.settings import Settings
from bridge.upstream import make_upstream
from bridge.upstream.base import Upstream
from bridge.upstream.capabilities import Capability
from bridge.upstream.probe import probe_address, route_to

PATIENCE = 4.0  #: seconds for one connection or one answer
SKEW_TOLD = 30.0
SKEW_TOO_MUCH = 300.0
GOOGLE_HOSTS = ".googleapis.com"
GOOGLE_ISSUER = "Google"  #: Google Trust Services, in each of its spellings

OFFLINE = green("none is asked: the offline demo model is served")
PASSING = (UpstreamOverloaded, UpstreamRateLimited)
WAIT = "wait; if it lasts, ask Google for a larger quota"
GO_THERE = "look at DNS, firewall and proxy: curl -v {address}"


def _where_somebody_is_asked(look: Callable[[str], Finding]) -> Callable[[Installation], Finding]:
    """The check, given the address that the upstream in force asks."""

    @wraps(look)
    def looked(installation: Installation) -> Finding:
        address = make_upstream(installation.settings).home
        return look(address) if address else OFFLINE

    return looked


@_where_somebody_is_asked
def check_route(address: str) -> Finding:
    way = route_to(address)
    if not Path(way.ca_bundle).exists():
        return red(
            f"the CA bundle {way.ca_bundle} is not there",
            "let REQUESTS_CA_BUNDLE name the company's bundle, or unset it (in the service: env file)",
        )
    return green(f"{f'through the proxy {way.proxy}' if way.proxy else 'no proxy'}; CAs of {way.ca_bundle}")


@_where_somebody_is_asked
def check_certificate(address: str) -> Finding:
    try:
        issuer = probe_address(address, PATIENCE).issuer
    except UpstreamMisconfigured as error:
        remedy = "put the CA of the company's proxy into a file, and its path into REQUESTS_CA_BUNDLE"
        return red(error.message, f"{remedy} (in the service: env file)")
    except BridgeError as error:
        return red(error.message, GO_THERE.format(address=address))
    if issuer is None:
        return yellow(f"{address} is not encrypted", "use https:// for everything but a test")
    host = urlsplit(address).hostname or ""
    if host.endswith(GOOGLE_HOSTS) and not issuer.startswith(GOOGLE_ISSUER):
        return yellow(
            f"somebody reads along: {host} is vouched for by {issuer}, not by Google",
            "if that is not meant to be, have this address exempted from TLS inspection",
        )
    return green(f"{host}, by {issuer}")


@_where_somebody_is_asked
def check_clock(address: str) -> Finding:
    try:
        theirs = probe_address(address, PATIENCE).clock
    except BridgeError as error:
        return yellow(f"not compared: {error.message}", GO_THERE.format(address=address))
    if theirs is None:
        return yellow("the upstream does not say what time it is", "compare by hand: timedatectl")
    ahead = (datetime.now(UTC) - theirs).total_seconds()
    if abs(ahead) <= SKEW_TOLD:
        return green("as the upstream's")
    told = f"{abs(ahead):.0f} seconds {'ahead' if ahead > 0 else 'behind'}"
    remedy = "switch on time synchronisation: timedatectl set-ntp true"
    return red(told, remedy) if abs(ahead) > SKEW_TOO_MUCH else yellow(told, remedy)


# --- keys ---------------------------------------------------------------------------------------------


def check_keys(installation: Installation) -> Finding:
    settings = installation.settings
    upstream = with_short_timeouts(settings, settings.upstream.api_keys)
    if not upstream.home:
        return yellow("none: the offline demo model is served", f"put a key into {_key_place()}, and restart")
    if Capability.KEY_ROTATION in upstream.CANNOT:
        return _look_at_login(upstream, settings.models.targets[0])
    refused = dict(_refusals(settings))
    keys = len(settings.upstream.api_keys)
    if not refused:
        return green(f"{keys} of {keys} work" if keys > 1 else "works")
    said = "; ".join(f"key {number} of {keys}: {error.message}" for number, error in refused.items())
    if all(isinstance(error, PASSING) for error in refused.values()):
        return yellow(said, WAIT)
    if any(isinstance(error, UpstreamMisconfigured) for error in refused.values()):
        return red(said, f"put a working key into {_key_place()}, and restart")
    return red(said, GO_THERE.format(address=upstream.home))


def _refusals(settings: Settings) -> Iterator[tuple[int, BridgeError]]:
    for number, key in enumerate(settings.upstream.api_keys, start=1):
        try:
            with_short_timeouts(settings, (key,)).models()
        except BridgeError as error:
            yield number, error


def _look_at_login(upstream: Upstream, model: str) -> Finding:
    try:
        upstream.check_credentials(model)
    except UnknownModel as error:
        return yellow(
            f"not proven: {error.message}", "see the models; if none is known, the address is wrong"
        )
    except PASSING as error:
        return yellow(error.message, WAIT)
    except UpstreamMisconfigured as error:
        return red(error.message, "mend the credentials or their rights; see docs/UPSTREAMS.md")
    except BridgeError as error:
        return red(error.message, GO_THERE.format(address=upstream.home))
    return green(f"none, but a login, which works: {upstream.CANNOT[Capability.KEY_ROTATION]}")


def with_short_timeouts(settings: Settings, keys: tuple[str, ...]) -> Upstream:
    upstream = replace(settings.upstream, api_keys=keys, connect_timeout=PATIENCE, read_timeout=PATIENCE)
    return make_upstream(replace(settings, upstream=upstream))


def _key_place(environ: Mapping[str, str] = os.environ) -> str:
    credential = Path(environ.get("BRIDGE_CONFIG_DIR", "config")) / "credentials" / "gemini_api_key"
    return str(credential) if credential.parent.exists() else "GEMINI_API_KEY"

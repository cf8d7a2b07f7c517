"""Checks the upstream from this machine: the network route, the certificate, the clock and the keys."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from urllib.parse import urlsplit

from bridge.certificates import ADVISED
from bridge.doctor.finding import Finding, Installation, green, red, yellow
from bridge.errors import (
    BridgeError,
    UnknownModel,
    UpstreamMisconfigured,
    UpstreamOverloaded,
    UpstreamRateLimited,
)
from bridge.settings import NONE, Settings
from bridge.upstream import make_upstream
from bridge.upstream.base import Upstream
from bridge.upstream.capabilities import Capability
from bridge.upstream.probe import probe_address, route_to

TIMEOUT = 4.0  #: seconds for one connection or one answer
#: Seconds of clock difference that give a yellow finding, and that give a red one.
SKEW_WARNING = 30.0
SKEW_ERROR = 300.0
GOOGLE_HOSTS = ".googleapis.com"
GOOGLE_ISSUER = "Google"  #: matches every name of Google Trust Services

NOT_CONFIGURED = green("not needed: the section [upstream] names no upstream")
OFFLINE = green("not needed: the offline demo model answers")
TEMPORARY = (UpstreamOverloaded, UpstreamRateLimited)
WAIT = "wait; if it continues, ask Google for a higher quota"
CHECK_NETWORK = "check DNS, firewall and proxy: curl -v {address}"


def _needs_address(check: Callable[[str], Finding]) -> Callable[[Installation], Finding]:
    """Turn a check of the upstream's address into a check of the installation."""

    @wraps(check)
    def checked(installation: Installation) -> Finding:
        settings = installation.settings
        if settings.transport_in_force == NONE:
            return NOT_CONFIGURED
        address = make_upstream(settings).home
        return check(address) if address else OFFLINE

    return checked


@_needs_address
def check_route(address: str) -> Finding:
    route = route_to(address)
    bundle, proxy = route.ca_bundle, f"through proxy {route.proxy}" if route.proxy else "no proxy"
    if problem := bundle.problem:
        return red(
            f"the CA bundle {bundle.location} of {bundle.origin} {problem}",
            f"set {bundle.origin} to an existing CA bundle, or unset it (for the service: in its env file)",
        )
    try:
        probe_address(address, TIMEOUT)
    except UpstreamMisconfigured:
        pass  # the check of the certificate names it
    except BridgeError as error:
        return red(f"{error.message.rstrip('.')}, {proxy}", CHECK_NETWORK.format(address=address))
    return green(f"{proxy}; CA bundle {bundle.location} ({bundle.origin})")


@_needs_address
def check_certificate(address: str) -> Finding:
    try:
        issuer = probe_address(address, TIMEOUT).issuer
    except UpstreamMisconfigured as error:
        remedy = f"save the CA certificate of your company's proxy in a file and set {ADVISED} to it"
        return red(error.message, f"{remedy} (for the service: in its env file)")
    except BridgeError as error:
        return red(error.message, CHECK_NETWORK.format(address=address))
    if issuer is None:
        return yellow(f"the connection to {address} is not encrypted", "use https://, except for tests")
    host = urlsplit(address).hostname or ""
    if host.endswith(GOOGLE_HOSTS) and not issuer.startswith(GOOGLE_ISSUER):
        return yellow(
            f"a proxy decrypts the traffic: the certificate of {host} was issued by {issuer}, not by Google",
            "if this is not intended, ask your network team to exempt this host from TLS inspection",
        )
    return green(f"{host}, issued by {issuer}")


@_needs_address
def check_clock(address: str) -> Finding:
    try:
        theirs = probe_address(address, TIMEOUT).clock
    except BridgeError as error:
        return yellow(f"not checked: {error.message}", CHECK_NETWORK.format(address=address))
    if theirs is None:
        return yellow("the upstream sent no time", "check the clock yourself: timedatectl")
    ahead = (datetime.now(UTC) - theirs).total_seconds()
    if abs(ahead) <= SKEW_WARNING:
        return green("agrees with the upstream's clock")
    skew = f"{abs(ahead):.0f} seconds {'ahead of' if ahead > 0 else 'behind'} the upstream's clock"
    remedy = "turn on time synchronisation: timedatectl set-ntp true"
    return red(skew, remedy) if abs(ahead) > SKEW_ERROR else yellow(skew, remedy)


# --- keys ---------------------------------------------------------------------------------------------


def check_keys(installation: Installation) -> Finding:
    settings = installation.settings
    if settings.transport_in_force == NONE:
        return NOT_CONFIGURED
    upstream = with_short_timeouts(settings, settings.upstream.api_keys)
    if not upstream.home:
        return yellow(
            "no key: the offline demo model answers", f"set a key in {_key_place()}, then restart the service"
        )
    if Capability.KEY_ROTATION in upstream.CANNOT:
        return _check_login(upstream, settings.models.target_rows[0][0].model)
    refused = dict(_refusals(settings))
    keys = len(settings.upstream.api_keys)
    if not refused:
        return green(f"all {keys} keys work" if keys > 1 else "the key works")
    problems = "; ".join(f"key {number} of {keys}: {error.message}" for number, error in refused.items())
    if all(isinstance(error, TEMPORARY) for error in refused.values()):
        return yellow(problems, WAIT)
    if any(isinstance(error, UpstreamMisconfigured) for error in refused.values()):
        return red(problems, f"set a valid key in {_key_place()}, then restart the service")
    return red(problems, CHECK_NETWORK.format(address=upstream.home))


def _refusals(settings: Settings) -> Iterator[tuple[int, BridgeError]]:
    for number, key in enumerate(settings.upstream.api_keys, start=1):
        try:
            with_short_timeouts(settings, (key,)).models()
        except BridgeError as error:
            yield number, error


def _check_login(upstream: Upstream, model: str) -> Finding:
    try:
        upstream.check_credentials(model)
    except UnknownModel as error:
        return yellow(
            f"the login could not be tested: {error.message}",
            "see the check “models”; if the upstream has no models, its address is wrong",
        )
    except TEMPORARY as error:
        return yellow(error.message, WAIT)
    except UpstreamMisconfigured as error:
        return red(error.message, "fix the credentials or their permissions; see docs/UPSTREAMS.md")
    except BridgeError as error:
        return red(error.message, CHECK_NETWORK.format(address=upstream.home))
    return green(f"the login works: {upstream.CANNOT[Capability.KEY_ROTATION]}")


def with_short_timeouts(settings: Settings, keys: tuple[str, ...]) -> Upstream:
    upstream = replace(settings.upstream, api_keys=keys, connect_timeout=TIMEOUT, read_timeout=TIMEOUT)
    return make_upstream(replace(settings, upstream=upstream))


def _key_place(environ: Mapping[str, str] = os.environ) -> str:
    credential = Path(environ.get("BRIDGE_CONFIG_DIR", "config")) / "credentials" / "gemini_api_key"
    return str(credential) if credential.parent.exists() else "GEMINI_API_KEY"

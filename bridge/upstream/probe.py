"""Checks the upstream's address without using the API: its clock, its certificate, and the route to it.

No key is sent. The route is the route of API requests: the same proxies and the same CA bundle.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.utils import select_proxy

from bridge.certificates import CaBundle, ca_bundle
from bridge.upstream.transport.exception_map import foreign_errors_translated

#: Without a key the answer is an error. Its head has the time; its unread body keeps the connection open.
PATH = "/v1beta/models"


@dataclass(frozen=True, slots=True)
class ProbeResult:
    clock: datetime | None  #: the upstream's time
    issuer: str | None  #: the organisation that issued the certificate; None without TLS


@dataclass(frozen=True, slots=True)
class Route:
    proxy: str | None  #: without user and password
    ca_bundle: CaBundle


def probe_address(base_url: str, timeout: float) -> ProbeResult:
    with foreign_errors_translated(), requests.Session() as session:
        address = f"{base_url}{PATH}"
        with _asked(session, address, timeout) as response:
            return ProbeResult(_clock(response), _issuer(response))


def route_to(address: str) -> Route:
    with requests.Session() as session:
        settings = session.merge_environment_settings(address, {}, stream=True, verify=None, cert=None)
    proxy = select_proxy(address, settings["proxies"])
    return Route(proxy and _without_userinfo(proxy), ca_bundle())


def _asked(session: requests.Session, address: str, timeout: float) -> requests.Response:
    verify = ca_bundle().location
    return session.get(address, stream=True, allow_redirects=False, timeout=timeout, verify=verify)


def _clock(response: requests.Response) -> datetime | None:
    try:
        return parsedate_to_datetime(response.headers.get("Date", "")).astimezone(UTC)
    except ValueError:
        return None


def _issuer(response: requests.Response) -> str | None:
    socket = getattr(getattr(response.raw, "connection", None), "sock", None)
    if not isinstance(socket, ssl.SSLSocket):
        return None
    issuer: Any = (socket.getpeercert() or {}).get("issuer", ())
    names = {name: value for group in issuer for name, value in group}
    return str(names.get("organizationName") or names.get("commonName") or "unknown")


def _without_userinfo(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"

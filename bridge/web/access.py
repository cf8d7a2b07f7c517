"""Keys and limits at the edge: asked once for every request, before anything of its body is read."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from flask import Flask, Response

from bridge.access.authentication import Authenticator, Identity
from bridge.access.limits import NOT_ENFORCED, Limiter
from bridge.access.running_answers import RunningAnswers
from bridge.errors import NotAuthorized
from bridge.protocols.base import Protocol
from bridge.web.credentials import shown_keys
from bridge.web.errors import spoken_protocol
from bridge.web.request import Request, current_request

#: Headers that proxies add. They are believed about nothing but that there is a proxy.
PROXY_MARKS = (
    "HTTP_X_FORWARDED_FOR",
    "HTTP_FORWARDED",
    "HTTP_X_REAL_IP",
    "HTTP_X_FORWARDED_HOST",
    "HTTP_X_FORWARDED_PROTO",
    "HTTP_VIA",
)


def install_access(
    app: Flask,
    authenticator: Authenticator,
    limiter: Limiter,
    running: RunningAnswers,
    protocols: Sequence[Protocol],
    open_to_all: Collection[str],
) -> None:
    """`open_to_all` are blueprints: what serves a request decides, never how its path is spelt."""
    counted = {protocol.name for protocol in protocols}

    @app.before_request
    def let_in() -> None:
        request = current_request()
        blueprint = request.blueprint
        if blueprint in open_to_all:
            return
        if blueprint in counted:
            request.record.protocol = blueprint
        request.identity = _identified(authenticator, request)
        if blueprint in counted:
            _admit(limiter, request)
            request.interruption = running.watch(request.identity, request.record)
        else:
            request.allowances = request.allowances_if_refused = limiter.look(request.identity.key)

    @app.after_request
    def tell_allowances(response: Response) -> Response:
        request = current_request()
        if request.record.refused:
            request.allowances = request.allowances_if_refused
        if request.allowances:
            protocol = spoken_protocol(protocols, request.path, request.headers)
            for allowance in request.allowances:
                response.headers.update(protocol.limit_headers(allowance))
        return response


def _identified(authenticator: Authenticator, request: Request) -> Identity:
    record = request.record
    forwarded = request.headers.get("X-Forwarded-For", "")
    proxied = any(mark in request.environ for mark in PROXY_MARKS)
    identity = authenticator.authenticate(shown_keys(request), request.remote_addr or "", forwarded, proxied)
    record.key = None if identity.key is None else identity.key.name
    if identity.problem is not None:
        record.notes[identity.problem] += 1
        raise NotAuthorized(identity.told, rule=identity.problem)
    return identity


def _admit(limiter: Limiter, request: Request) -> None:
    record = request.record
    admission = limiter.admit(request.identity.key)
    request.cost_limited = limiter.on_cost(request.identity.key)
    request.allowances, request.allowances_if_refused = admission.allowances, admission.if_refused
    if not admission.enforced:
        record.notes[NOT_ENFORCED] += 1
    if admission.refusal is not None:
        raise admission.refusal
    if admission.settle is not None:
        record.settlers = (*record.settlers, admission.settle)

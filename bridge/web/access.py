"""Authenticates every request and checks its limits, before its body is read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from flask import Flask, Response

from bridge.access.authentication import Authenticator, Identity
from bridge.access.limits import Admission, Limiter
from bridge.access.running_answers import RunningAnswers
from bridge.errors import NotAuthorized
from bridge.observe.record import Record
from bridge.protocols.base import Protocol
from bridge.web.credentials import presented_keys
from bridge.web.errors import protocol_of
from bridge.web.request import Request, current_request
from bridge.web.unary_calls import EMBED

#: Headers that proxies add. They only show that a proxy sent the request; their values are not trusted.
PROXY_HEADERS = (
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
    """`open_to_all` names the blueprints that need no key. The spelling of the path does not matter."""
    counted = {protocol.name for protocol in protocols}
    labels = {
        f"{each.name}.{EMBED}": each.embedding.label for each in protocols if each.embedding is not None
    }

    @app.before_request
    def check_access() -> None:
        request = current_request()
        blueprint = request.blueprint
        if blueprint in open_to_all:
            return
        if blueprint in counted:
            request.record.protocol = labels.get(request.endpoint or "") or blueprint
        request.identity = _authenticated(authenticator, request)
        if blueprint in counted:
            _admit(limiter, request)
        else:
            request.allowances = request.allowances_if_refused = limiter.look(request.identity.key)
        request.interruption = running.watch(request.identity, request.record)

    @app.after_request
    def add_limit_headers(response: Response) -> Response:
        request = current_request()
        if request.record.refused:
            request.allowances = request.allowances_if_refused
        if request.allowances:
            protocol = protocol_of(protocols, request.path, request.headers)
            for allowance in request.allowances:
                response.headers.update(protocol.limit_headers(allowance))
        return response


def _authenticated(authenticator: Authenticator, request: Request) -> Identity:
    record = request.record
    forwarded = request.headers.get("X-Forwarded-For", "")
    proxied = any(header in request.environ for header in PROXY_HEADERS)
    keys = presented_keys(request)
    identity = authenticator.authenticate(keys, request.remote_addr or "", forwarded, proxied)
    record.key = None if identity.key is None else identity.key.name
    if identity.problem is not None:
        record.notes[identity.problem] += 1
        raise NotAuthorized(identity.told, rule=identity.problem)
    return identity


def _admit(limiter: Limiter, request: Request) -> None:
    key = request.identity.key
    admission = limiter.admit(key)
    request.spent = partial(limiter.spent, key)
    request.cost_limited = limiter.on_cost(key)
    request.allowances, request.allowances_if_refused = admission.allowances, admission.if_refused
    request.book_request = lambda record: _book(limiter.admit(key), record)
    _book(admission, request.record)


def _book(admission: Admission, record: Record) -> None:
    if admission.note is not None:
        record.notes[admission.note] += 1
    if admission.refusal is not None:
        raise admission.refusal
    if admission.settle is not None:
        record.settlers, record.owed = (*record.settlers, admission.settle), admission.owed

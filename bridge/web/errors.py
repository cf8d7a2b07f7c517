"""Error responses: in the format of the request's protocol, and for people in a browser as a page."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING

from flask import Flask, Response, current_app, request
from werkzeug.datastructures import Headers
from werkzeug.exceptions import HTTPException

from bridge.errors import (
    BridgeError,
    InternalError,
    InvalidRequest,
    MethodNotAllowed,
    RequestTooLarge,
    UnknownRoute,
    UpgradeRefused,
)
from bridge.protocols import PROTOCOLS
from bridge.protocols.base import Protocol
from bridge.settings import Settings
from bridge.web.request import Request, current_request
from bridge.web.routes import json_response

if TYPE_CHECKING:
    from bridge.web.error_page import ErrorPage

log = logging.getLogger(__name__)


def protocol_of(protocols: Iterable[Protocol], path: str, headers: Headers) -> Protocol:
    """The protocol of a request: determined by the path, else by the headers, else the first protocol."""
    everything = tuple(protocols)
    by_path = next((each for each in everything if path.startswith(each.path_prefixes)), None)
    by_mark = next(
        (each for each in everything if any(mark in headers for mark in each.identifying_headers)), None
    )
    return by_path or by_mark or everything[0]


def install_error_handlers(
    app: Flask, protocols: Iterable[Protocol], settings: Settings, pages: Collection[str]
) -> None:
    """`pages` names the blueprints whose errors people see in a browser."""
    everything, page_blueprints = tuple(protocols), frozenset(pages)

    @cache
    def page() -> ErrorPage:
        from bridge.web.error_page import ErrorPage  # rarely used, so do not delay the start

        return ErrorPage(settings)

    def body(request: Request, error: BridgeError, protocol: Protocol) -> Response:
        status = protocol.error_status(error)
        if "text/html" in request.headers.get("Accept", ""):
            from bridge.web.error_page import wants_page

            if wants_page(request, page_blueprints):
                return page().response(request, error, status)
        return json_response(protocol.error_body(error, request.record.request_id), status)

    def answer(error: BridgeError) -> Response:
        request = current_request()
        by_route = next((each for each in everything if each.name == request.blueprint), None)
        protocol = by_route or protocol_of(everything, request.path, request.headers)
        request.record.failed(error)
        response = body(request, error, protocol)
        if not error.retryable:
            response.headers["X-Should-Retry"] = "false"
        wait = error.retry_after_seconds
        if wait is not None and wait <= protocol.max_retry_after:
            response.headers["Retry-After"] = str(wait)
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            response.headers["WWW-Authenticate"] = "Bearer"
        return response

    @app.errorhandler(BridgeError)
    def bridge_error(error: BridgeError) -> Response:
        return answer(error)

    @app.errorhandler(HTTPException)
    def http_error(error: HTTPException) -> Response:
        response = answer(_translated(error, settings.server.max_body_mb))
        allowed = getattr(error, "valid_methods", None)
        if allowed and response.status_code != HTTPStatus.NOT_FOUND:
            response.headers["Allow"] = ", ".join(sorted(allowed))
        return response

    @app.errorhandler(Exception)
    def unexpected(error: Exception) -> Response:
        request_id = current_request().record.request_id
        log.error("unexpected failure", exc_info=error, extra={"request_id": request_id})
        return answer(InternalError("The bridge failed; its log has the details"))


def _hint(path: str) -> str:
    """A suggestion for the common mistake of a base address without /v1, or with /v1 twice."""
    tail = path.rstrip("/").removeprefix("/v1")
    known = (path for each in PROTOCOLS for path in each.paths)
    meant = next((path for path in known if tail and path.endswith(tail)), None)
    return f"; did you mean {meant}?" if meant else ""


def _is_served(path: str) -> bool:
    """Whether a rule without parameters serves the path. A rule with parameters also matches a typo."""
    rules = [rule for rule in current_app.url_map.iter_rules() if rule.rule == path and not rule.arguments]
    return any(not rule.endpoint.endswith(".unsupported") for rule in rules)


def _translated(error: HTTPException, max_body_mb: int) -> BridgeError:
    match error.code:
        case 404:
            return UnknownRoute(f"There is no route {request.method} {request.path}{_hint(request.path)}")
        case 405 if "upgrade" in request.headers:
            return UpgradeRefused("The bridge does not support WebSockets; use plain HTTP")
        case 405 if not _is_served(request.path):
            return UnknownRoute(f"There is no route {request.method} {request.path}{_hint(request.path)}")
        case 405:
            return MethodNotAllowed(f"{request.path} does not support {request.method}")
        case 413:
            return RequestTooLarge(f"The body is larger than {max_body_mb} MB")
    return InvalidRequest(error.description or error.name)

"""GET /: a description of the service, as JSON for programs and as a page with client settings for browsers.

Also serves the files that these client settings refer to, and the description of the endpoints.
"""

from __future__ import annotations

import re
import socket
from functools import cache
from typing import TYPE_CHECKING

from flask import Blueprint, Response, current_app, request
from werkzeug.routing import Map

from bridge import __version__
from bridge.access.addresses import address, is_local
from bridge.connect.codex_catalog import PATH as CODEX_CATALOG
from bridge.connect.codex_catalog import catalog
from bridge.gemini.types import JsonObject
from bridge.server.client_socket import ClientSocket
from bridge.settings import Settings
from bridge.settings.value import AUTO
from bridge.web.models import ModelList
from bridge.web.request import current_request
from bridge.web.routes import json_response
from bridge.web.unary_calls import UNSUPPORTED, shown_path
from bridge.web.visitors import Visitors

if TYPE_CHECKING:
    from bridge.web.page import FrontPage
    from bridge.web.reference import ReferencePage

FRONT = "front"  #: the blueprint; it needs no key

#: A valid Host header. Any other value is a mistake or an attack.
_HOST = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9.-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")


def make_front_blueprint(settings: Settings, models: ModelList) -> Blueprint:
    blueprint = Blueprint(FRONT, __name__, template_folder="templates")

    visitors = Visitors(settings.pages.allowed_from, settings.server.trusted_proxies)

    @cache
    def about() -> JsonObject:
        return {
            "name": "gemini-bridge",
            "version": __version__,
            "upstream": settings.transport_in_force,
            "endpoints": served_endpoints(current_app.url_map),
        }

    @cache
    def page() -> FrontPage:
        from bridge.web.page import FrontPage  # rarely used, so do not delay the start

        return FrontPage(settings, models)

    @blueprint.get("/")
    def front() -> Response:
        wanted = request.accept_mimetypes.best_match(["application/json", "text/html"])
        if wanted == "text/html":
            response = page().response(_address(settings), shows_account=visitors.allowed(current_request()))
        else:
            response = json_response(about())
        response.headers["Vary"] = "Accept"
        return response

    @cache
    def reference() -> ReferencePage:
        from bridge.web.reference import ReferencePage

        return ReferencePage()

    @blueprint.get("/docs")
    def docs() -> Response:
        return reference().response(_address(settings))

    @blueprint.get("/openapi.json")
    def openapi() -> Response:
        from bridge.web.reference import document_bytes

        return Response(document_bytes(), content_type="application/json")

    @blueprint.get(CODEX_CATALOG)
    def codex_catalog() -> Response:
        """Needs no key, like the page, because it shows nothing that the page does not show."""
        return json_response(catalog(models.chat_models()))

    return blueprint


def served_endpoints(rules: Map) -> list[str]:
    """Every method and path that is served, in the order of registration."""
    return [
        f"{method} {shown_path(rule.rule)}"
        for rule in rules.iter_rules()
        if not rule.endpoint.endswith(f".{UNSUPPORTED}")
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})
    ]


def _address(settings: Settings) -> str:
    """The address to show: `public_url`, else the address in the visitor's request.

    A Host that does not belong to this machine is not shown, because an attacker who forged it could receive
    the visitor's key. The scheme comes from gunicorn, which trusts only the configured proxies.
    """
    found = _HOST.fullmatch(request.host)
    if settings.server.public_url != AUTO or found is None or not _is_ours(found["name"], settings):
        return settings.server.address
    return f"{request.scheme}://{request.host}"


def _is_ours(name: str, settings: Settings) -> bool:
    if is_local(name) or name.lower() in (settings.server.host.lower(), socket.gethostname().lower()):
        return True
    connection = ClientSocket(request.environ).socket
    return connection is not None and address(name) == address(str(connection.getsockname()[0]))

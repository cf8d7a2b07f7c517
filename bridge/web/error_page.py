"""Errors as an HTML page, for people who open an address of the bridge in a browser.

A program never gets this page: not below the paths of the protocols, not with a key, and not without
`text/html` as its first choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from flask import Response, render_template
from markupsafe import Markup

from bridge import __version__
from bridge.errors import BridgeError
from bridge.protocols import PROTOCOLS
from bridge.settings import Settings
from bridge.web.credentials import presented_keys
from bridge.web.page import asset, policy
from bridge.web.request import Request
from bridge.web.visitors import Visitors

#: The first part of every path that a protocol serves, such as `v1`.
API_ROOTS = frozenset(path.split("/")[1] for each in PROTOCOLS for path in each.all_paths)


class Words(NamedTuple):
    title: str
    remedy: str


WORDS: Mapping[int, Words] = {
    401: Words(
        "This address needs a key",
        "A browser sends no key, so only programs get an answer here. "
        "The pages below need none, or ask for it.",
    ),
    403: Words("This is not allowed", "Go back to one of the pages below and begin again there."),
    404: Words(
        "There is no such page",
        "Check the address for a typing mistake. A client needs only the address of the bridge; "
        "its settings are on the first page below.",
    ),
    405: Words("This address is not a page", "Begin at one of the pages below."),
    500: Words(
        "The bridge made a mistake",
        "Try again. If it happens again, tell the administrator of the bridge the request id; "
        "the log has the details under it.",
    ),
    503: Words("The bridge is busy", "Wait a moment and load the page again."),
}
OTHER = Words("The bridge cannot answer this", "Begin at one of the pages below.")


def wants_page(request: Request, page_blueprints: frozenset[str]) -> bool:
    """Whether a person in a browser made the request, and not a program that uses the API."""
    if request.blueprint not in page_blueprints:
        root = request.path.lstrip("/").partition("/")[0]
        if request.blueprint is not None or request.method not in ("GET", "HEAD") or root in API_ROOTS:
            return False
    accepted = request.accept_mimetypes.best_match(["application/json", "text/html"])
    return accepted == "text/html" and not presented_keys(request)


class ErrorPage:
    def __init__(self, settings: Settings) -> None:
        self._help = settings.connect.help
        self._visitors = Visitors(settings.pages.allowed_from, settings.server.trusted_proxies)
        self._style = asset("front.css") + asset("account.css")
        self._icon = asset("icon.svg").strip()
        self._headers = {
            "Content-Security-Policy": policy(self._style),
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Vary": "Accept",
        }

    def response(self, request: Request, error: BridgeError, status: int) -> Response:
        html = render_template(
            "error.html",
            status=status,
            words=WORDS.get(status, OTHER),
            message=error.message,
            request_id=request.record.request_id,
            help=self._help if status in (401, 403) else "",
            shows_account=self._visitors.allowed(request),
            version=__version__,
            style=Markup(self._style),
            icon=Markup(self._icon),
        )
        return Response(html, status, self._headers, content_type="text/html; charset=utf-8")

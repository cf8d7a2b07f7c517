"""GET /me: limits, usage and failures of a key, for its holder.

A holder signs in with the key. The page then knows him by a cookie, not by the key (`access/web_session.py`).
The page has no script.
"""

from __future__ import annotations

import hmac
import time
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from flask import Blueprint, Response, abort, redirect

from bridge.access.account import AccountReader
from bridge.access.authentication import Authenticator, Identity
from bridge.access.sign_in import SignIns
from bridge.access.web_session import LIFETIME, SessionReader, form_token, issue
from bridge.errors import NotAllowed
from bridge.settings import Settings
from bridge.web.account_api import read_account
from bridge.web.request import Request, current_request
from bridge.web.visitors import Visitors

if TYPE_CHECKING:
    from bridge.web.account_html import AccountHtml

PAGES = "account_page"  #: the blueprint; it authenticates its visitors itself
COOKIE = "gemini_bridge_session"
LONGEST_FORM = 4096
WRONG_KEY = "This key is not valid here. The administrator of this bridge has one for you."
TOO_OFTEN = "Too many attempts from your address. Try again in a minute."


def make_account_pages(
    settings: Settings, authenticator: Authenticator, accounts: AccountReader, sign_ins: SignIns
) -> Blueprint:
    blueprint = Blueprint(PAGES, __name__, template_folder="templates")
    visitors = Visitors(settings.pages.allowed_from, settings.server.trusted_proxies)
    sessions = SessionReader(authenticator, time.time)

    def refuse_other_sites(request: Request) -> None:
        """Only a page of the bridge may send its forms. Browsers send `Origin` with every form."""
        origin = urlsplit(request.headers.get("Origin", "")).netloc.lower()
        if origin not in (request.host.lower(), urlsplit(settings.server.address).netloc.lower()):
            raise NotAllowed("This form was not sent by a page of the bridge; open /me and try again")

    @cache
    def html() -> AccountHtml:
        from bridge.web.account_html import AccountHtml  # rarely used, so do not delay the start

        return AccountHtml(settings)

    @blueprint.before_request
    def only_allowed_visitors() -> None:
        if not visitors.allowed(current_request()):
            abort(404)

    @blueprint.get("/me")
    def me() -> Response:
        request = current_request()
        session, identity = _session(sessions, request)
        if identity is None and authenticator.asks_for_keys:
            return html().sign_in()
        key = None if identity is None else identity.key
        if key is not None:
            request.record.key = key.name
        return html().account(read_account(accounts, key), form_token(session))

    @blueprint.post("/me/sign-in")
    def sign_in() -> Response:
        request = current_request()
        refuse_other_sites(request)
        if not sign_ins.allowed(visitors.client(request)):
            return html().sign_in(TOO_OFTEN, 429)
        identity = authenticator.authenticate([_field(request, "key").strip()], *_place(request))
        if identity.key is None or identity.problem is not None:
            request.record.notes["sign_in_refused"] += 1
            return html().sign_in(WRONG_KEY, 403)
        return _with_cookie(request, issue(identity, time.time()), LIFETIME)

    @blueprint.post("/me/sign-out")
    def sign_out() -> Response:
        request = current_request()
        refuse_other_sites(request)
        session, identity = _session(sessions, request)
        if identity is not None and not hmac.compare_digest(
            form_token(session).encode(), _field(request, "token").encode("utf-8", "replace")
        ):
            raise NotAllowed("This page is out of date; open /me and sign out there")
        return _with_cookie(request, "", 0)

    return blueprint


def _session(sessions: SessionReader, request: Request) -> tuple[str, Identity | None]:
    session = request.cookies.get(COOKIE, "")
    return session, sessions.identity(session, *_place(request)) if session else None


def _place(request: Request) -> tuple[str, str]:
    return request.remote_addr or "", request.headers.get("X-Forwarded-For", "")


def _field(request: Request, name: str) -> str:
    request.max_content_length = request.max_form_memory_size = LONGEST_FORM
    return request.form.get(name, "")


def _with_cookie(request: Request, session: str, seconds: int) -> Response:
    response = redirect("/me", 303)
    secure = request.scheme == "https"
    response.set_cookie(
        COOKIE, session, max_age=seconds, path="/me", secure=secure, httponly=True, samesite="Strict"
    )
    response.headers["Cache-Control"] = "no-store"
    return response  # type: ignore[return-value]

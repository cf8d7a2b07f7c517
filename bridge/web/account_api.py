"""GET /v1/bridge/me: what the holder of a key may know about it, as JSON, or as one line for a status bar."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from flask import Blueprint, Response

from bridge.access.account import Account, AccountReader
from bridge.access.allowances import LimitUse
from bridge.errors import TooBusy
from bridge.state.errors import StorageError
from bridge.state.key_store import Key
from bridge.state.usage_store import UsageGroup, UsageSums
from bridge.web.advice import advice
from bridge.web.amounts import money, short_number
from bridge.web.request import current_request
from bridge.web.routes import json_response

PATH = "/v1/bridge/me"


def make_account_blueprint(accounts: AccountReader, currency: str) -> Blueprint:
    blueprint = Blueprint("account", __name__)

    @blueprint.get(PATH)
    def me() -> Response:
        request = current_request()
        account = read_account(accounts, request.identity.key)
        if request.accept_mimetypes.best_match(["application/json", "text/plain"]) == "text/plain":
            response = Response(as_line(account, currency) + "\n", content_type="text/plain; charset=utf-8")
        else:
            response = json_response(as_json(account, currency))
        response.headers["Cache-Control"] = "no-store"
        response.headers["Vary"] = "Accept"
        return response

    return blueprint


def read_account(accounts: AccountReader, key: Key | None) -> Account:
    try:
        return accounts.read(key)
    except StorageError as error:
        raise TooBusy("The bridge cannot read its usage at the moment; its log says why") from error


def as_json(account: Account, currency: str) -> dict[str, Any]:
    return {
        "object": "bridge.account",
        "key": account.key and _key(account.key),
        "limits": [_limit(use) for use in account.limits],
        "usage": {
            "since": account.since.isoformat(),
            "until": account.until.isoformat(),
            "currency": currency,
            "today": _sums(account.today),
            "total": _sums(account.total),
            "by_day": _groups(account.days, "day"),
            "by_model": _groups(account.models, "model"),
        },
        "failed": [
            {"reason": group.names[0], "requests": group.sums.requests, **advice(group.names[0])._asdict()}
            for group in account.errors
        ],
        "refused": [
            {
                "reason": each.rule,
                "model": each.model or None,
                "requests": each.requests,
                **advice(each.rule)._asdict(),
            }
            for each in account.refusals
        ],
    }


def as_line(account: Account, currency: str) -> str:
    """Such as `alice · today 34 requests, 1.2 M tokens, 0.42 USD · 61 % of 2 M tokens per day left`."""
    today = account.today
    tokens = today.input + today.cached + today.output
    requests = f"{today.requests} request" + ("" if today.requests == 1 else "s")
    parts = [f"today {requests}, {short_number(tokens)} tokens, {money(today.cost)} {currency}"]
    if account.key is not None:
        parts.insert(0, account.key.name)
    if account.limits:
        tightest = max(account.limits, key=lambda use: use.share_used)
        parts.append(f"{1 - tightest.share_used:.0%} of {tightest.words} left")
    return " · ".join(parts)


def _key(key: Key) -> dict[str, Any]:
    rules = key.rules
    return {
        "name": key.name,
        "owner": rules.owner or None,
        "created_at": _moment(key.created),
        "expires_at": None if rules.expires is None else _moment(rules.expires),
        "models": list(rules.models),
    }


def _limit(use: LimitUse) -> dict[str, Any]:
    return {
        "name": use.name,
        "applies_to": "all_clients" if use.shared else "key",
        "limit": use.limit,
        "used": use.used,
        "left": use.left,
        "seconds_until_free": None if use.wait is None else round(use.wait),
    }


def _groups(groups: Sequence[UsageGroup], name: str) -> list[dict[str, Any]]:
    return [{name: group.names[0], **_sums(group.sums)} for group in groups]


def _sums(sums: UsageSums) -> dict[str, Any]:
    return {
        "requests": sums.requests,
        "failed": sums.failed,
        "input_tokens": sums.input,
        "cached_tokens": sums.cached,
        "output_tokens": sums.output,
        "reasoning_tokens": sums.reasoning,
        "cost": round(sums.cost, 6),
    }


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

"""The HTML of the page /me and of its sign-in form."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from flask import Response, render_template
from markupsafe import Markup

from bridge import __version__
from bridge.access.account import Account
from bridge.access.allowances import LimitUse
from bridge.settings import Settings
from bridge.state.usage_store import UsageGroup, UsageSums
from bridge.web.advice import Advice, advice
from bridge.web.amounts import duration, money, short_number
from bridge.web.bar_chart import Bar, bar_chart
from bridge.web.page import asset, policy

#: From this share on a limit is shown as nearly used up.
NEARLY_USED = 0.8


class ShownLimit(NamedTuple):
    words: str
    applies_to: str
    left: str
    percent_used: int
    again: str
    level: str  #: a CSS class


class ShownUsage(NamedTuple):
    name: str
    requests: str
    failed: str
    tokens: str
    cached: str
    cost: str


class ShownFailure(NamedTuple):
    advice: Advice
    reason: str
    requests: str


class AccountHtml:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._style = asset("front.css") + asset("account.css")
        self._headers = {
            "Content-Security-Policy": policy(self._style, forms=True),
            "Cache-Control": "no-store",
            # A browser sends `Origin: null` with forms if the policy is no-referrer.
            "Referrer-Policy": "same-origin",
            "X-Content-Type-Options": "nosniff",
            "Vary": "Cookie",
        }

    def sign_in(self, problem: str = "", status: int = 401) -> Response:
        return self._page("sign_in.html", status, problem=problem, help=self._settings.connect.help)

    def account(self, account: Account, token: str | None) -> Response:
        currency = self._settings.prices_in_force.currency
        return self._page(
            "account.html",
            200,
            account=account,
            token=token,
            facts=_facts(account),
            limits=[_limit(use, currency) for use in account.limits],
            today=_usage("", account.today, currency),
            total=_usage("", account.total, currency),
            chart=_chart(account.days),
            days=[_usage(group.names[0], group.sums, currency) for group in reversed(account.days)],
            models=[_usage(group.names[0], group.sums, currency) for group in account.models],
            failures=_failures(account),
            address=self._settings.server.address,
        )

    def _page(self, template: str, status: int, **values: Any) -> Response:
        html = render_template(
            template,
            version=__version__,
            style=Markup(self._style),
            icon=Markup(asset("icon.svg").strip()),
            **values,
        )
        return Response(html, status, self._headers, content_type="text/html; charset=utf-8")


def _facts(account: Account) -> list[tuple[str, str]]:
    if account.key is None:
        return []
    rules = account.key.rules
    expires = "never" if rules.expires is None else _moment(rules.expires)
    facts = [("Owner", rules.owner), ("Models", ", ".join(rules.models) or "all"), ("Expires", expires)]
    return [(name, value) for name, value in facts if value]


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"


def _limit(use: LimitUse, currency: str) -> ShownLimit:
    is_cost = use.name == "cost_per_day"
    amount = f"{money(use.left)} {currency}" if is_cost else short_number(use.left)
    return ShownLimit(
        f"{use.words} {currency}".replace(" per day", "") + " per day" if is_cost else use.words,
        "all clients together" if use.shared else "this key",
        f"{amount} left",
        round(use.share_used * 100),
        f"all of it free in {duration(use.wait)}" if use.wait and use.used else "",
        "fair" if use.share_used >= NEARLY_USED else "good",
    )


def _usage(name: str, sums: UsageSums, currency: str) -> ShownUsage:
    share = sums.cached_share
    return ShownUsage(
        name,
        f"{sums.requests:,}",
        f"{sums.failed:,}",
        short_number(_tokens(sums)),
        "–" if share is None else f"{share:.0%}",
        f"{money(sums.cost)} {currency}",
    )


def _tokens(sums: UsageSums) -> int:
    return sums.input + sums.cached + sums.output


def _chart(days: Sequence[UsageGroup]) -> Markup:
    bars = [
        Bar(group.names[0], _tokens(group.sums), f"{short_number(_tokens(group.sums))} tokens")
        for group in days
    ]
    return bar_chart(bars, short_number(max(bar.value for bar in bars)))


def _failures(account: Account) -> list[ShownFailure]:
    failed = [(group.names[0], group.sums.requests) for group in account.errors]
    refused = [(f"{each.rule} {each.model}".strip(), each.requests) for each in account.refusals]
    return [
        ShownFailure(advice(reason.partition(" ")[0]), reason, f"{requests:,}")
        for reason, requests in sorted((*failed, *refused), key=lambda each: -each[1])
    ]

"""What the holder of a key sees of it: as JSON, as a line, and on the page /me."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
from client_keys import ClientKeys
from usage_rows import row

from bridge.access import key_cache
from bridge.access.authentication import Identity
from bridge.access.key_format import digest
from bridge.access.web_session import LIFETIME, issue
from bridge.settings import load
from bridge.settings.limits import Limits
from bridge.state.key_store import Rules
from bridge.state.stores import open_stores
from bridge.state.usage_store import Refusal
from bridge.web.advice import ADVICE, advice
from bridge.web.amounts import duration, money, short_number
from bridge.web.app import create_app
from bridge.web.bar_chart import Bar, bar_chart
from tests.web.error_kinds import every_kind

ORIGIN = {"Origin": "http://localhost"}
HOSTILE = '<script>alert(1)</script>"&{{7*7}}'


@pytest.fixture(autouse=True)
def looks_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_cache, "BETWEEN_LOOKS", 0)


@pytest.fixture
def keys(tmp_path) -> ClientKeys:
    return ClientKeys(tmp_path)


@pytest.fixture
def make_client(tmp_path):
    def make(**environ: str):
        return create_app(load(environ={"BRIDGE_STATE_DIR": str(tmp_path), **environ})).test_client()

    return make


@pytest.fixture
def client(make_client):
    return make_client()


@pytest.fixture
def usage(tmp_path):
    """Usage of alice and bob: today, nine days ago, and before the time that is shown."""
    store = open_stores(load(environ={"BRIDGE_STATE_DIR": str(tmp_path)})).usage
    now = time.time()
    store.write(
        [
            row(now, model="gemini-a", input=1000, cached=9000, output=500, cost=0.25),
            row(now, model="gemini-b", input=2_000_000, cached=0, output=0, cost=None),
            row(now - 9 * 86400, model="gemini-a", cost=1.0),
            row(now - 40 * 86400, model="gemini-a", cost=100.0),
            row(now, model="gemini-a", outcome="failed", error="rate_limited", input=0, cached=0, output=0),
            row(now, key="bob", model="gemini-secret", cost=7.0),
        ]
    )
    today = datetime.now(UTC).date().isoformat()
    store.count_refusals({Refusal(today, "alice", "openai_chat", "key.models", HOSTILE): 3})
    return store


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def me(client, secret: str, **headers: str) -> Any:
    answer = client.get("/v1/bridge/me", headers={**bearer(secret), **headers})
    assert answer.status_code == 200, answer.text
    return answer


# --- JSON ----------------------------------------------------------------------------------------------


def test_a_key_sees_its_own_usage_and_nobody_elses(client, keys, usage):
    secret = keys.add("alice", Rules(owner="Alice A.", limits=Limits(tokens_per_day=4_000_000, streams=3)))
    answer = me(client, secret)
    account = answer.json
    assert (account["key"]["name"], account["key"]["owner"]) == ("alice", "Alice A.")
    today = account["usage"]["today"]
    assert (today["requests"], today["failed"], today["cached_tokens"]) == (3, 1, 9000)
    assert account["usage"]["total"]["cost"] == pytest.approx(1.75)
    days = account["usage"]["by_day"]
    first = datetime.now(UTC).date() - timedelta(days=29)
    assert (len(days), days[0]["day"], days[20]["requests"]) == (30, first.isoformat(), 1)
    assert {each["model"] for each in account["usage"]["by_model"]} == {"gemini-a", "gemini-b"}
    assert "bob" not in answer.text
    assert "secret" not in answer.text
    assert answer.headers["Cache-Control"] == "no-store"


def test_failures_and_refusals_say_what_to_do(client, keys, usage):
    account = me(client, keys.add("alice", Rules())).json
    (failed,) = account["failed"]
    assert (failed["reason"], failed["requests"]) == ("rate_limited", 1)
    assert "It is not your budget" in failed["what"]
    (refused,) = account["refused"]
    assert (refused["reason"], refused["model"], refused["requests"]) == ("key.models", HOSTILE, 3)
    assert refused["remedy"] == ADVICE["key.models"].remedy


def test_limits_say_what_is_left_and_for_how_long(make_client, keys):
    client = make_client(BRIDGE_LIMITS__REQUESTS_PER_MINUTE="50")
    secret = keys.add("alice", Rules(limits=Limits(tokens_per_day=1000, cost_per_day=2.5)))
    body = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hello"}]}
    spent = client.post("/v1/chat/completions", json=body, headers=bearer(secret)).json["usage"][
        "total_tokens"
    ]
    found = {(each["applies_to"], each["name"]): each for each in me(client, secret).json["limits"]}
    assert set(found) == {
        ("key", "tokens_per_day"),
        ("key", "cost_per_day"),
        ("all_clients", "requests_per_minute"),
    }
    tokens = found["key", "tokens_per_day"]
    assert (tokens["limit"], tokens["used"], tokens["left"]) == (1000, spent, 1000 - spent)
    assert 0 < tokens["seconds_until_free"] <= 86400
    requests = found["all_clients", "requests_per_minute"]
    assert (requests["used"], requests["left"]) == (1, 49)
    assert 55 < requests["seconds_until_free"] <= 61


def test_the_report_itself_counts_towards_no_limit(client, keys):
    secret = keys.add("alice", Rules(limits=Limits(requests_per_minute=1)))
    for _ in range(3):
        assert me(client, secret).json["limits"][0]["used"] == 0


def test_without_a_key_it_is_refused(client, keys):
    keys.add("alice", Rules())
    assert client.get("/v1/bridge/me").status_code == 401
    assert client.get("/v1/bridge/me", headers=bearer("gbk_x")).status_code == 401


def test_a_bridge_that_asks_for_no_key_reports_what_everybody_used(client, usage):
    account = client.get("/v1/bridge/me").json
    assert account["key"] is None
    assert account["usage"]["total"]["requests"] == 0


def test_unreadable_usage_is_a_503(client, keys, tmp_path):
    secret = keys.add("alice", Rules())
    (tmp_path / "usage.sqlite3").write_bytes(b"no database" * 1000)
    (tmp_path / "accounts.sqlite3").write_bytes(b"no database" * 1000)
    assert client.get("/v1/bridge/me", headers=bearer(secret)).status_code == 503


# --- one line ------------------------------------------------------------------------------------------


def test_the_line_has_todays_usage_and_the_tightest_limit(client, keys, usage):
    secret = keys.add("alice", Rules(limits=Limits(tokens_per_day=4_000_000, streams=4)))
    answer = me(client, secret, Accept="text/plain")
    assert answer.content_type.startswith("text/plain")
    today = "today 3 requests, 2.0 M tokens, 0.75 USD"
    assert answer.text == f"alice · {today} · 100% of 4,000,000 tokens per day left\n"


# --- the page ------------------------------------------------------------------------------------------


def sign_in(client, secret: str, **headers: str):
    return client.post("/me/sign-in", data={"key": secret}, headers={**ORIGIN, **headers})


def with_cookie(client, session: str):
    headers = {"Cookie": f"gemini_bridge_session={session}"}
    return client.application.test_client(use_cookies=False).get("/me", headers=headers)


def test_a_holder_signs_in_and_sees_the_page(client, keys, usage):
    secret = keys.add("alice", Rules(limits=Limits(tokens_per_day=4_000_000)))
    form = client.get("/me")
    assert (form.status_code, 'type="password"' in form.text) == (401, True)
    answer = sign_in(client, f" {secret} ")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/me")
    cookie = answer.headers["Set-Cookie"]
    for word in ("HttpOnly", "SameSite=Strict", "Path=/me", f"Max-Age={LIFETIME}"):
        assert word in cookie
    assert secret not in cookie
    page = client.get("/me")
    assert page.status_code == 200
    text = unescape(page.text)
    for shown in ("alice", "gemini-a", "2.0 M", "tokens per day", ADVICE["rate_limited"].what):
        assert shown in text
    assert secret not in text
    assert "bob" not in text


def test_hostile_names_are_text_on_the_page(client, keys, usage):
    secret = keys.add("alice", Rules(owner=HOSTILE))
    sign_in(client, secret)
    page = client.get("/me").text
    assert "<script" not in page
    assert unescape(page).count(HOSTILE) == 2


def test_the_policy_of_the_page_allows_no_script_and_no_other_site(client, keys):
    keys.add("alice", Rules())
    headers = client.get("/me").headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "form-action 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["Cache-Control"] == "no-store"


def test_a_bridge_that_asks_for_no_key_shows_the_page_to_everybody_on_the_machine(client):
    page = client.get("/me")
    assert (page.status_code, "Everybody on this machine" in page.text) == (200, True)
    assert "Sign out" not in page.text


@pytest.mark.parametrize("wrong", ["", "gbk_wrong", "x" * 3000, "schlüssel", "\x00"])
def test_a_wrong_key_is_refused(client, keys, wrong):
    keys.add("alice", Rules())
    answer = sign_in(client, wrong)
    assert (answer.status_code, "Set-Cookie" in answer.headers) == (403, False)
    assert "not valid here" in answer.text


def test_a_form_that_is_too_large_is_refused(client, keys):
    keys.add("alice", Rules())
    assert sign_in(client, "x" * 10_000).status_code == 413


@pytest.mark.parametrize("ended", ["revoked", "rotated", "expired"])
def test_a_session_ends_with_its_key(client, keys, ended):
    secret = keys.add("alice", Rules())
    sign_in(client, secret)
    assert client.get("/me").status_code == 200
    if ended == "revoked":
        keys.revoke("alice")
    elif ended == "rotated":
        keys.rotate("alice", 0)
    else:
        keys.change("alice", lambda _: Rules(expires=time.time() - 1))
    assert client.get("/me").status_code == 401


@pytest.mark.parametrize(("age", "status"), [(LIFETIME - 60, 200), (LIFETIME + 1, 401)])
def test_a_session_ends_after_eight_hours(client, keys, age, status):
    secret = keys.add("alice", Rules())
    identity = Identity(keys.all()[0], digest=digest(secret))
    assert with_cookie(client, issue(identity, time.time() - age)).status_code == status


def test_forged_sessions_are_refused(client, keys):
    secret = keys.add("alice", Rules())
    keys.add("bob", Rules())
    sign_in(client, secret)
    good = client.get_cookie("gemini_bridge_session", path="/me").value
    bobs = next(key.id for key in keys.all() if key.name == "bob")
    version, rest = good.split(".", 1)
    key_id, expires, signature = rest.rsplit(".", 2)
    forged = [
        f"{version}.{bobs}.{expires}.{signature}",
        f"{version}.{key_id}.{int(expires) + 1}.{signature}",
        f"2.{key_id}.{expires}.{signature}",
        f"{version}.{key_id}.{expires}.{'0' * 64}",
        f"{version}.{key_id}.{expires}.",
        f"{version}.{key_id}.{'9' * 5000}.{signature}",
        f"{version}.{key_id}.²³.{signature}",
        good[:-1],
        "." * 10,
        "é",
    ]
    for cookie in forged:
        assert with_cookie(client, cookie).status_code == 401, cookie
    assert with_cookie(client, good).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "", "http://localhost.evil.example"])
def test_forms_of_other_sites_are_refused(client, keys, origin):
    secret = keys.add("alice", Rules())
    assert client.post("/me/sign-in", data={"key": secret}, headers={"Origin": origin}).status_code == 403
    assert client.post("/me/sign-out", headers={"Origin": origin}).status_code == 403


def test_signing_out_needs_the_token_of_the_page(client, keys):
    sign_in(client, keys.add("alice", Rules()))
    token = client.get("/me").text.partition('name="token" value="')[2].partition('"')[0]
    assert client.post("/me/sign-out", data={"token": "other"}, headers=ORIGIN).status_code == 403
    assert client.get("/me").status_code == 200
    assert client.post("/me/sign-out", data={"token": token}, headers=ORIGIN).status_code == 303
    assert client.get("/me").status_code == 401


def test_nothing_changes_by_get(client):
    assert client.get("/me/sign-in").status_code in (404, 405)
    assert client.get("/me/sign-out").status_code in (404, 405)


def test_attempts_to_sign_in_are_limited_by_address(client, keys):
    secret = keys.add("alice", Rules())
    statuses = [sign_in(client, "wrong").status_code for _ in range(11)]
    assert statuses == [403] * 10 + [429]
    assert sign_in(client, secret).status_code == 429
    assert (
        client.post(
            "/me/sign-in", data={"key": secret}, headers=ORIGIN, environ_base={"REMOTE_ADDR": "127.0.0.2"}
        ).status_code
        == 303
    )


def test_visitors_from_other_addresses_get_a_404(make_client, keys):
    secret = keys.add("alice", Rules())
    elsewhere = {"REMOTE_ADDR": "10.1.2.3"}
    assert make_client().get("/me", environ_base=elsewhere).status_code == 404
    allowed = make_client(BRIDGE_PAGES__ALLOWED_FROM="10.0.0.0/8")
    assert allowed.get("/me", environ_base=elsewhere).status_code == 401
    assert allowed.get("/me", headers={"X-Forwarded-For": "10.1.2.3"}).status_code == 401
    assert allowed.get("/me").status_code == 404
    assert (
        make_client().get("/v1/bridge/me", environ_base=elsewhere, headers=bearer(secret)).status_code == 200
    )


def test_over_https_the_cookie_is_sent_over_https_only(client, keys):
    secret = keys.add("alice", Rules())
    answer = client.post(
        "/me/sign-in",
        data={"key": secret},
        headers={"Origin": "https://localhost"},
        base_url="https://localhost",
    )
    assert "Secure" in answer.headers["Set-Cookie"]


def test_the_key_is_in_no_log(client, keys, caplog):
    secret = keys.add("alice", Rules())
    sign_in(client, secret)
    client.get("/me")
    sign_in(client, secret[:-1] + "x")
    assert secret[4:-6] not in caplog.text


# --- words and pictures --------------------------------------------------------------------------------


def test_every_kind_of_error_has_advice():
    assert every_kind() <= set(ADVICE)


@pytest.mark.parametrize("reason", ["key.tokens_per_day", "limits.cost_per_day"])
def test_a_spent_budget_says_when_it_begins_anew(reason):
    assert "0:00 UTC" in advice(reason).remedy


def test_an_unknown_reason_has_advice_too():
    assert advice("what is this").remedy


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.0 k"),
        (9949, "9.9 k"),
        (38_400, "38 k"),
        (999_600, "1.0 M"),
        (2.5e9, "2.5 G"),
    ],
)
def test_numbers_are_short(number, shown):
    assert short_number(number) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.2, "1 s"), (59, "59 s"), (61, "2 min"), (3600, "1 h"), (11_100, "3 h 5 min")]
)
def test_durations_are_rounded_up(seconds, shown):
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("cost", "shown"), [(0, "0.00"), (0.000001, "< 0.0001"), (0.0012, "0.0012"), (1234.5, "1,234.50")]
)
def test_small_costs_are_not_shown_as_nothing(cost, shown):
    assert money(cost) == shown


def test_the_chart_has_a_bar_for_each_value_and_escapes_labels():
    drawn = str(bar_chart([Bar("a", 1, "one"), Bar("<b>", 2, "two"), Bar("c", 0, "none")], "2"))
    assert drawn.count("<rect") == 3
    assert "<b>" not in drawn
    assert 'height="0.0"' in drawn
    assert bar_chart([], "0")

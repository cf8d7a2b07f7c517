"""The page /me in a real browser: signing in and out, light, dark and narrow.

`BRIDGE_TEST_SCREENSHOTS=folder` saves screenshots.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from chromium import CHROMIUM, Tab, chromium
from client_keys import ClientKeys
from contrast import CONTRAST
from gunicorn_bridge import Bridge, gunicorn_bridge
from usage_rows import row
from waiting import eventually

from bridge.settings import load
from bridge.settings.limits import Limits
from bridge.state.key_store import Rules
from bridge.state.stores import open_stores

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian: chromium)")

LOOKS = {
    "light": (1280, 900, "light"),
    "dark": (1280, 900, "dark"),
    "narrow": (360, 740, "light"),
    "narrow-dark": (360, 740, "dark"),
}


@pytest.fixture(scope="module")
def browser():
    with chromium() as tab:
        yield tab


@pytest.fixture(scope="module")
def state(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def secret(state: Path) -> str:
    """The key of alice, with limits, usage on most days, and failures."""
    rules = Rules(owner="Alice Archer", limits=Limits(tokens_per_day=20_000_000, requests_per_minute=60))
    now = time.time()
    rows = [
        row(
            now - day * 86400, model=model, input=40_000 * (day % 7) ** 2, cached=90_000 * (day % 7), cost=0.3
        )
        for day in range(30)
        for model in ("gemini-flash-latest", "gemini-pro-latest")
    ]
    rows.append(row(now, outcome="failed", error="rate_limited", input=0, cached=0, output=0))
    open_stores(load(environ={"BRIDGE_STATE_DIR": str(state)})).usage.write(rows)
    return ClientKeys(state).add("alice", rules)


@pytest.fixture(scope="module")
def bridge(state: Path, secret: str):
    with gunicorn_bridge(BRIDGE_STATE_DIR=str(state)) as bridge:
        yield bridge


@pytest.fixture
def tab(browser: Tab, bridge: Bridge) -> Tab:
    browser.do("Network.clearBrowserCookies")
    browser.look(*LOOKS["light"])
    browser.open(f"{bridge.address}/me")
    return browser


def sign_in(tab: Tab, secret: str) -> None:
    tab.run(f"document.getElementById('key').value = {secret!r}")
    tab.run("document.querySelector('button').click()")
    assert eventually(lambda: tab.run("document.readyState") == "complete" and heading(tab) != "")


def heading(tab: Tab) -> str:
    return str(tab.run("document.querySelector('h1')?.textContent ?? ''"))


def test_a_holder_signs_in_and_out(tab, bridge, secret):
    assert heading(tab) == "Your limits and usage"
    sign_in(tab, "wrong")
    assert eventually(lambda: "not valid here" in tab.run("document.body.textContent"))
    sign_in(tab, secret)
    assert eventually(lambda: heading(tab) == "alice")
    assert tab.run("document.cookie") == ""
    tab.run("document.querySelector('form button').click()")
    assert eventually(lambda: heading(tab) == "Your limits and usage")
    tab.open(f"{bridge.address}/me")
    assert heading(tab) == "Your limits and usage"


@pytest.mark.parametrize("look", LOOKS)
def test_the_page_fits_the_window_and_breaks_no_rule(tab, bridge, secret, look, tmp_path):
    folder = Path(os.environ.get("BRIDGE_TEST_SCREENSHOTS", tmp_path))
    width, height, scheme = LOOKS[look]
    tab.look(width, height, scheme)
    tab.screenshot(folder / f"sign-in-{look}.png", whole=True)
    assert tab.run("document.documentElement.scrollWidth") == width
    assert tab.run(CONTRAST) == []
    sign_in(tab, secret)
    assert eventually(lambda: heading(tab) == "alice")
    tab.open(f"{bridge.address}/me")
    assert tab.complaints == []
    assert tab.requested == [f"{bridge.address}/me"]
    tab.run("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert tab.run("document.documentElement.scrollWidth") == width
    assert tab.run(CONTRAST) == []
    assert tab.run("document.querySelectorAll('.chart .bar').length") == 30
    tab.run("document.querySelectorAll('details').forEach(each => { each.open = false; })")
    tab.screenshot(folder / f"me-{look}.png", whole=True)

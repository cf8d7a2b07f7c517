"""The pages of errors in a real browser: light, dark and narrow, with keys and without.

`BRIDGE_TEST_SCREENSHOTS=folder` saves screenshots.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import requests
from chromium import CHROMIUM, Tab, chromium
from client_keys import ClientKeys
from contrast import CONTRAST
from gunicorn_bridge import Bridge, gunicorn_bridge

from bridge.state.key_store import Rules

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian: chromium)")

BROWSER = {"Accept": "text/html,application/xhtml+xml"}
LOOKS = {
    "light": (1280, 900, "light"),
    "dark": (1280, 900, "dark"),
    "narrow": (360, 740, "light"),
    "narrow-dark": (360, 740, "dark"),
}


@pytest.fixture(scope="module")
def tab():
    with chromium() as tab:
        yield tab


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A bridge that asks for keys."""
    state = tmp_path_factory.mktemp("state")
    ClientKeys(state).add("alice", Rules())
    with gunicorn_bridge(BRIDGE_STATE_DIR=str(state)) as bridge:
        yield bridge


def heading(tab: Tab) -> str:
    return str(tab.run("document.querySelector('h1')?.textContent ?? ''"))


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("keys", [False, True], ids=["no keys", "keys"])
def test_the_page_fits_the_window_and_is_readable(
    tab: Tab, guarded: Bridge, demo_bridge, keys, look, tmp_path
):
    folder = Path(os.environ.get("BRIDGE_TEST_SCREENSHOTS", tmp_path))
    bridge = guarded if keys else demo_bridge
    width, height, scheme = LOOKS[look]
    tab.look(width, height, scheme)
    tab.open(f"{bridge.address}/a/very/long/address/{'x' * 90}")
    tab.screenshot(folder / f"error-{'keys' if keys else 'open'}-{look}.png", whole=True)
    assert heading(tab) == ("This address needs a key" if keys else "There is no such page")
    assert tab.run("document.documentElement.scrollWidth") == width
    assert tab.run(CONTRAST) == []
    assert not [each for each in tab.complaints if "Content Security Policy" in each]


def test_every_link_of_the_public_pages_works_with_keys(tab: Tab, guarded: Bridge):
    tab.look(*LOOKS["light"])
    for start in ("/nothing", "/", "/docs"):
        tab.open("about:blank")
        tab.open(guarded.address + start)
        links = tab.run(
            "[...new Set([...document.querySelectorAll('a')].map(a => a.href)"
            f".filter(href => href.startsWith({guarded.address!r})))]"
        )
        assert len(links) > 2
        for link in links:
            answer = requests.get(link, headers=BROWSER, timeout=30)
            # The sign-in form of /me has this status, and is a page that helps.
            assert answer.status_code == 200 or 'type="password"' in answer.text, link

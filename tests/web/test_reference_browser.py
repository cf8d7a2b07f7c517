"""The page at /docs in a real browser: light, dark and narrow.

`BRIDGE_TEST_SCREENSHOTS=folder` saves screenshots.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from chromium import CHROMIUM, Tab, chromium
from contrast import CONTRAST

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


@pytest.fixture
def tab(browser: Tab, demo_bridge) -> Tab:
    browser.look(*LOOKS["light"])
    browser.open("about:blank")
    browser.open(f"{demo_bridge.address}/docs")
    return browser


@pytest.mark.parametrize("look", LOOKS)
def test_the_page_loads_without_console_errors_and_fits_the_window(tab, demo_bridge, look, tmp_path):
    width, height, scheme = LOOKS[look]
    tab.look(width, height, scheme)
    tab.open(f"{demo_bridge.address}/docs")
    tab.run("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert tab.complaints == []
    assert tab.requested == [f"{demo_bridge.address}/docs"]
    assert tab.run("document.documentElement.scrollWidth") == width
    dark = tab.run("getComputedStyle(document.body).backgroundColor") == "rgb(17, 21, 24)"
    assert dark == (scheme == "dark")
    folder = Path(os.environ.get("BRIDGE_TEST_SCREENSHOTS", tmp_path))
    tab.screenshot(folder / f"docs-{look}.png", whole=True)
    assert (folder / f"docs-{look}.png").stat().st_size > 20_000


def test_the_keyboard_reaches_everything_in_order(tab):
    tab.run("document.body.focus()")
    order = []
    for _ in range(5):
        for kind in ("rawKeyDown", "keyUp"):
            tab.do("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        order.append(tab.run("document.activeElement.getAttribute('href')"))
    assert order == ["#endpoints", "/", "/openapi.json", "#openai_chat", "#openai_responses"]
    assert tab.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_the_text_has_enough_contrast(tab, demo_bridge):
    """WCAG asks for 4.5:1 for text of this size."""
    for look in ("light", "dark"):
        tab.look(*LOOKS[look])
        tab.open(f"{demo_bridge.address}/docs")
        assert tab.run(CONTRAST) == []

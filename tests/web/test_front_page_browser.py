"""The page at / in a real browser: light, dark and narrow, with and without its script.

`BRIDGE_TEST_SCREENSHOTS=folder` saves screenshots.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from chromium import CHROMIUM, Tab, chromium
from waiting import eventually

from bridge.connect.clients import CLIENTS, PLACEHOLDER_KEY, Target

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian: chromium)")

LOOKS = {
    "light": (1280, 900, "light"),
    "dark": (1280, 900, "dark"),
    "narrow": (390, 844, "light"),
    "narrow-dark": (390, 844, "dark"),
}
SHOWN = "[...document.querySelectorAll('.client')].filter(e => e.offsetParent).map(e => e.id)"
SAID = "['#codex button.copy', '#said'].map(each => document.querySelector(each).textContent)"


@pytest.fixture(scope="module")
def browser():
    with chromium() as tab:
        yield tab


@pytest.fixture
def tab(browser: Tab, demo_bridge) -> Tab:
    browser.do("Emulation.setScriptExecutionDisabled", value=False)
    browser.look(*LOOKS["light"])
    browser.open("about:blank")
    browser.open(demo_bridge.address)
    return browser


@pytest.mark.parametrize("look", LOOKS)
def test_the_page_loads_without_console_errors_and_fits_the_window(tab, demo_bridge, look, tmp_path):
    width, height, scheme = LOOKS[look]
    tab.look(width, height, scheme)
    tab.open(demo_bridge.address)
    assert tab.complaints == []
    assert tab.requested == [f"{demo_bridge.address}/"]
    assert tab.run("document.documentElement.scrollWidth") == width
    dark = tab.run("getComputedStyle(document.body).backgroundColor") == "rgb(17, 21, 24)"
    assert dark == (scheme == "dark")
    folder = Path(os.environ.get("BRIDGE_TEST_SCREENSHOTS", tmp_path))
    tab.screenshot(folder / f"connect-{look}.png", whole=True)
    assert (folder / f"connect-{look}.png").stat().st_size > 20_000


@pytest.mark.parametrize("scripted", [True, False], ids=["script", "no script"])
def test_the_url_fragment_selects_a_client(tab, demo_bridge, scripted):
    tab.do("Emulation.setScriptExecutionDisabled", value=not scripted)
    for name, expected in (("", next(iter(CLIENTS))), ("#zed", "zed"), ("#curl", "curl")):
        tab.open("about:blank")
        tab.open(f"{demo_bridge.address}/{name}")
        assert tab.run(SHOWN) == [expected]


def test_without_javascript_no_scripted_controls_are_shown(tab, demo_bridge):
    tab.do("Emulation.setScriptExecutionDisabled", value=True)
    tab.open(f"{demo_bridge.address}/")
    assert (
        tab.run("[...document.querySelectorAll('button, input, select')].filter(e => e.offsetParent).length")
        == 0
    )
    assert PLACEHOLDER_KEY in tab.run("document.getElementById('key-note').innerText")


def test_a_click_selects_a_client_and_marks_it_in_the_list(tab):
    tab.run("document.querySelector('nav a[href=\"#continue\"]').click()")
    assert eventually(lambda: tab.run(SHOWN) == ["continue"])
    current = "document.querySelector('nav a[aria-current]').hash"
    assert eventually(lambda: tab.run(current) == "#continue")


@pytest.mark.parametrize("modern", [True, False], ids=["clipboard", "plain http"])
def test_a_button_copies_exactly_the_settings(tab, demo_bridge, modern):
    catch = (
        "navigator.clipboard.writeText = async text => { window.copied = text; }"
        if modern
        else "Object.defineProperty(navigator, 'clipboard', { value: undefined });"
        "document.execCommand = () => { window.copied = String(getSelection()); return true; }"
    )
    tab.run(f"(() => {{ {catch} }})()")
    tab.run("document.querySelector('#codex button.copy').click()")
    assert eventually(lambda: tab.run(SAID) == ["Copied", "Copied"])
    expected = CLIENTS["codex"].main.text(Target(demo_bridge.address, PLACEHOLDER_KEY, "gemini-flash-latest"))
    assert tab.run("window.copied").strip() == expected.strip()


def test_typed_values_fill_every_snippet_and_are_not_sent(tab, demo_bridge):
    filled = CLIENTS["claude"].main.text(Target(demo_bridge.address, "gbk_mine", "demo-slow"))
    fill(tab, "key", "gbk_mine")
    fill(tab, "model", "demo-slow")
    assert tab.run("document.querySelector('#claude code').textContent") == filled
    assert PLACEHOLDER_KEY not in tab.run("document.querySelector('.clients').textContent")
    assert tab.requested == [f"{demo_bridge.address}/"]
    fill(tab, "key", "")
    assert PLACEHOLDER_KEY in tab.run("document.querySelector('#claude code').textContent")


@pytest.mark.parametrize("key", ["'; rm -rf ~", "two words", "<img src=x onerror=alert(1)>", 'a"b', "$(id)"])
def test_values_that_could_break_quotes_are_not_filled_in(tab, key):
    fill(tab, "key", key)
    assert tab.run("document.getElementById('key').getAttribute('aria-invalid')") == "true"
    assert key not in tab.run("document.querySelector('.clients').textContent")
    assert tab.complaints == []


def test_the_content_security_policy_blocks_injected_scripts(tab):
    tab.run(
        "(() => { const script = document.createElement('script'); script.textContent = 'window.bad = true';"
        " document.body.append(script); })()"
    )
    assert tab.run("window.bad") is None
    forbidden = "Content Security Policy"  # each run also collects the browser's new messages
    assert eventually(lambda: tab.run("window.bad") or any(forbidden in each for each in tab.complaints))


def test_the_keyboard_reaches_everything_in_order(tab):
    tab.run("document.body.focus()")
    order = []
    for _ in range(10):
        for kind in ("rawKeyDown", "keyUp"):
            tab.do("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        order.append(
            tab.run(
                "document.activeElement.id || document.activeElement.hash || document.activeElement.className"
            )
        )
    assert order == [
        "#clients",
        "docs",
        "me",
        "copy",
        "key",
        "model",
        "#models",
        "#curl",
        "#codex",
        "#claude",
    ]
    assert tab.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def fill(tab: Tab, field: str, value: str) -> None:
    tab.run(
        f"(() => {{ const field = document.getElementById({field!r}); field.value = {value!r};"
        " field.dispatchEvent(new Event('input')); })()"
    )

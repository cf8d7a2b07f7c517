"""Headless Chromium, driven over a pipe: https://chromedevtools.github.io/devtools-protocol

Debian's browser is enough; no driver, WebSocket or port is needed. Commands have the names that the protocol
gives them: `tab.do("Page.navigate", url=…)`.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

#: No background requests, and no sandbox, which needs rights that a test machine may lack.
SWITCHES = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
TIMEOUT = 60.0


class Tab:
    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._numbers = itertools.count(1)
        self._read = b""
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.do("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.do("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.do(f"{domain}.enable")

    def do(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        command = {"id": number, "method": method, "params": params}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while True:
            message = self._next()
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            self.events.append(message)

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._answers], [], [], deadline - time.monotonic())
            assert ready, "the browser does not answer"
            more = os.read(self._answers, 1 << 20)
            assert more, "the browser is gone"
            self._read += more
        message, _, self._read = self._read.partition(b"\0")
        return json.loads(message)

    def open(self, url: str) -> None:
        self.events.clear()
        begun = self.do("Page.navigate", url=url)
        assert "errorText" not in begun, url
        # A change of the fragment loads nothing.
        while "loaderId" in begun and not any(
            event["method"] == "Page.loadEventFired" for event in self.events
        ):
            self.events.append(self._next())

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page; wait for a promise."""
        told = self.do(
            "Runtime.evaluate",
            expression=script,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def look(self, width: int, height: int, scheme: str = "light") -> None:
        """Set the window size and the preferred colour scheme."""
        self.do(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.do("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, place: Path, *, whole: bool = False) -> None:
        picture = self.do("Page.captureScreenshot", captureBeyondViewport=whole, **self._clip(whole))
        place.write_bytes(base64.b64decode(picture["data"]))

    def _clip(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        size = self.do("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {**{key: size[key] for key in ("x", "y", "width", "height")}, "scale": 1}}

    @property
    def complaints(self) -> list[str]:
        """Return the console messages: script errors and violations of the page's policy."""
        logged = [event["params"] for event in self.events if event["method"] == "Log.entryAdded"]
        thrown = [event["params"] for event in self.events if event["method"] == "Runtime.exceptionThrown"]
        return [str(each) for each in (*logged, *thrown)]

    @property
    def requested(self) -> list[str]:
        sent = [event for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]


@contextmanager
def chromium() -> Iterator[Tab]:
    to_browser, from_browser = os.pipe(), os.pipe()

    def as_the_browser_expects() -> None:
        """Connect the pipes: Chromium reads commands from descriptor 3 and writes answers to 4."""
        ours = os.dup(to_browser[0]), os.dup(from_browser[1])
        os.dup2(ours[0], 3)
        os.dup2(ours[1], 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = subprocess.Popen(
            [str(CHROMIUM), *SWITCHES, f"--user-data-dir={folder}"],
            preexec_fn=as_the_browser_expects,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser[0])
        os.close(from_browser[1])
        try:
            yield Tab(to_browser[1], from_browser[0])
        finally:
            browser.terminate()
            browser.wait(20)
            os.close(to_browser[1])
            os.close(from_browser[0])

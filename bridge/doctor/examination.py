"""Runs all checks in parallel with a time limit. Even a check that fails or hangs ends with a finding.

A check that fails because of a problem that an earlier check names is skipped: one cause, one finding.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator

from bridge.doctor.finding import Check, Finding, Installation, Level, red, skipped
from bridge.settings import SettingsError

TIME_LIMIT = 10.0  #: seconds
CONFIGURATION = "configuration"  #: the check that reports invalid settings


class _Running:
    def __init__(self, check: Check, installation: Installation) -> None:
        self._check = check
        self._installation = installation
        self._found: Finding | None = None
        # A daemon thread, so that a check that hangs does not keep the command running.
        self._thread = threading.Thread(target=self._run, name=check.name, daemon=True)
        self._thread.start()

    def finding(self, deadline: float) -> Finding:
        self._thread.join(max(0.0, deadline - time.monotonic()))
        timed_out = red(
            "the check timed out", "run the doctor again; check network and disk if it happens again"
        )
        return self._found or timed_out

    def _run(self) -> None:
        try:
            self._found = self._check.run(self._installation)
        except SettingsError:
            self._found = skipped(CONFIGURATION)
        except BaseException as error:  # its message might quote a secret, so show only its type
            name = type(error).__name__
            self._found = red(f"the check itself failed with {name}", "please report this as a bug")


def examine(
    installation: Installation, checks: Iterable[Check], time_limit: float = TIME_LIMIT
) -> Iterator[tuple[Check, Finding]]:
    deadline = time.monotonic() + time_limit
    running = [(check, _Running(check, installation)) for check in checks]
    causes: dict[str, str] = {}  # of each check that is red or skipped, the check that names the cause
    for check, each in running:
        finding = each.finding(deadline)
        cause = next((causes[name] for name in check.after if name in causes), "")
        if cause and finding.level is not Level.GREEN:
            finding = skipped(cause)
        if finding.level is Level.SKIPPED:
            causes[check.name] = cause or CONFIGURATION
        elif finding.level is Level.RED:
            causes[check.name] = check.name
        yield check, finding

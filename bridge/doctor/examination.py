"""All checks at once, each with a time limit. Whatever a check does, it ends as a finding."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator

from bridge.doctor.finding import Check, Finding, Installation, red, yellow
from bridge.settings import SettingsError

LONGEST = 10.0  #: seconds


class _Running:
    def __init__(self, check: Check, installation: Installation) -> None:
        self._check = check
        self._patient = installation
        self._found: Finding | None = None
        # A daemon: a check that hangs must not keep the command from ending.
        self._thread = threading.Thread(target=self._look, name=check.name, daemon=True)
        self._thread.start()

    def finding(self, deadline: float) -> Finding:
        self._thread.join(max(0.0, deadline - time.monotonic()))
        late = red("the check did not end in time", "something here hangs; run the doctor again")
        return self._found or late

    def _look(self) -> None:
        try:
            self._found = self._check.look(self._patient)
        except SettingsError:
            self._found = yellow("not looked at", "mend the configuration first")
        except BaseException as error:  # its text might quote a secret, so only its name is told
            self._found = red(f"the check itself failed: {type(error).__name__}", "please report this")


def examine(
    installation: Installation, checks: Iterable[Check], longest: float = LONGEST
) -> Iterator[tuple[Check, Finding]]:
    deadline = time.monotonic() + longest
    running = [(check, _Running(check, installation)) for check in checks]
    for check, each in running:
        yield check, each.finding(deadline)

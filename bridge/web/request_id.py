"""An id for every request: the caller's, where it is sane, else a new one."""

from __future__ import annotations

import re

from bridge.ids_and_clock import random_id

HEADER = "X-Request-Id"
#: What may stand in a header and a log line without harm.
_SANE = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")


def request_id(given: str | None) -> str:
    return given if given and _SANE.fullmatch(given) else random_id("req_")

"""The id of a request: the client's own id if it is valid, else a new id."""

from __future__ import annotations

import re

from bridge.ids_and_clock import random_id

HEADER = "X-Request-Id"
#: An id that is safe in a header and in a log line.
_VALID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")


def request_id(given: str | None) -> str:
    return given if given and _VALID.fullmatch(given) else random_id("req_")

"""gunicorn's log without a line for each request: the bridge writes its own, when a stream has ended.

`accesslog = None` does not keep gunicorn from putting such a line together as long as it has a log of any
kind.
"""

from __future__ import annotations

from typing import Any

from gunicorn.glogging import Logger


class QuietLogger(Logger):
    def access(self, *_told: Any) -> None:
        pass

"""gunicorn's logger without access lines: the bridge writes its own line when a stream has ended.

With `accesslog = None` gunicorn would still format a line for each request and then drop it.
"""

from __future__ import annotations

from typing import Any

from gunicorn.glogging import Logger


class QuietLogger(Logger):
    def access(self, *_arguments: Any) -> None:
        pass

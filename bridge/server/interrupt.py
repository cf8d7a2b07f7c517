"""Ctrl-C at a terminal: answers that run may finish, and a second Ctrl-C ends them."""

from __future__ import annotations

import logging
from typing import Any, NoReturn

from bridge.server.siblings import siblings

log = logging.getLogger(__name__)


def stop_on_interrupt(master: Any) -> NoReturn:
    """Stop gunicorn's master as SIGTERM does. While it waits, another SIGINT ends the answers: gunicorn then
    sends SIGQUIT to the workers (`Worker.handle_quit`)."""
    if answers := siblings().answers:
        what = "1 answer" if answers == 1 else f"{answers} answers"
        log.warning("waiting for %s; press Ctrl-C again to stop now", what)
    master.stop()
    raise StopIteration  # ends the main loop of the master

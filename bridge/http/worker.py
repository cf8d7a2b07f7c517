"""gunicorn's threaded worker, with what it lacks: word to the answers before the end, an eye on slow clients.

The first stands in its handler of SIGTERM, which also comes with a reload; the second in its main loop.
"""

from __future__ import annotations

import errno
from types import FrameType
from typing import Any

from gunicorn.workers.gthread import TConn, ThreadWorker

from bridge.http.app import DRAIN, HEAD_TIMEOUT, SLOW_CLIENTS


class Worker(ThreadWorker):
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.alive:
            self.wsgi.extensions[DRAIN].begin(self.cfg.graceful_timeout)
        super().handle_exit(sig, frame)

    def notify(self) -> None:
        super().notify()
        self.wsgi.extensions[SLOW_CLIENTS].cut_the_late()

    def handle(self, conn: TConn) -> Any:
        slow_clients = self.wsgi.extensions[SLOW_CLIENTS]
        slow_clients.expect(conn.sock, self.wsgi.config[HEAD_TIMEOUT])
        try:
            return super().handle(conn)
        finally:
            slow_clients.arrived(conn.sock)

    def handle_request(self, req: Any, conn: TConn) -> Any:
        try:
            return super().handle_request(req, conn)
        except (
            TimeoutError
        ) as error:  # it does not take what is sent to it; gunicorn knows that as a broken pipe
            raise BrokenPipeError(errno.EPIPE, "the client takes nothing") from error

"""gunicorn's threaded worker, with what it lacks: word to the answers before the end, an eye on slow clients.

The first stands in its handler of SIGTERM, which also comes with a reload; the second in its main loop. And
it does less for each request: the thread that served a connection puts it back to the poller by itself, the
head of an answer leaves together with its beginning (`bridge/http/response.py`), and settings are read once.
"""

from __future__ import annotations

import errno
import logging
import select
import selectors
import socket
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from types import FrameType
from typing import Any

from gunicorn.http.wsgi import create
from gunicorn.workers.gthread import TConn, ThreadWorker

from bridge.errors import NO_DESCRIPTORS
from bridge.http.handover import DRAIN, HEAD_TIMEOUT, SLOW_CLIENTS
from bridge.http.response import JoinedResponse
from bridge.http.threads import Threads

log = logging.getLogger(__name__)

#: Seconds between two signs of life, and between two looks at slow clients.
BETWEEN_SIGNS = 1.0
#: Seconds without newcomers at least, when the system has no room for one more.
UNTIL_THERE_IS_ROOM = 0.1
BETWEEN_COMPLAINTS = 10.0
NO_ROOM = NO_DESCRIPTORS | {errno.ENOBUFS, errno.ENOMEM}
#: Another worker was quicker, or the newcomer has gone.
NOBODY_THERE = frozenset((errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED))


class Connection(TConn):
    data_ready: bool

    def wait_for_data(self, timeout: float) -> bool:
        """As gunicorn does it, without a file descriptor for each connection that comes."""
        if not self.data_ready:
            poller = select.poll()
            poller.register(self.sock, select.POLLIN)
            self.data_ready = bool(poller.poll(timeout * 1000))
        return self.data_ready


class Worker(ThreadWorker):
    core: int | None = None  #: that it keeps to; chosen before it is made a process
    wsgi: Any = None  #: until it is loaded; a signal may come before that
    _next_sign = 0.0
    _next_complaint = 0.0
    _room_again = 0.0  #: when it can be hoped for

    def init_process(self) -> None:
        # gunicorn looks each of them up anew, a dozen times for a request; here they change no more.
        self.cfg.__dict__.update({name: setting.get() for name, setting in self.cfg.settings.items()})
        super().init_process()

    def run(self) -> None:
        try:
            super().run()
        finally:
            self.tpool.shutdown()  # or the threads, waiting for more, would keep the process from ending

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.alive and self.wsgi is not None:
            self.wsgi.extensions[DRAIN].begin(self.cfg.graceful_timeout)
        super().handle_exit(sig, frame)

    def notify(self) -> None:
        """Called at every turn of the main loop, which is several times for each request."""
        now = time.monotonic()
        if now >= self._next_sign:
            self._next_sign = now + BETWEEN_SIGNS
            super().notify()
            self.wsgi.extensions[SLOW_CLIENTS].cut_the_late()

    # --- a connection --------------------------------------------------------------------------------

    def accept(self, listener: socket.socket) -> None:
        """gunicorn ends the worker for want of room, and all its answers with it; here the newcomer waits."""
        try:
            client, address = listener.accept()
        except OSError as error:
            if error.errno in NO_ROOM:
                self._rest_from_newcomers(error)
            elif error.errno not in NOBODY_THERE:
                raise
            return
        self.nr_conns += 1
        self.enqueue_req(Connection(self.cfg, client, address, listener.getsockname()))

    def _rest_from_newcomers(self, error: OSError) -> None:
        now = time.monotonic()
        if now >= self._next_complaint:
            self._next_complaint = now + BETWEEN_COMPLAINTS
            log.error("no room for another connection: %s; LimitNOFILE may be too low", error.strerror)
        self._room_again = now + UNTIL_THERE_IS_ROOM
        self.set_accept_enabled(False)

    def set_accept_enabled(self, enabled: bool) -> None:
        """Asked for at every turn of the main loop."""
        super().set_accept_enabled(enabled and time.monotonic() >= self._room_again)

    def get_thread_pool(self) -> Threads:
        return Threads(self.cfg.threads)

    def enqueue_req(self, conn: TConn) -> None:
        self.tpool.run(self._serve, conn)

    def _serve(self, conn: TConn) -> None:
        try:
            kept = self.handle(conn)
            if kept is True and self.alive and not conn.parser.unreader.buf.getvalue():
                self._await_next_request(conn)
                return
        except BaseException as error:
            self._finish(conn, Future.set_exception, error)
        else:
            self._finish(conn, Future.set_result, kept)

    def _finish(self, conn: TConn, tell: Callable[[Future[Any], Any], None], told: Any) -> None:
        """In the main loop, in the form in which gunicorn wants to be told how it went."""
        done: Future[Any] = Future()
        tell(done, told)
        self.method_queue.defer(self.finish_request, conn, done)

    def _await_next_request(self, conn: TConn) -> None:
        """As `finish_request` does it in the main loop, which need not wake up for it: the kernel's poller
        takes a connection from any thread, while the main loop waits on it."""
        conn.sock.setblocking(False)
        conn.set_timeout()
        self.keepalived_conns.append(conn)
        readable = partial(self.on_client_socket_readable, conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, readable)

    def handle(self, conn: TConn) -> Any:
        slow_clients = self.wsgi.extensions[SLOW_CLIENTS]
        slow_clients.expect(conn.sock, self.wsgi.config[HEAD_TIMEOUT])
        try:
            return super().handle(conn)
        finally:
            slow_clients.arrived(conn.sock)

    # --- a request -----------------------------------------------------------------------------------

    def handle_request(self, req: Any, conn: TConn) -> bool:
        """Whether the connection may carry another."""
        response, environ = create(
            req, conn.sock, conn.client, conn.server, self.cfg, response_class=JoinedResponse
        )
        environ["wsgi.multithread"] = True
        self.nr += 1
        if self.nr >= self.max_requests:
            self.alive = False
        full = not self.cfg.keepalive or len(self.keepalived_conns) >= self.max_keepalived
        if full or not self.alive:
            response.force_close()
        try:
            self._answer(environ, response)
        except BlockingIOError as error:
            # It does not take what is sent to it in time; gunicorn knows that as a broken pipe.
            raise BrokenPipeError(errno.EPIPE, "the client takes nothing") from error
        except OSError:  # it has gone, which `handle` knows
            raise
        except Exception:
            if not response.headers_sent:
                raise
            self.log.exception("Error handling request")
            raise StopIteration from None  # in the middle of an answer nothing else can be said
        return not response.should_close()

    def _answer(self, environ: dict[str, Any], response: JoinedResponse) -> None:
        body = self.wsgi(environ, response.start_response)
        try:
            for piece in body:
                response.write(piece)
            response.close()
        finally:
            if hasattr(body, "close"):
                body.close()

"""gunicorn's threaded worker, extended: it drains running answers, closes slow clients and limits its load.

Draining begins in the handler of SIGTERM, which gunicorn also sends for a reload. The main loop closes slow
clients. The worker also does less for each request: the thread that served a connection returns it to the
poller itself, the head of a response is sent with the first bytes of its body (`bridge/server/response.py`),
and gunicorn's settings are read once.

The load limit: a request gets a slot before it gets a thread. A worker without a free slot accepts no new
connections while a sibling has one (`bridge/server/siblings.py`). A request that arrives nevertheless, over a
kept-alive connection, is handed over to a sibling or waits a moment. If no worker has a free slot, all
workers accept connections, so that health checks are answered and other requests are rejected quickly.
"""

from __future__ import annotations

import errno
import logging
import selectors
import signal
import socket
import time
from collections import deque
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from gunicorn.http.errors import ParseException
from gunicorn.http.wsgi import create
from gunicorn.workers.gthread import ThreadWorker

from bridge.errors import NO_DESCRIPTORS
from bridge.server.app_keys import DRAIN, HEAD_TIMEOUT, SLOT, SLOTS, SLOW_CLIENTS
from bridge.server.closing import HalfClosed
from bridge.server.connection import Connection
from bridge.server.response import JoinedResponse
from bridge.server.siblings import siblings
from bridge.server.threads import Threads

if TYPE_CHECKING:
    from bridge.server.slots import Slots

log = logging.getLogger(__name__)

#: Seconds between two heartbeats to gunicorn's master, and between two checks for slow clients.
HEARTBEAT_INTERVAL = 1.0
#: Seconds without new connections after the system ran out of resources for one.
ACCEPT_PAUSE = 0.1
ERROR_LOG_INTERVAL = 10.0
OUT_OF_RESOURCES = NO_DESCRIPTORS | {errno.ENOBUFS, errno.ENOMEM}
#: Another worker accepted the connection first, or the client has disconnected.
NOTHING_TO_ACCEPT = frozenset((errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED))
#: Seconds in which a new client must send its first bytes when the worker is stopping.
FIRST_BYTES_TIMEOUT = 5.0
#: Seconds to wait for the rest of a body whose request has already been answered.
UNREAD_BODY_TIMEOUT = 0.1
#: Seconds that a request waits for a slot.
SLOT_TIMEOUT = 1.0
#: Additional seconds, if a sibling has a free slot but has not taken the connection yet.
HANDOVER_TIMEOUT = 5.0
#: Seconds between two checks for a free slot.
SLOT_CHECK_INTERVAL = 0.02


class Worker(ThreadWorker):
    core: int | None = None  #: the CPU core to pin to; chosen before the fork
    sockets: list[Any]  #: gunicorn's listening sockets
    wsgi: Any = None  #: the application; None until it is loaded, and a signal may arrive before that
    _next_heartbeat = 0.0
    _next_error_log = 0.0
    _accept_again_at = 0.0  #: the end of the pause after the system ran out of resources

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Runs in the master."""
        super().__init__(*arguments, **options)
        self.siblings = siblings()
        self.number = self.siblings.register()

    def init_process(self) -> None:
        # gunicorn looks up a dozen settings for each request; they no longer change, so cache them.
        self.cfg.__dict__.update({name: setting.get() for name, setting in self.cfg.settings.items()})
        super().init_process()

    def run(self) -> None:
        self.slots: Slots = self.wsgi.extensions[SLOTS]
        self.slots.on_free = partial(self.method_queue.defer, self._wake_up)
        self._half_closed = HalfClosed(self.poller, self._count_closed)
        self._waiting: deque[Connection] = deque()
        try:
            super().run()
        finally:
            self.tpool.shutdown()  # otherwise the idle threads would keep the process alive

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.alive and self.wsgi is not None:
            self.wsgi.extensions[DRAIN].begin(self.cfg.graceful_timeout)
        super().handle_exit(sig, frame)

    def init_signals(self) -> None:
        super().init_signals()
        # Ctrl-C at a terminal reaches the whole process group. The master alone decides what it means.
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def handle_quit(self, sig: int, frame: FrameType | None) -> None:
        """End the running answers now, with their last events. gunicorn would cut them."""
        if self.wsgi is None:
            super().handle_quit(sig, frame)
            return
        self.wsgi.extensions[DRAIN].begin(0)
        super().handle_exit(sig, frame)

    def notify(self) -> None:
        """gunicorn calls this in every turn of the main loop, several times for each request."""
        if self.alive:
            self.set_accept_enabled(self.nr_conns < self.worker_connections)
        now = time.monotonic()
        if now >= self._next_heartbeat:
            self._next_heartbeat = now + HEARTBEAT_INTERVAL
            super().notify()
            self.wsgi.extensions[SLOW_CLIENTS].close_overdue()
            self._half_closed.close_overdue()

    def wait_for_and_dispatch_events(self, timeout: float) -> None:
        super().wait_for_and_dispatch_events(SLOT_CHECK_INTERVAL if self._waiting else timeout)
        if self._waiting:
            self._serve_waiting()

    def _wake_up(self) -> None:
        """A slot is free. The call itself starts a turn of the main loop, which will use the slot."""

    # --- new connections -----------------------------------------------------------------------------

    def set_accept_enabled(self, enabled: bool) -> None:
        """Called in every turn of the main loop."""
        able = enabled and time.monotonic() >= self._accept_again_at
        self.slots.notify_when_free = True  # set before the check, so that a slot released after it notifies
        free = able and self.slots.free
        self.slots.notify_when_free = (enabled and not free) or bool(self._waiting)
        self.siblings.report(self.number, free, self.slots.taken)
        accepting = able and (free or not self.siblings.have_free_slot())
        if accepting != self._accepting:
            super().set_accept_enabled(accepting)
            if accepting:
                self.poller.register(self.siblings.queue, selectors.EVENT_READ, self._take_over)
            else:
                self.poller.unregister(self.siblings.queue)
        if not self.alive:
            self._stop_listening()

    def _stop_listening(self) -> None:
        """gunicorn leaves the sockets open until the last answer has ended: new connections would wait in the
        kernel, although another bridge could serve them. Accept those that wait, and refuse new ones."""
        listeners, self.sockets = self.sockets, []
        for listener in listeners:
            for _ in range(self.cfg.backlog):
                try:
                    client, address = listener.accept()
                except OSError:  # no other connection waits
                    break
                self._add_connection(Connection(self.cfg, client, address, listener.getsockname()))
            listener.close()

    def accept(self, listener: socket.socket) -> None:
        """Without file descriptors, gunicorn would end the worker and its answers; here the client waits."""
        try:
            client, address = listener.accept()
        except OSError as error:
            self._not_accepted(error)
            return
        self._add_connection(Connection(self.cfg, client, address, listener.getsockname()))

    def _take_over(self, _queue: Any) -> None:
        """Take a connection from a sibling that has no free slot."""
        try:
            client, waits_until = self.siblings.take()
        except OSError as error:
            self._not_accepted(error)
            return
        try:
            address, server = client.getpeername(), client.getsockname()
        except OSError:  # the client has disconnected
            client.close()
            return
        conn = Connection(self.cfg, client, address, server)
        conn.waits_until = waits_until
        self._add_connection(conn)

    def _add_connection(self, conn: Connection) -> None:
        """The poller, not a thread, waits for the first bytes of the connection."""
        self.nr_conns += 1
        if conn.peek() is not None:
            self.enqueue_req(conn)
            return
        conn.set_timeout()
        self.pending_conns.append(conn)
        readable = partial(self.on_pending_socket_readable, conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, readable)

    def murder_pending(self) -> None:
        if not self.alive:
            for conn in self.pending_conns:
                conn.timeout = min(conn.timeout, conn.accepted_at + FIRST_BYTES_TIMEOUT)
        super().murder_pending()

    def _not_accepted(self, error: OSError) -> None:
        if error.errno in OUT_OF_RESOURCES:
            self._pause_accepting(error)
        elif not isinstance(error, BlockingIOError) and error.errno not in NOTHING_TO_ACCEPT:
            raise error

    def _pause_accepting(self, error: OSError) -> None:
        now = time.monotonic()
        if now >= self._next_error_log:
            self._next_error_log = now + ERROR_LOG_INTERVAL
            log.error("cannot accept another connection: %s; LimitNOFILE may be too low", error.strerror)
        self._accept_again_at = now + ACCEPT_PAUSE
        self.set_accept_enabled(False)

    # --- slots ---------------------------------------------------------------------------------------

    def enqueue_req(self, conn: Connection) -> None:
        """Give a connection with a new request to a thread, with a slot if the request needs one."""
        conn.data_ready = True
        conn.slot = None if self._waiting else self.slots.reserve()
        if conn.slot is None and conn.wants_slot():
            self._wait_for_slot(conn)
        else:
            self.tpool.run(self._serve, conn)

    def _wait_for_slot(self, conn: Connection) -> None:
        conn.waits_until = conn.waits_until or time.monotonic() + SLOT_TIMEOUT
        if not self._hand_over(conn):
            self._waiting.append(conn)

    def _hand_over(self, conn: Connection) -> bool:
        """Hand the connection over to a sibling with a free slot. Impossible after a part of it was read."""
        self.siblings.report(
            self.number, False, self.slots.taken
        )  # otherwise this worker might take it again
        if conn.has_buffered_data or self._overdue(conn) or not self.siblings.have_free_slot():
            return False
        if not self.siblings.give(conn.sock, conn.waits_until):
            return False
        self.slots.count_wait("handed_on")
        conn.close()
        self._count_closed()
        return True

    def _overdue(self, conn: Connection) -> bool:
        longer = HANDOVER_TIMEOUT if self.siblings.have_free_slot() else 0.0
        return time.monotonic() > conn.waits_until + longer

    def _serve_waiting(self) -> None:
        """Serve the waiting connections in order. A connection that waited too long also gets a thread: it
        rejects the request in the format of its protocol."""
        while self._waiting:
            conn = self._waiting[0]
            conn.slot = self.slots.reserve()
            if conn.slot is not None or self._overdue(conn):
                self.slots.count_wait("served" if conn.slot else "refused")
                self.tpool.run(self._serve, conn)
            elif not self._hand_over(conn):
                return
            self._waiting.popleft()

    # --- connections ---------------------------------------------------------------------------------

    def get_thread_pool(self) -> Threads:
        return Threads(self.cfg.threads)

    def _serve(self, conn: Connection) -> None:
        try:
            kept = self.handle(conn) is True and self.alive
        except Exception:
            log.exception("serving a connection failed with an exception")
            kept = False
        finally:
            slot, conn.slot, conn.waits_until = conn.slot, None, 0.0
            if slot is not None:
                slot.release()
        if kept and not conn.has_buffered_data:
            self._await_next_request(conn)
        else:
            self.method_queue.defer(self.enqueue_req if kept else self._half_close, conn)

    def _half_close(self, conn: Connection) -> None:
        self._half_closed.add(conn.sock)

    def _count_closed(self) -> None:
        self.nr_conns -= 1

    def _await_next_request(self, conn: Connection) -> None:
        """Do the work of gunicorn's `finish_request` in this thread, without waking the main loop. Any thread
        may register a connection with the kernel's poller while the main loop waits on it."""
        conn.sock.setblocking(False)
        conn.set_timeout()
        self.keepalived_conns.append(conn)
        readable = partial(self.on_client_socket_readable, conn)
        try:
            self.poller.register(conn.sock, selectors.EVENT_READ, readable)
        except (OSError, ValueError, KeyError):  # it was closed
            self.keepalived_conns.remove(conn)
            self.method_queue.defer(self._half_close, conn)

    def handle(self, conn: Connection) -> Any:
        slow_clients = self.wsgi.extensions[SLOW_CLIENTS]
        slow_clients.expect(conn.sock, self.wsgi.config[HEAD_TIMEOUT])
        try:
            return super().handle(conn)
        finally:
            slow_clients.arrived(conn.sock)

    def _keepalive_after(self, conn: Connection, keepalive: bool) -> bool:
        """Read the rest of the body of an answered request; an error in it closes the connection without a
        second answer. gunicorn waits five seconds for it, so a client without a key could block a thread."""
        try:
            return keepalive and bool(
                conn.parser.finish_body(deadline=time.monotonic() + UNREAD_BODY_TIMEOUT)
            )
        except (ParseException, OSError):
            return False

    # --- requests ------------------------------------------------------------------------------------

    def handle_request(self, req: Any, conn: Connection) -> bool:
        """Answer the request. Returns whether the connection can be kept alive."""
        response, environ = create(
            req, conn.sock, conn.client, conn.server, self.cfg, response_class=JoinedResponse
        )
        environ["wsgi.multithread"] = True
        environ[SLOT] = conn.slot
        self.nr += 1
        if self.nr >= self.max_requests:
            self.alive = False
        full = not self.cfg.keepalive or len(self.keepalived_conns) >= self.max_keepalived
        if full or not self.alive:
            response.force_close()
        try:
            self._answer(environ, response)
        except BlockingIOError as error:
            # The send timed out; gunicorn treats a broken pipe as a client that disconnected.
            raise BrokenPipeError(errno.EPIPE, "the client accepts no data") from error
        except OSError:  # the client has disconnected; `handle` expects this error
            raise
        except Exception:
            if not response.headers_sent:
                raise
            self.log.exception("Error handling request")
            raise StopIteration from None  # the head has been sent, so no error response is possible
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

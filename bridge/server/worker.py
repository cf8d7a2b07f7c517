"""gunicorn's threaded worker, with what it lacks: word to the answers before the end, an eye on slow clients,
and a limit to what it takes on.

The first stands in its handler of SIGTERM, which also comes with a reload; the second in its main loop. And
it does less for each request: the thread that served a connection puts it back to the poller by itself,
the head of an answer leaves with its beginning (`bridge/server/response.py`), and settings are read once.

The third: a request gets its place before it gets a thread. A worker without a free one takes no newcomers
while a sibling has one (`bridge/server/siblings.py`). A request that comes all the same, over a connection
that was open before, is left to a sibling, or waits a moment. When no worker has a place, all take
newcomers: health checks are answered, and all others refused soon.
"""

from __future__ import annotations

import errno
import logging
import selectors
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

#: Seconds between two signs of life, and between two looks at slow clients.
BETWEEN_SIGNS = 1.0
#: Seconds without newcomers at least, when the system has no room for one more.
UNTIL_THERE_IS_ROOM = 0.1
BETWEEN_COMPLAINTS = 10.0
NO_ROOM = NO_DESCRIPTORS | {errno.ENOBUFS, errno.ENOMEM}
#: Another worker was quicker, or the newcomer has gone.
NOBODY_THERE = frozenset((errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED))
#: Seconds that a newcomer gets to send something, when the worker is about to end.
FIRST_BYTES = 5.0
#: Seconds that the rest of a body gets to arrive, when its request was answered without it.
UNREAD_BODY = 0.1
#: Seconds that a request waits for a place, how many more if a sibling has one but is slow to take it over,
#: and between two looks.
LONGEST_WAIT = 1.0
LONGEST_MOVE = 5.0
BETWEEN_LOOKS = 0.02


class Worker(ThreadWorker):
    core: int | None = None  #: that it keeps to; chosen before it is made a process
    wsgi: Any = None  #: until it is loaded; a signal may come before that
    _next_sign = 0.0
    _next_complaint = 0.0
    _room_again = 0.0  #: when it can be hoped for

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """In the master."""
        super().__init__(*arguments, **options)
        self.siblings = siblings()
        self.number = self.siblings.enter()

    def init_process(self) -> None:
        # gunicorn looks each of them up anew, a dozen times for a request; here they change no more.
        self.cfg.__dict__.update({name: setting.get() for name, setting in self.cfg.settings.items()})
        super().init_process()

    def run(self) -> None:
        self.slots: Slots = self.wsgi.extensions[SLOTS]
        self.slots.tell = partial(self.method_queue.defer, self._wake_up)
        self._half_closed = HalfClosed(self.poller, self._gone)
        self._waiting: deque[Connection] = deque()
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
        if self.alive:
            self.set_accept_enabled(self.nr_conns < self.worker_connections)
        now = time.monotonic()
        if now >= self._next_sign:
            self._next_sign = now + BETWEEN_SIGNS
            super().notify()
            self.wsgi.extensions[SLOW_CLIENTS].close_overdue()
            self._half_closed.close_overdue()

    def wait_for_and_dispatch_events(self, timeout: float) -> None:
        super().wait_for_and_dispatch_events(BETWEEN_LOOKS if self._waiting else timeout)
        if self._waiting:
            self._look_for_slots()

    def _wake_up(self) -> None:
        """A place is free; the next turn of the main loop will see it."""

    # --- newcomers -----------------------------------------------------------------------------------

    def set_accept_enabled(self, enabled: bool) -> None:
        """Asked for at every turn of the main loop."""
        able = enabled and time.monotonic() >= self._room_again
        self.slots.wanted = True  # before the look: a place that is given back after it must be told
        room = able and self.slots.free
        self.slots.wanted = (enabled and not room) or bool(self._waiting)
        self.siblings.tell(self.number, room)
        accepting = able and (room or not self.siblings.have_room())
        if accepting != self._accepting:
            super().set_accept_enabled(accepting)
            if accepting:
                self.poller.register(self.siblings.queue, selectors.EVENT_READ, self._take_over)
            else:
                self.poller.unregister(self.siblings.queue)

    def accept(self, listener: socket.socket) -> None:
        """gunicorn ends the worker for want of room, and all its answers with it; here the newcomer waits."""
        try:
            client, address = listener.accept()
        except OSError as error:
            self._not_accepted(error)
            return
        self._welcome(Connection(self.cfg, client, address, listener.getsockname()))

    def _take_over(self, _queue: Any) -> None:
        """A connection that a sibling has no place for."""
        try:
            client, waits_until = self.siblings.take()
        except OSError as error:
            self._not_accepted(error)
            return
        try:
            address, server = client.getpeername(), client.getsockname()
        except OSError:  # it has gone
            client.close()
            return
        conn = Connection(self.cfg, client, address, server)
        conn.waits_until = waits_until
        self._welcome(conn)

    def _welcome(self, conn: Connection) -> None:
        """No thread waits for its first bytes."""
        self.nr_conns += 1
        if conn.beginning() is not None:
            self.enqueue_req(conn)
            return
        conn.set_timeout()
        self.pending_conns.append(conn)
        readable = partial(self.on_pending_socket_readable, conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, readable)

    def murder_pending(self) -> None:
        if not self.alive:
            for conn in self.pending_conns:
                conn.timeout = min(conn.timeout, conn.came + FIRST_BYTES)
        super().murder_pending()

    def _not_accepted(self, error: OSError) -> None:
        if error.errno in NO_ROOM:
            self._rest_from_newcomers(error)
        elif not isinstance(error, BlockingIOError) and error.errno not in NOBODY_THERE:
            raise error

    def _rest_from_newcomers(self, error: OSError) -> None:
        now = time.monotonic()
        if now >= self._next_complaint:
            self._next_complaint = now + BETWEEN_COMPLAINTS
            log.error("no room for another connection: %s; LimitNOFILE may be too low", error.strerror)
        self._room_again = now + UNTIL_THERE_IS_ROOM
        self.set_accept_enabled(False)

    # --- a place -------------------------------------------------------------------------------------

    def enqueue_req(self, conn: Connection) -> None:
        """Of a connection that something has come over: to a thread, with a place for what it may ask."""
        conn.data_ready = True
        conn.slot = None if self._waiting else self.slots.reserve()
        if conn.slot is None and conn.wants_slot():
            self._without_slot(conn)
        else:
            self.tpool.run(self._serve, conn)

    def _without_slot(self, conn: Connection) -> None:
        conn.waits_until = conn.waits_until or time.monotonic() + LONGEST_WAIT
        if not self._hand_on(conn):
            self._waiting.append(conn)

    def _hand_on(self, conn: Connection) -> bool:
        """To a sibling with room, if there is one, and nothing was read here that it would miss."""
        self.siblings.tell(self.number, False)  # or it might come back to this very worker
        if conn.reads_ahead or self._overdue(conn) or not self.siblings.have_room():
            return False
        if not self.siblings.give(conn.sock, conn.waits_until):
            return False
        self.slots.waited("handed_on")
        conn.close()
        self._gone()
        return True

    def _overdue(self, conn: Connection) -> bool:
        longer = LONGEST_MOVE if self.siblings.have_room() else 0.0
        return time.monotonic() > conn.waits_until + longer

    def _look_for_slots(self) -> None:
        """For those who wait, one after the other. Who waited too long is refused, which takes a thread too:
        the words of the refusal are its protocol's."""
        while self._waiting:
            conn = self._waiting[0]
            conn.slot = self.slots.reserve()
            if conn.slot is not None or self._overdue(conn):
                self.slots.waited("served" if conn.slot else "refused")
                self.tpool.run(self._serve, conn)
            elif not self._hand_on(conn):
                return
            self._waiting.popleft()

    # --- a connection --------------------------------------------------------------------------------

    def get_thread_pool(self) -> Threads:
        return Threads(self.cfg.threads)

    def _serve(self, conn: Connection) -> None:
        try:
            kept = self.handle(conn) is True and self.alive
        except Exception:
            log.exception("a connection failed")
            kept = False
        finally:
            slot, conn.slot, conn.waits_until = conn.slot, None, 0.0
            if slot is not None:
                slot.release()
        if kept and not conn.reads_ahead:
            self._await_next_request(conn)
        else:
            self.method_queue.defer(self.enqueue_req if kept else self._let_go, conn)

    def _let_go(self, conn: Connection) -> None:
        self._half_closed.add(conn.sock)

    def _gone(self) -> None:
        self.nr_conns -= 1

    def _await_next_request(self, conn: Connection) -> None:
        """As `finish_request` does it in the main loop, which need not wake up for it: the kernel's poller
        takes a connection from any thread, while the main loop waits on it."""
        conn.sock.setblocking(False)
        conn.set_timeout()
        self.keepalived_conns.append(conn)
        readable = partial(self.on_client_socket_readable, conn)
        try:
            self.poller.register(conn.sock, selectors.EVENT_READ, readable)
        except (OSError, ValueError, KeyError):  # it was closed
            self.keepalived_conns.remove(conn)
            self.method_queue.defer(self._let_go, conn)

    def handle(self, conn: Connection) -> Any:
        slow_clients = self.wsgi.extensions[SLOW_CLIENTS]
        slow_clients.expect(conn.sock, self.wsgi.config[HEAD_TIMEOUT])
        try:
            return super().handle(conn)
        finally:
            slow_clients.arrived(conn.sock)

    def _keepalive_after(self, conn: Connection, keepalive: bool) -> bool:
        """A request that was answered gets no second answer for what is wrong in the rest of its body. Where
        gunicorn would wait five seconds for that rest, anybody without a key could hold a thread for them."""
        try:
            return keepalive and bool(conn.parser.finish_body(deadline=time.monotonic() + UNREAD_BODY))
        except (ParseException, OSError):
            return False

    # --- a request -----------------------------------------------------------------------------------

    def handle_request(self, req: Any, conn: Connection) -> bool:
        """Whether the connection may carry another."""
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

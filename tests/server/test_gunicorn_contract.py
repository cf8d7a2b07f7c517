"""What the bridge assumes of gunicorn beyond its public settings: a gunicorn that differs fails here first.

OVERRIDES names each method that the bridge overrides, ATTRIBUTES each attribute and method that it uses. If a
class of the bridge overrides or uses anything else of gunicorn's, a test here fails: add a row that says why.
"""

from __future__ import annotations

import ast
import errno
import inspect
import logging
import socket
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple

import pytest
from gunicorn.arbiter import Arbiter
from gunicorn.config import Config
from gunicorn.glogging import Logger
from gunicorn.http import get_parser
from gunicorn.http.errors import NoMoreData, ParseException
from gunicorn.http.wsgi import Response, create
from gunicorn.util import http_date
from gunicorn.workers.base import Worker as BaseWorker
from gunicorn.workers.gthread import PollableMethodQueue, TConn, ThreadWorker

from bridge.observe.gunicorn_log import QuietLogger
from bridge.server.connection import Connection
from bridge.server.response import JoinedResponse
from bridge.server.threads import Threads
from bridge.server.worker import Worker

SERVER = Path(__file__).parents[2] / "bridge" / "server"


class Override(NamedTuple):
    parameters: str
    callers: tuple[Callable[..., Any], ...]  #: in gunicorn; none if only the bridge calls the method
    why: str


WORKER = {
    "__init__": Override("self args kwargs", (), "the master creates a worker, and it gets a number there"),
    "init_process": Override(
        "self", (Arbiter.spawn_worker,), "each setting is looked up once, after the fork"
    ),
    "run": Override(
        "self", (BaseWorker.init_process,), "the main loop starts, and its end stops the threads"
    ),
    "handle_exit": Override(
        "self sig frame", (BaseWorker.init_signals,), "running answers learn that the worker ends"
    ),
    "handle_quit": Override(
        "self sig frame", (BaseWorker.init_signals,), "running answers end with their last events"
    ),
    "init_signals": Override(
        "self", (BaseWorker.init_process,), "Ctrl-C reaches the workers too, and the master decides about it"
    ),
    "notify": Override("self", (ThreadWorker.run,), "each turn of the main loop checks for free slots"),
    "wait_for_and_dispatch_events": Override(
        "self timeout", (ThreadWorker.run,), "waiting requests need a shorter timeout"
    ),
    "set_accept_enabled": Override(
        "self enabled", (ThreadWorker.run,), "a worker without a free slot accepts no connection"
    ),
    "accept": Override(
        "self listener", (ThreadWorker.set_accept_enabled,), "too few descriptors must not end the worker"
    ),
    "murder_pending": Override(
        "self", (ThreadWorker.run,), "a silent new connection must not delay the end of the worker"
    ),
    "enqueue_req": Override(
        "self conn",
        (ThreadWorker.on_client_socket_readable, ThreadWorker.on_pending_socket_readable),
        "a request gets a slot before it gets a thread",
    ),
    "get_thread_pool": Override(
        "self", (ThreadWorker.init_process,), "the bridge's own threads keep no result for each request"
    ),
    "handle": Override("self conn", (), "a time limit holds for the head of a request"),
    "_keepalive_after": Override(
        "self conn keepalive", (ThreadWorker.handle,), "the rest of an unread body has less time to arrive"
    ),
    "handle_request": Override(
        "self req conn",
        (ThreadWorker.handle,),
        "the response class is JoinedResponse, and the environment has the slot",
    ),
}
CONNECTION = {
    "__init__": Override("self cfg sock client server", (), "the time of arrival is kept"),
}
RESPONSE = {
    "default_headers": Override("self", (), "the date is formatted once a second"),
    "send_headers": Override("self", (Response.write,), "the head waits for the first bytes of the body"),
    "write": Override("self arg", (), "a chunk of a stream takes one send"),
    "_emit_body": Override("self data", (Response.write,), "the head leaves together with these bytes"),
    "close": Override("self", (), "the end mark leaves together with a head that still waits"),
}
LOGGER = {
    "access": Override(
        "self resp req environ request_time", (BaseWorker.handle_error,), "the bridge writes its own line"
    ),
}
OVERRIDES: dict[type, tuple[type, dict[str, Override]]] = {
    Worker: (ThreadWorker, WORKER),
    Connection: (TConn, CONNECTION),
    JoinedResponse: (Response, RESPONSE),
    QuietLogger: (Logger, LOGGER),
}

#: What the bridge uses of each class, and what it takes it for.
ATTRIBUTES: dict[type, dict[str, str]] = {
    ThreadWorker: {
        "alive": "false once the worker has to end",
        "cfg": "the settings",
        "log": "gunicorn's Logger",
        "wsgi": "the application, once it is loaded",
        "nr": "how many requests came",
        "nr_conns": "how many connections are open; whoever opens or closes one counts",
        "max_requests": "how many requests may come before the worker ends",
        "max_keepalived": "how many idle connections may stay open",
        "worker_connections": "how many connections may be open",
        "keepalived_conns": "idle connections in the order of their timeouts",
        "pending_conns": "connections that have sent nothing yet, in the order of their timeouts",
        "on_client_socket_readable": "takes a connection out of keepalived_conns and enqueues it",
        "on_pending_socket_readable": "takes a connection out of pending_conns and enqueues it",
        "method_queue": "runs a function in the main loop",
        "poller": "the selector of the main loop; what is registered with it is called with the file",
        "tpool": "what get_thread_pool returned",
        "sockets": "the listening sockets; gunicorn closes those in the list when the worker ends",
        "_accepting": "whether the listeners are registered with the poller",
    },
    TConn: {
        "sock": "the client's socket; non-blocking until a thread handles the connection",
        "client": "the client's address",
        "server": "the server's address",
        "parser": "None before the first request",
        "data_ready": "true: a thread need not wait for the first bytes",
        "timeout": "when the connection is closed if it stays idle, in time.monotonic()",
        "set_timeout": "sets timeout by the setting keepalive",
        "close": "closes the socket",
    },
    Response: {
        "req": "the request, with version",
        "sock": "the client's socket",
        "status": "such as '200 OK'",
        "version": "what the header Server says",
        "headers": "pairs of name and value",
        "headers_sent": "true: it is too late for another status",
        "chunked": "whether the body is sent in chunks",
        "should_close": "whether the connection closes after the response",
        "force_close": "makes the connection close after the response",
        "start_response": "what WSGI wants",
    },
}

#: Where the bridge uses which class of gunicorn's, and the variable that holds the object.
USES = (
    (ThreadWorker, Worker, "worker.py", "self"),
    (TConn, Connection, "connection.py", "self"),
    (TConn, Connection, "worker.py", "conn"),
    (Response, JoinedResponse, "response.py", "self"),
    (Response, JoinedResponse, "worker.py", "response"),
)


# --- reading code ------------------------------------------------------------------------------------


def attributes_of(variable: str, tree: ast.AST) -> Iterator[ast.Attribute]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == variable:
            yield node


def names_used(function: Callable[..., Any]) -> set[str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def names_of(base: type) -> set[str]:
    """Its methods, and what it assigns to itself."""
    found: set[str] = set()
    for each in base.__mro__[:-1]:
        tree = ast.parse(textwrap.dedent(inspect.getsource(each)))
        found |= {node.attr for node in attributes_of("self", tree) if isinstance(node.ctx, ast.Store)}
        found |= vars(each).keys()
    return found


def overridden(ours: type, base: type) -> set[str]:
    inherited = {name for each in base.__mro__[:-1] for name in vars(each)}
    return {name for name, value in vars(ours).items() if isinstance(value, FunctionType)} & inherited


# --- overridden methods ------------------------------------------------------------------------------


@pytest.mark.parametrize("ours", OVERRIDES, ids=lambda ours: ours.__name__)
def test_each_overridden_method_is_named_here_and_no_other(ours: type) -> None:
    base, contract = OVERRIDES[ours]
    assert overridden(ours, base) == contract.keys()


def test_a_method_that_is_overridden_and_not_named_is_found() -> None:
    class Bolder(Worker):
        def handle_usr1(self, sig: int, frame: object) -> None:
            pass

        def of_its_own(self) -> None:
            pass

    assert overridden(Bolder, ThreadWorker) - WORKER.keys() == {"handle_usr1"}


METHODS = [(base, name) for base, contract in OVERRIDES.values() for name in contract]


@pytest.mark.parametrize(("base", "name"), METHODS, ids=lambda each: getattr(each, "__name__", each))
def test_gunicorn_has_the_method_with_the_parameters_that_the_bridge_expects(base: type, name: str) -> None:
    row = next(contract for known, contract in OVERRIDES.values() if known is base)[name]
    method = getattr(base, name, None)
    assert method is not None, (
        f"gunicorn's {base.__name__} has no {name} any more; it was overridden: {row.why}"
    )
    found = " ".join(inspect.signature(method).parameters)
    assert found == row.parameters, f"gunicorn's {base.__name__}.{name} takes other parameters now: ({found})"


CALLS = [(name, row) for _, contract in OVERRIDES.values() for name, row in contract.items() if row.callers]


@pytest.mark.parametrize(("name", "row"), CALLS, ids=lambda each: each if isinstance(each, str) else "")
def test_gunicorn_still_calls_what_the_bridge_overrides(name: str, row: Override) -> None:
    for caller in row.callers:
        where = caller.__qualname__
        assert name in names_used(caller), (
            f"gunicorn's {where} does not call {name} any more; the bridge overrides it: {row.why}"
        )


# --- used attributes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("base", ATTRIBUTES, ids=lambda base: base.__name__)
def test_gunicorn_has_each_attribute_that_the_bridge_uses(base: type) -> None:
    for name, meaning in ATTRIBUTES[base].items():
        assert name in names_of(base), f"gunicorn's {base.__name__} has no {name} any more: {meaning}"


@pytest.mark.parametrize("base", [ThreadWorker, TConn, Response], ids=lambda base: base.__name__)
def test_each_used_attribute_is_named_here_and_no_other(base: type) -> None:
    used: set[str] = set()
    for each, ours, file, variable in USES:
        if each is base:
            tree = ast.parse((SERVER / file).read_text())
            used |= {node.attr for node in attributes_of(variable, tree)} - overridden(ours, base)
    assert used & names_of(base) == ATTRIBUTES[base].keys()


def test_the_bridge_imports_of_gunicorn_what_is_checked_here() -> None:
    imported = {
        alias.name
        for path in (*SERVER.glob("*.py"), SERVER.parent / "observe" / "gunicorn_log.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("gunicorn")
        for alias in node.names
    }
    assert imported == {
        "Logger",
        "ParseException",
        "Response",
        "TConn",
        "ThreadWorker",
        "create",
        "http_date",
    }


# --- what they do ------------------------------------------------------------------------------------


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def request_on(pair: tuple[socket.socket, socket.socket], sent: bytes) -> tuple[Any, Any]:
    ours, theirs = pair
    theirs.sendall(sent)
    parser = get_parser(Config(), ours, ("127.0.0.1", 1))
    return parser, next(parser)


def test_a_setting_that_is_put_into_the_settings_dict_is_found_there_first() -> None:
    config = Config()
    values = {name: setting.get() for name, setting in config.settings.items()}
    assert values["keepalive"] == config.keepalive
    config.__dict__.update(values | {"keepalive": 4711})
    assert config.keepalive == 4711


def test_the_thread_pool_needs_no_method_but_shutdown() -> None:
    kept = [
        method
        for each in ThreadWorker.__mro__[:-1]
        for name, method in vars(each).items()
        if isinstance(method, FunctionType) and name not in WORKER.keys() - {"run"}
    ]
    trees = [ast.parse(textwrap.dedent(inspect.getsource(method))) for method in kept]
    pools = [node for tree in trees for node in attributes_of("self", tree) if node.attr == "tpool"]
    used = {
        node.attr
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and any(node.value is pool for pool in pools)
    }
    assert used == {"shutdown"}
    assert list(inspect.signature(Threads.shutdown).parameters) == ["self", "wait"]


def test_the_method_queue_runs_a_function_with_its_argument_in_the_main_loop() -> None:
    queue, ran = PollableMethodQueue(), []
    queue.init()
    queue.defer(ran.append, "argument")
    assert ran == []
    queue.run_callbacks(None)
    queue.close()
    assert ran == ["argument"]


def test_the_next_request_is_read_ahead_into_the_buffer_of_the_parsers_reader(pair: Any) -> None:
    first = b"POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
    parser, _ = request_on(pair, first + b"POST /2 HTTP/1.1\r\n")
    assert parser.finish_body(deadline=time.monotonic() + 5) is True
    assert parser.unreader.buf.getvalue() == b"POST /2 HTTP/1.1\r\n"


def test_a_body_that_does_not_arrive_in_time_is_given_up(pair: Any) -> None:
    parser, _ = request_on(pair, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n")
    assert parser.finish_body(deadline=0.0) is False


def test_create_makes_a_response_of_the_given_class_and_passes_the_socket_on(pair: Any) -> None:
    _, request = request_on(pair, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    address = ("127.0.0.1", 1)
    response, environ = create(request, pair[0], address, address, Config(), response_class=JoinedResponse)
    assert type(response) is JoinedResponse
    assert environ["gunicorn.socket"] is pair[0]
    assert request.version == (1, 1)


@pytest.mark.parametrize(
    ("error", "answered"),
    [
        (BrokenPipeError(errno.EPIPE, "gone"), False),
        (StopIteration(), False),
        (NoMoreData(), False),
        (ParseException(), True),
        (ValueError(), True),
    ],
    ids=lambda each: "" if isinstance(each, bool) else type(each).__name__,
)
def test_handle_closes_the_connection_after_an_error_and_answers_only_some(
    error: Exception, answered: bool
) -> None:
    def fail(request: object, connection: object) -> None:
        raise error

    answers: list[Exception] = []
    worker = SimpleNamespace(
        cfg=Config(),
        log=logging.getLogger("contract"),
        handle_request=fail,
        handle_error=lambda request, client, address, error: answers.append(error),
        _keepalive_after=None,
    )
    connection = SimpleNamespace(
        initialized=True,
        init=lambda: None,
        is_http2=False,
        parser=iter(["request"]),
        sock=SimpleNamespace(setblocking=lambda blocking: None),
        client=("127.0.0.1", 1),
    )
    assert ThreadWorker.handle(worker, connection) is False
    assert answers == ([error] if answered else [])


def test_a_connection_with_data_is_handled_without_waiting() -> None:
    connection = SimpleNamespace(data_ready=True)
    assert TConn.wait_for_data(connection, 0) is True


def test_the_date_is_one_of_http() -> None:
    assert http_date(0) == "Thu, 01 Jan 1970 00:00:00 GMT"

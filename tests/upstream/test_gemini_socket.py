"""The REST upstream on real connections: failures, timeouts and reuse."""

from __future__ import annotations

import select
import socket
import ssl
import struct
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import orjson
import pytest
from certificates import Certificate, make_certificate, needs_openssl
from gunicorn_bridge import free_port

from bridge import errors
from bridge.errors import BridgeError
from bridge.gemini.types import Content, GenerateRequest, Part
from bridge.upstream.base import ChunkStream
from bridge.upstream.gemini import GeminiUpstream
from bridge.upstream.transport.http_response import Timeouts

KEY = "AIzaSyD-0123456789abcdefghijklmnopqrst_uv"
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
REQUEST = GenerateRequest("gemini-x", (Content("user", (Part("Hello"),)),))

Step = bytes | Callable[[socket.socket], object]


def event(text: str) -> bytes:
    chunk = {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}}]}
    return b"data: " + orjson.dumps(chunk) + b"\r\n\r\n"


def framed(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)


def sized(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def hang_up(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_RDWR)


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def pause(seconds: float) -> Step:
    return lambda _connection: time.sleep(seconds)


def received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65_536)
    except OSError:  # reset by the client, or closed by the test
        return b""


class Loopback:
    """Answers each request, on any connection, with the next script."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.tls = tls
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.listener.getsockname()[1]}"
        self.scripts: list[tuple[Step, ...]] = []
        self.heads: list[bytes] = []
        self.connections: list[socket.socket] = []
        self.left = threading.Event()  #: set when the client has closed a connection
        self.threads = [threading.Thread(target=self.accept)]
        self.threads[0].start()

    def answer(self, *script: Step) -> None:
        self.scripts.append(script)

    def accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            if self.tls:  # the handshake runs at the first read
                connection = self.tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
            self.connections.append(connection)
            self.threads.append(threading.Thread(target=self.serve, args=(connection,)))
            self.threads[-1].start()

    def serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):  # the client may disconnect before the script's end
            while self.take_request(connection):
                self.play(self.scripts.pop(0), connection)
        self.left.set()

    def play(self, script: tuple[Step, ...], connection: socket.socket) -> None:
        for step in script:
            if isinstance(step, bytes):
                connection.sendall(step)
            else:
                step(connection)

    def take_request(self, connection: socket.socket) -> bool:
        head, _, body = self.read_until(connection, b"\r\n\r\n")
        if not head:
            return False
        self.heads.append(head)
        wanted = [line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        missing = sum(map(int, wanted)) - len(body)
        while missing > 0:
            missing -= len(received(connection))
        return True

    def read_until(self, connection: socket.socket, mark: bytes) -> tuple[bytes, bytes, bytes]:
        data = b""
        while mark not in data:
            if not (more := received(connection)):
                return b"", b"", b""
            data += more
        return data.partition(mark)

    def close(self) -> None:
        for each in (self.listener, *self.connections):
            with suppress(OSError):  # already closed
                each.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive()


class Tunnel:
    """A proxy with TLS between client and proxy, which tunnels the encrypted data to `server`."""

    def __init__(self, server: Loopback) -> None:
        assert server.tls is not None
        self.tls = server.tls
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self.listener.getsockname()[1]}"
        self.server = server.listener.getsockname()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                client = self.tls.wrap_socket(connection, server_side=True)
                threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client: ssl.SSLSocket) -> None:
        with client, socket.create_connection(self.server) as server, suppress(OSError):
            assert received(client).startswith(b"CONNECT ")
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            ends: dict[socket.socket, socket.socket] = {client: server, server: client}
            while True:
                ready = [client] if client.pending() else select.select(ends, [], [])[0]
                for end in ready:
                    if not (data := received(end)):
                        return
                    ends[end].sendall(data)

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"), "127.0.0.1")


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    loopback = Loopback()
    yield loopback
    loopback.close()


@pytest.fixture
def secure(monkeypatch: pytest.MonkeyPatch, certificate: Certificate) -> Iterator[Loopback]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate.certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    loopback = Loopback(context)
    yield loopback
    loopback.close()


@pytest.fixture
def tunnelled(secure: Loopback, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    tunnel = Tunnel(secure)
    monkeypatch.delenv("NO_PROXY")
    monkeypatch.setenv("https_proxy", tunnel.url)
    yield secure
    tunnel.close()


@pytest.fixture(
    params=["plain", *(pytest.param(kind, marks=needs_openssl) for kind in ("secure", "tunnelled"))]
)
def server(request: pytest.FixtureRequest) -> Loopback:
    loopback: Loopback = request.getfixturevalue(request.param)
    return loopback


def upstream(
    base_url: str,
    key: str = KEY,
    read_timeout: float = 5,
    pool_size: int = 4,
    tick: float = 1,
    connect: float = 5,
) -> GeminiUpstream:
    return GeminiUpstream(
        base_url=base_url,
        keys=(key,),
        timeouts=Timeouts(connect, read_timeout, read_timeout, whole=60, tick=tick),
        key_cooldown=60,
        pool_size=pool_size,
    )


def texts(batch: Any) -> list[Any]:
    return [part.data for chunk in batch for candidate in chunk.candidates for part in candidate.parts]


def read(stream: ChunkStream) -> list[Any]:
    return [text for batch in stream for text in texts(batch)]


def read_until_error(stream: ChunkStream) -> tuple[list[Any], BridgeError]:
    seen: list[Any] = []
    with pytest.raises(BridgeError) as caught:
        seen.extend(text for batch in stream for text in texts(batch))
    return seen, caught.value


# --- bodies ------------------------------------------------------------------------------------------


def test_a_chunked_body_is_read_incrementally(server: Loopback) -> None:
    seen = threading.Event()
    server.answer(CHUNKED, framed(event("a")), lambda _: seen.wait(30), framed(event("b")), END)
    batches = iter(upstream(server.url).stream(REQUEST))
    assert texts(next(batches)) == ["a"]
    seen.set()
    assert [texts(batch) for batch in batches] == [["b"]]


def test_chunked_frames_need_not_match_events(server: Loopback) -> None:
    body = event("é日🎈") * 3
    server.answer(CHUNKED, *(framed(body[at : at + 1]) for at in range(len(body))), END)
    assert read(upstream(server.url).stream(REQUEST)) == ["é日🎈"] * 3


def test_a_large_chunk_arrives_whole(server: Loopback) -> None:
    long = "x" * 3_000_000
    server.answer(CHUNKED, framed(event(long), event("b")), END)
    assert read(upstream(server.url).stream(REQUEST)) == [long, "b"]


def test_a_body_may_have_a_length_or_end_with_the_connection(server: Loopback) -> None:
    server.answer(sized(event("a") + event("b")))
    server.answer(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", event("c"), event("d"), hang_up)
    gemini = upstream(server.url)
    assert read(gemini.stream(REQUEST)) == ["a", "b"]
    assert read(gemini.stream(REQUEST)) == ["c", "d"]


# --- failures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [hang_up, reset])
@pytest.mark.parametrize(
    "sent",
    [
        CHUNKED + framed(event("a")),
        CHUNKED + framed(event("a")) + b"4",
        CHUNKED + framed(event("a")) + b"400\r\ndata: {",
        sized(event("a") + event("b"))[:-20],
    ],
    ids=["between frames", "in a frame's size", "in a frame", "before the length is reached"],
)
def test_a_connection_closed_in_mid_stream_is_a_truncated_answer(
    server: Loopback, sent: bytes, cut: Step
) -> None:
    server.answer(sent, pause(0.05), cut)
    seen, error = read_until_error(upstream(server.url).stream(REQUEST))
    assert seen == ["a"]
    assert type(error) is errors.UpstreamTruncated


def test_an_unframed_body_closed_in_mid_event_is_a_truncated_answer(server: Loopback) -> None:
    server.answer(b"HTTP/1.1 200 OK\r\n\r\n", event("a"), event("b")[:20], hang_up)
    seen, error = read_until_error(upstream(server.url).stream(REQUEST))
    assert seen == ["a"]
    assert type(error) is errors.UpstreamTruncated


@pytest.mark.parametrize("cut", [hang_up, reset])
def test_a_connection_closed_before_the_response_is_an_unreachable_upstream(
    server: Loopback, cut: Step
) -> None:
    server.answer(cut)
    with pytest.raises(errors.UpstreamUnreachable):
        read(upstream(server.url).stream(REQUEST))


def test_a_refused_connection_is_an_unreachable_upstream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(errors.UpstreamUnreachable, match="ConnectionRefusedError") as caught:
        read(upstream(f"http://127.0.0.1:{free_port()}").stream(REQUEST))
    assert KEY not in "".join(traceback.format_exception(caught.value))


@needs_openssl
def test_a_certificate_that_is_not_trusted_is_the_administrators_problem(
    secure: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    with pytest.raises(errors.UpstreamMisconfigured, match=r"SSL_CERT_FILE.*SSLCertVerificationError"):
        read(upstream(secure.url).stream(REQUEST))


def test_a_connection_cut_in_the_handshake_is_an_unreachable_upstream(plain: Loopback) -> None:
    plain.answer(hang_up)
    plain.take_request = received  # type: ignore[assignment,method-assign]
    with pytest.raises(errors.UpstreamUnreachable):
        read(upstream(plain.url.replace("http:", "https:")).stream(REQUEST))


def test_silence_in_the_handshake_is_a_timeout(plain: Loopback) -> None:
    with pytest.raises(errors.UpstreamTimeout):
        read(upstream(plain.url.replace("http:", "https:"), connect=0.2).stream(REQUEST))


@pytest.mark.parametrize("answer", [sized(b"", "407 Proxy Authentication Required"), b"nonsense\r\n\r\n"])
def test_a_proxy_that_opens_no_tunnel_is_an_unreachable_upstream(
    plain: Loopback, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    monkeypatch.delenv("NO_PROXY")
    monkeypatch.setenv("https_proxy", plain.url)
    plain.answer(answer, hang_up)
    with pytest.raises(errors.UpstreamUnreachable):
        read(upstream("https://gemini.test").stream(REQUEST))
    assert plain.heads[0].startswith(b"CONNECT gemini.test:443 ")


def test_silence_before_the_head_is_a_timeout(server: Loopback) -> None:
    server.answer(pause(0.4))
    with pytest.raises(errors.UpstreamTimeout):
        read(upstream(server.url, read_timeout=0.1).stream(REQUEST))


def test_silence_in_mid_stream_is_a_timeout(server: Loopback) -> None:
    server.answer(CHUNKED, framed(event("a")), received)
    seen, error = read_until_error(upstream(server.url, read_timeout=1).stream(REQUEST))
    assert seen == ["a"]
    assert type(error) is errors.UpstreamTimeout


def test_frames_received_together_are_yielded_together(server: Loopback) -> None:
    server.answer(CHUNKED + framed(event("a"), event("b"), event("c")) + END)
    assert [texts(batch) for batch in upstream(server.url).stream(REQUEST)] == [["a", "b", "c"]]


def test_data_received_before_a_failure_is_yielded_first(server: Loopback) -> None:
    server.answer(CHUNKED + framed(event("a"), event("b")) + b"5", hang_up)
    seen, error = read_until_error(upstream(server.url).stream(REQUEST))
    assert seen == ["a", "b"]
    assert type(error) is errors.UpstreamTruncated


def test_silence_yields_empty_batches(server: Loopback) -> None:
    seen = threading.Event()
    server.answer(CHUNKED, framed(event("a")), lambda _: seen.wait(30), framed(event("b")), END)
    batches = iter(upstream(server.url, tick=0.1).stream(REQUEST))
    assert texts(next(batch for batch in batches if batch)) == ["a"]
    assert [next(batches), next(batches)] == [(), ()]
    seen.set()
    assert [texts(batch) for batch in batches if batch] == [["b"]]


def test_a_blank_line_inside_a_frame_does_not_end_the_frame(server: Loopback) -> None:
    body = event("a") + event("b")
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(body) + len(event("c")))
    one, two = threading.Event(), threading.Event()
    server.answer(head, body[:-4], lambda _: one.wait(30), body[-4:], lambda _: two.wait(30), event("c"))
    batches = iter(upstream(server.url, tick=5).stream(REQUEST))
    seen = [next(batches)]
    one.set()
    time.sleep(0.3)  # a slow consumer: the blank line is buffered by now
    seen.append(next(batches))
    two.set()
    assert [len(batch) for batch in seen] == [1, 1]


def test_an_error_with_a_truncated_body_is_mapped_by_its_status(server: Loopback) -> None:
    server.answer(b"HTTP/1.1 503 Busy\r\nContent-Length: 999\r\n\r\n", b'{"error"', hang_up)
    with pytest.raises(errors.UpstreamOverloaded):
        read(upstream(server.url).stream(REQUEST))


def test_an_endless_error_body_is_not_read_to_the_end(server: Loopback) -> None:
    def flood(connection: socket.socket) -> None:
        while True:
            connection.sendall(framed(b"x" * 65_536))

    server.answer(CHUNKED.replace(b"200 OK", b"500 Oops"), flood)
    with pytest.raises(errors.UpstreamUnreachable):
        read(upstream(server.url).stream(REQUEST))
    assert server.left.wait(30)


def test_a_very_slow_model_list_times_out(server: Loopback) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    server.answer(head, *(step for _ in range(400) for step in (b" ", pause(0.05))))
    began = time.monotonic()
    with pytest.raises(errors.UpstreamTimeout):
        upstream(server.url, read_timeout=0.2).models()
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("bad_key", [f"{KEY}\r\nX-Other: 1", f"{KEY}’"])
def test_a_key_that_no_header_can_carry_does_not_leak(server: Loopback, bad_key: str) -> None:
    with pytest.raises(errors.UpstreamMisconfigured, match="key") as caught:
        read(upstream(server.url, bad_key).stream(REQUEST))
    assert KEY not in "".join(traceback.format_exception(caught.value))


# --- connections -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [CHUNKED + framed(event("a")) + END, sized(event("a")), sized(b"{}", "503 Busy")],
    ids=["chunked", "with a length", "an error"],
)
def test_a_fully_read_connection_is_reused(server: Loopback, answer: bytes) -> None:
    gemini = upstream(server.url)
    for _ in range(3):
        server.answer(answer)
        try:
            read(gemini.stream(REQUEST))
        except errors.UpstreamOverloaded:
            continue
    assert len(server.connections) == 1
    assert len(server.heads) == 3


def test_closing_after_the_end_leaves_the_connection_in_the_pool(server: Loopback) -> None:
    gemini = upstream(server.url)
    for _ in range(2):
        server.answer(CHUNKED, framed(event("a")), END)
        stream = gemini.stream(REQUEST)
        assert read(stream) == ["a"]
        stream.close()
        stream.close()
    assert len(server.connections) == 1


def test_closing_in_mid_stream_closes_the_connection(server: Loopback) -> None:
    server.answer(CHUNKED, framed(event("a")), received, framed(event("b")), END)
    server.answer(CHUNKED, framed(event("c")), END)
    gemini = upstream(server.url)
    stream = gemini.stream(REQUEST)
    batches = iter(stream)
    assert texts(next(batches)) == ["a"]
    stream.close()
    stream.close()
    assert list(batches) == []
    assert server.left.wait(30)
    assert read(gemini.stream(REQUEST)) == ["c"]
    assert len(server.connections) == 2


def test_closing_before_the_first_read_sends_no_request(server: Loopback) -> None:
    stream = upstream(server.url).stream(REQUEST)
    stream.close()
    assert list(stream) == []
    assert server.connections == []


def test_an_abandoned_iterator_closes_the_connection(server: Loopback) -> None:
    server.answer(CHUNKED, framed(event("a")))
    stream = upstream(server.url).stream(REQUEST)
    for _ in stream:
        break
    assert server.left.wait(30)
    stream.close()


def test_closing_wakes_a_thread_that_is_reading(server: Loopback) -> None:
    server.answer(CHUNKED, framed(event("a")))
    stream = upstream(server.url, read_timeout=30).stream(REQUEST)
    batches = iter(stream)
    assert texts(next(batches)) == ["a"]
    rest: list[Any] = []
    reader = threading.Thread(target=lambda: rest.extend(batches))
    reader.start()
    time.sleep(0.1)
    began = time.monotonic()
    stream.close()
    reader.join(20)
    assert time.monotonic() - began < 10
    assert rest == []


def test_concurrent_streams_use_separate_connections(server: Loopback) -> None:
    for text in ("a", "b"):
        server.answer(CHUNKED, framed(event(text)), END)
    gemini = upstream(server.url)
    streams = [iter(gemini.stream(REQUEST)) for _ in range(2)]
    assert sorted(text for stream in streams for text in texts(next(stream))) == ["a", "b"]
    assert len(server.connections) == 2


def test_connections_are_not_shared_after_a_fork(server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    gemini = upstream(server.url)
    for process in (1, 2, 1):
        monkeypatch.setattr(
            "bridge.upstream.transport.connection_pool.os.getpid", lambda process=process: process
        )
        server.answer(CHUNKED, framed(event("a")), END)
        read(gemini.stream(REQUEST))
    assert len(server.connections) == 2


# --- the environment ---------------------------------------------------------------------------------


def test_a_proxy_from_the_environment_is_used(plain: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("http_proxy", plain.url)
    plain.answer(CHUNKED, framed(event("a")), END)
    assert read(upstream("http://gemini.test").stream(REQUEST)) == ["a"]
    assert plain.heads[0].startswith(b"POST http://gemini.test/v1beta/models/gemini-x:streamGenerateContent")


def test_proxy_credentials_are_sent_with_every_request(
    plain: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("http_proxy", plain.url.replace("//", "//user:word@"))
    gemini = upstream("http://gemini.test")
    for _ in range(3):
        plain.answer(CHUNKED, framed(event("a")), END)
        assert read(gemini.stream(REQUEST)) == ["a"]
    assert all(b"proxy-authorization: basic" in head.lower() for head in plain.heads)
    assert len(plain.connections) == 1


def test_no_proxy_addresses_are_called_directly(plain: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    plain.answer(CHUNKED, framed(event("a")), END)
    assert read(upstream(plain.url).stream(REQUEST)) == ["a"]
    assert plain.heads[0].startswith(b"POST /v1beta/models/gemini-x:streamGenerateContent?alt=sse ")

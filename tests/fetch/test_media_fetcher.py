"""What the fetcher fetches and refuses: a real TLS server on loopback behind an injected network."""

from __future__ import annotations

import base64
import errno
import gzip
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from certificates import Certificate, needs_openssl
from media_server import (
    HOST,
    OTHER_HOST,
    OTHER_PUBLIC,
    PNG,
    PUBLIC,
    MediaServer,
    media_server,
    page,
    redirect,
)

from bridge import __version__
from bridge.errors import InvalidRequest, TooBusy
from bridge.fetch.media_fetcher import MOST_FILES, MediaFetcher
from bridge.fetch.network import Network, _resolve
from bridge.gemini.types import FileData, InlineData
from bridge.settings import MediaSettings

pytestmark = needs_openssl

PARAM = "messages[0].content[1].image_url.url"
NAMES = {HOST: [PUBLIC], OTHER_HOST: [OTHER_PUBLIC], PUBLIC: [PUBLIC], f"{HOST}.": [PUBLIC]}
NOT_A_PUBLIC_HOST = (
    f"{PARAM}: the bridge cannot fetch the address: its host is not a public host of the Internet"
)


@pytest.fixture(scope="module")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MediaServer, Certificate]]:
    folder: Path = tmp_path_factory.mktemp("media")
    with media_server(folder) as both:
        yield both


@pytest.fixture
def server(_server: tuple[MediaServer, Certificate]) -> MediaServer:
    _server[0].forget()
    return _server[0]


@pytest.fixture
def certificate(_server: tuple[MediaServer, Certificate]) -> Certificate:
    return _server[1]


@pytest.fixture
def network(server: MediaServer, certificate: Certificate) -> Network:
    return server.network(certificate, NAMES)


def fetch(network: Network, url: str, max_mb: int = 1, timeout: float = 5.0) -> InlineData:
    settings = MediaSettings(fetch=True, max_mb=max_mb, timeout=timeout)
    return MediaFetcher(settings, network).for_request(lambda _size: None).fetch(FileData(url, param=PARAM))


def refusal(network: Network, url: str, **settings: float) -> str:
    with pytest.raises(InvalidRequest) as refused:
        fetch(network, url, **settings)  # type: ignore[arg-type]
    assert refused.value.param == PARAM
    assert refused.value.message.startswith(f"{PARAM}: the bridge cannot fetch the address: ")
    return refused.value.message


# --- what is fetched ---------------------------------------------------------------------------------


def test_an_image_becomes_inline_data(server: MediaServer, network: Network) -> None:
    server.pages["/cat.png"] = page()
    fetched = fetch(network, f"https://{HOST}/cat.png")
    assert fetched == InlineData("image/png", base64.b64encode(PNG).decode())
    assert server.connected == [PUBLIC]


def test_the_request_has_no_credentials_and_nothing_of_the_client(
    server: MediaServer, network: Network
) -> None:
    server.pages["/a%20b?q=%C3%A9"] = page()
    fetch(network, f"https://{HOST}/a%20b?q=é#part")
    assert server.heads == [
        f"GET /a%20b?q=%C3%A9 HTTP/1.1\r\nHost: {HOST}\r\nUser-Agent: gemini-bridge/{__version__}\r\n"
        "Accept: image/*, audio/*, video/*, application/pdf, text/plain\r\nAccept-Encoding: identity\r\n"
        "Connection: close\r\n\r\n"
    ]


@pytest.mark.parametrize(
    ("literal", "address"), [(PUBLIC, PUBLIC), (f"[{OTHER_PUBLIC}]", OTHER_PUBLIC), ("0x5db8d822", PUBLIC)]
)
def test_a_public_address_may_be_written_instead_of_a_name(
    server: MediaServer, certificate: Certificate, literal: str, address: str
) -> None:
    server.pages["/cat.png"] = page()
    url = f"https://{literal}/cat.png"
    network = server.network(certificate, _resolve)
    if literal.startswith("0x"):
        assert "no trusted TLS" in refusal(network, url)
    else:
        assert fetch(network, url).mime_type == "image/png"
        assert f"\r\nHost: {literal}\r\n" in server.heads[0]
    assert server.connected == [address]


def test_a_redirect_is_followed_and_its_host_is_checked_as_well(
    server: MediaServer, network: Network
) -> None:
    server.pages |= {
        "/1": redirect("/2", "301 Moved Permanently"),
        "/2": redirect(f"https://{OTHER_HOST}/3", "307 Temporary Redirect"),
        "/3": redirect("4", "303 See Other"),
        "/4": page(b"%PDF-1.7", "application/pdf"),
    }
    assert fetch(network, f"https://{HOST}/1").mime_type == "application/pdf"
    assert server.connected == [PUBLIC, PUBLIC, OTHER_PUBLIC, OTHER_PUBLIC]
    assert server.resolved == [HOST, HOST, OTHER_HOST, OTHER_HOST]


def test_chunks_and_an_end_by_closing_are_read(server: MediaServer, network: Network) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n"
    server.pages["/chunked"] = [
        head + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        b"2\r\nde\r\n0\r\n\r\n",
    ]
    server.pages["/closed"] = [head + b"\r\nabc", b"de"]
    for path in ("chunked", "closed"):
        assert fetch(network, f"https://{HOST}/{path}").data == base64.b64encode(b"abcde").decode()


def test_a_type_that_the_server_does_not_declare_is_read_from_the_content(
    server: MediaServer, network: Network
) -> None:
    server.pages |= {"/1": page(PNG, "application/octet-stream"), "/2": page(PNG, None)}
    assert fetch(network, f"https://{HOST}/1").mime_type == "image/png"
    assert fetch(network, f"https://{HOST}/2").mime_type == "image/png"


def test_the_next_address_is_tried_if_one_refuses(server: MediaServer, certificate: Certificate) -> None:
    server.pages["/cat.png"] = page()
    tried = []

    def connect(address: str, seconds: float) -> socket.socket:
        tried.append(address)
        if address == OTHER_PUBLIC:
            raise OSError("Network is unreachable")
        return socket.create_connection(("127.0.0.1", server.port), seconds)

    tls = server.network(certificate, NAMES).tls
    fetch(Network(tls, lambda _host: [OTHER_PUBLIC, PUBLIC], connect), f"https://{HOST}/cat.png")
    assert tried == [OTHER_PUBLIC, PUBLIC]


# --- which hosts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "017700000001",
        "0177.0.0.1",
        "0",
        "10.0.0.1",
        "169.254.169.254",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:a9fe:a9fe]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "①②⑦.⓪.⓪.①",
        "127。0。0。1",
    ],
)
def test_no_spelling_of_a_private_host_is_connected_to(
    server: MediaServer, certificate: Certificate, host: str
) -> None:
    """With the resolver of the system: these names need no DNS server."""
    network = server.network(certificate, _resolve)
    assert refusal(network, f"https://{host}/") == NOT_A_PUBLIC_HOST
    assert server.connected == []


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.1"], ["10.1.2.3"], ["::1"], [PUBLIC, "192.168.0.7"], ["fd00::1", PUBLIC], ["100.64.0.1"], []],
)
def test_a_name_with_a_private_address_is_refused_like_an_unknown_name(
    server: MediaServer, certificate: Certificate, addresses: list[str]
) -> None:
    network = server.network(certificate, {HOST: addresses})
    assert refusal(network, f"https://{HOST}/cat.png") == NOT_A_PUBLIC_HOST
    assert refusal(network, "https://unknown.example/cat.png") == NOT_A_PUBLIC_HOST
    assert server.connected == []


def test_a_name_that_changes_between_check_and_connection_wins_nothing(
    server: MediaServer, certificate: Certificate
) -> None:
    answers = iter([[PUBLIC], ["127.0.0.1"], ["127.0.0.1"]])
    server.pages["/cat.png"] = page()
    fetch(server.network(certificate, lambda _host: next(answers)), f"https://{HOST}/cat.png")
    assert (server.resolved, server.connected) == ([HOST], [PUBLIC])


def test_a_name_that_changes_before_a_redirect_is_checked_again(
    server: MediaServer, certificate: Certificate
) -> None:
    answers = iter([[PUBLIC], ["127.0.0.1"]])
    server.pages["/1"] = redirect("/2")
    network = server.network(certificate, lambda _host: next(answers))
    assert refusal(network, f"https://{HOST}/1") == NOT_A_PUBLIC_HOST
    assert server.connected == [PUBLIC]


@pytest.mark.parametrize("port", [22, 80, 444, 8443, 6379])
def test_no_other_port_is_connected_to(server: MediaServer, network: Network, port: int) -> None:
    assert "only port 443" in refusal(network, f"https://{HOST}:{port}/cat.png")
    assert (server.resolved, server.connected) == ([], [])


def test_the_certificate_must_be_that_of_the_name(server: MediaServer, certificate: Certificate) -> None:
    network = server.network(certificate, {"third.example": [PUBLIC]})
    assert "no trusted TLS" in refusal(network, "https://third.example/cat.png")
    assert server.heads == []


@pytest.mark.parametrize("host", ["a..example", "x" * 64 + ".example", "exa%6dple", "%31%32%37.0.0.1"])
def test_malformed_names_are_refused(server: MediaServer, network: Network, host: str) -> None:
    refusal(network, f"https://{host}/")
    assert server.connected == []


# --- redirects ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("https://127.0.0.1/", "not a public host"),
        ("https://[::ffff:127.0.0.1]/", "not a public host"),
        ("https://metadata.internal/", "not a public host"),
        (f"http://{HOST}/cat.png", "not plain https"),
        ("http://169.254.169.254/latest/meta-data/", "not plain https"),
        (f"//user@{HOST}/cat.png", "not plain https"),
        ("file:///etc/passwd", "not plain https"),
        ("data:image/png;base64,iVBORw0KGgo=", "not plain https"),
        ("gopher://127.0.0.1:6379/_FLUSHALL", "not plain https"),
        (f"https://{HOST}:22/", "only port 443"),
        ("https://[::1/", "not plain https"),
        (f"https://{HOST}\\@127.0.0.1/", "not plain https"),
    ],
)
def test_a_redirect_passes_no_check_that_the_first_address_would_not(
    server: MediaServer, network: Network, location: str, reason: str
) -> None:
    server.pages["/1"] = redirect(location)
    assert reason in refusal(network, f"https://{HOST}/1")
    assert server.connected == [PUBLIC]


@pytest.mark.parametrize(
    "status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"]
)
def test_a_loop_of_redirects_ends(server: MediaServer, network: Network, status: str) -> None:
    server.pages["/1"] = redirect("/1", status)
    assert "redirects more than 3 times" in refusal(network, f"https://{HOST}/1")
    assert len(server.connected) == 4


def test_a_redirect_without_an_address_is_refused(server: MediaServer, network: Network) -> None:
    server.pages["/1"] = page(b"", None, "302 Found")
    assert "redirects more than 3 times" in refusal(network, f"https://{HOST}/1")


# --- what the server sends ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content_type", "content"),
    [
        ("text/html", b"<html>"),
        ("image/svg+xml", b"<svg/>"),
        ("application/json", b"{}"),
        ("application/octet-stream", b"secret=1"),
        (None, b"root:x:0:0"),
        ("multipart/mixed", PNG),
    ],
)
def test_other_content_types_are_refused(
    server: MediaServer, network: Network, content_type: str | None, content: bytes
) -> None:
    server.pages["/1"] = page(content, content_type)
    message = refusal(network, f"https://{HOST}/1")
    assert "does not accept its content type" in message
    assert content.decode("latin-1") not in message


@pytest.mark.parametrize(
    "status", ["204 No Content", "206 Partial", "304 Not Modified", "401 No", "404 No", "500 No"]
)
def test_only_status_200_is_content(server: MediaServer, network: Network, status: str) -> None:
    server.pages["/1"] = page(PNG, "image/png", status)
    assert f"status {status[:3]}" in refusal(network, f"https://{HOST}/1")


def test_compressed_content_is_not_decompressed(server: MediaServer, network: Network) -> None:
    bomb = gzip.compress(bytes(50 * 1024 * 1024))
    server.pages["/1"] = page(bomb, "image/png", Content_Encoding="gzip")
    assert "compressed" in refusal(network, f"https://{HOST}/1")


MB = 1024 * 1024
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        [HEAD + b"Content-Length: 1048577\r\n\r\n", 5.0],
        [HEAD + b"\r\n", *[bytes(MB // 4)] * 5, 5.0],
        [HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[b"40000\r\n" + bytes(MB // 4) + b"\r\n"] * 5, 5.0],
    ],
    ids=["announced", "until closed", "chunked"],
)
def test_a_large_body_is_refused_before_its_end(
    server: MediaServer, network: Network, answer: Sequence
) -> None:
    server.pages["/1"] = answer
    began = time.monotonic()
    assert "1 MB (media.max_mb)" in refusal(network, f"https://{HOST}/1")
    assert time.monotonic() - began < 4


@pytest.mark.parametrize(
    "answer",
    [
        [5.0],
        [b"HTTP/1.1 200 OK\r\n", *[b"X", 0.1] * 50],
        [HEAD + b"Content-Length: 100\r\n\r\n", *[b"X", 0.1] * 50],
        [*[b"HTTP/1.1 100 Continue\r\n\r\n", 0.1] * 50],
    ],
    ids=["silent", "slow head", "slow body", "endless interim responses"],
)
def test_a_slow_server_does_not_extend_the_time(
    server: MediaServer, network: Network, answer: Sequence
) -> None:
    server.pages["/1"] = answer
    began = time.monotonic()
    assert "within 0.5 seconds (media.timeout)" in refusal(network, f"https://{HOST}/1", timeout=0.5)
    assert time.monotonic() - began < 2


def test_a_server_without_tls_does_not_extend_the_time(certificate: Certificate, server: MediaServer) -> None:
    ours, theirs = socket.socketpair()
    network = Network(server.network(certificate, NAMES).tls, lambda _host: [PUBLIC], lambda *_: ours)
    with theirs:
        assert "within 0.3 seconds" in refusal(network, f"https://{HOST}/1", timeout=0.3)


def test_a_slow_resolver_does_not_extend_the_time(server: MediaServer, certificate: Certificate) -> None:
    released = threading.Event()

    def resolve(_host: str) -> list[str]:
        released.wait(20)
        return [PUBLIC]

    began = time.monotonic()
    message = refusal(server.network(certificate, resolve), f"https://{HOST}/1", timeout=0.3)
    released.set()
    assert "within 0.3 seconds" in message
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ([HEAD + b"Content-Length: 9\r\n\r\nabc"], "before the end"),
        ([HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"], "correct HTTP"),
        ([HEAD + b"Content-Length: 0\r\n\r\n"], "empty"),
        ([b""], "cannot be reached"),
        ([b"SSH-2.0-OpenSSH\r\n"], "correct HTTP"),
        ([b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200], "correct HTTP"),
        ([b"HTTP/1.1 200 OK\r\nA: " + b"a" * 70_000], "correct HTTP"),
    ],
)
def test_a_broken_response_is_refused(
    server: MediaServer, network: Network, answer: list[bytes], reason: str
) -> None:
    server.pages["/1"] = answer
    assert reason in refusal(network, f"https://{HOST}/1")


def test_an_unreachable_host_is_refused(server: MediaServer, certificate: Certificate) -> None:
    def connect(_address: str, _seconds: float) -> socket.socket:
        raise ConnectionRefusedError

    network = Network(server.network(certificate, NAMES).tls, lambda _host: [PUBLIC], connect)
    assert "cannot be reached" in refusal(network, f"https://{HOST}/1")


def test_a_lack_of_file_descriptors_is_not_the_clients_fault(
    server: MediaServer, certificate: Certificate
) -> None:
    def connect(_address: str, _seconds: float) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    network = Network(server.network(certificate, NAMES).tls, lambda _host: [PUBLIC], connect)
    with pytest.raises(TooBusy):
        fetch(network, f"https://{HOST}/1")


# --- what one request may fetch ----------------------------------------------------------------------


def test_all_files_of_a_request_have_one_size_limit(server: MediaServer, network: Network) -> None:
    server.pages["/1"] = page(bytes(600 * 1024))
    fetches = MediaFetcher(MediaSettings(max_mb=1), network).for_request(lambda _size: None)
    file = FileData(f"https://{HOST}/1", param=PARAM)
    fetches.fetch(file)
    with pytest.raises(InvalidRequest, match="1 MB"):
        fetches.fetch(file)


def test_all_files_of_a_request_have_one_time_limit(server: MediaServer, network: Network) -> None:
    server.pages["/1"] = [0.3, *page()]
    fetches = MediaFetcher(MediaSettings(timeout=0.5), network).for_request(lambda _size: None)
    file = FileData(f"https://{HOST}/1", param=PARAM)
    fetches.fetch(file)
    with pytest.raises(InvalidRequest, match=r"within 0\.5 seconds"):
        fetches.fetch(file)


def test_the_number_of_files_of_a_request_is_limited(server: MediaServer, network: Network) -> None:
    server.pages["/1"] = page()
    fetches = MediaFetcher(MediaSettings(), network).for_request(lambda _size: None)
    file = FileData(f"https://{HOST}/1", param=PARAM)
    for _ in range(MOST_FILES):
        fetches.fetch(file)
    with pytest.raises(InvalidRequest, match="20 different addresses"):
        fetches.fetch(file)


def test_bytes_are_booked_as_they_arrive(server: MediaServer, network: Network) -> None:
    server.pages["/1"] = page(bytes(900 * 1024))
    booked: list[int] = []

    def book(size: int) -> None:
        booked.append(size)
        if sum(booked) > 600 * 1024:
            raise TooBusy("no memory")

    fetches = MediaFetcher(MediaSettings(), network).for_request(book)
    with pytest.raises(TooBusy):
        fetches.fetch(FileData(f"https://{HOST}/1", param=PARAM))
    assert 600 * 1024 < sum(booked) < 1000 * 1024, "not more than the piece that was refused"

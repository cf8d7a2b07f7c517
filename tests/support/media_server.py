"""A TLS server on loopback that is found under public addresses, and sends whatever a test writes."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from certificates import Certificate, make_certificate

from bridge.fetch.network import Network

HOST, OTHER_HOST = "media.example", "other.example"
PUBLIC, OTHER_PUBLIC = "93.184.216.34", "2606:2800:220:1::1"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))

#: Bytes to send, or seconds to wait.
Piece = bytes | float
Resolve = Callable[[str], Sequence[str]]


def page(
    content: bytes = PNG, content_type: str | None = "image/png", status: str = "200 OK", **headers: str
) -> list[Piece]:
    fields = {"Content-Length": str(len(content)), **({"Content-Type": content_type} if content_type else {})}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in fields.items())]
    return ["\r\n".join([*lines, "", ""]).encode() + content]


def redirect(location: str, status: str = "302 Found") -> list[Piece]:
    return page(b"", None, status, Location=location)


class MediaServer:
    def __init__(self, certificate: Certificate) -> None:
        self.pages: dict[str, Iterable[Piece]] = {}
        self.heads: list[str] = []
        self.connected: list[str] = []  #: the addresses that were connected to
        self.resolved: list[str] = []
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate.certificate, certificate.key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def forget(self) -> None:
        for each in (self.pages, self.heads, self.connected, self.resolved):
            each.clear()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, plain: socket.socket) -> None:
        with suppress(OSError), self._tls.wrap_socket(plain, server_side=True) as connection:
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(65_536) or b"\r\n\r\n"
            self.heads.append(head.decode("latin-1"))
            path = self.heads[-1].split(" ")[1]
            for piece in self.pages.get(path, page(b"", None, "404 Not Found")):
                if isinstance(piece, bytes):
                    connection.sendall(piece)
                else:
                    time.sleep(piece)

    def network(self, certificate: Certificate, names: Mapping[str, Sequence[str]] | Resolve) -> Network:
        """Every address leads to this server: what it is asked for must have passed the checks."""

        def resolve(host: str) -> Sequence[str]:
            self.resolved.append(host)
            if callable(names):
                return names(host)
            if host not in names:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            return names[host]

        def connect(address: str, seconds: float) -> socket.socket:
            self.connected.append(address)
            return socket.create_connection(("127.0.0.1", self.port), seconds)

        return Network(ssl.create_default_context(cafile=certificate.certificate), resolve, connect)


@contextmanager
def media_server(folder: Path) -> Iterator[tuple[MediaServer, Certificate]]:
    certificate = make_certificate(folder, HOST, OTHER_HOST, PUBLIC, OTHER_PUBLIC)
    server = MediaServer(certificate)
    try:
        yield server, certificate
    finally:
        server.close()

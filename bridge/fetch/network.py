"""The network as the fetcher uses it. Every wait ends at a deadline."""

from __future__ import annotations

import io
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Self

PORT = 443


class Deadline:
    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds, more than 0. Raises TimeoutError at the deadline."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def _resolve(host: str) -> list[str]:
    found = socket.getaddrinfo(host, PORT, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def connect_to(port: int, address: str, seconds: float) -> socket.socket:
    return socket.create_connection((address, port), seconds)


def _connect(address: str, seconds: float) -> socket.socket:
    return connect_to(PORT, address, seconds)


@dataclass(frozen=True, slots=True)
class Network:
    """The proxies of the environment are not used: a proxy would resolve the host name again."""

    tls: ssl.SSLContext
    resolve: Callable[[str], Sequence[str]] = _resolve
    connect: Callable[[str, float], socket.socket] = _connect

    def addresses(self, host: str, deadline: Deadline) -> list[str]:
        """The system's resolver takes no timeout, so that it runs in a thread of its own."""
        found: SimpleQueue[Sequence[str] | Exception] = SimpleQueue()

        def look_up() -> None:
            try:
                found.put(self.resolve(host))
            except Exception as error:
                found.put(error)

        threading.Thread(target=look_up, name="resolve", daemon=True).start()
        try:
            addresses = found.get(timeout=deadline.left())
        except Empty:
            raise TimeoutError from None
        if isinstance(addresses, Exception):
            raise addresses
        return list(dict.fromkeys(addresses))

    def open(self, addresses: Sequence[str], host: str, deadline: Deadline) -> TimedSocket:
        """A TLS connection to the first of these addresses that accepts one, with the host's certificate."""
        return TimedSocket(self.encrypted(self.first_open(addresses, deadline), host, deadline), deadline)

    def encrypted(self, plain: socket.socket, host: str, deadline: Deadline) -> ssl.SSLSocket:
        try:
            plain.settimeout(deadline.left())
            return self.tls.wrap_socket(plain, server_hostname=host)
        except BaseException:
            plain.close()
            raise

    def first_open(self, addresses: Sequence[str], deadline: Deadline) -> socket.socket:
        failure: OSError = ConnectionError("no address")
        for place, address in enumerate(addresses):
            try:
                return self.connect(address, deadline.left() / (len(addresses) - place))
            except OSError as error:
                failure = error
        raise failure


class TimedSocket:
    """What `http.client` needs of a socket. A server that sends a byte at a time does not extend the wait."""

    def __init__(self, sock: ssl.SSLSocket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(self._deadline.left())
        self._sock.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Incoming(self._sock, self._deadline))

    def close(self) -> None:
        """`http.client` closes its socket before the response is read: `with` closes it after that."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        self._sock.close()


class _Incoming(io.RawIOBase):
    def __init__(self, sock: ssl.SSLSocket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(self._deadline.left())
        return self._sock.recv_into(buffer)

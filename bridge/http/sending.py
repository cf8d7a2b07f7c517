"""Small pieces to a client, without handing the interpreter's lock around.

Python lets go of its lock for every send, though the kernel takes a small piece within microseconds. Where
many streams run, another thread has the lock by then, and to wait for it costs more than the piece itself.
"""

from __future__ import annotations

import socket
from ctypes import PyDLL, c_char_p, c_int, c_size_t, c_ssize_t

_send = PyDLL(None).send  # called with the lock held, unlike all of CDLL
_send.argtypes = (c_int, c_char_p, c_size_t, c_int)
_send.restype = c_ssize_t


def send_all(client: socket.socket, data: bytes) -> None:
    """What the kernel does not take at once Python sends, which waits, and says what went wrong: of a
    connection that was reset, that it is broken."""
    taken = 0
    if type(client) is socket.socket:  # with TLS there is more to it
        taken = max(0, _send(client.fileno(), data, len(data), socket.MSG_DONTWAIT))
    if taken < len(data):
        client.sendall(data[taken:])

"""The bridge with a media server of a test as its Internet: a child process of `tests/exchange`."""

import os
import socket
import ssl
from collections.abc import Sequence

from bridge.fetch.network import Network
from bridge.server.active_settings import active_settings
from bridge.web.app import create_app

NAMES = {"media.example": ["93.184.216.34"], "intranet.example": ["10.0.0.7"]}


def resolve(host: str) -> Sequence[str]:
    return NAMES.get(host, [host])


def connect(_address: str, seconds: float) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(os.environ["MEDIA_PORT"])), seconds)


tls = ssl.create_default_context(cafile=os.environ["MEDIA_CERTIFICATE"])
app = create_app(active_settings(), network=Network(tls, resolve, connect))

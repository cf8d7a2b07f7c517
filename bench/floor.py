"""The floor: a minimal Flask relay that parses each chunk and serialises it again.

It does not check, convert or log anything, and has no heartbeat: a gateway in Flask cannot cost less. Data
that urllib3 returns in one piece leaves in one write.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import orjson
import urllib3
from flask import Flask, Response, request

UPSTREAM = os.environ["BENCH_UPSTREAM"]

app = Flask(__name__)
pool = urllib3.PoolManager(maxsize=256)


def reparsed(data: bytes) -> bytes:
    return orjson.dumps(orjson.loads(data))


def chunks(path: str, body: bytes) -> Iterator[bytes]:
    answer = pool.request("POST", UPSTREAM + path, body=body, preload_content=False)
    rest = b""
    for data in answer.stream(65_536):
        *events, rest = (rest + data).split(b"\r\n\r\n")
        yield b"".join(b"data: " + reparsed(event[6:]) + b"\r\n\r\n" for event in events)
    answer.release_conn()


@app.post("/v1beta/models/<path:method>")
def relay(method: str) -> Response:
    path = f"/v1beta/models/{method}"
    body = reparsed(request.get_data())
    if "stream" in method:
        return Response(chunks(f"{path}?alt=sse", body), content_type="text/event-stream")
    answer = pool.request("POST", UPSTREAM + path, body=body)
    return Response(reparsed(answer.data), content_type="application/json")

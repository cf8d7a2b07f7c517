"""The floor: a bare Flask relay that parses each chunk and writes it again. None of its kind is cheaper."""

from __future__ import annotations

import os
from collections.abc import Iterator

import orjson
import urllib3
from flask import Flask, Response, request

UPSTREAM = os.environ["BENCH_UPSTREAM"]

app = Flask(__name__)
pool = urllib3.PoolManager(maxsize=64)


def chunks(path: str, body: bytes) -> Iterator[bytes]:
    answer = pool.request("POST", UPSTREAM + path, body=body, preload_content=False)
    rest = b""
    for data in answer.stream(65_536):
        *events, rest = (rest + data).split(b"\r\n\r\n")
        yield b"".join(b"data: " + orjson.dumps(orjson.loads(event[6:])) + b"\r\n\r\n" for event in events)
    answer.release_conn()


@app.post("/v1beta/models/<path:method>")
def relay(method: str) -> Response:
    body = orjson.dumps(orjson.loads(request.get_data()))
    streamed = chunks(f"/v1beta/models/{method}", body)
    if request.args.get("whole"):
        return Response(b"".join(streamed), content_type="application/json")
    return Response(streamed, content_type="text/event-stream")

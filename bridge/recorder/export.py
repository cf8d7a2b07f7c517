"""Exports a flight as a folder that the bridge's tests run as a transcript: tests/transcripts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import orjson

from bridge.recorder.flight import CHUNK, CLIENT_REQUEST, ERROR, SUMMARY, Line, of_stage
from bridge.recorder.levels import SHAPE


class NotExportable(Exception):
    """The flight cannot be exported; the message says why."""


class NothingKept(NotExportable):
    """The flight lacks what is asked for."""


def check_texts(lines: Sequence[Line]) -> None:
    """Raises NotExportable for a flight without texts."""
    if of_stage(lines, SUMMARY)[0]["level"] == SHAPE:
        raise NotExportable(
            "this flight has the level 'shape', so it contains no texts. Record the request again with "
            "`gemini-bridge flight record --level masked` and a rule that matches it"
        )


def client_request(lines: Sequence[Line]) -> Line:
    """The line of the client's request, with its body."""
    check_texts(lines)
    line = of_stage(lines, CLIENT_REQUEST)[0]
    if "body" not in line:
        raise NothingKept(f"the request was too large to be kept: {line['bytes_left_out']:,} bytes")
    return line


def export(lines: Sequence[Line], folder: Path) -> int:
    """Write the folder, which must not exist. Returns the number of batches of chunks that it lacks."""
    request, chunks = client_request(lines), of_stage(lines, CHUNK)
    folder.mkdir(parents=True, mode=0o700)
    stream = [orjson.dumps(line["chunk"]) for line in chunks if "chunk" in line]
    _write(folder / "upstream.jsonl", b"".join(line + b"\n" for line in stream))
    whole = {"protocol": of_stage(lines, SUMMARY)[0]["protocol"], **request}
    del whole["stage"]
    _write(folder / "request.json", orjson.dumps(whole, option=orjson.OPT_INDENT_2) + b"\n")
    _write(folder / "why.md", f"{_reason(lines)}\n".encode())
    return sum(line.get("batches_left_out", 0) for line in chunks)


def _reason(lines: Sequence[Line]) -> str:
    """The first sentence of the transcript's description, without any text of the request."""
    summary = of_stage(lines, SUMMARY)[0]
    ended = f"The answer ended as {summary['outcome']}"
    errors = [line["kind"] for line in of_stage(lines, ERROR)]
    return f"{ended}, with the error {errors[0]}." if errors else f"{ended}."


def _write(path: Path, data: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(data)
